"""Commands of users for a run: start, stop, restart and skip.

A command is an event, but an object only stores state. The record therefore contains which commands have been executed.
A first start is ``state: Run`` without a start time. A restart is a new token. Skip targets are counted, and only
targets beyond the count are new.

Source: docs/specifications/upgrade-runs.md 9, 9.2, 10.1 and 10.2.
"""

from collections.abc import Callable
from typing import Final

from scorer.api.conditions import find_condition
from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import SkipTargetType, UpgradeRunState
from scorer.api.values.quoting import format_count
from scorer.upgrade.evaluation.conditions import INITIALIZED
from scorer.upgrade.evaluation.context import Evaluation
from scorer.upgrade.evaluation.gates import complete_approved_gates
from scorer.upgrade.evaluation.halting import halt
from scorer.upgrade.evaluation.initialization import report_clamped_limits
from scorer.upgrade.evaluation.member_transitions import reset_member, skip_member
from scorer.upgrade.evaluation.version_resolution import choose
from scorer.upgrade.state.record import OVER, SKIPPED_BY_USER, STOPPED, GroupWork, StageWork

_SKIPPABLE: Final = frozenset({UpgradeState.NOT_STARTED, UpgradeState.PENDING, UpgradeState.STOPPED})


def follow(ev: Evaluation, *, is_initialised: bool) -> None:
    """Execute the commands since the last evaluation."""
    if ev.run.metadata.deletion_timestamp is not None:
        halt(ev, "the run is being deleted")
        return
    skip(ev)
    if ev.spec.state is UpgradeRunState.RUN:
        if not ev.record.is_started:
            start(ev, is_initialised=is_initialised)
        elif ev.spec.restart_token not in ("", ev.record.status.observed_restart_token):
            _restart_or_refuse(ev)
    elif ev.spec.state is UpgradeRunState.STOP:
        halt(ev, "the user has stopped the run")
    if ev.record.is_started and (rejection := complete_approved_gates(ev)):
        halt(ev, rejection)


def start(ev: Evaluation, *, is_initialised: bool) -> None:
    """Start a run for the first time, if it is valid."""
    if not is_initialised:
        _refuse_start(ev)
        return
    ev.record.update(start_time=ev.now, resolved=choose(ev), observed_restart_token=ev.spec.restart_token)
    ev.record.set_state(UpgradeState.RUNNING, ev.now)
    many = sum(1 for _ in ev.record.entries())  # the recorded counts may be stale if this pass initialized the run
    ev.announce("RunStarted", f"the run has started with {format_count(many, 'member')}")
    report_clamped_limits(ev)


def _refuse_start(ev: Evaluation) -> None:
    """Announce that a run cannot start. Only a change of the message is announced, because the command persists."""
    condition = find_condition(ev.record.status.conditions, INITIALIZED)
    if condition is not None and condition != find_condition(ev.run.status.conditions, INITIALIZED):
        ev.announce("CommandRefused", f"the run cannot start: {condition.message}", "Warning")


def _restart_or_refuse(ev: Evaluation) -> None:
    ev.record.update(observed_restart_token=ev.spec.restart_token)
    if ev.record.state in STOPPED:
        restart(ev)
    else:
        ev.announce("CommandRefused", f"a run that is {ev.record.state.value} cannot be started again", "Warning")


def restart(ev: Evaluation) -> None:
    """Restart a stopped or failed run. Stopped members of its stage, and failed ones of a failed run, are reset."""
    failed = ev.record.state is UpgradeState.FAILED
    if (stage := ev.record.current) is not None:
        restartable_states = {UpgradeState.STOPPED, UpgradeState.FAILED} if failed else {UpgradeState.STOPPED}
        _reset(ev, stage, restartable_states)
    ev.record.update(restarts=ev.record.status.restarts + 1)
    ev.record.set_state(UpgradeState.RUNNING, ev.now)
    ev.announce("RunRestarted", "the run continues")


def _reset(ev: Evaluation, stage: StageWork, states: set[UpgradeState]) -> None:
    """Reset members of a stage for another turn, and reopen their groups."""
    any_reopened = False
    for group in stage.groups:
        for index, entry in enumerate(group.members):
            if entry.state not in states:
                continue
            reset_member(group, index)
            any_reopened = True
            if group.is_skipped_by_user:
                skip_member(ev, group, index, SKIPPED_BY_USER, "its group was skipped by the user")
            elif group.state in OVER:
                group.set_state(UpgradeState.NOT_STARTED, ev.now)
    if any_reopened and not stage.is_skipped_by_user and stage.wait.state is not UpgradeState.SKIPPED:
        stage.update_wait(state=UpgradeState.NOT_STARTED, start_time=None, completion_time=None)
    elif stage.wait.state is UpgradeState.STOPPED:
        stage.update_wait(state=UpgradeState.RUNNING)
    _restart_gate_clocks(ev, stage)


