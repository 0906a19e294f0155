"""An upgrade run as a state machine: the result of one evaluation.

Values in, values out: `advance` maps a run and the state of the hub to a new status, actions, and the time of the next
evaluation. It may be called at any time and from any state, even after a crash between any two writes. A second
evaluation at the same instant changes nothing.

Order within one instant:

1. reports of back ends
2. commands of users and changes of the fleet
3. timeouts
4. starts, with every state that follows

Source: docs/specifications/upgrade-runs.md 5 to 10.
"""

from dataclasses import replace

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import ClusterUpgradeRun
from scorer.upgrade.evaluation.commands import follow
from scorer.upgrade.evaluation.conditions import set_progress_conditions
from scorer.upgrade.evaluation.context import Evaluation
from scorer.upgrade.evaluation.gate_objects import write_gates
from scorer.upgrade.evaluation.gates import complete_scheduled_gates, positions
from scorer.upgrade.evaluation.halting import check_thresholds
from scorer.upgrade.evaluation.initialization import follow_members, initialise
from scorer.upgrade.evaluation.observations import (
    process_observations,
    release_abandoned,
    retry_lost_starts,
    roll_back_lost_starts,
)
from scorer.upgrade.evaluation.readiness import check_before_start
from scorer.upgrade.evaluation.requeue import next_wakeup
from scorer.upgrade.evaluation.stage_transitions import end_wait, settle
from scorer.upgrade.evaluation.timeouts import check_timeouts
from scorer.upgrade.state.facts import UpgradeRunFacts
from scorer.upgrade.state.record import HALTED, OVER, UpgradeRecord
from scorer.upgrade.state.step import UpgradeStep

_TOLD = {
    UpgradeState.STOPPED: "RunStopped",
    UpgradeState.FAILED: "RunFailed",
    UpgradeState.COMPLETED: "RunCompleted",
    UpgradeState.SKIPPED: "RunCompleted",
}


def advance(run: ClusterUpgradeRun, facts: UpgradeRunFacts) -> UpgradeStep:
    """Return the new status of a run, its actions, and its next evaluation.

    Args:
        run: The run as stored.
        facts: State of the hub.
    """
    ev = Evaluation(run, facts, UpgradeRecord(run.status, facts.rosters))
    if ev.record.state not in OVER:
        is_initialised = _process_inputs(ev)
        _check_clocks(ev)
        _go_on(ev)
        check_before_start(ev, is_initialised=is_initialised)
        _tell_end(ev)
        set_progress_conditions(ev)
    else:
        release_abandoned(ev)
    write_gates(ev)
    return _step(ev)


def record_observations(run: ClusterUpgradeRun, facts: UpgradeRunFacts) -> UpgradeStep:
    """Process observations, commands and membership only, without timeouts and starts.

    Only a simulation needs this, which delivers the events of one instant one by one and calls `advance` afterwards.
    """
    ev = Evaluation(run, facts, UpgradeRecord(run.status, facts.rosters))
    if ev.record.state not in OVER:
        _process_inputs(ev)
    return _step(ev)


def _process_inputs(ev: Evaluation) -> bool:
    """Process observations, commands and membership. Return whether the run is initialized."""
    process_observations(ev)
    check_thresholds(ev)
    is_initialised = ev.record.is_started or initialise(ev)
    follow(ev, is_initialised=is_initialised)
    follow_members(ev)
    ev.record.update(observed_generation=ev.run.metadata.generation)
    return is_initialised


def _check_clocks(ev: Evaluation) -> None:
    check_timeouts(ev)
    check_thresholds(ev)
    for position in positions(ev):
        complete_scheduled_gates(ev, position)
    for stage in ev.record.stages:
        end_wait(ev, stage)


def _go_on(ev: Evaluation) -> None:
    """Start everything that can start, and retry lost starts that would still be made now."""
    roll_back_lost_starts(ev)
    settle(ev)
    if roll_back_lost_starts(ev):  # the run has halted just now
        settle(ev)
    retry_lost_starts(ev)


def _tell_end(ev: Evaluation) -> None:
    state = ev.record.state
    if state is ev.run.status.state or state not in HALTED | OVER or state is UpgradeState.STOPPING:
        return
    failed = state is UpgradeState.FAILED
    ev.announce(_TOLD[state], f"the run is {state.value}", "Warning" if failed else "Normal")


def _step(ev: Evaluation) -> UpgradeStep:
    wakeup = next_wakeup(ev)
    ev.record.update(next_wakeup=wakeup)
    if ev.record.state in OVER:
        ev.record.update(plan=None)  # everything has come
    status = ev.record.result()
    changed = status != ev.run.status
    step = UpgradeStep(status, changed=changed, actions=tuple(ev.actions), events=tuple(ev.events), again=wakeup)
    has_abandoned = any(True for _ in ev.record.abandoned_operations())
    return replace(step, in_flight=status.counts.running > 0 or has_abandoned)
