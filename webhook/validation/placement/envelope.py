"""Rules on ClusterResourceEnvelope and ResourceEnvelope.

An entry that cannot be placed would fail once per binding. These rules report it when the envelope is written.

Source: docs/specifications/placement-api.md 7.8 and 10.3.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from scorer.api.kinds import KINDS, NAMESPACE, group_kind
from scorer.api.meta import JsonObject
from scorer.api.names import IGNORE_FIELDS
from scorer.api.placement.envelope import ClusterResourceEnvelope
from scorer.api.unstructured.documents import metadata_of, name_of, namespace_of, spec_of
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import quote
from scorer.rollout.ownership.ignored_fields import ignored_fields_mistakes
from scorer.rollout.selection.exclusions import is_fleet_group
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import Cause, FieldError, FieldWarning, duplicate, invalid
from webhook.validation.framework.metadata import USER_RULES, validate_metadata, warn_about_reserved_keys
from webhook.validation.framework.reading import Finding, read_object
from webhook.validation.framework.rule import CRD, OURS, deny, enforces, schema, shape_rules, warn
from webhook.validation.placement import never_placed

JOB: Final = KINDS["batch", "Job"]
RUNS_ONCE: Final = "members delete the Job after it finishes, and run it again only when its manifest changes"
DATA: Final = FieldPath.of("data")

RULES: Final = (
    *USER_RULES,
    schema("E-01", "data must have 1 to 50 entries, all of them objects.", CRD, "data"),
    never_placed.NAMESPACE_RULE,
    never_placed.KIND_RULE,
    deny("X-70", "An entry must have apiVersion, kind and metadata.name.", OURS),
    deny("X-73", "An entry must not be an envelope or another object of the fleet.", OURS),
    deny("X-74", "An envelope must not have an object twice.", OURS),
    deny("X-75", "The annotation harbormaster.dev/ignore-fields of an entry must be well formed.", OURS),
    warn("X-76", "A Job in an envelope should not have ttlSecondsAfterFinished unless it runs once per manifest."),
)
CLUSTER_RULES: Final = (*RULES, deny("X-71", "An entry of a ClusterResourceEnvelope must be cluster-scoped.", OURS))
NAMESPACED_RULES: Final = (
    *RULES,
    deny("X-72", "An entry of a ResourceEnvelope must name the namespace of the envelope.", OURS),
)
SHAPE_RULES: Final = shape_rules(RULES)


@enforces(*CLUSTER_RULES)
def validate_cluster_envelope(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors and warnings of a ClusterResourceEnvelope."""
    return _validate(document, old, context, namespaced=False)


