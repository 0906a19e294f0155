"""Warnings of a plan: windows that members miss or that are too short, old images, unguarded placements.

Source: docs/specifications/upgrade-runs.md 14.4.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from scorer.api.conditions import FALSE, find_condition
from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.plan import MissedWindow
from scorer.api.upgrade.run import ClusterUpgradeRun, PlacementGuardMode, WindowMode
from scorer.api.values.quoting import format_count
from scorer.upgrade.evaluation.conditions import INITIALIZED
from scorer.upgrade.members.member import Member
from scorer.upgrade.members.windows import SOON
from scorer.upgrade.messages import format_names
from scorer.upgrade.planning.blast_radius import most_of
from scorer.upgrade.planning.forecast import HORIZON, UpgradeForecast, no_deadline
from scorer.upgrade.state.facts import UpgradeRunFacts
from scorer.upgrade.state.placement_guard import GuardedPlacement
from scorer.upgrade.state.record import OVER
from scorer.upgrade.versions.images import ImageTargets, outdated_pools
from scorer.windows.maintenance import MaintenanceWindow, window_state

IMAGE_AGE: Final = timedelta(days=90)
"""Age at which a node image is reported as too old."""
_SAYS_NOTHING: Final = frozenset({"AlreadyAtTarget", "AheadOfTarget", "SkippedByUser"})
_MOST_REASONS: Final = 20


def warnings_of(
    run: ClusterUpgradeRun,
    run_forecast: UpgradeForecast,
    facts: UpgradeRunFacts,
    placements: Sequence[GuardedPlacement],
) -> tuple[str, ...]:
    """Return the warnings about a run."""
    return (
        *_not_started(run, run_forecast),
        *_in_the_way(run_forecast),
        *_last_wait(run_forecast),
        *_short_windows(run, facts),
        *_old_images(run, run_forecast, facts),
        *_unguarded(run, run_forecast, placements),
    )


def _not_started(run: ClusterUpgradeRun, run_forecast: UpgradeForecast) -> Iterator[str]:
    condition = find_condition(run_forecast.run.status.conditions, INITIALIZED)
    if run_forecast.run.status.start_time is None:
        if condition is not None and condition.status == FALSE:
            yield f"the run cannot start: {condition.reason}: {condition.message}"
        return
    match run.status.state:
        case UpgradeState.NOT_STARTED:
            yield "the run has not been started: the times assume a start now"
        case UpgradeState.STOPPED | UpgradeState.FAILED:
            yield f"the run is {run.status.state.value}: the times assume a restart now"
        case UpgradeState.STOPPING:
            yield "the run is being stopped: no further upgrade starts until the run is started again"
    if run_forecast.eta is None and run_forecast.run.status.state not in (
        *OVER,
        UpgradeState.FAILED,
        UpgradeState.STOPPING,
    ):
        yield f"the run does not finish within {HORIZON.days} days"


def _in_the_way(run_forecast: UpgradeForecast) -> Iterator[str]:
    """Yield the obstacles to upgrades, one sentence per reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for _, _, entry in run_forecast.entries():
        is_reported = entry.state in (UpgradeState.PENDING, UpgradeState.FAILED, UpgradeState.SKIPPED)
        if is_reported and entry.reason and entry.reason not in _SAYS_NOTHING:
            reasons.setdefault((entry.state.value, entry.reason), []).append(entry.name)
    for (state, reason), names in sorted(reasons.items())[:_MOST_REASONS]:
        yield f"{reason}: {state} at the end: {format_names(names)}"


def _last_wait(run_forecast: UpgradeForecast) -> Iterator[str]:
    last = run_forecast.run.status.stages[-1:]
    if last and last[0].after_stage_wait is not None and (seconds := last[0].after_stage_wait.seconds):
        yield f"stage {last[0].name} is the last one, and the run waits for {format_count(seconds, 'second')} after it"


def _short_windows(run: ClusterUpgradeRun, facts: UpgradeRunFacts) -> Iterator[str]:
    if names := list(too_short(run, facts)):
        yield f"no window is as long as the expected upgrade: {format_names(names)}"


def _old_images(run: ClusterUpgradeRun, run_forecast: UpgradeForecast, facts: UpgradeRunFacts) -> Iterator[str]:
    """Yield a warning about members whose new node image would be too old when their upgrade starts."""
    images = ImageTargets(run.spec.upgrade, run_forecast.run.status.resolved.node_images, facts.catalog)
    old = []
    for name, start in sorted(run_forecast.beginnings.items()):
        member = facts.members.get(name)
        if member is None or member.inventory is None:
            continue
        targets = images.of(member)
        selected = ((pool.family, targets[pool.family]) for pool in outdated_pools(member.inventory, targets))
        publication_times = [at for version in selected if (at := facts.catalog.published.get(version)) is not None]
        if publication_times and start.at - min(publication_times) > IMAGE_AGE:
            old.append(name)
    if old:
        yield f"node images will be more than {IMAGE_AGE.days} days old at the upgrade of: {format_names(old)}"


def _unguarded(
    run: ClusterUpgradeRun, run_forecast: UpgradeForecast, placements: Sequence[GuardedPlacement]
) -> Iterator[str]:
    """Yield a warning about placements that the guard would protect in mode Enforce. It only warns in mode Warn."""
    if run.spec.placement_guard.mode is not PlacementGuardMode.WARN:
        return
    upgrades = {entry.name: entry for entry in run_forecast.upgrades}
    exposed_names = sorted(
        placement.full_name for placement in placements if most_of(placement, upgrades) > placement.allowed
    )
    if exposed_names:
        yield f"placements with too many of their clusters being upgraded concurrently: {format_names(exposed_names)}"


def missed_windows(
    run_forecast: UpgradeForecast, facts: UpgradeRunFacts, pulse: Callable[[], None] = no_deadline
) -> Iterator[MissedWindow]:
    """Yield the members whose turn comes at most four hours after one of their windows has closed.

    A member is also preferred from four hours before a window opens (upgrade-runs.md 7.1).

    Args:
        run_forecast: Forecast of the run.
        facts: State of the hub.
        pulse: Called once per member. An exception that it raises aborts the search.
    """
    for name, start in sorted(run_forecast.beginnings.items()):
        pulse()
        turn, member = start.entry.pending_since, facts.members.get(name)
        has_waited = start.entry.state is UpgradeState.PENDING and start.entry.reason == "MaintenanceWindowClosed"
        if has_waited and turn is not None and member is not None and _has_just_closed(member, facts, turn):
            yield MissedWindow(name=name, turn=turn, lost_seconds=int((start.at - turn).total_seconds()))


def _has_just_closed(member: Member, facts: UpgradeRunFacts, turn: datetime) -> bool:
    earlier_state = window_state(list(_readable(member, facts)), turn - SOON)
    return earlier_state.is_open or (earlier_state.until is not None and earlier_state.until < turn)


def too_short(run: ClusterUpgradeRun, facts: UpgradeRunFacts) -> Iterator[str]:
    """Yield the members of a run whose windows are all shorter than their upgrades may take."""
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


def _readable(member: Member, facts: UpgradeRunFacts) -> Iterator[MaintenanceWindow]:
    return (window for name in member.windows.names if (window := facts.windows[name].window) is not None)
