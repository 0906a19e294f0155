"""A staged update run as a timeline: stages with their clusters, and the waits before and after.

Parsing of the run's record is lenient, so that a run can be shown even if it has barely started.

Source: docs/specifications/staged-updates.md 2, 6 and 8.
"""

from datetime import datetime, timedelta
from typing import Final

from scorer.api.conditions import FALSE, TRUE
from scorer.api.meta import JsonObject
from scorer.api.placement.staged_update import DELETE_STAGE, StageTaskType
from scorer.api.unstructured.documents import dicts_at, status_of, text_at
from scorer.api.values.duration import parse_wait_time
from scorer.api.values.int_or_percent import scaled_down
from scorer.rollout.views.timeline import Band, Bar, BarState, Mark, MarkKind, Timeline, earliest, time_at
from scorer.staged_update.execution.stage import WAITING
from scorer.staged_update.phase import stages_of
from scorer.staged_update.record import (
    INITIALIZED,
    PROGRESSING,
    REQUEST_APPROVED,
    REQUEST_CREATED,
    STARTED,
    SUCCEEDED,
    WAIT_ELAPSED,
    cluster_name,
    clusters_of,
    condition,
    reason,
    since,
    stage_name,
    status,
)

DELETION_BAND: Final = "deletion"
"""Name of the deletion stage for users."""

_SKIPPED: Final = "StageUpdatingSkippedNoClusters"
_STOPPED: Final = "StageUpdatingStopped"


def run_timeline(run: JsonObject) -> Timeline:
    """Return the timeline of a run from its record."""
    record = status_of(run)
    end = _end(record)
    plans = {text_at(plan, "name"): plan for plan in dicts_at(record, "stagedUpdateStrategySnapshot", "stages")}
    bands = tuple(_band(stage, plans.get(stage_name(stage), {}), end) for stage in stages_of(run))
    start = earliest(instant for band in bands for instant in (band.started, *(mark.since for mark in band.marks)))
    return Timeline(bands, start or since(record, INITIALIZED), end)


def _end(record: JsonObject) -> datetime | None:
    """Return when a run ended, or None."""
    if status(record, SUCCEEDED) in (TRUE, FALSE):
        return since(record, SUCCEEDED)
    return since(record, INITIALIZED) if status(record, INITIALIZED) == FALSE else None


def _band(stage: JsonObject, plan: JsonObject, run_end: datetime | None) -> Band:
    name, clusters = stage_name(stage), clusters_of(stage)
    deletes = name == DELETE_STAGE
    state, has_turn = _stage_state(stage)
    bars = [_bar(entry, run_end, has_turn=has_turn and run_end is None) for entry in clusters]
    return Band(
        DELETION_BAND if deletes else name,
        state,
        tuple(bars),
        _marks(stage, plan),
        time_at(stage, "startTime"),
        time_at(stage, "endTime"),
        None if deletes else _stage_concurrency(plan, len(clusters)),
        _trouble(stage),
        deletes,
    )


def _stage_state(stage: JsonObject) -> tuple[str, bool]:
    """Return the state of a stage in words, and whether its clusters have their turn (staged-updates.md 8)."""
    if status(stage, SUCCEEDED) == TRUE:
        return ("skipped" if reason(stage, SUCCEEDED) == _SKIPPED else "done"), False
    if status(stage, SUCCEEDED) == FALSE:
        return "failed", False
    match status(stage, PROGRESSING):
        case "":
            return "not reached", False
        case "True":
            return "updating", True
        case "Unknown":
            return "stopping", True
        case _:
            return ("stopped" if reason(stage, PROGRESSING) == _STOPPED else "waiting"), True


def _trouble(stage: JsonObject) -> str:
    return _message(stage, SUCCEEDED) if status(stage, SUCCEEDED) == FALSE else ""


def _message(owner: JsonObject, kind: str) -> str:
    return text_at(condition(owner, kind), "message")


