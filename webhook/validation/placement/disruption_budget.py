"""Rules on ClusterResourcePlacementDisruptionBudget.

Source: docs/specifications/placement-api.md 7.8 and 10.3; KubeFleet
pkg/utils/validator/clusterresourceplacementdisruptionbudget.go.
"""

from collections.abc import Iterator
from typing import Final

from scorer.api.kinds import PLACEMENT
from scorer.api.meta import JsonObject
from scorer.api.placement.eviction import ClusterResourcePlacementDisruptionBudget, DisruptionBudgetSpec
from scorer.api.values.int_or_percent import LARGEST, count_or_percent
from scorer.api.values.quoting import quote
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import SPEC, Cause, FieldError, FieldWarning, invalid
from webhook.validation.framework.metadata import USER_RULES, validate_metadata, warn_about_reserved_keys
from webhook.validation.framework.reading import Finding, read_object
from webhook.validation.framework.relations import placement_type_of, placements_named
from webhook.validation.framework.rule import CEL, CRD, allow, deny, enforces, schema, shape_rules, warn

_VALIDATOR: Final = "KubeFleet pkg/utils/validator/clusterresourceplacementdisruptionbudget.go"

RULES: Final = (
    *USER_RULES,
    deny("B-01", "maxUnavailable and minAvailable are mutually exclusive.", CEL),
    schema("B-02", "A limit must be an integer of at least 0 or a percentage from 0% to 100%.", f"{CRD}, CEL", "spec"),
    deny("B-03", "The budget of a PickAll placement must not set maxUnavailable.", _VALIDATOR),
    deny("B-04", "minAvailable must be an integer when the placement is PickAll.", _VALIDATOR),
    allow("B-05", "A budget may be created before its placement.", "KubeFleet pkg/webhook"),
    warn("X-80", "A budget should have a limit. Without one, only failed or diff-reporting placements can be evicted."),
)
SHAPE_RULES: Final = shape_rules(RULES)


@enforces(*RULES)
def validate(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors and warnings of a disruption budget."""
    reading = read_object(ClusterResourcePlacementDisruptionBudget, document, SHAPE_RULES)
    yield from reading.errors
    if reading.view is not None:
        before = read_object(ClusterResourcePlacementDisruptionBudget, old).view if old is not None else None
        yield from reading.trusted(_judge(reading.view, before, context))


def _judge(
    new: ClusterResourcePlacementDisruptionBudget,
    old: ClusterResourcePlacementDisruptionBudget | None,
    context: Context,
) -> Iterator[Finding]:
    yield from validate_metadata(new.metadata, old.metadata if old else None)
    yield from warn_about_reserved_keys(new.metadata, old.metadata if old else None, context)
    yield from validate_one_limit(new.spec)
    yield from validate_limits(new.spec)
    yield from validate_against_placement(new.metadata.name, new.spec, context)


def validate_one_limit(spec: DisruptionBudgetSpec) -> Iterator[Finding]:
    """A budget has only one of the two limits (B-01), and should have one (X-80)."""
    if spec.max_unavailable is not None and spec.min_available is not None:
        parts = (SPEC / "maxUnavailable", SPEC / "minAvailable")
        yield FieldError(SPEC, Cause.FORBIDDEN, "maxUnavailable and minAvailable are mutually exclusive", "B-01", parts)
    if spec.max_unavailable is None and spec.min_available is None:
        message = (
            "without maxUnavailable and minAvailable, the budget only allows evictions where the placement has failed "
            "or reports differences"
        )
        yield FieldWarning(SPEC, message, "X-80")


def validate_limits(spec: DisruptionBudgetSpec) -> Iterator[FieldError]:
    """A limit is an integer or a percentage. A string of digits is neither (B-02)."""
    for name, value in (("maxUnavailable", spec.max_unavailable), ("minAvailable", spec.min_available)):
        if value is not None and not count_or_percent(value):
            reason = f"must be an integer from 0 to {LARGEST} or a percentage of 0% to 100%"
            yield invalid(SPEC / name, value, reason, "B-02")


def validate_against_placement(name: str, spec: DisruptionBudgetSpec, context: Context) -> Iterator[FieldError]:
    """PickAll has no desired number of clusters, so only an absolute ``minAvailable`` applies to it (B-03, B-04).

    A budget without a placement of its name passes (B-05).
    """
    for placement in placements_named(name, context.existing(PLACEMENT)):
        if placement_type_of(placement) != "PickAll":
            continue
        if spec.max_unavailable is not None:
            message = (
                f"must not be set for the PickAll placement {quote(name)}, which has no number of clusters. Set "
                "minAvailable to an integer"
            )
            yield FieldError(SPEC / "maxUnavailable", Cause.FORBIDDEN, message, "B-03")
        if isinstance(spec.min_available, str):
            reason = f"must be an integer for the PickAll placement {quote(name)}, which has no number of clusters"
            yield invalid(SPEC / "minAvailable", spec.min_available, reason, "B-04")
