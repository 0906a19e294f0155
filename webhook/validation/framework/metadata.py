"""Rules on ``metadata`` that apply to every kind.

The API server checks names, labels and annotations itself. Objects that are checked without an API server get the same
verdict here. X-97 is about the reserved prefix.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from scorer.api import names
from scorer.api.meta import ObjectMeta
from scorer.api.values.field_path import FieldPath
from scorer.api.values.name_grammar import dns_subdomain_error, label_value_error, qualified_name_error
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import FieldError, FieldWarning, invalid, too_long
from webhook.validation.framework.rule import deny, schema, warn

METADATA: Final = FieldPath.of("metadata")
_NO_META: Final = ObjectMeta.model_construct()
_API_SERVER: Final = "Kubernetes API server"

METADATA_RULES: Final = (
    deny("A-01", "The name must be a DNS subdomain of at most 253 characters.", _API_SERVER),
    deny("A-02", "Label keys must be qualified names, and label values must be valid label values.", _API_SERVER),
    deny("A-03", "Annotation keys must be qualified names.", _API_SERVER),
    schema(
        "A-04",
        "Required fields must be set, and every value must have the JSON type of its field.",
        _API_SERVER,
        "metadata",
        "spec",
    ),
)
"""Rules for every kind."""
USER_RULES: Final = (
    *METADATA_RULES,
    warn("X-97", "Labels and annotations with the prefix kubernetes-fleet.io/ should have a known meaning."),
)
"""Rules for the kinds that users write."""

KNOWN_FLEET_KEYS: Final = frozenset(
    {value for value in vars(names).values() if isinstance(value, str) and value.startswith(names.FLEET)}
    | {
        names.FLEET + word
        for word in (
            "override-index",
            "parent-resource-override",
            "envelope-work",
            "envelope-name",
            "envelope-namespace",
            "targetUpdateRun",
            "targetUpdatingStage",
            "taskType",
            "isLatestUpdateRunApproval",
        )
    }
)
"""The known labels and annotations with the system's prefix (placement-api.md 2.9)."""


def validate_metadata(new: ObjectMeta, old: ObjectMeta | None) -> Iterator[FieldError]:
    """Name (A-01), labels (A-02) and annotation keys (A-03) have the syntax that the API server requires.

    Source: docs/specifications/placement-api.md 2.1. On an update, only changes are checked.
    """
    before = old or _NO_META
    if new.name and new.name != before.name and (error := dns_subdomain_error(new.name)):
        yield invalid(METADATA / "name", new.name, error, "A-01")
    yield from validate_labels_and_annotations(new, old)


def validate_labels_and_annotations(new: ObjectMeta, old: ObjectMeta | None) -> Iterator[FieldError]:
    """Labels (A-02) and annotation keys (A-03) have the syntax that the API server requires.

    Source: docs/specifications/placement-api.md 2.1. On an update, only changes are checked.
    """
    before = old or _NO_META
    if new.labels != before.labels:
        yield from _validate_labels(new.labels, before.labels)
    if new.annotations != before.annotations:
        for key in new.annotations.keys() - before.annotations.keys():
            if error := qualified_name_error(key.lower()):
                yield invalid(METADATA / "annotations", key, error, "A-03")


def _validate_labels(new: Mapping[str, str], old: Mapping[str, str]) -> Iterator[FieldError]:
    for key, value in new.items():
        if old.get(key) == value:
            continue
        if error := qualified_name_error(key):
            yield invalid(METADATA / "labels", key, error, "A-02")
        if error := label_value_error(value):
            yield invalid(METADATA / "labels" / key, value, error, "A-02")


def validate_name_length(name: str, rule: str) -> Iterator[FieldError]:
    """The name has at most 63 characters, because it becomes a label value.

    Source: docs/specifications/placement-api.md P-01, R-01, M-01.
    """
    if len(name) > 63:
        yield too_long(METADATA / "name", name, 63, rule)


def warn_about_reserved_keys(new: ObjectMeta, old: ObjectMeta | None, context: Context) -> Iterator[FieldWarning]:
    """A user's label or annotation with the system's prefix and no known meaning is probably a mistake.

    Source: docs/specifications/placement-api.md X-97.
    """
    if context.is_ours:
        return
    before = old or _NO_META
    for word, entries, known in (
        ("labels", new.labels, before.labels),
        ("annotations", new.annotations, before.annotations),
    ):
        for key, value in entries.items():
            if key.startswith(names.FLEET) and key not in KNOWN_FLEET_KEYS and known.get(key) != value:
                yield FieldWarning(METADATA / word / key, f"the prefix {names.FLEET} is reserved", "X-97")
