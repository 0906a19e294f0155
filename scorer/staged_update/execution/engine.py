"""State machine of a run: the step that one pass returns, including a stop.

Values in, values out: given a run and the state of the hub, `advance` returns the writes in their order, and when to
requeue. It may be called at any time and from any state, even after a crash between any two of those writes.

Source: docs/specifications/staged-updates.md 4 to 9; 7 for stopping; KubeFleet pkg/controllers/updaterun/stop.go.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from scorer.api.conditions import FALSE, TRUE, UNKNOWN, ConditionStatus
from scorer.api.event import Event
from scorer.api.meta import JsonObject, format_time
from scorer.api.placement.staged_update import RunState
from scorer.api.unstructured.documents import dict_at, name_of, status_of, text_at
from scorer.staged_update.execution.deletion import execute_deletion, record_deletions
from scorer.staged_update.execution.stage import StagePass, execute_stage, is_in_flight
from scorer.staged_update.facts import StagedUpdateFacts
from scorer.staged_update.outcome import RECHECK, NotYetError, RunFailedError, RunFailureCause, StagedUpdateStep
from scorer.staged_update.plan.initialization import initialise
from scorer.staged_update.plan.validation import validate
from scorer.staged_update.policy import OnFailure, policy_of
from scorer.staged_update.record import (
    INITIALIZED,
    PROGRESSING,
    STARTED,
    SUCCEEDED,
    StagedUpdateRecord,
    cluster_name,
    clusters_of,
    condition,
    is_final,
    reason,
    stage_name,
    status,
)
from scorer.staged_update.rollback import changed_clusters, free_name, previous_index, rollback_run, rolled_back_by

_WARNINGS = frozenset(
    {"UpdateRunInitializedFailed", "UpdateRunStuck", "UpdateRunFailed", "StageUpdatingFailed", "ClusterUpdatingFailed"}
)


def advance(
    run: JsonObject, facts: StagedUpdateFacts, *, absent_state: RunState = RunState.INITIALIZE
) -> StagedUpdateStep:
    """Return the next step of a run.

    Args:
        run: The run as stored.
        facts: State of the hub.
        absent_state: Default for ``spec.state``.
    """
    try:
        return _advance(run, facts, absent_state)
    except NotYetError as error:
        return _wait_step(run, StagedUpdateRecord(run, facts.now), str(error))


def is_over(run: JsonObject) -> bool:
    """Return whether a run has ended for good."""
    return is_final(status_of(run))


def _advance(run: JsonObject, facts: StagedUpdateFacts, absent_state: RunState) -> StagedUpdateStep:
    record = StagedUpdateRecord(run, facts.now)
    if is_final(record.status):
        return _step(run, record)
    if status(record.status, INITIALIZED) != TRUE:
        return _begin(run, record, facts)
    state = text_at(run, "spec", "state") or absent_state
    if state == RunState.INITIALIZE:
        return _step(run, record)
    try:
        work = StagePass(run, record, facts, validate(run, record, facts), policy_of(run))
    except RunFailedError as error:
        return _abort(run, record, facts, error)
    try:
        _work(work, is_stopping=state == RunState.STOP)
    except RunFailedError as error:
        return _abort(run, _failed_stage(work, error), facts, error)
    return _step(run, record, work)


def _wait_step(run: JsonObject, record: StagedUpdateRecord, message: str) -> StagedUpdateStep:
    """Return a step that only reports what the run waits for. An initialized run reports it in a condition."""
    if status(record.status, INITIALIZED) != TRUE:
        return StagedUpdateStep(again=RECHECK, waits_for=message)
    old_condition = condition(record.status, PROGRESSING)
    progress_status: ConditionStatus = (
        FALSE if old_condition.get("status") == FALSE else UNKNOWN if old_condition.get("status") == UNKNOWN else TRUE
    )
    record.set_condition(
        record.status,
        PROGRESSING,
        progress_status,
        text_at(old_condition, "reason") or "UpdateRunProgressing",
        f"waits: {message}",
    )
    return replace(_step(run, record), again=RECHECK)


def _begin(run: JsonObject, record: StagedUpdateRecord, facts: StagedUpdateFacts) -> StagedUpdateStep:
    """Initialize a run. The next pass continues with the stored record."""
    try:
        initialization = initialise(run, facts)
    except RunFailedError as error:
        record.set_condition(record.status, INITIALIZED, FALSE, "UpdateRunInitializedFailed", f"{error.cause}: {error}")
        return _step(run, record)
    if initialization.snapshots:
        return StagedUpdateStep(snapshots=initialization.snapshots, again=timedelta())
    record.status.update(initialization.status)
    message = f"uses resource snapshot {initialization.status['resourceSnapshotIndexUsed']}"
    record.set_condition(record.status, INITIALIZED, TRUE, "UpdateRunInitializedSuccessfully", message)
    step = _step(run, record)
    return StagedUpdateStep(
        annotations=initialization.annotations, status=step.status, events=step.events, again=timedelta()
    )


def _work(work: StagePass, *, is_stopping: bool) -> None:
    if is_stopping:
        stop_stage(work)
        return
    if work.validated.at < len(work.validated.stages):
        execute_stage(work)
        return
    execute_deletion(work)
    if status(work.record.deletion, SUCCEEDED) == TRUE:
        work.set_run_progress(FALSE, "UpdateRunSucceeded", "")
        work.record.set_condition(work.record.status, SUCCEEDED, TRUE, "UpdateRunSucceeded", "")


def _failed_stage(work: StagePass, error: RunFailedError) -> StagedUpdateRecord:
    """Return the record with the current stage failed.

    Starts of this pass are not executed, so they are not recorded. Only observations are kept.
    """
    record, at = StagedUpdateRecord(work.run, work.now), work.validated.at
    is_deletion = at == len(work.validated.stages)
    stage, old_stage = (record.deletion, work.record.deletion) if is_deletion else (record.stages[at], work.stage)
    for entry, old_entry in zip(clusters_of(stage), clusters_of(old_stage), strict=True):
        if status(entry, STARTED) == TRUE:
            entry["conditions"] = old_entry["conditions"]
    message = f"{error.cause}: {error}"
    record.set_condition(stage, PROGRESSING, FALSE, "StageUpdatingFailed", message)
    record.set_condition(stage, SUCCEEDED, FALSE, "StageUpdatingFailed", message)
    stage["endTime"] = format_time(work.now)
    return record


def _abort(
    run: JsonObject, record: StagedUpdateRecord, facts: StagedUpdateFacts, error: RunFailedError
) -> StagedUpdateStep:
    """End a run for good. Only the failure policy rolls back, and clusters in flight are not changed."""
    message, rollback = f"{error.cause}: {error}", None
    if error.cause is RunFailureCause.CLUSTERS_FAILED:
        rollback, rollback_message = _rollback(run, record, facts)
        message += rollback_message
    record.set_condition(record.status, PROGRESSING, FALSE, "UpdateRunFailed", message)
    record.set_condition(record.status, SUCCEEDED, FALSE, "UpdateRunFailed", message)
    step = _step(run, record)
    return StagedUpdateStep(rollback=rollback, status=step.status, events=step.events)


def _rollback(run: JsonObject, record: StagedUpdateRecord, facts: StagedUpdateFacts) -> tuple[JsonObject | None, str]:
    """Return the rollback run if the failure policy requires one, and a message about it."""
    policy, index = policy_of(run), previous_index(run)
    if policy is None or policy.on_failure is not OnFailure.ROLLBACK or not changed_clusters(record.stages):
        return None, ""
    if not index:
        return None, "; nothing is rolled back: the clusters had no other resource snapshot before"
    if rollback_name := rolled_back_by(run, facts.runs):
        return None, f"; run {rollback_name} rolls back to resource snapshot {index}"
    name = free_name(name_of(run), "rollback", {name_of(other) for other in facts.runs})
    return rollback_run(run, name, index), f"; run {name} rolls back to resource snapshot {index}"


def _step(run: JsonObject, record: StagedUpdateRecord, work: StagePass | None = None) -> StagedUpdateStep:
    """Return the step that stores the record and performs the actions of the pass."""
    old_status = status_of(run)
    changed = record.status != old_status
    events = tuple(_events(old_status, record.status)) if changed else ()
    if work is None:
        return StagedUpdateStep(status=record.status if changed else None, events=events)
    requeue_after = timedelta() if work.requeue_immediately else min(work.waits, default=None)
    return StagedUpdateStep(
        actions=tuple(work.actions), status=record.status if changed else None, events=events, again=requeue_after
    )


def _events(old_status: JsonObject, new_status: JsonObject) -> Iterator[Event]:
    """Yield Events for every new state of the run and of its stages."""
    for kind in (INITIALIZED, PROGRESSING, SUCCEEDED):
        yield from _event(old_status, new_status, kind, "")
    if status(new_status, SUCCEEDED) or status(new_status, INITIALIZED) != TRUE:
        return
    old_stages = {stage_name(stage): stage for stage in _stages(old_status)}
    for stage in _stages(new_status):
        name = stage_name(stage)
        yield from _event(old_stages.get(name, {}), stage, PROGRESSING, f"stage {name}: ")


def _stages(status: JsonObject) -> list[JsonObject]:
    stages = status.get("stagesStatus") or []
    return [*stages, dict_at(status, "deletionStageStatus")]


def _event(old_owner: JsonObject, new_owner: JsonObject, kind: str, prefix: str) -> Iterator[Event]:
    now = reason(new_owner, kind)
    if not now or now == reason(old_owner, kind) or (kind == SUCCEEDED and now == "UpdateRunFailed"):
        return
    message = prefix + (text_at(condition(new_owner, kind), "message") or now)
    yield Event(now, message, "Warning" if now in _WARNINGS else "Normal")


def stop_stage(work: StagePass) -> None:
    """Finish the clusters in flight, of an update stage or of the deletion stage, without starting others.

    Raises:
        RunFailedError: The run must be aborted.
    """
    is_deletion = work.validated.at == len(work.validated.stages)
    stage = work.record.deletion if is_deletion else work.stage
    if is_deletion:
        record_deletions(work)
    for entry in clusters_of(stage):
        if not is_deletion and is_in_flight(entry):
            work.check(entry)
        elif status(entry, STARTED) == FALSE:
            work.record.drop(entry, STARTED)
    work.raise_failures()
    busy = [cluster_name(entry) for entry in clusters_of(stage) if is_in_flight(entry)]
    if not busy:
        _record_stop(work, stage)
        return
    names_text = ", ".join(busy[:3]) + (f" and {len(busy) - 3} more" if len(busy) > 3 else "")
    work.waits.append(RECHECK)
    work.record.set_condition(stage, PROGRESSING, UNKNOWN, "StageUpdatingStopping", f"waiting for {names_text}")
    if work.stuck:
        message = f"stopping, in flight for more than 5 minutes: {names_text}"
        work.set_run_progress(FALSE, "UpdateRunStuck", message)
    else:
        work.set_run_progress(UNKNOWN, "UpdateRunStopping", f"waiting for {names_text}")


def _record_stop(work: StagePass, stage: JsonObject) -> None:
    """Record the stop on the run and on its current stage, whether or not the stage has started."""
    if reason(stage, PROGRESSING) != "StageUpdatingStopped":
        # The wait after a stage restarts at the stop. Setting Unknown first renews the transition time.
        work.record.set_condition(stage, PROGRESSING, UNKNOWN, "StageUpdatingStopping", "")
        work.record.set_condition(stage, PROGRESSING, FALSE, "StageUpdatingStopped", "")
    work.set_run_progress(FALSE, "UpdateRunStopped", "nothing is in flight. Set spec.state to Run to resume")
