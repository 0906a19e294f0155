"""Response to the question whether a member cluster may be disrupted now.

Source: docs/specifications/serving.md 3.1; docs/specifications/upgrade-runs.md 6.5.
"""

import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final, NotRequired, Self, final

from typing_extensions import TypedDict

from scorer.api.meta import format_time
from scorer.api.values.answer import Count, Instant, one_of
from scorer.member_gate.holds import Hold, MemberDisruption

RETRY_INTERVAL: Final = timedelta(seconds=10)
"""Delay before the next request of a caller, if no better time is known (serving.md 3.1)."""


class MemberReason(StrEnum):
    """Verdict: allowed, nothing left to do, or the first obstacle."""

    ALLOWED = "Allowed"
    NOTHING_TO_DO = "NothingToDo"
    MEMBER_HELD = "MemberHeld"

    # Of rollouts.
    NOT_SELECTED = "NotSelected"
    BUDGET_USED_UP = "BudgetUsedUp"
    WAITING_FOR_RUN = "WaitingForRun"
    WAITING_FOR_STAGE = "WaitingForStage"
    WAITING_FOR_APPROVAL = "WaitingForApproval"
    WAIT_TIME = "WaitTime"
    RUN_STOPPED = "RunStopped"

    # Of upgrades.
    NOT_IN_RUN = "NotInRun"
    NOT_ITS_TURN = "NotItsTurn"
    GATE_PENDING = "GatePending"
    RUN_HALTED = "RunHalted"
    MEMBER_ON_HOLD = "MemberOnHold"
    CLUSTER_NOT_READY = "ClusterNotReady"
    CLUSTER_BUSY = "ClusterBusy"
    KUBERNETES_VERSION_NOT_AVAILABLE = "KubernetesVersionNotAvailable"
    NODE_IMAGE_VERSION_NOT_AVAILABLE = "NodeImageVersionNotAvailable"
    MAINTENANCE_WINDOW_CLOSED = "MaintenanceWindowClosed"
    PLACEMENT_GUARD = "PlacementGuard"


PENDING_REASONS: Final = frozenset(
    {
        MemberReason.MEMBER_ON_HOLD,
        MemberReason.CLUSTER_NOT_READY,
        MemberReason.CLUSTER_BUSY,
        MemberReason.KUBERNETES_VERSION_NOT_AVAILABLE,
        MemberReason.NODE_IMAGE_VERSION_NOT_AVAILABLE,
        MemberReason.MAINTENANCE_WINDOW_CLOSED,
        MemberReason.PLACEMENT_GUARD,
    }
)
"""Reasons why a member that is next must wait, as its run records them."""


class HeldBy(TypedDict):
    """The disruption or reservation that holds the member."""

    kind: Annotated[str, one_of(*MemberDisruption, "Unknown")]
    """`Unknown`: the reservation gives a purpose that is none of these kinds, or none at all."""
    by: str
    """The holder, such as `eviction/NAME`, `upgrade/RUN`, or the holder of a reservation."""
    until: NotRequired[Instant]
    """When the reservation ends unless it is renewed."""


class MemberDetail(TypedDict):
    """Additional facts. Only those relevant to the answer are present."""

    heldBy: NotRequired[HeldBy]
    run: NotRequired[str]
    """The run that decides."""
    stage: NotRequired[str]
    """The stage of the cluster."""
    group: NotRequired[str]
    state: NotRequired[str]
    """State of the cluster in the run."""
    waitsForStage: NotRequired[str]
    """An earlier stage that has not finished."""
    approvalRequest: NotRequired[str]
    """The approval request that an approver has to approve."""
    gate: NotRequired[str]
    """The ClusterUpgradeGate that is not finished."""
    expectedAt: NotRequired[Instant]
    """When the plan of the run reaches the cluster."""
    busyWith: NotRequired[str]
    """Another run that is upgrading the cluster."""
    snapshot: NotRequired[str]
    """Name of the latest resource snapshot of the placement. Empty: none exists yet."""
    wanted: NotRequired[Count]
    """Desired number of clusters of the placement."""
    ready: NotRequired[Count]
    """Number of them that are ready."""
    mayBeTakenAway: NotRequired[Count]
    """Number of ready clusters that the limits of the rolling update allow to be disrupted now."""
    mayBeAdded: NotRequired[Count]
    """Number of clusters that these limits allow to be added now."""


@final
class MemberGateAnswer(TypedDict):
    """Answer whether a member may be disrupted now."""

    allowed: bool
    reason: Annotated[str, one_of(*MemberReason)]
    """`Allowed`, `NothingToDo`, or the first obstacle."""
    message: str
    detail: MemberDetail
    retryAfterSeconds: Count
    """Delay before the next request. 0 if it is allowed."""


@dataclass(frozen=True, slots=True)
class MemberAnswer:
    """The answer about one member.

    Args:
        reason: The answer in one word.
        message: Human-readable reason.
        detail: Additional facts: run, stage, budget, holder of the member.
        retry_after: Delay before the next request.
    """

    reason: MemberReason
    message: str
    detail: MemberDetail = field(default_factory=MemberDetail)
    retry_after: timedelta = RETRY_INTERVAL

    @property
    def allowed(self) -> bool:
        """Whether the disruption is allowed now."""
        return self.reason is MemberReason.ALLOWED

    @classmethod
    def held(cls, hold: Hold, now: datetime) -> Self:
        """Return the answer while something else holds the member."""
        by: HeldBy = {"kind": str(hold.kind or "Unknown"), "by": hold.by}
        if hold.until is not None:
            by["until"] = format_time(hold.until)
        delay = RETRY_INTERVAL if hold.until is None else min(RETRY_INTERVAL, hold.until - now)
        message = hold.message if hold.until is None else f"{hold.message} until {format_time(hold.until)}"
        return cls(MemberReason.MEMBER_HELD, message, {"heldBy": by}, delay)

    def document(self) -> MemberGateAnswer:
        """Return the answer as JSON."""
        # At least a second: a hold that ends at this very instant must not make the caller ask in a tight loop.
        seconds = 0 if self.allowed else max(1, math.ceil(self.retry_after.total_seconds()))
        return {
            "allowed": self.allowed,
            "reason": str(self.reason),
            "message": self.message,
            "detail": self.detail,
            "retryAfterSeconds": seconds,
        }
