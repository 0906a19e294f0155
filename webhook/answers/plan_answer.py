"""The answer of ``/v1/plan``: verdicts of admission on a proposal, and its effects.

Source: docs/specifications/what-if.md 5; docs/specifications/scheduling.md 22; docs/specifications/placement-api.md
2.8.
"""

from typing import Annotated, Literal

from typing_extensions import TypedDict

from scorer.api.values.answer import Instant, Shape
from scorer.api.values.quoting import printable
from scorer.what_if.planned import (
    AssumedPlacement,
    HiddenObject,
    PlannedFleet,
    PlannedOutcome,
    PlannedPlacement,
    PlannedRun,
    PlannedUpgrade,
    UnjudgedKind,
)
from scorer.what_if.state import ObjectKey
from webhook.admission.rehearsal import FieldMistake, RehearsalVerdict, WriteOperation
from webhook.validation.framework.field import Cause, FieldError


class AdmissionVerdict(TypedDict):
    """Verdict of admission on one of the changes. Refused changes are not part of the plan."""

    kind: str
    namespace: str
    name: str
    operation: Literal["CREATE", "UPDATE", "DELETE"]
    allowed: bool
    errors: list[FieldMistake]
    warnings: list[str]


class PlanCoverage(TypedDict):
    """The parts of the changes and of the hub that a plan does not cover."""

    complete: bool
    """Whether every change is judged, and everything that the plan depends on was read."""
    notJudged: list[UnjudgedKind]
    """Kinds of changes whose effects the plan does not show."""
    hidden: list[HiddenObject]
    """Changes that are left out because the caller may not list objects of their kind, or the snapshots that hold such
    objects."""
    unread: list[str]
    """Kinds that the plan depends on and that cannot be listed by the caller or the hub's account."""
    assumed: list[AssumedPlacement]
    """Placements that count as rolled out, because the hub has no resource snapshot of them."""


class Plan(PlanCoverage, TypedDict):
    """A plan for a hub, without the revision of its fleet."""

    placements: list[PlannedPlacement]
    """By namespace and name."""
    runs: list[PlannedRun]
    """Staged update runs of such placements, by namespace and name: unfinished or requested ones."""
    upgrades: list[PlannedUpgrade]
    """Upgrade runs by name: unfinished ones, and those among the changes. Empty if placements are requested."""
    admission: list[AdmissionVerdict]
    """One verdict per object that would be written or deleted."""
    outcomes: list[PlannedOutcome]
    """Outcomes of changes that are about no placement or run, such as an eviction that names an unknown placement."""
    fleet: PlannedFleet
    evaluatedAt: Instant
    """The instant of the evaluation."""


class FleetOfPlan(TypedDict):
    """The fleet that a plan is for."""

    fleetRevision: Annotated[str, Shape({"type": "string", "pattern": "^[0-9]+$"})]
    """Revision of the fleet before the changes: `<fleet>` alone. It has no step, unlike in other answers, because a
    plan has its own instant."""


class PlanAnswer(FleetOfPlan, Plan, TypedDict):
    """Effects of the changes, by placement."""


def verdict_document(
    identity: ObjectKey, operation: WriteOperation | Literal["DELETE"], verdict: RehearsalVerdict
) -> AdmissionVerdict:
    """Return a verdict as JSON. A refusal that concerns no field has an empty path."""
    errors = [_error(error) for error in verdict.errors]
    if verdict.refusal:
        errors.insert(0, {"field": "", "reason": verdict.reason, "message": printable(verdict.refusal), "rule": ""})
    return {
        "kind": identity.kind,
        "namespace": identity.namespace,
        "name": identity.name,
        "operation": operation,
        "allowed": verdict.allowed,
        "errors": errors,
        "warnings": list(verdict.warnings),
    }


def _error(error: FieldError) -> FieldMistake:
    cause: Cause = error.cause
    return {"field": printable(str(error.field)), "reason": cause.value, "message": error.text(), "rule": error.rule}
