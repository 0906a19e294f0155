"""Phase of a run and its waits, read from its record: for tables, pages and exit codes.

`situation_of` makes no decisions and never fails. Missing parts of a record count as not reached.

Source: docs/specifications/staged-updates.md 6 to 8.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from scorer.api.conditions import FALSE, TRUE, UNKNOWN
from scorer.api.meta import JsonObject
from scorer.api.placement.staged_update import DELETE_STAGE, RunState, StageTaskType
from scorer.api.unstructured.documents import (
    dicts_at,
    generation_of,
    has_current_status,
    name_of,
    spec_of,
    status_of,
    text_at,
)
from scorer.api.values.duration import parse_wait_time
from scorer.staged_update.approval.analysis_evaluation import has_automatic_approval, progress_of
from scorer.staged_update.approval.requests import APPROVED, requests_of
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


class RunPhase(StrEnum):
    """The state of a run in one word (staged-updates.md 8)."""

    INITIALIZING = "Initializing"
    INITIALIZED = "Initialized"
    RUNNING = "Running"
    WAITING = "Waiting"
    STUCK = "Stuck"
    STOPPING = "Stopping"
    STOPPED = "Stopped"
    FAILED = "Failed"
    """The run could not be initialized."""
    ABORTED = "Aborted"
    SUCCEEDED = "Succeeded"


OVER: Final = frozenset({RunPhase.FAILED, RunPhase.ABORTED, RunPhase.SUCCEEDED})
"""Terminal phases."""


class RunWaitKind(StrEnum):
    """Event or decision that a run waits for."""

    STATE = "State"
    """A user must set ``spec.state`` to Run."""
    APPROVAL = "Approval"
    TIMED_WAIT = "TimedWait"
    CLUSTER = "Cluster"
    """A cluster in flight: it is being updated, or the placement is being removed from it."""
    HELD = "Held"
    """A cluster that must not be changed now. The message has the reason, and the end if known."""


@dataclass(frozen=True, slots=True)
class RunWait:
    """One cause of a run's waiting.

    Args:
        kind: Kind.
        stage: The stage that waits, empty for the run as a whole.
        cluster: Name of the cluster, empty for waits of a stage or of the run.
        request: Name of the approval request, empty for other waits.
        since: Start of the wait. None: unknown.
        until: End of a timed wait. None: unknown, or another wait.
        answered: Whether it is approved, but the run has not processed the approval yet.
        analysed: Whether an analysis may approve the request.
        message: Human-readable continuation of "waits for".
    """

    kind: RunWaitKind
    stage: str = ""
    cluster: str = ""
    request: str = ""
    since: datetime | None = None
    until: datetime | None = None
    answered: bool = False
    analysed: bool = False
    message: str = ""

    @property
    def needs_person(self) -> bool:
        """Whether the wait ends only by user action."""
        return self.kind in (RunWaitKind.STATE, RunWaitKind.APPROVAL) and not self.answered and not self.analysed


@dataclass(frozen=True, slots=True)
class RunSituation:
    """Situation of a run.

    Args:
        phase: Phase.
        stage: The current or failed stage, empty before initialization and after success.
        waits: Waits, in the order of its record. Empty if it does not wait or has ended.
        message: Message of the run's conditions, possibly empty.
    """

    phase: RunPhase
    stage: str = ""
    waits: tuple[RunWait, ...] = ()
    message: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the run has ended for good."""
        return self.phase in OVER

    @property
    def needs_person(self) -> bool:
        """Whether the run continues only after user action."""
        return any(wait.needs_person for wait in self.waits)


def situation_of(run: JsonObject, requests: Iterable[JsonObject], now: datetime) -> RunSituation:
    """Return the situation of a run.

    Args:
        run: The run as stored.
        requests: Approval requests of its family. Those of other runs are ignored.
        now: Current time, timezone-aware. Decides whether a timed wait has elapsed.
    """
    run_status, stage = status_of(run), current_stage(run)
    phase = _phase(run_status, _state(run), is_current=_is_caught_up(run))
    if phase in OVER or phase is RunPhase.INITIALIZING:
        return RunSituation(phase, stage_name(stage), message=_message(run_status))
    if phase in (RunPhase.INITIALIZED, RunPhase.STOPPED):
        began = since(run_status, INITIALIZED if phase is RunPhase.INITIALIZED else PROGRESSING)
        word = "start" if phase is RunPhase.INITIALIZED else "resume"
        wait = RunWait(RunWaitKind.STATE, since=began, message=f"a user to {word} it")
        return RunSituation(phase, stage_name(stage), (wait,), _message(run_status))
    own = {name_of(request): request for request in requests_of(run, requests)}
    waits = (*_tasks(run_status, stage, own, now), *_clusters(stage, is_stopping=phase is RunPhase.STOPPING))
    return RunSituation(phase, stage_name(stage), waits, _message(run_status))


def stages_of(run: JsonObject) -> list[JsonObject]:
    """Return the recorded stages of a run in order, the deletion stage last if it has any cluster."""
    run_status = status_of(run)
    last = run_status.get("deletionStageStatus")
    return [*dicts_at(run_status, "stagesStatus"), *([last] if isinstance(last, dict) and clusters_of(last) else [])]


def current_stage(run: JsonObject) -> JsonObject:
    """Return the record of the current stage of a run, or an empty mapping."""
    return next((stage for stage in stages_of(run) if status(stage, SUCCEEDED) != TRUE), {})


def _state(run: JsonObject) -> str:
    return text_at(spec_of(run), "state")


