"""Rules on ``metadata`` that hold for every kind.

The API server checks names, labels and annotations itself; a caller without one in front gets the same
verdict from here. The reserved prefix is X-97.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from scorer.api import names
from scorer.api.field_path import FieldPath
from scorer.api.meta import ObjectMeta
from webhook.admission.context import Context
from webhook.validation.field import Cause, FieldError, FieldWarning, invalid
from webhook.validation.grammar import dns_subdomain_error, label_value_error, qualified_name_error

METADATA: Final = FieldPath.of("metadata")
_NO_META: Final = ObjectMeta()

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
"""Labels and annotations with the system's prefix that have a meaning (placement-api.md 2.9)."""


def validate_metadata(new: ObjectMeta, old: ObjectMeta | None) -> Iterator[FieldError]:
    """Name, label and annotation keys and label values have the grammar that the API server demands.

    Source: placement-api.md 2.1. On an update only what changed is looked at.
    """
    before = old or _NO_META
    if new.name and new.name != before.name and (error := dns_subdomain_error(new.name)):
        yield invalid(METADATA / "name", new.name, error)
    if new.labels != before.labels:
        yield from _validate_labels(new.labels, before.labels)
    if new.annotations != before.annotations:
        for key in new.annotations.keys() - before.annotations.keys():
            if error := qualified_name_error(key.lower()):
                yield invalid(METADATA / "annotations", key, error)


def _validate_labels(new: Mapping[str, str], old: Mapping[str, str]) -> Iterator[FieldError]:
    for key, value in new.items():
        if old.get(key) == value:
            continue
        if error := qualified_name_error(key):
            yield invalid(METADATA / "labels", key, error)
        if error := label_value_error(value):
            yield invalid(METADATA / "labels" / key, value, error)


def validate_name_length(name: str, rule: str) -> Iterator[FieldError]:
    """The name has at most 63 characters, because it becomes a label value.

    Source: placement-api.md P-01, R-01, M-01.
    """
    if len(name) > 63:
        yield FieldError(METADATA / "name", Cause.TOO_LONG, "may not be more than 63 characters", rule)


def warn_about_reserved_keys(new: ObjectMeta, old: ObjectMeta | None, context: Context) -> Iterator[FieldWarning]:
    """A user's label or annotation with the system's prefix and no known meaning is probably a mistake.

    Source: placement-api.md X-97.
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
                yield FieldWarning(METADATA / word / key, f"the prefix {names.FLEET} belongs to the system", "X-97")
