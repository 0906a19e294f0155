"""Options of a run for maintenance windows: precedence among open windows, required fit, and reserved slots.

Source: docs/specifications/upgrade-runs.md 14.6.
"""

from datetime import UTC, datetime
from typing import Final

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import WindowReservation
from scorer.api.values.quoting import format_count
from scorer.upgrade.evaluation.context import Evaluation
from scorer.upgrade.members.member import Member
from scorer.upgrade.members.windows import FREE_TIER, OPEN_TIER, SOON_TIER
from scorer.upgrade.state.record import GroupWork, StageWork
from scorer.windows.member_windows import ClosedWindow

_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_WAITING: Final = frozenset({UpgradeState.NOT_STARTED, UpgradeState.PENDING})


def closing_time(ev: Evaluation, member: Member, tier: int) -> datetime:
    """Return the sort key within the open tier, which is constant unless the first window to close has precedence."""
    if tier != OPEN_TIER or not ev.prefers_closing:
        return _NEVER
    return ev.tiers.changes(member) or _NEVER


def too_short(ev: Evaluation, member: Member) -> ClosedWindow | None:
    """Return a closed window if a member's open window closes before its upgrade would end.

    None if the upgrade fits, or if the run does not require the fit. It is not required of a member whose windows are
    all shorter than its upgrade, because that member would wait forever.
    """
    if not ev.spec.window_policy.require_fit or ev.tiers.tier(member) != OPEN_TIER:
        return None
    estimate, closes = ev.facts.durations.get(member.name), ev.tiers.changes(member)
    if estimate is None or closes is None or ev.now + estimate.p90 <= closes:
        return None
    if ev.tiers.longest(member) < estimate.p50:
        return None
    length = format_count(round(estimate.p90.total_seconds() / 60), "minute")
    message = f"its maintenance window closes before an upgrade of up to {length} would finish"
    return ClosedWindow(message, ev.tiers.next_opening(member))


def is_reserved(ev: Evaluation, stage: StageWork, group: GroupWork, member: Member) -> bool:
    """Return whether a member without windows must leave the last free slot to one whose window opens soon.

    It must if its upgrade is expected to last beyond that opening.
    """
    if ev.spec.window_policy.reservation is not WindowReservation.STRICT or ev.tiers.tier(member) != FREE_TIER:
        return False
    last = group.running + 1 >= group.status.max_concurrency or stage.running + 1 >= stage.status.max_concurrency
    estimate = ev.facts.durations.get(member.name)
    if not last or estimate is None:
        return False
    opening = _first_opening(ev, group)
    return opening is not None and ev.now + estimate.p50 > opening


def _first_opening(ev: Evaluation, group: GroupWork) -> datetime | None:
    """Return the first window opening of the members of a group that wait in the soon tier, or None without any."""
    members = (ev.facts.members.get(entry.name) for entry in group.members if entry.state in _WAITING)
    soon = (member for member in members if member is not None and ev.tiers.tier(member) == SOON_TIER)
    return min((opens for member in soon if (opens := ev.tiers.changes(member)) is not None), default=None)
