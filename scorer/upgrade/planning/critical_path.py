"""Critical path of a run, found backward from its end: each step starts when the previous one ends.

Source: docs/specifications/upgrade-runs.md 14.4.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from scorer.api.upgrade.plan import Bound, CriticalStep, PlannedMember, StepType
from scorer.api.upgrade.run import GateReport, GroupStatus, StageStatus
from scorer.upgrade.planning.forecast import UpgradeForecast


@dataclass(frozen=True, slots=True)
class _Step:
    """A step with a start and an end.

    Args:
        type: Kind of step.
        name: Name of the member, of the stage of a wait, or of the object of a gate.
        stage: Position of its stage.
        group: Group, empty if it belongs to the stage as a whole.
        start: Start.
        end: End.
    """

    type: StepType
    name: str
    stage: int
    group: str
    start: datetime
    end: datetime


def critical_path(run_forecast: UpgradeForecast, members: Iterable[PlannedMember]) -> tuple[CriticalStep, ...]:
    """Return the members, waits and gates that determine the end of a run, in order.

    An upgrade that starts when its window opens is the first step, because the window alone determines its start. A run
    without an end has no critical path.
    """
    if run_forecast.eta is None:
        return ()
    by_window = {member.name for member in members if member.bound_by is Bound.WINDOW}
    steps_by_end: dict[datetime, list[_Step]] = {}
    for step in _steps(run_forecast):
        steps_by_end.setdefault(step.end, []).append(step)
    path: list[_Step] = []
    end, group = run_forecast.eta, ""
    while candidates := [step for step in steps_by_end.get(end, ()) if _may_hold(step, group)]:
        step = min(candidates, key=lambda step: (step.type is StepType.MEMBER, step.group != group, -step.stage))
        steps_by_end[end].remove(step)
        path.append(step)
        end, group = step.start, step.group
        if step.type is StepType.MEMBER and step.name in by_window:
            break
    return tuple(
        CriticalStep(type=step.type, name=step.name, start=step.start, end=step.end) for step in reversed(path)
    )


def _may_hold(step: _Step, group: str) -> bool:
    """Return whether the next step may have waited for *step*. The gate of a group blocks only that group."""
    return step.type is not StepType.GATE or step.group in ("", group) or not group


def _steps(run_forecast: UpgradeForecast) -> Iterator[_Step]:
    for place, stage in enumerate(run_forecast.run.status.stages):
        yield from _gates((*stage.before_gates, *stage.after_gates), place, "")
        yield from _wait(stage, place)
        for group in stage.groups:
            yield from _gates((*group.before_gates, *group.after_gates), place, group.name)
            yield from _members(group, place)


def _wait(stage: StageStatus, place: int) -> Iterator[_Step]:
    wait = stage.after_stage_wait
    if wait is not None and wait.seconds and wait.start_time is not None and wait.completion_time is not None:
        yield _Step(StepType.WAIT, stage.name, place, "", wait.start_time, wait.completion_time)


def _gates(gates: Iterable[GateReport], place: int, group: str) -> Iterator[_Step]:
    for gate in gates:
        if gate.start_time is not None and gate.completion_time is not None:
            yield _Step(StepType.GATE, gate.gate, place, group, gate.start_time, gate.completion_time)


def _members(group: GroupStatus, place: int) -> Iterator[_Step]:
    for entry in group.members:
        if entry.attempt and entry.start_time is not None and entry.completion_time is not None:
            yield _Step(StepType.MEMBER, entry.name, place, group.name, entry.start_time, entry.completion_time)
