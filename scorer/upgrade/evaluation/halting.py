"""Halting of a run: no further operation is started, and operations in flight are finished.

Source: docs/specifications/upgrade-runs.md 8.4, 8.5 and 9.1.
"""

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.values.quoting import format_count
from scorer.upgrade.evaluation.context import Evaluation
from scorer.upgrade.evaluation.member_transitions import stop_member
from scorer.upgrade.messages import LONGEST_TOLD, shortened
from scorer.upgrade.state.record import OVER, GroupWork, StageWork


def halt(ev: Evaluation, message: str) -> None:
    """Halt a run in progress: it starts nothing more.

    Pending members and a running wait are stopped. The clock of the wait continues.
    """
    if ev.record.is_halted or ev.record.state in OVER or not ev.record.is_started:
        return
    ev.record.set_state(UpgradeState.STOPPING, ev.now)
    ev.announce("RunStopping", message)
    if (stage := ev.record.current) is None:
        return
    stage.update(message=shortened(message, LONGEST_TOLD))
    for group in stage.groups:
        if not group.counts[UpgradeState.PENDING]:
            continue
        for index, member in enumerate(group.members):
            if member.state is UpgradeState.PENDING:
                stop_member(group, index)
    if stage.wait.state is UpgradeState.RUNNING:
        stage.update_wait(state=UpgradeState.STOPPED)


def check_thresholds(ev: Evaluation) -> None:
    """Halt the run if more members of the current stage have failed than the stage or one of its groups allows."""
    stage = ev.record.current
    if stage is None or ev.record.is_halted or not stage.is_exceeded:
        return
    exceeded_group = next((group for group in stage.groups if group.is_exceeded), None)
    if exceeded_group is not None:
        subject, failed, allowed = (
            f"group {exceeded_group.name}",
            exceeded_group.failed,
            exceeded_group.status.max_allowed_failures,
        )
    else:
        subject, failed, allowed = f"stage {stage.name}", stage.failed, stage.status.max_allowed_failures
    have = "has" if failed == 1 else "have"
    halt(ev, f"{format_count(failed, 'member')} of {subject} {have} failed, more than the {allowed} that it allows")


def derive_halted_states(ev: Evaluation) -> None:
    """Update the states of a stopping run (8.5)."""
    stage = ev.record.current
    if stage is not None:
        for group in stage.groups:
            _derive_group(ev, stage, group)
        _derive_stage(ev, stage)
    ev.record.set_state(_run_state(ev, stage), ev.now)


def _derive_group(ev: Evaluation, stage: StageWork, group: GroupWork) -> None:
    if group.state not in OVER:
        group.set_state(_group_state(stage, group), ev.now)
    if group.state is UpgradeState.SKIPPED:
        group.before.skip(ev.now)
        group.after.skip(ev.now)


def _group_state(stage: StageWork, group: GroupWork) -> UpgradeState:
    if group.running:
        return UpgradeState.STOPPING
    if group.is_exceeded:
        return UpgradeState.FAILED
    active = stage.status.start_time is not None and stage.before.done
    if group.is_finished:
        if group.is_skipped_by_user or (group.is_all_skipped and (active or group.members)):
            return UpgradeState.SKIPPED
        if active and group.after.done:
            return UpgradeState.COMPLETED
    has_started = group.counts[UpgradeState.NOT_STARTED] != len(group.members)
    if has_started or group.before.pending or group.after.pending:
        return UpgradeState.STOPPED
    return UpgradeState.NOT_STARTED


def _derive_stage(ev: Evaluation, stage: StageWork) -> None:
    stage.set_state(_stage_state(ev, stage), ev.now)
    if stage.state is UpgradeState.SKIPPED:
        skip_remaining_gates(ev, stage)


def _stage_state(ev: Evaluation, stage: StageWork) -> UpgradeState:
    if stage.running:
        return UpgradeState.STOPPING
    if stage.is_exceeded:
        return UpgradeState.FAILED
    if not stage.before.done or any(group.state not in OVER for group in stage.groups):
        return UpgradeState.STOPPED
    if stage.is_skipped_by_user or all(group.state is UpgradeState.SKIPPED for group in stage.groups):
        return UpgradeState.SKIPPED
    _begin_wait(ev, stage)
    return UpgradeState.COMPLETED if stage.wait.state in OVER and stage.after.done else UpgradeState.STOPPED


def _begin_wait(ev: Evaluation, stage: StageWork) -> None:
    """Start the clock of a wait although the run is halted. A wait of 0 completes immediately."""
    if stage.wait.state is not UpgradeState.NOT_STARTED:
        return
    if stage.wait.seconds:
        stage.update_wait(state=UpgradeState.STOPPED, start_time=ev.now)
    else:
        stage.update_wait(state=UpgradeState.COMPLETED, start_time=ev.now, completion_time=ev.now)


def skip_remaining_gates(ev: Evaluation, stage: StageWork) -> None:
    """Skip the unfinished gates of a stage, and its wait if unfinished."""
    stage.before.skip(ev.now)
    stage.after.skip(ev.now)
    if stage.wait.state not in OVER:
        stage.update_wait(state=UpgradeState.SKIPPED, completion_time=ev.now)


def _run_state(ev: Evaluation, stage: StageWork | None) -> UpgradeState:
    if any(stage_work.running for stage_work in ev.record.stages):
        return UpgradeState.STOPPING
    if stage is not None and stage.is_exceeded:
        return UpgradeState.FAILED
    if ev.record.current is not None:
        return UpgradeState.STOPPED
    is_skipped = all(stage_work.state is UpgradeState.SKIPPED for stage_work in ev.record.stages)
    return UpgradeState.SKIPPED if is_skipped else UpgradeState.COMPLETED
