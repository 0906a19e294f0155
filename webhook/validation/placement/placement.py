"""Validation of ClusterResourcePlacement and ResourcePlacement as a whole: on creation, update and deletion.

The model checks the shape (types, bounds, enum values). Both kinds have the same spec, and most rules apply to both.

Source: docs/specifications/placement-api.md 5, 7.1 to 7.3 and 10.1; KubeFleet pkg/utils/validator/placement.go and the
    CEL rules of its CRDs.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from pydantic import ValidationError

from scorer.api.meta import JsonObject, ObjectMeta
from scorer.api.names import FLEET, IGNORE_RESOURCE_OVERRIDES
from scorer.api.placement.placement import (
    ClusterResourcePlacement,
    PlacementPolicy,
    PlacementSpec,
    PlacementType,
    ResourcePlacement,
    ResourceSelectorTerm,
)
from scorer.api.unstructured.documents import dict_at, dicts_at, text_at
from scorer.api.values.quoting import quote
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import (
    SPEC,
    Cause,
    FieldError,
    FieldWarning,
    invalid,
)
from webhook.validation.framework.metadata import (
    METADATA,
    validate_metadata,
    validate_name_length,
    warn_about_reserved_keys,
)
from webhook.validation.framework.reading import Finding, read_object, wish
from webhook.validation.framework.rule import (
    enforces,
)
from webhook.validation.placement import never_placed
from webhook.validation.placement.fast_path import has_plain_metadata, has_prefix, judged, read_rest, rest_of
from webhook.validation.placement.policy import validate_kept_tolerations, validate_policy
from webhook.validation.placement.resource_selectors import validate_reporting_scope, validate_resource_selectors
from webhook.validation.placement.rules import (
    CLUSTER_RULES,
    DELETION_RULES,
    NAMESPACE_FIELD,
    NAMESPACED_RULES,
    POLICY,
    SHAPE_RULES,
)
from webhook.validation.placement.strategy import validate_external_stays, validate_strategy
from webhook.validation.removal_annotations import ANNOTATIONS, validate_removal_annotations

_JUDGED_ANNOTATIONS = frozenset({IGNORE_RESOURCE_OVERRIDES, *ANNOTATIONS})


@enforces(*CLUSTER_RULES)
def validate_cluster_placement(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors and warnings of a ClusterResourcePlacement."""
    return _validate(document, old, context, namespaced=False)


