"""Transitions of groups, stages and the run while it is not halted.

Source: docs/specifications/upgrade-runs.md 8.2, 8.3 and 8.6.
"""

from datetime import timedelta

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.gate import GateTiming
from scorer.api.values.quoting import format_count
from scorer.upgrade.evaluation.context import Evaluation
from scorer.upgrade.evaluation.gates import open_group_gates, open_stage_gates
from scorer.upgrade.evaluation.halting import derive_halted_states, skip_remaining_gates
from scorer.upgrade.evaluation.scheduling import schedule
from scorer.upgrade.state.record import OVER, GroupWork, StageWork


def settle(ev: Evaluation) -> None:
    """Start everything that can start, and update every state."""
    record = ev.record
    if record.is_halted:
        if record.state is UpgradeState.STOPPING:
            derive_halted_states(ev)
        return
    if not record.is_started:
        for stage in record.stages:
            _derive_unreached(ev, stage)
        return
    if record.state in OVER:
        return
    _work_on_stages(ev)


def _work_on_stages(ev: Evaluation) -> None:
    while (current := ev.record.current) is not None and _work(ev, current):
        pass
    if ev.record.is_halted:
        derive_halted_states(ev)
    else:
        _derive_run(ev)


def _work(ev: Evaluation, stage: StageWork) -> bool:
    """Advance a stage as far as possible now. Return whether it is finished."""
    _reach(ev, stage)
    active = stage.before.done
    if active:
        for group in stage.groups:
            open_group_gates(ev, stage, group, GateTiming.BEFORE)
        schedule(ev, stage)
    if ev.record.is_halted:
        return False
    for group in stage.groups:
        _derive_group(ev, stage, group, active=active)
    _derive_stage(ev, stage)
    return stage.state in OVER


def _reach(ev: Evaluation, stage: StageWork) -> None:
    if stage.status.start_time is None:
        stage.update(start_time=ev.now)
        ev.announce("StageStarted", f"stage {stage.name} is reached")
    if stage.status.message:
        stage.update(message="")
    open_stage_gates(ev, stage, GateTiming.BEFORE)


def _derive_group(ev: Evaluation, stage: StageWork, group: GroupWork, *, active: bool) -> None:
    state = _group_state(ev, stage, group, active=active)
    group.set_state(state, ev.now)
    if state is UpgradeState.SKIPPED:
        group.before.skip(ev.now)
        group.after.skip(ev.now)


def _group_state(ev: Evaluation, stage: StageWork, group: GroupWork, *, active: bool) -> UpgradeState:
    """Return the state of a group by the first rule of 8.2 that applies."""
    if group.is_finished:
        is_skipped = group.is_skipped_by_user or group.is_all_skipped
        if is_skipped and (active or group.is_skipped_by_user or group.members):
            return UpgradeState.SKIPPED
        if active:
            open_group_gates(ev, stage, group, GateTiming.AFTER)
            return UpgradeState.COMPLETED if group.after.done else UpgradeState.PENDING
    if group.running:
        return UpgradeState.RUNNING
    if group.before.pending or group.counts[UpgradeState.PENDING]:
        return UpgradeState.PENDING
    has_started = group.counts[UpgradeState.NOT_STARTED] != len(group.members)
    return UpgradeState.RUNNING if active and has_started else UpgradeState.NOT_STARTED


def _derive_stage(ev: Evaluation, stage: StageWork) -> None:
    state = _stage_state(ev, stage)
    stage.set_state(state, ev.now)
    if state is UpgradeState.SKIPPED:
        skip_remaining_gates(ev, stage)
    if state in OVER:
        ev.announce("StageCompleted", f"stage {stage.name} is {state.value}")


def _stage_state(ev: Evaluation, stage: StageWork) -> UpgradeState:
    if not stage.before.done:
        return UpgradeState.PENDING
    states = {group.state for group in stage.groups}
    if not states <= OVER:
        waits = UpgradeState.PENDING in states and UpgradeState.RUNNING not in states
        return UpgradeState.PENDING if waits else UpgradeState.RUNNING
    if stage.is_skipped_by_user or states <= {UpgradeState.SKIPPED}:
        return UpgradeState.SKIPPED
    _wait(ev, stage)
    open_stage_gates(ev, stage, GateTiming.AFTER)
    if stage.after.pending:
        return UpgradeState.PENDING
    return UpgradeState.COMPLETED if stage.wait.state in OVER else UpgradeState.RUNNING


def _wait(ev: Evaluation, stage: StageWork) -> None:
    """Start the wait after a stage, and end it when it has elapsed."""
    if stage.wait.state is UpgradeState.NOT_STARTED:
        stage.update_wait(state=UpgradeState.RUNNING, start_time=ev.now)
        if stage.wait.seconds:
            length = format_count(stage.wait.seconds, "second")
            ev.announce("StageWaiting", f"the run waits {length} after stage {stage.name}")
    end_wait(ev, stage)


def end_wait(ev: Evaluation, stage: StageWork) -> None:
    """End the wait after a stage when it has elapsed."""
    wait = stage.wait
    if wait.state is not UpgradeState.RUNNING or wait.start_time is None:
        return
    if ev.now >= wait.start_time + timedelta(seconds=wait.seconds):
        stage.update_wait(state=UpgradeState.COMPLETED, completion_time=ev.now)


def _derive_unreached(ev: Evaluation, stage: StageWork) -> None:
    """Skip an unreached stage as soon as all of its groups are skipped."""
    for group in stage.groups:
        _derive_group(ev, stage, group, active=False)
    if stage.state not in OVER and all(group.state is UpgradeState.SKIPPED for group in stage.groups):
        stage.set_state(UpgradeState.SKIPPED, ev.now)
        skip_remaining_gates(ev, stage)


def _derive_run(ev: Evaluation) -> None:
    record, current = ev.record, ev.record.current
    if current is not None:
        for stage in record.stages[record.stages.index(current) + 1 :]:
            _derive_unreached(ev, stage)
    if current is not None:
        record.set_state(current.state, ev.now)
        return
    is_skipped = all(stage.state is UpgradeState.SKIPPED for stage in record.stages)
    record.set_state(UpgradeState.SKIPPED if is_skipped else UpgradeState.COMPLETED, ev.now)