@enforces(*NAMESPACED_RULES)
def validate_resource_envelope(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors and warnings of a ResourceEnvelope."""
    return _validate(document, old, context, namespaced=True)


def _validate(document: JsonObject, old: JsonObject | None, context: Context, *, namespaced: bool) -> Iterator[Finding]:
    reading = read_object(ClusterResourceEnvelope, document, SHAPE_RULES)
    yield from reading.errors
    if reading.view is not None:
        before = read_object(ClusterResourceEnvelope, old).view if old is not None else None
        yield from reading.trusted(_judge(reading.view, before, context, namespaced=namespaced))


def _judge(
    new: ClusterResourceEnvelope, old: ClusterResourceEnvelope | None, context: Context, *, namespaced: bool
) -> Iterator[Finding]:
    yield from validate_metadata(new.metadata, old.metadata if old else None)
    yield from warn_about_reserved_keys(new.metadata, old.metadata if old else None, context)
    for key, entry in new.data.items():
        at = DATA / key
        yield from validate_identity(entry, at)
        yield from validate_no_fleet_kind(entry, at)
        yield from validate_not_reserved(entry, at, context)
        for mistake in ignored_fields_mistakes(entry):
            yield FieldError(at.below("metadata", "annotations", IGNORE_FIELDS), Cause.INVALID, mistake, "X-75")
        if group_kind(entry) == JOB.group_kind and has_ttl(entry) and (old is None or entry != old.data.get(key)):
            yield FieldWarning(at.below("spec", "ttlSecondsAfterFinished"), RUNS_ONCE, "X-76")
        if namespaced:
            yield from validate_own_namespace(entry, new.metadata.namespace, at)
        else:
            yield from validate_cluster_scoped(entry, at, context)
    yield from validate_distinct_objects(new.data)


def has_ttl(job: Mapping[str, Any]) -> bool:
    """Return whether a Job is deleted automatically after it has finished."""
    return spec_of(job).get("ttlSecondsAfterFinished") is not None


def validate_identity(entry: Mapping[str, Any], at: FieldPath) -> Iterator[FieldError]:
    """An entry is an object with apiVersion, kind and name (X-70)."""
    for field in ("apiVersion", "kind"):
        if not isinstance(entry.get(field), str) or not entry[field]:
            yield FieldError(at / field, Cause.REQUIRED, "must be set for every object", "X-70")
    if not name_of(entry):
        yield FieldError(at / "metadata" / "name", Cause.REQUIRED, "must be set for every object", "X-70")


def validate_no_fleet_kind(entry: Mapping[str, Any], at: FieldPath) -> Iterator[FieldError]:
    """An envelope contains no envelope, placement or other fleet object (X-73)."""
    if is_fleet_group(group_kind(entry)[0]):
        yield FieldError(at / "kind", Cause.FORBIDDEN, "must not be a fleet object", "X-73")


def validate_not_reserved(entry: Mapping[str, Any], at: FieldPath, context: Context) -> Iterator[FieldError]:
    """An entry can be placed (X-02), and is neither a reserved namespace nor in one (X-01)."""
    group, kind = group_kind(entry)
    name, namespace = name_of(entry), namespace_of(entry)
    if is_fleet_group(group):
        return  # reported as X-73
    if never_placed.is_never_placed(group, kind, context):
        yield FieldError(at / "kind", Cause.FORBIDDEN, f"{quote(kind)} is never placed", "X-02")
    elif (group, kind) != NAMESPACE.group_kind and (reason := never_placed.reserved_reason(group, kind, name)):
        yield FieldError(at / "metadata" / "name", Cause.FORBIDDEN, f"{quote(name)} {reason}, never placed", "X-02")
    if (group, kind) == NAMESPACE.group_kind and never_placed.is_never_placed_namespace(name, context):
        message = f"namespace {quote(name)} is reserved, never placed"
        yield FieldError(at / "metadata" / "name", Cause.FORBIDDEN, message, "X-01")
    if never_placed.is_never_written_to(namespace, context):
        message = f"namespace {quote(namespace)} is reserved: nothing is placed there"
        yield FieldError(at / "metadata" / "namespace", Cause.FORBIDDEN, message, "X-01")


def validate_cluster_scoped(entry: Mapping[str, Any], at: FieldPath, context: Context) -> Iterator[FieldError]:
    """A ClusterResourceEnvelope holds cluster-scoped objects (X-71)."""
    kind = context.kinds.find(*group_kind(entry))
    if metadata_of(entry).get("namespace") or (kind is not None and kind.namespaced):
        message = "must be cluster-scoped in a ClusterResourceEnvelope. Use a ResourceEnvelope"
        yield FieldError(at / "metadata" / "namespace", Cause.FORBIDDEN, message, "X-71", (at,))


def validate_own_namespace(entry: Mapping[str, Any], namespace: str, at: FieldPath) -> Iterator[FieldError]:
    """A ResourceEnvelope holds only objects of its own namespace, which they must name (X-72)."""
    path, entry_namespace = at / "metadata" / "namespace", metadata_of(entry).get("namespace")
    if not entry_namespace:
        yield FieldError(path, Cause.REQUIRED, "must be the namespace of the envelope", "X-72")
    elif namespace and entry_namespace != namespace:
        yield invalid(path, entry_namespace, "must be the namespace of the envelope", "X-72")


def validate_distinct_objects(data: Mapping[str, Mapping[str, Any]]) -> Iterator[FieldError]:
    """No object is in an envelope twice, even under another API version (X-74)."""
    owners: dict[tuple[str, str, str, str], str] = {}
    for key, entry in data.items():
        name = name_of(entry)
        identity = (*group_kind(entry), namespace_of(entry), name)
        if name and identity in owners:
            yield duplicate(DATA / key, f"{identity[1]} {name}", "must not be in two entries", "X-74")
        owners.setdefault(identity, key)
