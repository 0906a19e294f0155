"""Forecast for each member: its action, its times, and the constraint that determines its start.

Source: docs/specifications/upgrade-runs.md 14.4.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.plan import Bound, PlannedAction, PlannedMember
from scorer.api.upgrade.run import GateReport, GroupStatus, MemberStatus, StageStatus
from scorer.upgrade.planning.forecast import UpgradeForecast, UpgradeStart
from scorer.upgrade.state.record import FINISHED

_ACTIONS: Final = {
    UpgradeState.COMPLETED: PlannedAction.UPGRADE,
    UpgradeState.RUNNING: PlannedAction.UPGRADE,
    UpgradeState.SKIPPED: PlannedAction.SKIP,
    UpgradeState.FAILED: PlannedAction.FAIL,
    UpgradeState.PENDING: PlannedAction.BLOCKED,
}
_BLOCKED_BY: Final = {
    "MaintenanceWindowClosed": Bound.WINDOW,
    "KubernetesVersionNotAvailable": Bound.VERSION,
    "NodeImageVersionNotAvailable": Bound.VERSION,
}


def planned_members(run_forecast: UpgradeForecast) -> Iterator[PlannedMember]:
    """Yield the forecast for every member of a run, in the order of the run."""
    previous_stage: StageStatus | None = None
    for stage in run_forecast.run.status.stages:
        for group in stage.groups:
            for entry in group.members:
                yield _planned_member(run_forecast, previous_stage, stage, group, entry)
        previous_stage = stage


def _planned_member(
    run_forecast: UpgradeForecast,
    previous_stage: StageStatus | None,
    stage: StageStatus,
    group: GroupStatus,
    entry: MemberStatus,
) -> PlannedMember:
    action = _ACTIONS.get(entry.state, PlannedAction.NOT_REACHED)
    bound = _BLOCKED_BY.get(entry.reason) if entry.state is UpgradeState.PENDING else None
    start = run_forecast.beginnings.get(entry.name)
    if start is not None:
        bound = _start_bound(run_forecast, previous_stage, stage, group, start)
    worked_on = entry.attempt > 0
    return PlannedMember(
        name=entry.name,
        action=action,
        start=entry.start_time if worked_on else None,
        end=entry.completion_time if worked_on and entry.state in FINISHED else None,
        reason=entry.reason,
        bound_by=bound,
    )


def _start_bound(
    run_forecast: UpgradeForecast,
    previous_stage: StageStatus | None,
    stage: StageStatus,
    group: GroupStatus,
    start: UpgradeStart,
) -> Bound:
    """Return the constraint that determined the start of an upgrade: the one that ended at that instant."""
    at, entry = start.at, start.entry
    if entry.next_window_open == at:
        return Bound.WINDOW
    gates = [
        *stage.before_gates,
        *group.before_gates,
        *(previous_stage.after_gates if previous_stage is not None else ()),
    ]
    if any(_opened_way(gate, at) for gate in gates):
        return Bound.GATE
    wait = previous_stage.after_stage_wait if previous_stage is not None else None
    if wait is not None and wait.seconds and wait.completion_time == at:
        return Bound.WAIT
    ends_then = run_forecast.ends.get(at, frozenset())
    if at > run_forecast.begin and group.name not in ends_then and any(item.name in ends_then for item in stage.groups):
        return Bound.STAGE_CEILING
    return Bound.SEQUENCE


def _opened_way(gate: GateReport, at: datetime) -> bool:
    return gate.state is UpgradeState.COMPLETED and gate.completion_time == at
