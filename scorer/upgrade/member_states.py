"""The ways of a member from one state to another, with what is told about them.

Source: upgrade-runs.md 8.1 and 15.
"""

from datetime import datetime

from scorer.api.upgrade.fields import UpgradeError, UpgradeState
from scorer.upgrade.evaluation import Evaluation
from scorer.upgrade.record import GroupWork

LONGEST_MESSAGE = 200
"""Characters of a member's message, so that the status of a run with 1,000 members fits into one object (3.4)."""


def skip_member(ev: Evaluation, group: GroupWork, index: int, reason: str, message: str) -> None:
    """Skip a member."""
    name = group.members[index].name
    group.put_member(
        index,
        state=UpgradeState.SKIPPED,
        reason=reason,
        message=_short(message),
        completion_time=ev.now,
        pending_since=None,
        next_window_open=None,
    )
    ev.announce("MemberSkipped", f"member {name} is skipped, {reason}: {message}")


def fail_member(
    ev: Evaluation, group: GroupWork, index: int, reason: str, message: str, *, ended: datetime | None = None
) -> None:
    """Let a member fail, at *ended* if that is known."""
    name = group.members[index].name
    group.put_member(
        index,
        state=UpgradeState.FAILED,
        reason=reason,
        message=_short(message),
        completion_time=ended or ev.now,
        pending_since=None,
        next_window_open=None,
        error=UpgradeError(code=reason, message=_short(message)),
    )
    ev.announce("MemberUpgradeFailed", f"member {name} has failed, {reason}: {message}", "Warning")


def complete_member(ev: Evaluation, group: GroupWork, index: int, ended: datetime | None) -> None:
    """Let a member be done, at *ended* if that is known."""
    entry = group.members[index]
    group.put_member(
        index, state=UpgradeState.COMPLETED, reason="", message="", completion_time=ended or ev.now, error=None
    )
    ev.announce("MemberUpgradeCompleted", f"member {entry.name} is upgraded")


def let_wait(
    ev: Evaluation, group: GroupWork, index: int, reason: str, message: str, opens: datetime | None = None
) -> None:
    """Let a member wait; it is told once for each reason of a stretch."""
    entry = group.members[index]
    is_new = entry.state is not UpgradeState.PENDING
    if is_new or entry.reason != reason:
        ev.announce("MemberPending", f"member {entry.name} waits, {reason}: {message}")
    group.put_member(
        index,
        state=UpgradeState.PENDING,
        reason=reason,
        message=_short(message),
        pending_since=ev.now if is_new else entry.pending_since,
        next_window_open=opens,
    )


def stop_member(group: GroupWork, index: int) -> None:
    """Let a member wait no longer, as the run starts nothing more."""
    group.put_member(
        index, state=UpgradeState.STOPPED, reason="", message="", pending_since=None, next_window_open=None
    )


def reset_member(group: GroupWork, index: int) -> None:
    """Let a member have another turn; its attempts go on counting."""
    group.put_member(
        index,
        state=UpgradeState.NOT_STARTED,
        reason="",
        message="",
        completion_time=None,
        pending_since=None,
        next_window_open=None,
        error=None,
    )


def _short(message: str) -> str:
    return message if len(message) <= LONGEST_MESSAGE else message[: LONGEST_MESSAGE - 1] + "…"