def _restart_gate_clocks(ev: Evaluation, stage: StageWork) -> None:
    """Restart the timeouts of pending gates: one of them may have stopped the run."""
    for gates in (
        stage.before,
        stage.after,
        *(gates for group in stage.groups for gates in (group.before, group.after)),
    ):
        for index, gate in enumerate(gates.reports):
            if gate.state is UpgradeState.PENDING:
                gates.update(index, start_time=ev.now)


def skip(ev: Evaluation) -> None:
    """Skip the targets that were added since the last evaluation."""
    targets = ev.spec.skip_targets
    if not ev.record.stages:
        return
    for target in targets[ev.record.status.observed_skip_targets :]:
        if not _SKIP[target.type](ev, target.name):
            message = f"there is no {target.type.value} {target.name} in the run: nothing is skipped"
            ev.announce("SkipTargetUnknown", message, "Warning")
    ev.record.update(observed_skip_targets=max(len(targets), ev.record.status.observed_skip_targets))


def _skip_named_member(ev: Evaluation, name: str) -> bool:
    for group, index, entry in ev.record.entries():
        if entry.name == name:
            if not _skip_one(ev, group, index):
                ev.announce("SkipIgnored", f"member {name} is {entry.state.value} and is not skipped")
            return True
    return False


def _skip_one(ev: Evaluation, group: GroupWork, index: int) -> bool:
    """Skip a member if possible. A failed member can be skipped only while the run is halted with nothing in flight."""
    state = group.members[index].state
    if state not in _SKIPPABLE and not (state is UpgradeState.FAILED and ev.record.state in STOPPED):
        return False
    skip_member(ev, group, index, SKIPPED_BY_USER, "skipped by the user")
    return True


def _skip_named_group(ev: Evaluation, name: str) -> bool:
    match = next(((stage, group) for stage in ev.record.stages for group in stage.groups if group.name == name), None)
    if match is None:
        return False
    stage, group = match
    if not _skip_group(ev, stage, group):
        ev.announce("SkipIgnored", f"group {name} of stage {stage.name} is {group.state.value} and is not skipped")
    return True


def _skip_group(ev: Evaluation, stage: StageWork, group: GroupWork) -> bool:
    """Skip a group, even one whose members are all done. Return whether that changes anything.

    In a finished stage, only failed members can be skipped.
    """
    changes = [_skip_one(ev, group, index) for index in range(len(group.members))]
    if stage.state in OVER or group.state is UpgradeState.SKIPPED:
        return any(changes)
    group.update(reason=SKIPPED_BY_USER)
    group.before.skip(ev.now)
    group.after.skip(ev.now)
    return True


def _skip_named_stage(ev: Evaluation, name: str) -> bool:
    stage = next((stage for stage in ev.record.stages if stage.name == name), None)
    if stage is None:
        return False
    if stage.state in OVER:
        ev.announce("SkipIgnored", f"stage {name} is {stage.state.value} and is not skipped")
        return True
    stage.update(reason=SKIPPED_BY_USER)
    for group in stage.groups:
        _skip_group(ev, stage, group)
    stage.before.skip(ev.now)
    stage.after.skip(ev.now)
    _skip_wait(ev, stage)
    return True


def _skip_named_wait(ev: Evaluation, name: str) -> bool:
    stage = next((stage for stage in ev.record.stages if stage.name == name), None)
    if stage is not None and not _skip_wait(ev, stage):
        ev.announce("SkipIgnored", f"the wait after stage {name} is {stage.wait.state.value} and is not skipped")
    return stage is not None


def _skip_wait(ev: Evaluation, stage: StageWork) -> bool:
    if stage.wait.state in OVER:
        return False
    stage.update_wait(state=UpgradeState.SKIPPED, completion_time=ev.now)
    return True


_SKIP: Final[dict[SkipTargetType, Callable[[Evaluation, str], bool]]] = {
    SkipTargetType.MEMBER: _skip_named_member,
    SkipTargetType.GROUP: _skip_named_group,
    SkipTargetType.STAGE: _skip_named_stage,
    SkipTargetType.AFTER_STAGE_WAIT: _skip_named_wait,
}
