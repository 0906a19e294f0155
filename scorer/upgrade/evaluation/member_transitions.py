"""Transitions of a member from one state to another, with the Events for them.

Source: docs/specifications/upgrade-runs.md 8.1 and 15.
"""

from datetime import datetime

from scorer.api.upgrade.fields import UpgradeError, UpgradeState
from scorer.upgrade.evaluation.context import Evaluation
from scorer.upgrade.messages import LONGEST_FAILURE, LONGEST_MESSAGE, LONGEST_REASON, shortened
from scorer.upgrade.state.record import GroupWork


def skip_member(ev: Evaluation, group: GroupWork, index: int, reason: str, message: str) -> None:
    """Skip a member. If it was upgraded before, it keeps the times of that attempt."""
    entry = group.members[index]
    end = entry.completion_time if entry.attempt else None
    group.update_member(
        index,
        state=UpgradeState.SKIPPED,
        reason=reason,
        message=shortened(message, LONGEST_MESSAGE),
        completion_time=end or ev.now,
        pending_since=None,
        next_window_open=None,
    )
    ev.announce("MemberSkipped", f"member {entry.name} is skipped, {reason}: {message}")


def fail_member(
    ev: Evaluation, group: GroupWork, index: int, reason: str, message: str, *, end: datetime | None = None
) -> None:
    """Mark a member failed, at *end* if known."""
    name, reason = group.members[index].name, shortened(reason, LONGEST_REASON)
    text = shortened(message, LONGEST_FAILURE - len(reason))
    group.update_member(
        index,
        state=UpgradeState.FAILED,
        reason=reason,
        message=text,
        completion_time=end or ev.now,
        pending_since=None,
        next_window_open=None,
        error=UpgradeError(code=reason, message=text),
    )
    ev.announce("MemberUpgradeFailed", f"member {name} has failed, {reason}: {message}", "Warning")


def complete_member(ev: Evaluation, group: GroupWork, index: int, end: datetime | None) -> None:
    """Mark a member completed, at *end* if known."""
    entry = group.members[index]
    group.update_member(
        index, state=UpgradeState.COMPLETED, reason="", message="", completion_time=end or ev.now, error=None
    )
    ev.announce("MemberUpgradeCompleted", f"member {entry.name} is upgraded")


def mark_waiting(
    ev: Evaluation, group: GroupWork, index: int, reason: str, message: str, opens: datetime | None = None
) -> None:
    """Mark a member pending, with an Event when the wait starts and when its reason changes."""
    entry = group.members[index]
    is_new = entry.state is not UpgradeState.PENDING
    if is_new or entry.reason != reason:
        ev.announce("MemberPending", f"member {entry.name} waits, {reason}: {message}")
    group.update_member(
        index,
        state=UpgradeState.PENDING,
        reason=reason,
        message=shortened(message, LONGEST_MESSAGE),
        pending_since=ev.now if is_new else entry.pending_since,
        next_window_open=opens,
    )


def stop_member(group: GroupWork, index: int) -> None:
    """Stop a waiting member, because the run starts nothing more."""
    group.update_member(
        index, state=UpgradeState.STOPPED, reason="", message="", pending_since=None, next_window_open=None
    )


def roll_back_start(group: GroupWork, index: int) -> None:
    """Roll back a start that never reached its back end. The next start reuses the attempt number."""
    group.update_member(index, operation_id="", start_time=None, completion_time=None)


def reset_member(group: GroupWork, index: int) -> None:
    """Reset a member for another turn. Attempts keep counting, and times remain until the next start."""
    group.update_member(
        index,
        state=UpgradeState.NOT_STARTED,
        reason="",
        message="",
        pending_since=None,
        next_window_open=None,
        error=None,
    )
