"""ClusterUpgradeGate: an approval or scheduled start that a run waits for; the run creates it when it gets there.

Source: upgrade-runs.md 3.5, 4.4 and 8.6; seed 004 for the approval.
"""

from enum import StrEnum

from pydantic import Field

from scorer.api.conditions import Conditions
from scorer.api.meta import ApiModel, ApiObject, Int32, Time
from scorer.api.upgrade.fields import Name
from scorer.api.upgrade.strategy import MOST_GATES, GateType, ScheduledStart


class GateTiming(StrEnum):
    """On which side of its stage or group a gate is."""

    BEFORE = "Before"
    AFTER = "After"


class GateState(StrEnum):
    """The state of a gate."""

    PENDING = "Pending"
    SKIPPED = "Skipped"
    COMPLETED = "Completed"


class UpgradeGateSpec(ApiModel):
    """``spec`` of a gate: its run, its position there and what it waits for; immutable."""

    run_name: Name
    stage: Name
    group: Name | None = Field(default=None, description="Absent: a gate of the stage.")
    timing: GateTiming
    index: Int32 = Field(ge=0, le=MOST_GATES - 1, description="Position among the gates on this side.")
    type: GateType
    display_name: str = Field(default="", max_length=100)
    scheduled_start: ScheduledStart | None = None
    absolute_start_time: Time | None = None


class Readiness(ApiModel):
    """How many members behind a pending Before gate would start, be skipped, wait or fail if the gate opened now."""

    start: Int32 = 0
    skip: Int32 = 0
    pending: Int32 = 0
    fail: Int32 = 0
    pending_reasons: dict[str, Int32] = Field(default_factory=dict)


class UpgradeGateStatus(ApiModel):
    """``status`` of a gate: a person sets ``Approved``, the run the rest."""

    state: GateState = GateState.PENDING
    readiness: Readiness | None = None
    conditions: Conditions = ()


class ClusterUpgradeGate(ApiObject):
    """Holds an upgrade run until a person approves it, or until a day and time."""

    spec: UpgradeGateSpec
    status: UpgradeGateStatus = Field(default_factory=UpgradeGateStatus)
