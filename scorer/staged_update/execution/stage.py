"""One pass over the current stage of a run: before-stage approval, clusters, after-stage tasks.

A cluster occupies a slot from its start until its success. A cluster that must not be changed now is skipped. But if
``sortingLabelKey`` defines an order, it keeps its place and occupies a slot, because the clusters after it must come
later.

Source: docs/specifications/staged-updates.md 6; KubeFleet pkg/controllers/updaterun/execution.go.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from scorer.api.conditions import FALSE, TRUE, ConditionStatus
from scorer.api.meta import JsonObject, format_time
from scorer.api.names import UPDATED_BY
from scorer.api.placement.staged_update import StageTaskType
from scorer.api.unstructured.documents import annotation, dicts_at, text_at, uid_of
from scorer.api.values.duration import parse_wait_time
from scorer.api.values.quoting import format_count
from scorer.staged_update.approval.requests import TaskPlace, advance_approval
from scorer.staged_update.execution.clusters import DesiredBinding, binding_problem, has_started, has_succeeded
from scorer.staged_update.facts import ClusterWait, StagedUpdateFacts
from scorer.staged_update.outcome import APPROVAL_RECHECK, RECHECK, Action, RunFailedError, RunFailureCause, Update
from scorer.staged_update.plan.stages import PlannedStage
from scorer.staged_update.plan.validation import Validated, target_snapshot
from scorer.staged_update.policy import FailurePolicy
from scorer.staged_update.record import (
    PROGRESSING,
    REQUEST_APPROVED,
    STARTED,
    SUCCEEDED,
    WAIT_ELAPSED,
    StagedUpdateRecord,
    cluster_name,
    clusters_of,
    condition,
    reason,
    since,
    status,
)

STUCK_AFTER: Final = timedelta(minutes=5)
_MOST_NAMED: Final = 3
_LONGEST_WAIT: Final = timedelta(days=36500)

WAITING: Final = "ClusterUpdatingWaiting"
"""Reason of Started False: the cluster must not be changed now."""


@dataclass(slots=True)
class StagePass:
    """State of one pass over a stage.

    Args:
        run: The run as stored.
        record: Status, mutated in place.
        facts: State of the hub.
        validated: The stages and bindings.
        policy: Failure policy. None: disabled, the run waits for failed clusters.
        actions: Actions to execute.
        waits: Delays after which to requeue.
        stuck: Names of clusters that have been in flight for more than `STUCK_AFTER`.
        failures: Failures that end the run, one per cluster.
        requeue_immediately: Evaluate the run again without delay, for example after the end of a stage.
    """

    run: JsonObject
    record: StagedUpdateRecord
    facts: StagedUpdateFacts
    validated: Validated
    policy: FailurePolicy | None
    actions: list[Action] = field(default_factory=list)
    waits: list[timedelta] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    failures: list[RunFailedError] = field(default_factory=list)
    requeue_immediately: bool = False

    @property
    def now(self) -> datetime:
        """Current time."""
        return self.facts.now

    @property
    def stage(self) -> JsonObject:
        """The current stage, as recorded."""
        return self.record.stages[self.validated.at]

    @property
    def planned(self) -> PlannedStage:
        """The current stage, as planned."""
        return self.validated.stages[self.validated.at]

    def set_run_progress(self, progress_status: ConditionStatus, reason: str, message: str = "") -> None:
        """Set the condition Progressing of the run."""
        self.record.set_condition(self.record.status, PROGRESSING, progress_status, reason, message)

    def set_stage_progress(self, progress_status: ConditionStatus, reason: str, message: str = "") -> None:
        """Set the condition Progressing of the stage."""
        self.record.set_condition(self.stage, PROGRESSING, progress_status, reason, message)

    def wait_of(self, entry: JsonObject) -> ClusterWait | None:
        """Return why a cluster that has not been started must not be changed now, or None."""
        name = cluster_name(entry)
        reason = self.validated.targets.awaited.get(name)
        return self.facts.waits.get(name) if reason is None else ClusterWait(reason)

    def check(self, entry: JsonObject) -> None:
        """Check a cluster in flight.

        Failures are collected, so that all clusters are recorded before one ends the run.
        """
        try:
            check_cluster(self, entry)
        except RunFailedError as failure:
            self.failures.append(failure)

    def raise_failures(self) -> None:
        """Raise the failures that `check` has collected, as one error.

        Raises:
            RunFailedError: A check failed. It has the cause of the first failure, and the messages of up to three more.
        """
        if not self.failures:
            return
        first, *further_failures = self.failures
        more = f"; and {len(further_failures) - _MOST_NAMED} more" if len(further_failures) > _MOST_NAMED else ""
        message = "; ".join(map(str, [first, *further_failures[:_MOST_NAMED]])) + more
        raise RunFailedError(first.cause, message)


def execute_stage(work: StagePass) -> None:
    """Advance the stage.

    Raises:
        RunFailedError: The run must be aborted.
    """
    if not clusters_of(work.stage):
        _skip(work)
    elif not _is_approved_to_start(work):
        name = work.planned.name
        work.set_stage_progress(FALSE, "StageUpdatingWaiting", "waiting for approval to start")
        work.set_run_progress(FALSE, "UpdateRunWaiting", f"waiting for the approval before stage {name}")
        work.waits.append(APPROVAL_RECHECK)
    elif _update_clusters(work):
        _finish_stage(work)


def _skip(work: StagePass) -> None:
    """Finish a stage without clusters. Its tasks are not executed."""
    message = "the stage has no cluster"
    work.set_stage_progress(FALSE, "StageUpdatingSkippedNoClusters", message)
    work.record.set_condition(work.stage, SUCCEEDED, TRUE, "StageUpdatingSkippedNoClusters", message)
    work.stage["startTime"] = work.stage["endTime"] = format_time(work.now)
    work.set_run_progress(TRUE, "UpdateRunProgressing", f"stage {work.planned.name} has no cluster")
    work.requeue_immediately = True


def _is_approved_to_start(work: StagePass) -> bool:
    """Return whether the tasks before the stage are complete, advancing them if not.

    A new approval is recorded in its own pass before anything is started on its basis. Otherwise a crash in between
    would leave a cluster started without a recorded approval.
    """
    tasks = dicts_at(work.stage, "beforeStageTaskStatus")
    if all(status(task, REQUEST_APPROVED) == TRUE for task in tasks):
        return True
    for task in tasks:
        work.actions += advance_approval(
            work.record, task, work.planned.name, TaskPlace.BEFORE, work.run, work.facts.requests
        )
    work.requeue_immediately = all(status(task, REQUEST_APPROVED) == TRUE for task in tasks)
    return False


def _update_clusters(work: StagePass) -> bool:
    """Check the clusters in flight, start the next ones, and return whether all are done.

    Raises:
        RunFailedError: The run must be aborted.
    """
    stage = clusters_of(work.stage)
    failed = _failed_clusters(stage)
    for entry in stage:
        if not _is_done(entry, work.policy) and _is_under_way(work, entry):
            work.check(entry)
    work.raise_failures()
    _check_failures(work)
    slots = work.planned.max_concurrency - sum(is_in_flight(entry) for entry in stage)
    if _failed_clusters(stage) != failed:  # recorded first: until then, the cluster may succeed and needs its slot
        slots, work.requeue_immediately = 0, True
    waiting_entries = _start_next(work, [entry for entry in stage if not status(entry, SUCCEEDED)], slots)
    is_open = any(not status(entry, SUCCEEDED) for entry in stage)
    if is_open:
        _tell_progress(work, waiting_entries)
        work.waits.append(RECHECK)
    return not is_open


def is_in_flight(entry: JsonObject) -> bool:
    """Return whether a cluster has been started and has no outcome yet."""
    return status(entry, STARTED) == TRUE and not status(entry, SUCCEEDED)


def _start_next(work: StagePass, entries: list[JsonObject], slots: int) -> list[JsonObject]:
    """Start as many clusters as there are slots. Return those that must not be changed now."""
    is_sorted = work.planned.stage.sorting_label_key is not None
    waiting_entries: list[JsonObject] = []
    for entry in entries:
        if status(entry, STARTED) == TRUE:
            continue
        wait = work.wait_of(entry)
        if slots <= 0:
            if wait is None:  # it now waits only for a slot
                work.record.drop(entry, STARTED)
        elif wait is None:
            slots -= 0 if _start(work, entry) else 1
        else:
            hold_back(work, entry, wait)
            waiting_entries.append(entry)
            slots -= is_sorted
    return waiting_entries


def hold_back(work: StagePass, entry: JsonObject, wait: ClusterWait) -> None:
    """Record on a cluster why it must not be changed now."""
    work.record.set_condition(entry, STARTED, FALSE, WAITING, wait.message)
    if wait.until is not None:
        work.waits.append(max(timedelta(), wait.until - work.now))


def _is_done(entry: JsonObject, policy: FailurePolicy | None) -> bool:
    """Return whether a cluster is done: it has succeeded, or it has failed and there is a failure policy.

    Raises:
        RunFailedError: The cluster has failed, and there is no failure policy.
    """
    success = status(entry, SUCCEEDED)
    if success == FALSE and policy is None:
        raise RunFailedError(RunFailureCause.PREEMPTED, f"cluster {cluster_name(entry)} failed earlier in this run")
    return success != ""


def _binding(work: StagePass, entry: JsonObject) -> JsonObject:
    name = cluster_name(entry)
    binding = work.validated.targets.selected.get(name)
    if binding is None:
        raise RunFailedError(RunFailureCause.BINDING_GONE, f"the binding of cluster {name} is deleted")
    return binding


def _desired_binding(work: StagePass, entry: JsonObject) -> DesiredBinding:
    return DesiredBinding.of(entry, target_snapshot(work.run, work.record), work.record)


def _is_under_way(work: StagePass, entry: JsonObject) -> bool:
    """Return whether this run has started a cluster. Record the start if a crash has prevented that."""
    if status(entry, STARTED) == TRUE:
        return True
    binding = work.validated.targets.selected.get(cluster_name(entry))
    if binding is None or annotation(binding, UPDATED_BY) != uid_of(work.run):
        return False
    if not uid_of(work.run) or not _desired_binding(work, entry).is_met(binding):
        return False
    work.record.set_condition(entry, STARTED, TRUE, "ClusterUpdatingStarted", "")
    return True


def _start(work: StagePass, entry: JsonObject) -> bool:
    """Start a cluster. Return whether it is done already.

    A cluster that has the content but fails is started as well, so that it can become stuck (DR-8).
    """
    name, binding, desired = cluster_name(entry), _binding(work, entry), _desired_binding(work, entry)
    target = desired.bind(binding, uid_of(work.run))
    ready = target is binding and has_started(binding)
    if not ready:
        message = f"update run {text_at(work.run, 'metadata', 'name')} rolls out {desired.snapshot} to {name}"
        work.actions.append(Update(name, binding, target, message))
    work.record.set_condition(entry, STARTED, TRUE, "ClusterUpdatingStarted", "")
    if "startTime" not in work.stage:
        work.stage["startTime"] = format_time(work.now)
    if ready and has_succeeded(binding):
        _succeed(work, entry)
        return True
    return False


def check_cluster(work: StagePass, entry: JsonObject) -> bool:
    """Check a cluster in flight and return whether it is done.

    A binding without the condition RolloutStarted still belongs to this run as long as it has the desired spec: the
    condition is stored after the spec, and a crash may have occurred in between.

    A binding that is being deleted is not evaluated. If a user deleted it, it is created again from its Works, and the
    update continues. After an eviction, the new binding differs.

    Raises:
        RunFailedError: The binding of the cluster no longer exists, or another client has changed it.
    """
    name = cluster_name(entry)
    if reason := work.validated.targets.awaited.get(name, ""):
        work.record.set_condition(entry, STARTED, TRUE, "ClusterUpdatingStarted", reason)
        return _is_too_late(work, entry, reason)
    binding = _binding(work, entry)
    desired = _desired_binding(work, entry)
    if not desired.is_met(binding):
        work.record.set_condition(
            entry, SUCCEEDED, FALSE, "ClusterUpdatingFailed", "its binding was changed by another client"
        )
        message = (
            f"another run or a user changed the binding of cluster {name} during its update: the binding has "
            f"{text_at(binding, 'spec', 'resourceSnapshotName')[:100] or 'no snapshot'}"
        )
        raise RunFailedError(RunFailureCause.PREEMPTED, message)
    if not has_started(binding):
        run = text_at(work.run, "metadata", "name")
        message = f"update run {run} rolls out {desired.snapshot} to {name}"
        work.actions.append(Update(name, binding, binding, message))
        return False
    if has_succeeded(binding):
        _succeed(work, entry)
        return True
    problem = binding_problem(binding)
    work.record.set_condition(entry, STARTED, TRUE, "ClusterUpdatingStarted", problem)
    return _is_too_late(work, entry, problem)


def _succeed(work: StagePass, entry: JsonObject) -> None:
    work.record.set_condition(entry, STARTED, TRUE, "ClusterUpdatingStarted", "")
    work.record.set_condition(entry, SUCCEEDED, TRUE, "ClusterUpdatingSucceeded", "")


def _is_too_late(work: StagePass, entry: JsonObject, problem: str) -> bool:
    """Record a cluster that exceeds the time limit, and return whether the failure policy gives it up.

    Args:
        work: The pass.
        entry: A cluster in flight.
        problem: Problem with the cluster, empty if unknown.
    """
    start_time = since(entry, STARTED) or work.now
    age = work.now - start_time
    if work.policy is not None:
        remaining_time = work.policy.deadline - age
        if remaining_time <= timedelta():
            problem_text = problem or "not available"
            message = f"missed its deadline of {int(work.policy.deadline.total_seconds())} s: {problem_text}"
            work.record.set_condition(entry, SUCCEEDED, FALSE, "ClusterUpdatingFailed", message)
            return True
        work.waits.append(remaining_time)
    if age > STUCK_AFTER:
        work.stuck.append(cluster_name(entry))
    return False


def _failed_clusters(entries: Sequence[JsonObject]) -> list[str]:
    """Return the names of the failed clusters."""
    return [cluster_name(entry) for entry in entries if status(entry, SUCCEEDED) == FALSE]


def _check_failures(work: StagePass) -> None:
    """Raise `RunFailedError` if more clusters of the stage have failed than the policy tolerates."""
    if work.policy is None:
        return
    failed = _failed_clusters(clusters_of(work.stage))
    if len(failed) > work.policy.max_failures:
        message = (
            f"{format_count(len(failed), 'cluster')} of stage {work.planned.name} failed, more than the "
            f"{work.policy.max_failures} allowed: {_join_names(failed)}"
        )
        raise RunFailedError(RunFailureCause.CLUSTERS_FAILED, message)


def _tell_progress(work: StagePass, waiting_entries: list[JsonObject]) -> None:
    """Record the progress of an unfinished stage. It is Started even if it was only resumed (DR-7).

    Args:
        work: The pass.
        waiting_entries: Clusters that must not be changed now.
    """
    name = work.planned.name
    work.set_stage_progress(TRUE, "StageUpdatingStarted", "")
    if work.stuck:
        message = f"clusters of stage {name} have been in flight for more than 5 minutes: {_join_names(work.stuck)}"
        work.set_run_progress(FALSE, "UpdateRunStuck", message)
    elif waiting_entries and not any(is_in_flight(entry) for entry in clusters_of(work.stage)):
        cluster, wait_message = (
            cluster_name(waiting_entries[0]),
            text_at(condition(waiting_entries[0], STARTED), "message"),
        )
        work.set_run_progress(TRUE, "UpdateRunProgressing", f"cluster {cluster} of stage {name} waits: {wait_message}")
    else:
        work.set_run_progress(TRUE, "UpdateRunProgressing", f"updates stage {name}")


def _finish_stage(work: StagePass) -> None:
    """Advance the tasks after the stage, whose clusters are all done, and finish the stage if they are complete."""
    name, stage = work.planned.name, work.stage
    if reason(stage, PROGRESSING) != "StageUpdatingWaiting":
        work.set_stage_progress(FALSE, "StageUpdatingWaiting", "all clusters are done")
    missing = list(_open_tasks(work))
    if not missing:
        work.set_stage_progress(FALSE, "StageUpdatingSucceeded", "")
        work.record.set_condition(stage, SUCCEEDED, TRUE, "StageUpdatingSucceeded", "")
        stage["endTime"] = format_time(work.now)
        work.set_run_progress(TRUE, "UpdateRunProgressing", f"stage {name} has succeeded")
        work.requeue_immediately = True
        return
    message = f"waiting after stage {name}: {' and '.join(missing)}"
    work.set_stage_progress(FALSE, "StageUpdatingWaiting", f"waiting for {' and '.join(missing)}")
    work.set_run_progress(FALSE, "UpdateRunWaiting", message)


def _open_tasks(work: StagePass) -> Iterator[str]:
    """Advance all tasks after the stage concurrently. Yield descriptions of the unfinished ones."""
    for task in dicts_at(work.stage, "afterStageTaskStatus"):
        if task.get("type") == StageTaskType.TIMED_WAIT:
            if (until := _wait_end(work, task)) is not None:
                yield f"the end of its wait at {format_time(until)}"
            continue
        work.actions += advance_approval(
            work.record, task, work.planned.name, TaskPlace.AFTER, work.run, work.facts.requests
        )
        if status(task, REQUEST_APPROVED) != TRUE:
            work.waits.append(APPROVAL_RECHECK)
            yield f"the approval {text_at(task, 'approvalRequestName')}"


def _wait_end(work: StagePass, task: JsonObject) -> datetime | None:
    """Return the end of the timed wait, or None if it has elapsed.

    WaitTimeElapsed is set once it has elapsed. Until then, the run is requeued at its end.
    """
    if status(task, WAIT_ELAPSED) == TRUE:
        return None
    began = since(work.stage, PROGRESSING) or work.now
    waits = (
        task.wait_time
        for task in work.planned.stage.after_stage_tasks
        if task.type is StageTaskType.TIMED_WAIT and task.wait_time
    )
    until = began + min(parse_wait_time(next(waits, "0s")), _LONGEST_WAIT)
    if until <= work.now:
        work.record.set_condition(task, WAIT_ELAPSED, TRUE, "AfterStageTaskWaitTimeElapsed", "")
        return None
    work.waits.append(until - work.now)
    return until


def _join_names(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
