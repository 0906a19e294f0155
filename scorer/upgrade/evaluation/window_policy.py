"""How a run uses windows beyond respecting them: which of several open ones goes first, what fits, what is kept free.

Source: upgrade-runs.md 14.6.
"""

from datetime import UTC, datetime
from typing import Final

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import WindowReservation
from scorer.upgrade.evaluation.context import Evaluation
from scorer.upgrade.members.member import Member
from scorer.upgrade.members.windows import FREE_TIER, OPEN_TIER, SOON_TIER
from scorer.upgrade.messages import format_count
from scorer.upgrade.state.record import GroupWork, StageWork
from scorer.windows.member_windows import ClosedWindow

_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_WAITING: Final = frozenset({UpgradeState.NOT_STARTED, UpgradeState.PENDING})


def closing(ev: Evaluation, member: Member, tier: int) -> datetime:
    """Return by which instant members of the open tier are sorted; the same for all where closing does not count."""
    if tier != OPEN_TIER or not ev.prefers_closing:
        return _NEVER
    return ev.tiers.changes(member) or _NEVER


def too_short(ev: Evaluation, member: Member) -> ClosedWindow | None:
    """Say that the open window of a member will close before its upgrade ends; None: it does not, or nobody asks.

    A member none of whose windows is ever as long as its upgrade would wait for ever, so it does not have to fit.
    """
    if not ev.spec.window_policy.require_fit or ev.tiers.tier(member) != OPEN_TIER:
        return None
    estimate, closes = ev.facts.durations.get(member.name), ev.tiers.changes(member)
    if estimate is None or closes is None or ev.now + estimate.p90 <= closes:
        return None
    if ev.tiers.longest(member) < estimate.p50:
        return None
    length = format_count(round(estimate.p90.total_seconds() / 60), "minute")
    message = f"its maintenance window closes before an upgrade of up to {length} would end"
    return ClosedWindow(message, ev.tiers.next_opening(member))


def is_reserved(ev: Evaluation, stage: StageWork, group: GroupWork, member: Member) -> bool:
    """Say whether the last free slot is kept for a member of the group whose window is about to open."""
    if ev.spec.window_policy.reservation is not WindowReservation.STRICT or ev.tiers.tier(member) != FREE_TIER:
        return False
    last = group.running + 1 >= group.status.max_concurrency or stage.running + 1 >= stage.status.max_concurrency
    estimate = ev.facts.durations.get(member.name)
    if not last or estimate is None:
        return False
    opening = _first_opening(ev, group)
    return opening is not None and ev.now + estimate.p50 > opening


def _first_opening(ev: Evaluation, group: GroupWork) -> datetime | None:
    """Return when the first window of the members of a group opens that wait for one about to open."""
    waiting = (ev.facts.members.get(entry.name) for entry in group.members if entry.state in _WAITING)
    soon = (each for each in waiting if each is not None and ev.tiers.tier(each) == SOON_TIER)
    return min((opens for each in soon if (opens := ev.tiers.changes(each)) is not None), default=None)
