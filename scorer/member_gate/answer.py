"""The answer to a caller that asks whether a member cluster may be disrupted now.

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

RETRY_INTERVAL: Final = timedelta(seconds=10)
"""How long a caller waits before it asks again, when no better instant is known (serving.md 3.1)."""


class MemberReason(StrEnum):
    """The answer in one word: allowed, nothing left to do, or the first obstacle."""

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
        reason: The answer in one word.
        message: For people.
        detail: What else is known: run, stage, budget, who holds the member.
        retry_after: When to ask again.
    """

    reason: MemberReason
    message: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    retry_after: timedelta = RETRY_INTERVAL

    @property
    def allowed(self) -> bool:
        """Whether it may be done now."""
        return self.reason is MemberReason.ALLOWED

    @classmethod
    def held(cls, hold: Hold, now: datetime) -> Self:
        """Return the answer while something else holds the member."""
        until = {} if hold.until is None else {"until": format_time(hold.until)}
        by = {"kind": str(hold.kind or "Unknown"), "by": hold.by, **until}
        after = RETRY_INTERVAL if hold.until is None else min(RETRY_INTERVAL, hold.until - now)
        message = hold.message if hold.until is None else f"{hold.message} until {format_time(hold.until)}"
        return cls(MemberReason.MEMBER_HELD, message, {"heldBy": by}, after)

    def document(self) -> JsonObject:
        """Return the answer as it is sent."""
        # At least a second: a hold that ends at this very instant must not make the caller ask in a tight loop.
        seconds = 0 if self.allowed else max(1, math.ceil(self.retry_after.total_seconds()))
        return {
            "allowed": self.allowed,
            "reason": str(self.reason),
            "message": self.message,
            "detail": dict(self.detail),
            "retryAfterSeconds": seconds,
        }
