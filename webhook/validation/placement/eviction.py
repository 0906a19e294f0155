"""Rules on ClusterResourcePlacementEviction.

Source: docs/specifications/placement-api.md 7.8; KubeFleet pkg/utils/validator/clusterresourceplacementeviction.go.
"""

from collections.abc import Iterator
from typing import Final

from scorer.api.kinds import PLACEMENT
from scorer.api.meta import JsonObject
from scorer.api.placement.eviction import ClusterResourcePlacementEviction, EvictionSpec
from scorer.api.unstructured.documents import is_deleting
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import SPEC, FieldError, invalid
from webhook.validation.framework.metadata import USER_RULES, validate_metadata, warn_about_reserved_keys
from webhook.validation.framework.reading import Finding, read_object
from webhook.validation.framework.relations import placement_type_of, placements_named
from webhook.validation.framework.rule import CEL, CRD, CREATE, UPDATE, allow, deny, enforces, schema, shape_rules

_VALIDATOR: Final = "KubeFleet pkg/utils/validator/clusterresourceplacementeviction.go"

RULES: Final = (
    *USER_RULES,
    schema("V-01", "placementName and clusterName must be set and have at most 255 characters.", CRD, "spec"),
    deny("V-02", "placementName and clusterName are immutable.", CEL, on=UPDATE),
    deny("V-03", "The placement must not be terminating.", _VALIDATOR, on=CREATE),
    deny("V-04", "The placement must not be PickFixed: edit clusterNames instead.", _VALIDATOR, on=CREATE),
    allow(
        "V-05",
        "The placement need not exist. Without it, the eviction becomes invalid.",
        "KubeFleet pkg/webhook",
        on=CREATE,
    ),
)
SHAPE_RULES: Final = shape_rules(RULES)


@enforces(*RULES)
def validate(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors and warnings of an eviction."""
    reading = read_object(ClusterResourcePlacementEviction, document, SHAPE_RULES)
    yield from reading.errors
    if reading.view is not None:
        before = read_object(ClusterResourcePlacementEviction, old).view if old is not None else None
        yield from reading.trusted(_judge(reading.view, before, context))


def _judge(
    new: ClusterResourcePlacementEviction, old: ClusterResourcePlacementEviction | None, context: Context
) -> Iterator[Finding]:
    yield from validate_metadata(new.metadata, old.metadata if old else None)
    yield from warn_about_reserved_keys(new.metadata, old.metadata if old else None, context)
    if old is None:
        yield from validate_placement(new.spec, context)
    else:
        yield from validate_fixed_fields(new.spec, old.spec)


def validate_fixed_fields(new: EvictionSpec, old: EvictionSpec) -> Iterator[FieldError]:
    """An eviction is a single request: its placement and its cluster cannot change (V-02)."""
    if new.placement_name != old.placement_name:
        yield invalid(SPEC / "placementName", new.placement_name, "cannot be changed", "V-02")
    if new.cluster_name != old.cluster_name:
        yield invalid(SPEC / "clusterName", new.cluster_name, "cannot be changed", "V-02")


def validate_placement(spec: EvictionSpec, context: Context) -> Iterator[FieldError]:
    """The placement is not being deleted (V-03) and not PickFixed (V-04). An unknown one is accepted (V-05)."""
    at = SPEC / "placementName"
    for placement in placements_named(spec.placement_name, context.existing(PLACEMENT)):
        if is_deleting(placement):
            yield invalid(at, spec.placement_name, "the placement is being deleted", "V-03")
        if placement_type_of(placement) == "PickFixed":
            yield invalid(at, spec.placement_name, "must not be PickFixed. Edit its clusterNames instead", "V-04")