def _stage_concurrency(plan: JsonObject, clusters: int) -> int:
    most = plan.get("maxConcurrency", 1)
    try:
        return scaled_down(most, clusters) if isinstance(most, (int, str)) else 1
    except ValueError:
        return 1


def _bar(entry: JsonObject, run_end: datetime | None, *, has_turn: bool) -> Bar:
    cluster, outcome = cluster_name(entry), status(entry, SUCCEEDED)
    if status(entry, STARTED) != TRUE and not outcome:
        detail = _message(entry, STARTED) if reason(entry, STARTED) == WAITING else ""
        return Bar(cluster, BarState.WAITING if has_turn else BarState.NOT_REACHED, detail=detail)
    start, end = since(entry, STARTED), since(entry, SUCCEEDED)
    if outcome == TRUE:
        return Bar(cluster, BarState.UPDATED, start or end, end)
    if outcome == FALSE:
        return Bar(cluster, BarState.FAILED, start or end, end, _message(entry, SUCCEEDED))
    if run_end is not None:
        return Bar(cluster, BarState.LEFT, start, run_end, "the run ended before the outcome was known")
    return Bar(cluster, BarState.UPDATING, start, detail=_message(entry, STARTED))


def _marks(stage: JsonObject, plan: JsonObject) -> tuple[Mark, ...]:
    marks_before = [_mark(stage, task, plan, is_before=True) for task in dicts_at(stage, "beforeStageTaskStatus")]
    marks_after = [_mark(stage, task, plan, is_before=False) for task in dicts_at(stage, "afterStageTaskStatus")]
    return (*marks_before, *marks_after)


def _mark(stage: JsonObject, task: JsonObject, plan: JsonObject, *, is_before: bool) -> Mark:
    if text_at(task, "type") == StageTaskType.TIMED_WAIT:
        return _timed_wait(stage, task, plan)
    is_over = status(task, REQUEST_APPROVED) == TRUE
    return Mark(
        MarkKind.APPROVAL_BEFORE if is_before else MarkKind.APPROVAL_AFTER,
        since(task, REQUEST_CREATED),
        since(task, REQUEST_APPROVED) if is_over else None,
        is_over,
        text_at(task, "approvalRequestName"),
    )


def _timed_wait(stage: JsonObject, task: JsonObject, plan: JsonObject) -> Mark:
    """Return the wait after a stage.

    It starts when the last cluster is updated, and restarts when the run is stopped.
    """
    length = _wait_time(plan)
    if status(task, WAIT_ELAPSED) == TRUE:
        end = since(task, WAIT_ELAPSED)
        return Mark(MarkKind.TIMED_WAIT, _later(end, None if length is None else -length), end, over=True)
    start = _waiting_since(stage)
    return Mark(MarkKind.TIMED_WAIT, start, _later(start, length))


def _waiting_since(stage: JsonObject) -> datetime | None:
    """Return the time since which a stage waits for the tasks after its clusters, or None."""
    outcomes = {status(entry, SUCCEEDED) for entry in clusters_of(stage)}
    waits = status(stage, PROGRESSING) == FALSE and reason(stage, PROGRESSING) == "StageUpdatingWaiting"
    return since(stage, PROGRESSING) if waits and outcomes and "" not in outcomes else None


def _wait_time(plan: JsonObject) -> timedelta | None:
    """Return the length of the wait after a stage. None: unknown."""
    tasks = (task for task in dicts_at(plan, "afterStageTasks") if task.get("type") == StageTaskType.TIMED_WAIT)
    try:
        return parse_wait_time(text_at(next(tasks, {}), "waitTime"))
    except ValueError:
        return None


def _later(instant: datetime | None, length: timedelta | None) -> datetime | None:
    """Return an instant plus a length. None: unknown or out of range."""
    try:
        return None if instant is None or length is None else instant + length
    except OverflowError:
        return None
