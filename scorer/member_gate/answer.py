"""What somebody is told who asks whether a member cluster may be disrupted now.

Source: serving.md 3.1; upgrade-runs.md 6.5.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Self

from scorer.api.meta import JsonObject, format_time
from scorer.member_gate.holds import Hold

ASK_AGAIN: Final = timedelta(seconds=10)
"""After that long one may ask again when no instant is known (serving.md 3.1)."""


class MemberReason(StrEnum):
    """What the answer comes to: it is allowed, or nothing is left to do, or the first thing in the way."""

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
"""Reasons why a member whose turn it is has to wait, as its run records them."""


@dataclass(frozen=True, slots=True)
class MemberAnswer:
    """The answer about one member.

    Args:
        reason: What it comes to.
        message: For people.
        detail: What else is known: run, stage, budget, who holds the member.
        retry_after: When to ask again.
    """

    reason: MemberReason
    message: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    retry_after: timedelta = ASK_AGAIN

    @property
    def allowed(self) -> bool:
        """Whether it may be done now."""
        return self.reason is MemberReason.ALLOWED

    @classmethod
    def held(cls, hold: Hold, now: datetime) -> Self:
        """Return the answer while something else holds the member."""
        until = {} if hold.until is None else {"until": format_time(hold.until)}
        by = {"kind": str(hold.kind or "Unknown"), "by": hold.by, **until}
        after = ASK_AGAIN if hold.until is None else min(ASK_AGAIN, hold.until - now)
        message = hold.message if hold.until is None else f"{hold.message} until {format_time(hold.until)}"
        return cls(MemberReason.MEMBER_HELD, message, {"heldBy": by}, after)

    def document(self) -> JsonObject:
        """Return it as it is sent."""
        seconds = 0 if self.allowed else max(1, math.ceil(self.retry_after.total_seconds()))
        return {
            "allowed": self.allowed,
            "reason": str(self.reason),
            "message": self.message,
            "detail": dict(self.detail),
            "retryAfterSeconds": seconds,
        }
