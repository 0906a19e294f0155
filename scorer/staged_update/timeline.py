"""A staged update run as a timeline: stages, the clusters of each, and what is waited for before and after.

Everything is read from the run's own record, tolerantly: it may be shown while the run has hardly begun.

Source: staged-updates.md 2, 6 and 8.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from scorer.api.conditions import FALSE, TRUE, UNKNOWN
from scorer.api.documents import dict_at, dicts_at, status_of, text_at
from scorer.api.duration import parse_wait_time
from scorer.api.int_or_percent import scaled_down
from scorer.api.meta import JsonObject
from scorer.api.staged_update import DELETE_STAGE, StageTaskType
from scorer.rollout.bands import Band, Bar, BarState, Mark, MarkKind, Timeline, condition_in, earliest, time_at

DELETION_BAND: Final = "deletion"
"""What the deletion stage is called where people read it."""

_WAITING: Final = "ClusterUpdatingWaiting"
_SKIPPED: Final = "StageUpdatingSkippedNoClusters"
_NOTHING: Final[Mapping[str, str]] = {}


def run_timeline(run: JsonObject, in_flight: Mapping[str, str] = _NOTHING) -> Timeline:
    """Return the timeline of a run.

    Args:
        run: The run, with its record.
        in_flight: What the bindings say is open on the clusters that are being updated, by cluster.
    """
    status = status_of(run)
    ended = _end(status)
    plans = {text_at(plan, "name"): plan for plan in dicts_at(status, "stagedUpdateStrategySnapshot", "stages")}
    stages = [*dicts_at(status, "stagesStatus"), *filter(None, [dict_at(status, "deletionStageStatus")])]
    bands = tuple(_band(stage, plans.get(text_at(stage, "stageName"), {}), ended, in_flight) for stage in stages)
    begun = earliest(each for band in bands for each in (band.started, *(mark.since for mark in band.marks)))
    return Timeline(bands, begun or time_at(condition_in(status, "Initialized"), "lastTransitionTime"), ended)


def _end(status: JsonObject) -> datetime | None:
    """Return when a run was over."""
    for kind, over in (("Succeeded", (TRUE, FALSE)), ("Initialized", (FALSE,))):
        if (condition := condition_in(status, kind)).get("status") in over:
            return time_at(condition, "lastTransitionTime")
    return None


def _band(stage: JsonObject, plan: JsonObject, run_ended: datetime | None, in_flight: Mapping[str, str]) -> Band:
    name, clusters = text_at(stage, "stageName"), dicts_at(stage, "clusters")
    deletes = name == DELETE_STAGE
    state, is_reached = _stage_state(stage)
    is_reached = is_reached and run_ended is None
    bars = [_bar(entry, run_ended, in_flight, is_reached=is_reached) for entry in clusters]
    return Band(
        DELETION_BAND if deletes else name,
        state,
        tuple(bars),
        _marks(stage, plan),
        time_at(stage, "startTime"),
        time_at(stage, "endTime"),
        None if deletes else _at_once(plan, len(clusters)),
        _trouble(stage),
        deletes,
    )


def _stage_state(stage: JsonObject) -> tuple[str, bool]:
    """Return the state of a stage in words, and whether its clusters have their turn (staged-updates.md 8)."""
    progressing, succeeded = condition_in(stage, "Progressing"), condition_in(stage, "Succeeded").get("status")
    if succeeded == TRUE:
        return ("skipped" if progressing.get("reason") == _SKIPPED else "done"), False
    if succeeded == FALSE:
        return "failed", False
    match progressing.get("status"), progressing.get("reason"):
        case None, _:
            return "not reached", False
        case "True", _:
            return "updating", True
        case status, _ if status == UNKNOWN:
            return "stopping", True
        case _, "StageUpdatingStopped":
            return "stopped", True
        case _:
            return "waiting", True


def _trouble(stage: JsonObject) -> str:
    succeeded = condition_in(stage, "Succeeded")
    return text_at(succeeded, "message") if succeeded.get("status") == FALSE else ""


def _at_once(plan: JsonObject, clusters: int) -> int:
    most = plan.get("maxConcurrency", 1)
    try:
        return scaled_down(most, clusters) if isinstance(most, (int, str)) else 1
    except ValueError:
        return 1


def _bar(entry: JsonObject, run_ended: datetime | None, in_flight: Mapping[str, str], *, is_reached: bool) -> Bar:
    cluster = text_at(entry, "clusterName")
    begun, outcome = condition_in(entry, "Started"), condition_in(entry, "Succeeded")
    if begun.get("status") != TRUE and outcome.get("status") is None:
        detail = text_at(begun, "message") if begun.get("reason") == _WAITING else ""
        return Bar(cluster, BarState.WAITING if is_reached else BarState.NOT_REACHED, detail=detail)
    started, ended = time_at(begun, "lastTransitionTime"), time_at(outcome, "lastTransitionTime")
    match outcome.get("status"):
        case "True":
            return Bar(cluster, BarState.UPDATED, started or ended, ended)
        case "False":
            return Bar(cluster, BarState.FAILED, started or ended, ended, text_at(outcome, "message"))
    if run_ended is not None:
        return Bar(cluster, BarState.LEFT, started, run_ended, "the run ended before the outcome was known")
    return Bar(cluster, BarState.UPDATING, started, detail=in_flight.get(cluster, ""))


def _marks(stage: JsonObject, plan: JsonObject) -> tuple[Mark, ...]:
    before = [_mark(stage, task, plan, before=True) for task in dicts_at(stage, "beforeStageTaskStatus")]
    after = [_mark(stage, task, plan, before=False) for task in dicts_at(stage, "afterStageTaskStatus")]
    return (*before, *after)


def _mark(stage: JsonObject, task: JsonObject, plan: JsonObject, *, before: bool) -> Mark:
    if text_at(task, "type") == StageTaskType.TIMED_WAIT:
        return _timed_wait(stage, task, plan)
    asked, approved = condition_in(task, "ApprovalRequestCreated"), condition_in(task, "ApprovalRequestApproved")
    over = approved.get("status") == TRUE
    return Mark(
        MarkKind.APPROVAL_BEFORE if before else MarkKind.APPROVAL_AFTER,
        time_at(asked, "lastTransitionTime"),
        time_at(approved, "lastTransitionTime") if over else None,
        over,
        text_at(task, "approvalRequestName"),
    )


def _timed_wait(stage: JsonObject, task: JsonObject, plan: JsonObject) -> Mark:
    """Return the wait after a stage; it begins when the last cluster is updated, and anew when the run is stopped."""
    elapsed = condition_in(task, "WaitTimeElapsed")
    over = elapsed.get("status") == TRUE
    length = _wait_time(plan)
    if over:
        ended = time_at(elapsed, "lastTransitionTime")
        return Mark(MarkKind.TIMED_WAIT, _later(ended, None if length is None else -length), ended, over=True)
    since = _waiting_since(stage)
    return Mark(MarkKind.TIMED_WAIT, since, _later(since, length))


def _waiting_since(stage: JsonObject) -> datetime | None:
    """Return since when a stage waits for what comes after its clusters; None: it does not."""
    outcomes = [condition_in(entry, "Succeeded").get("status") for entry in dicts_at(stage, "clusters")]
    progressing = condition_in(stage, "Progressing")
    waits = progressing.get("status") == FALSE and progressing.get("reason") == "StageUpdatingWaiting"
    return time_at(progressing, "lastTransitionTime") if waits and outcomes and set(outcomes) == {TRUE} else None


def _wait_time(plan: JsonObject) -> timedelta | None:
    """Return how long is waited after a stage; None: that cannot be read."""
    tasks = (task for task in dicts_at(plan, "afterStageTasks") if task.get("type") == StageTaskType.TIMED_WAIT)
    try:
        return parse_wait_time(text_at(next(tasks, {}), "waitTime"))
    except ValueError:
        return None


def _later(instant: datetime | None, length: timedelta | None) -> datetime | None:
    """Return an instant moved by a length; None: one of them is unknown, or no calendar has that day."""
    try:
        return None if instant is None or length is None else instant + length
    except OverflowError:
        return None
