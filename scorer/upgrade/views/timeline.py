"""An upgrade run as a timeline: its groups with their members, waits, windows, and expected times.

Source: docs/specifications/upgrade-runs.md 3.4, 8, 11 and 14.4.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.plan import PlannedAction, PlannedMember
from scorer.api.upgrade.run import ClusterUpgradeRun, GateReport, GroupStatus, MemberStatus, StageStatus
from scorer.api.upgrade.strategy import GateType
from scorer.rollout.views.timeline import Band, Bar, BarState, Mark, MarkKind, Timeline, TimeSpan
from scorer.upgrade.state.record import FINISHED, OVER

MOST_WINDOWS: Final = 20
"""Maximum number of window openings shown per member."""

_BARS: Final[Mapping[UpgradeState, BarState]] = {
    UpgradeState.NOT_STARTED: BarState.NOT_REACHED,
    UpgradeState.PENDING: BarState.WAITING,
    UpgradeState.RUNNING: BarState.UPDATING,
    UpgradeState.STOPPING: BarState.UPDATING,
    UpgradeState.STOPPED: BarState.WAITING,
    UpgradeState.FAILED: BarState.FAILED,
    UpgradeState.COMPLETED: BarState.UPDATED,
    UpgradeState.SKIPPED: BarState.SKIPPED,
}
_BANDS: Final[Mapping[UpgradeState, str]] = {
    UpgradeState.NOT_STARTED: "not reached",
    UpgradeState.PENDING: "waiting",
    UpgradeState.RUNNING: "updating",
    UpgradeState.STOPPING: "stopping",
    UpgradeState.STOPPED: "stopped",
    UpgradeState.FAILED: "failed",
    UpgradeState.COMPLETED: "done",
    UpgradeState.SKIPPED: "skipped",
}
_TROUBLED: Final = frozenset({UpgradeState.FAILED, UpgradeState.PENDING, UpgradeState.SKIPPED, UpgradeState.STOPPED})
"""States of a member whose reason is shown: the cause of a wait or an error."""


def upgrade_timeline(run: ClusterUpgradeRun, windows: Mapping[str, tuple[TimeSpan, ...]]) -> Timeline:
    """Return the timeline of a run, with one band per group, or per stage with a single group.

    Args:
        run: The run as stored. Its plan has the expected times.
        windows: Window openings of the members whose turn is still to come. Members without windows are omitted.
    """
    status = run.status
    plan = status.plan.members if status.plan is not None and status.state not in OVER else ()
    plans_by_name = {member.name: member for member in plan if member.action is PlannedAction.UPGRADE}
    bands = [band for stage in status.stages for band in _bands(stage, plans_by_name, windows)]
    end = status.completion_time if status.state in OVER or status.state is UpgradeState.FAILED else None
    return Timeline(tuple(bands), status.start_time, end)


def _bands(
    stage: StageStatus, plans_by_name: Mapping[str, PlannedMember], windows: Mapping[str, tuple[TimeSpan, ...]]
) -> Iterator[Band]:
    groups = stage.groups
    for place, group in enumerate(groups):
        first, last = place == 0, place == len(groups) - 1
        marks = [
            *(_gate(gate, is_before=True) for gate in (*(stage.before_gates if first else ()), *group.before_gates)),
            *(_gate(gate, is_before=False) for gate in (*group.after_gates, *(stage.after_gates if last else ()))),
            *(_wait(stage) if last else ()),
        ]
        yield Band(
            f"{stage.name} / {group.name}" if len(groups) > 1 else stage.name,
            _BANDS[group.state if len(groups) > 1 else stage.state],
            tuple(_bar(entry, plans_by_name.get(entry.name), windows.get(entry.name, ())) for entry in group.members),
            tuple(marks),
            group.start_time,
            group.completion_time,
            group.max_concurrency,
            _trouble(stage, group),
        )


def _trouble(stage: StageStatus, group: GroupStatus) -> str:
    return (group.message or stage.message) if group.state is UpgradeState.FAILED else ""


def _bar(entry: MemberStatus, plan: PlannedMember | None, windows: tuple[TimeSpan, ...]) -> Bar:
    has_message = entry.state in _TROUBLED or bool(entry.error)
    words = entry.message or entry.reason if has_message else ""
    start = entry.start_time if entry.attempt else None
    is_unfinished = entry.state not in FINISHED
    forecast = None
    if is_unfinished and plan is not None and plan.start is not None and plan.end is not None:
        forecast = TimeSpan(plan.start, plan.end)
    return Bar(
        entry.name,
        _BARS[entry.state],
        start if entry.state not in (UpgradeState.NOT_STARTED, UpgradeState.PENDING) else None,
        entry.completion_time if start is not None else None,
        words,
        forecast,
        windows if is_unfinished else (),
    )


def _gate(gate: GateReport, *, is_before: bool) -> Mark:
    scheduled = gate.type is not GateType.APPROVAL
    kinds = {
        (False, True): MarkKind.APPROVAL_BEFORE,
        (False, False): MarkKind.APPROVAL_AFTER,
        (True, True): MarkKind.SCHEDULED_BEFORE,
        (True, False): MarkKind.SCHEDULED_AFTER,
    }
    is_over = gate.state in OVER
    until = gate.completion_time if is_over else gate.absolute_start_time
    return Mark(kinds[scheduled, is_before], gate.start_time, until, is_over, gate.gate)


def _wait(stage: StageStatus) -> Iterator[Mark]:
    wait = stage.after_stage_wait
    if wait is None or not wait.seconds:
        return
    is_over = wait.state in OVER
    until = wait.completion_time
    if not is_over and wait.start_time is not None:
        until = wait.start_time + timedelta(seconds=wait.seconds)
    yield Mark(MarkKind.TIMED_WAIT, wait.start_time, until, is_over)