def _is_caught_up(run: JsonObject) -> bool:
    """Return whether the record is about the current generation of ``spec``."""
    observed_generation = condition(status_of(run), PROGRESSING).get("observedGeneration") or 0
    return observed_generation == generation_of(run)


def _phase(run_status: JsonObject, state: str, *, is_current: bool) -> RunPhase:
    if status(run_status, INITIALIZED) == FALSE:
        return RunPhase.FAILED
    if status(run_status, SUCCEEDED):
        return RunPhase.SUCCEEDED if status(run_status, SUCCEEDED) == TRUE else RunPhase.ABORTED
    if status(run_status, INITIALIZED) != TRUE:
        return RunPhase.INITIALIZING
    if not status(run_status, PROGRESSING) and state not in (RunState.RUN, RunState.STOP):
        return RunPhase.INITIALIZED
    if not is_current:
        return RunPhase.STOPPING if state == RunState.STOP else RunPhase.RUNNING
    return _progress(run_status)


def _progress(run_status: JsonObject) -> RunPhase:
    """Return the phase in a record that is up to date."""
    if status(run_status, PROGRESSING) == UNKNOWN:
        return RunPhase.STOPPING
    phases = {
        "UpdateRunWaiting": RunPhase.WAITING,
        "UpdateRunStuck": RunPhase.STUCK,
        "UpdateRunStopped": RunPhase.STOPPED,
    }
    return phases.get(reason(run_status, PROGRESSING), RunPhase.RUNNING)


def _message(run_status: JsonObject) -> str:
    """Return the most informative message of the conditions."""
    for kind in (SUCCEEDED, PROGRESSING, INITIALIZED):
        if condition(run_status, kind):
            return text_at(condition(run_status, kind), "message")
    return "the run has not been initialized yet"


def _tasks(
    run_status: JsonObject, stage: JsonObject, requests: Mapping[str, JsonObject], now: datetime
) -> Iterator[RunWait]:
    """Yield the unfinished tasks that a stage waits for, before or after it."""
    if reason(stage, PROGRESSING) != "StageUpdatingWaiting":
        return
    is_done = all(status(entry, SUCCEEDED) for entry in clusters_of(stage))
    word = "after" if is_done else "before"
    for task in dicts_at(stage, f"{word}StageTaskStatus"):
        if task.get("type") == StageTaskType.TIMED_WAIT:
            yield from _timed_wait(run_status, stage, task, now)
        elif status(task, REQUEST_CREATED) == TRUE and status(task, REQUEST_APPROVED) != TRUE:
            yield _approval(stage, task, requests, word)


def _approval(stage: JsonObject, task: JsonObject, requests: Mapping[str, JsonObject], word: str) -> RunWait:
    name = text_at(task, "approvalRequestName")
    request = requests.get(name, {})
    is_approved = has_current_status(request, APPROVED, TRUE)
    message = f"approval of {name} {word} stage {stage_name(stage)}"
    if not is_approved and (progress := progress_of(request)):
        message += f": {progress}"
    return RunWait(
        RunWaitKind.APPROVAL,
        stage_name(stage),
        request=name,
        since=since(task, REQUEST_CREATED),
        answered=is_approved,
        analysed=has_automatic_approval(request),
        message=f"{message}: given, the run is about to continue" if is_approved else message,
    )


def _timed_wait(run_status: JsonObject, stage: JsonObject, task: JsonObject, now: datetime) -> Iterator[RunWait]:
    if status(task, WAIT_ELAPSED) == TRUE:
        return
    began, name = since(stage, PROGRESSING), stage_name(stage)
    until = _end(began, _wait_time(run_status, name))
    if until is None or until > now:
        yield RunWait(
            RunWaitKind.TIMED_WAIT, name, since=began, until=until, message=f"the end of the wait after stage {name}"
        )


def _wait_time(run_status: JsonObject, stage: str) -> str:
    """Return how long a run waits after a stage, empty if unknown."""
    for stage_plan in dicts_at(run_status, "stagedUpdateStrategySnapshot", "stages"):
        if stage_plan.get("name") == stage:
            tasks = dicts_at(stage_plan, "afterStageTasks")
            return next((text_at(task, "waitTime") for task in tasks if task.get("type") == "TimedWait"), "")
    return ""


def _end(began: datetime | None, wait_time: str) -> datetime | None:
    """Return the end of a wait. None: unknown."""
    try:
        return began + max(timedelta(), parse_wait_time(wait_time)) if began is not None else None
    except (ValueError, OverflowError):
        return None


def _clusters(stage: JsonObject, *, is_stopping: bool) -> Iterator[RunWait]:
    """Yield the clusters in flight and those that must not be changed now. A stopping run omits the latter."""
    name = stage_name(stage)
    for entry in clusters_of(stage):
        if status(entry, SUCCEEDED):
            continue
        cluster, began = cluster_name(entry), since(entry, STARTED)
        if status(entry, STARTED) == TRUE:
            message = f"removal from cluster {cluster}" if name == DELETE_STAGE else f"cluster {cluster}"
            yield RunWait(RunWaitKind.CLUSTER, name, cluster, since=began, message=f"{message}: {_start_text(entry)}")
        elif status(entry, STARTED) == FALSE and not is_stopping:
            wait_message = text_at(condition(entry, STARTED), "message")
            yield RunWait(RunWaitKind.HELD, name, cluster, since=began, message=f"cluster {cluster}: {wait_message}")


def _start_text(entry: JsonObject) -> str:
    """Return a message about a cluster in flight."""
    return text_at(condition(entry, STARTED), "message") or "in flight"