@enforces(*NAMESPACED_RULES)
def validate_resource_placement(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors and warnings of a ResourcePlacement."""
    return _validate(document, old, context, namespaced=True)


def _validate(document: JsonObject, old: JsonObject | None, context: Context, *, namespaced: bool) -> Iterator[Finding]:
    wanted, stored = wish(document), None if old is None else wish(old)
    parts = _judge_in_parts(wanted, stored, context, namespaced=namespaced)
    if parts is not None:
        yield from parts
        return
    model = ResourcePlacement if namespaced else ClusterResourcePlacement
    reading = read_object(model, wanted, SHAPE_RULES)
    yield from reading.errors
    yield from validate_removal_annotations(wanted, stored, context)
    if reading.view is None:
        return
    new, before = reading.view, read_object(model, stored).view if stored is not None else None
    yield from reading.trusted(_judge(new, before, context, namespaced=namespaced))


def _judge_in_parts(
    new: Mapping[str, Any], stored: Mapping[str, Any] | None, context: Context, *, namespaced: bool
) -> Iterator[Finding] | None:
    """Return the findings about a placement without parsing its model, by `webhook.validation.placement.fast_path`.

    None: unknown, so the model of the whole object must be parsed.
    """
    if not has_plain_metadata(new) or not _JUDGED_ANNOTATIONS.isdisjoint(dict_at(new, "metadata", "annotations")):
        return None
    if not context.is_ours and has_prefix(new, FLEET):
        return None
    if namespaced and never_placed.is_of_the_fleet(new["metadata"].get("namespace", ""), context):
        return None
    rest = rest_of(new["spec"])
    findings = None if rest is None else judged(rest)
    changes = () if rest is None or stored is None else _judge_change(rest, stored, namespaced=namespaced)
    terms = _read_terms(new["spec"])
    if findings is None or changes is None or terms is None:
        return None
    return chain(validate_resource_selectors(terms, context, namespaced=namespaced), findings, changes)


def _judge_change(rest: bytes, stored: Mapping[str, Any], *, namespaced: bool) -> Sequence[Finding] | None:
    """Return the errors of changes to fixed fields. None: unknown, so the model of the stored object must be parsed."""
    before = rest_of(stored.get("spec"))
    if before == rest:
        return ()
    if before is None or not has_plain_metadata(stored) or _read_terms(stored["spec"]) is None:
        return None
    new, old = read_rest(rest), read_rest(before)
    return None if new is None or old is None else tuple(validate_update(new, old, namespaced=namespaced))


def _read_terms(spec: Mapping[str, Any]) -> Sequence[ResourceSelectorTerm] | None:
    """Return the resource selectors of a spec. None: unknown, because their shape is wrong."""
    try:
        return PlacementSpec.read({"resourceSelectors": spec["resourceSelectors"]}).resource_selectors
    except (ValidationError, KeyError):
        return None


def _judge(
    new: ClusterResourcePlacement, old: ClusterResourcePlacement | None, context: Context, *, namespaced: bool
) -> Iterator[Finding]:
    yield from validate_metadata(new.metadata, old.metadata if old else None)
    yield from validate_name_length(new.metadata.name, "P-01")
    yield from warn_about_reserved_keys(new.metadata, old.metadata if old else None, context)
    yield from validate_ignored_overrides(new.metadata, namespaced=namespaced)
    if namespaced and never_placed.is_of_the_fleet(new.metadata.namespace, context):
        message = f"namespace {quote(new.metadata.namespace)} belongs to the fleet itself: no object in it is placed"
        yield FieldError(NAMESPACE_FIELD, Cause.FORBIDDEN, message, "X-01")
    yield from validate_spec(new.spec, context, namespaced=namespaced)
    if old is not None:
        yield from validate_update(new.spec, old.spec, namespaced=namespaced)


def validate_ignored_overrides(metadata: ObjectMeta, *, namespaced: bool) -> Iterator[FieldError]:
    """The annotation has a valid value (X-69). Otherwise, the overrides would silently remain in effect."""
    ignored = metadata.annotations.get(IGNORE_RESOURCE_OVERRIDES)
    at = METADATA / "annotations" / IGNORE_RESOURCE_OVERRIDES
    if ignored is None:
        return
    if namespaced:
        yield FieldError(at, Cause.FORBIDDEN, "only a ClusterResourcePlacement can ignore ResourceOverrides", "X-69")
    elif ignored not in {"true", "false"}:
        yield invalid(at, ignored, 'must be "true" or "false"', "X-69")


def validate_spec(spec: PlacementSpec, context: Context, *, namespaced: bool) -> Iterator[Finding]:
    """Yield the findings that need only the new spec. *namespaced*: whether the placement is a ResourcePlacement."""
    yield from validate_resource_selectors(spec.resource_selectors, context, namespaced=namespaced)
    yield from validate_reporting_scope(spec, namespaced=namespaced)
    if spec.policy is not None:
        yield from validate_policy(spec.policy)
    if spec.strategy is not None:
        yield from validate_strategy(spec.strategy, spec.policy)


def validate_update(new: PlacementSpec, old: PlacementSpec, *, namespaced: bool) -> Iterator[FieldError]:
    """Yield the errors of changes to fixed fields (U-01 to U-05)."""
    if old.policy is not None and new.policy is None:
        yield FieldError(POLICY, Cause.FORBIDDEN, "cannot be removed", "U-01")
    else:
        new_type, old_type = _type(new.policy), _type(old.policy)
        if new_type is not old_type:
            yield invalid(POLICY / "placementType", new_type, f"field is immutable, was {old_type}", "U-02")
        yield from validate_kept_tolerations(new.policy, old.policy)
    yield from validate_external_stays(new.strategy, old.strategy)
    if not namespaced and new.status_reporting_scope != old.status_reporting_scope:
        at = SPEC / "statusReportingScope"
        yield invalid(at, new.status_reporting_scope, f"field is immutable, was {old.status_reporting_scope}", "U-05")


def _type(policy: PlacementPolicy | None) -> PlacementType:
    return PlacementType.PICK_ALL if policy is None else policy.placement_type


@enforces(*DELETION_RULES)
def warn_about_deletion(old: JsonObject) -> Iterator[FieldWarning]:
    """Deleting a placement removes the placed objects, unless its delete strategy abandons them (D-03, X-23).

    Only cluster names are read from the status. Agents report its other fields, which could otherwise suppress the
    warning.
    """
    try:
        placement = ClusterResourcePlacement.read(wish(old))
    except ValueError:
        return
    clusters = {text_at(entry, "clusterName") for entry in dicts_at(old, "status", "placementStatuses")} - {""}
    if not clusters:
        return
    delete = placement.spec.strategy.delete_strategy if placement.spec.strategy is not None else None
    abandons = delete is not None and delete.propagation_policy == "Abandon"
    place = "1 cluster" if len(clusters) == 1 else f"{len(clusters)} clusters"
    effect = "abandons the placed objects on" if abandons else "removes the placed objects from"
    yield FieldWarning(SPEC / "strategy" / "deleteStrategy", f"deleting the placement {effect} {place}", "X-23")
