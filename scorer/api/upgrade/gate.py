"""ClusterUpgradeGate: an approval or scheduled start that a run waits for. The run creates it when it gets there.

Source: docs/specifications/upgrade-runs.md 3.5, 4.4 and 8.6; seed 004 for the approval.
"""

from enum import StrEnum

from pydantic import Field

from scorer.api.conditions import Conditions
from scorer.api.meta import ApiModel, ApiObject, Int32, Time, shared_default
from scorer.api.upgrade.fields import Name
from scorer.api.upgrade.strategy import MOST_GATES, GateType, ScheduledStart


class GateTiming(StrEnum):
    """Position of a gate relative to its stage or group."""

    BEFORE = "Before"
    AFTER = "After"


class GateState(StrEnum):
    """The state of a gate."""

    PENDING = "Pending"
    SKIPPED = "Skipped"
    COMPLETED = "Completed"


class UpgradeGateSpec(ApiModel):
    """``spec`` of a gate: its run, its position there and its kind, immutable."""

    run_name: Name
    """Name of the ClusterUpgradeRun that waits."""
    stage: Name
    """Name of the stage that the gate belongs to."""
    group: Name | None = Field(
        default=None,
    )
    """Name of the group that the gate belongs to. Absent: it is a gate of the stage."""
    timing: GateTiming
    """Before: nothing of the stage or group starts until the gate opens. After: the stage or group is not over until
    then."""
    index: Int32 = Field(ge=0, le=MOST_GATES - 1)
    """Position among the gates on this side, counted from 0."""
    type: GateType
    """Approval: a user opens the gate. ScheduledStart: it opens at a day and time."""
    display_name: str = Field(default="", max_length=100)
    """Question for the approver. Absent: empty."""
    scheduled_start: ScheduledStart | None = None
    """Day and time of a ScheduledStart, as the strategy gives them. Absent: an Approval."""
    absolute_start_time: Time | None = None
    """The instant of that day and time, determined when the run reached the gate. Absent: an Approval."""


class Readiness(ApiModel):
    """Counts of the members that would start, be skipped, wait or fail if a pending Before gate opened now."""

    start: Int32 = 0
    """Members that would start immediately."""
    skip: Int32 = 0
    """Members that would be skipped."""
    pending: Int32 = 0
    """Members that would have to wait."""
    fail: Int32 = 0
    """Members that would fail without being changed."""
    pending_reasons: dict[str, Int32] = Field(default_factory=dict)
    """Number of members by the reason why they would wait."""


class UpgradeGateStatus(ApiModel):
    """``status`` of a gate: a user sets ``Approved``, and the run sets the rest."""

    state: GateState = GateState.PENDING
    """Pending: it holds the run. Completed: it has opened. Skipped: it has become irrelevant."""
    readiness: Readiness | None = None
    """Effect of opening the gate now, only of a pending Before gate."""
    conditions: Conditions = ()
    """Approved, set by a user: True approves, False rejects. ApprovalAccepted, set by the run when it accepts the
    approval."""


class ClusterUpgradeGate(ApiObject):
    """Holds an upgrade run until a user approves it, or until a day and time."""

    spec: UpgradeGateSpec
    """The waiting run, and the gate's kind, immutable."""
    status: UpgradeGateStatus = Field(default_factory=shared_default(UpgradeGateStatus))
    """Whether the gate has opened."""
