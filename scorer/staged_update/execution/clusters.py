"""One cluster of a stage: whether it has the desired content, and whether the update has succeeded there.

Source: docs/specifications/staged-updates.md 6.3.
"""

from dataclasses import dataclass
from datetime import datetime

from scorer.api.conditions import FALSE, TRUE, make_condition
from scorer.api.meta import JsonObject
from scorer.api.names import UPDATED_BY
from scorer.api.placement.binding import BindingState
from scorer.api.unstructured.documents import (
    conditions_of,
    dict_at,
    generation_of,
    spec_of,
    status_of,
    with_metadata,
    with_spec,
)
from scorer.rollout.apply_strategy import effective_apply_strategy
from scorer.rollout.bindings import (
    APPLIED,
    AVAILABLE,
    DIFF_REPORTED,
    OVERRIDDEN,
    ROLLOUT_STARTED,
    WORK_SYNCHRONIZED,
    BindingView,
    ObjectRemoval,
    Overrides,
    bound,
    is_failed,
    object_removal,
    ordering_objects,
)
from scorer.rollout.removal.marks import without_removal_mark
from scorer.staged_update.record import StagedUpdateRecord

_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class DesiredBinding:
    """Desired content of a cluster.

    Args:
        snapshot: Name of the master resource snapshot.
        overrides: Override lists from the initialization of the run.
        apply_strategy: Apply strategy with defaults.
    """

    snapshot: str
    overrides: Overrides
    apply_strategy: JsonObject

    @classmethod
    def of(cls, entry: JsonObject, snapshot: str, record: StagedUpdateRecord) -> "DesiredBinding":
        """Read the desired content of one cluster from the record of a run."""
        return cls(snapshot, Overrides.of(entry), dict_at(record.status, "appliedStrategy"))

    def is_met(self, binding: JsonObject) -> bool:
        """Return whether a binding has exactly this content."""
        spec = spec_of(binding)
        return (
            spec.get("state") == BindingState.BOUND
            and spec.get("resourceSnapshotName") == self.snapshot
            and Overrides.of(spec) == self.overrides
            and effective_apply_strategy(spec.get("applyStrategy")) == self.apply_strategy
        )

    def bind(self, binding: JsonObject, run: str) -> JsonObject:
        """Return the binding with this content, set by the run with uid *run*, or the same object if unchanged."""
        if self.is_met(binding) and object_removal(binding) is not ObjectRemoval.CONFIRMED:
            return binding
        desired = with_spec(
            bound(ordering_objects(binding), self.snapshot, self.overrides), applyStrategy=self.apply_strategy
        )
        return with_metadata(without_removal_mark(desired), annotations={UPDATED_BY: run})


def has_started(binding: JsonObject) -> bool:
    """Return whether the current generation of a binding has the condition RolloutStarted."""
    return BindingView.of(binding).status(ROLLOUT_STARTED) == TRUE


def started_status(binding: JsonObject, message: str, now: datetime) -> JsonObject:
    """Return the status of a binding whose rollout starts now. The condition always gets a new transition time."""
    condition = make_condition(
        ROLLOUT_STARTED, TRUE, "RolloutStarted", message, generation=generation_of(binding), now=now
    )
    other_conditions = [condition for condition in conditions_of(binding) if condition.get("type") != ROLLOUT_STARTED]
    return {**status_of(binding), "conditions": [condition, *other_conditions]}


def has_succeeded(binding: JsonObject) -> bool:
    """Return whether the content is available, or its differences are reported. False while objects are removed."""
    view = BindingView.of(binding)
    if view.object_removal is ObjectRemoval.ORDERED:
        return False
    return view.status(AVAILABLE) == TRUE or view.status(DIFF_REPORTED) == TRUE


def binding_problem(binding: JsonObject) -> str:
    """Return the failed condition of a binding with its message or reason, or an empty string."""
    view = BindingView.of(binding)
    if not is_failed(view) and view.status(DIFF_REPORTED) != FALSE:
        return ""
    for kind in (OVERRIDDEN, WORK_SYNCHRONIZED, APPLIED, AVAILABLE, DIFF_REPORTED):
        condition = view.conditions.get(kind) or {}
        if condition.get("status") == FALSE:
            return f"{kind} is False: {condition.get('message') or condition.get('reason') or ''}"[:_LONGEST_REASON]
    return ""
