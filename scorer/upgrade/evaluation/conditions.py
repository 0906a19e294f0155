"""The conditions of a run.

Source: docs/specifications/upgrade-runs.md 15.
"""

from typing import Final

from scorer.api.conditions import FALSE, TRUE, Condition, find_condition
from scorer.api.upgrade.fields import UpgradeState
from scorer.upgrade.evaluation.context import Evaluation
from scorer.upgrade.messages import MOST_NAMED
from scorer.upgrade.state.record import HALTED

INITIALIZED: Final = "Initialized"
PREFLIGHT: Final = "Preflight"
PROGRESSING: Final = "Progressing"
SUCCEEDED: Final = "Succeeded"
HEALTHY: Final = "Healthy"
DRIFTED: Final = "MembershipDrifted"

_LONGEST_MESSAGE: Final = 32768

_PROGRESS: Final[dict[UpgradeState, tuple[bool, str]]] = {
    UpgradeState.RUNNING: (True, "UpgradeRunning"),
    UpgradeState.PENDING: (False, "Waiting"),
    UpgradeState.STOPPING: (False, "Stopping"),
    UpgradeState.STOPPED: (False, "Stopped"),
    UpgradeState.FAILED: (False, "Failed"),
    UpgradeState.COMPLETED: (False, "Finished"),
    UpgradeState.SKIPPED: (False, "Finished"),
}


def set_condition(ev: Evaluation, kind: str, *, is_true: bool, reason: str, message: str = "") -> None:
    """Set a condition of the run. The transition time changes only with the status."""
    previous = find_condition(ev.record.status.conditions, kind)
    original = find_condition(ev.run.status.conditions, kind)
    status = TRUE if is_true else FALSE
    since = original.last_transition_time if original is not None and original.status == status else ev.now
    condition = Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message[:_LONGEST_MESSAGE],
        observed_generation=ev.run.metadata.generation,
        last_transition_time=since,
    )
    if condition == previous:
        return
    other_conditions = (condition for condition in ev.record.status.conditions if condition.type != kind)
    ev.record.update(conditions=tuple(sorted((*other_conditions, condition), key=lambda condition: condition.type)))


def remove_condition(ev: Evaluation, kind: str) -> None:
    """Remove a condition of the run."""
    conditions = ev.record.status.conditions
    if find_condition(conditions, kind) is not None:
        ev.record.update(conditions=tuple(condition for condition in conditions if condition.type != kind))


def set_progress_conditions(ev: Evaluation) -> None:
    """Set the conditions of a started run that follow from its states."""
    record = ev.record
    if not record.is_started:
        return
    is_true, reason = _PROGRESS.get(record.state, (True, "UpgradeRunning"))
    stage = record.current
    message = (stage.status.message if record.state in HALTED else f"at stage {stage.name}") if stage else ""
    set_condition(ev, PROGRESSING, is_true=is_true, reason=reason, message=message)
    _set_succeeded(ev)
    _set_healthy(ev)


def _set_succeeded(ev: Evaluation) -> None:
    match ev.record.state:
        case UpgradeState.COMPLETED:
            set_condition(ev, SUCCEEDED, is_true=True, reason="UpgradeCompleted")
        case UpgradeState.SKIPPED:
            set_condition(ev, SUCCEEDED, is_true=True, reason="UpgradeSkipped")
        case UpgradeState.FAILED:
            set_condition(ev, SUCCEEDED, is_true=False, reason="FailureThresholdExceeded", message=_failures(ev))
        case UpgradeState.STOPPING:
            pass
        case _:
            remove_condition(ev, SUCCEEDED)


def _set_healthy(ev: Evaluation) -> None:
    if failures := _failures(ev):
        set_condition(ev, HEALTHY, is_true=False, reason="ToleratedFailures", message=failures)
    else:
        set_condition(ev, HEALTHY, is_true=True, reason="NoFailures")


def _failures(ev: Evaluation) -> str:
    """Return the failed members and their errors."""
    if not any(group.failed for stage in ev.record.stages for group in stage.groups):
        return ""
    failed = [entry for _, _, entry in ev.record.entries() if entry.state is UpgradeState.FAILED]
    messages = [f"{failure.name}: {failure.reason}: {failure.message}" for failure in failed[:MOST_NAMED]]
    more = [f"and {len(failed) - MOST_NAMED} more"] if len(failed) > MOST_NAMED else []
    return "; ".join(messages + more)
