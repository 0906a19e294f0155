"""Members whose turn comes just after a window of theirs has closed, and windows that are too short.

Source: upgrade-runs.md 14.4.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.plan import MissedWindow
from scorer.api.upgrade.run import ClusterUpgradeRun, WindowMode
from scorer.upgrade.facts import Facts
from scorer.upgrade.members import Member
from scorer.upgrade.planning.forecast import Forecast, go_on
from scorer.upgrade.tiers import SOON
from scorer.windows.maintenance import MaintenanceWindow, standing


def windows_missed(found: Forecast, facts: Facts, pulse: Callable[[], None] = go_on) -> Iterator[MissedWindow]:
    """Yield the members that come less than four hours too late, as a member goes early within four hours (7.1).

    Args:
        found: How the run goes.
        facts: The hub around it.
        pulse: Called for every member; what it raises ends the search.
    """
    for name, begun in sorted(found.beginnings.items()):
        pulse()
        turn, member = begun.entry.pending_since, facts.members.get(name)
        waited = begun.entry.state is UpgradeState.PENDING and begun.entry.reason == "MaintenanceWindowClosed"
        if waited and turn is not None and member is not None and _has_just_closed(member, facts, turn):
            yield MissedWindow(name=name, turn=turn, lost_seconds=int((begun.at - turn).total_seconds()))


def _has_just_closed(member: Member, facts: Facts, turn: datetime) -> bool:
    before = standing(list(_readable(member, facts)), turn - SOON)
    return before.is_open or (before.until is not None and before.until < turn)


def too_short(run: ClusterUpgradeRun, facts: Facts) -> Iterator[str]:
    """Yield the members of a run none of whose windows is as long as their upgrades may take."""
    if run.spec.window_policy.mode is WindowMode.IGNORE:
        return
    for stage in run.status.stages:
        for group in stage.groups:
            for entry in group.members:
                member, expected = facts.members.get(entry.name), facts.durations.get(entry.name)
                if member is None or expected is None:
                    continue
                longest = max((window.minutes for window in _readable(member, facts)), default=None)
                if longest is not None and longest * 60 < expected.p90.total_seconds():
                    yield entry.name


def _readable(member: Member, facts: Facts) -> Iterator[MaintenanceWindow]:
    return (window for name in member.windows.names if (window := facts.windows[name].window) is not None)
