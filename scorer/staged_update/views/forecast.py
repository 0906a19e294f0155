"""Forecast of a run: its stages, their waits, and the earliest end.

The run is initialized and validated as in the engine, so the forecast fails exactly if the engine would refuse the
run. Afterwards only durations are assumed: each cluster takes the given time, approvals are given immediately, and a
cluster that may not be changed now is changed when its hold ends. The run can therefore only take longer, unless it is
changed.

Source: docs/specifications/staged-updates.md 4 to 6.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Final, TypeAlias

from scorer.api.conditions import FALSE, TRUE
from scorer.api.meta import JsonObject
from scorer.api.placement.staged_update import StageTaskType
from scorer.api.unstructured.documents import dicts_at, status_of, text_at, with_metadata
from scorer.api.values.duration import parse_wait_time
from scorer.rollout.snapshots.groups import snapshot_groups
from scorer.rollout.writes import applied
from scorer.staged_update.approval.requests import TaskPlace
from scorer.staged_update.execution.clusters import DesiredBinding
from scorer.staged_update.execution.stage import WAITING, is_in_flight
from scorer.staged_update.facts import ClusterWait, StagedUpdateFacts
from scorer.staged_update.plan.initialization import initialise
from scorer.staged_update.plan.stages import PlannedStage
from scorer.staged_update.plan.validation import Validated, target_snapshot, validate
from scorer.staged_update.policy import FailurePolicy, policy_of
from scorer.staged_update.record import (
    INITIALIZED,
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
from scorer.windows.member_windows import is_about_windows

LONGEST_WAIT: Final = timedelta(days=36500)
NO_TIME: Final = timedelta()
Waits: TypeAlias = Callable[[str, datetime], ClusterWait | None]
"""Why a cluster may not be changed at an instant, or None."""


class ForecastProgress(StrEnum):
    """Progress of a stage or a cluster."""

    DONE = "Done"
    FAILED = "Failed"
    UNDER_WAY = "UnderWay"
    TO_COME = "ToCome"


@dataclass(frozen=True, slots=True)
class ForecastCluster:
    """One cluster of a stage.

    Args:
        name: Name.
        progress: Progress.
        binding: The current binding. None if it does not exist.
        wanted: Content that the run gives it.
        starts: Earliest start. None if it has been started.
        wait: Reason why it may not be changed when its stage can start, or None.
    """

    name: str
    progress: ForecastProgress
    binding: JsonObject | None
    wanted: DesiredBinding
    starts: datetime | None = None
    wait: ClusterWait | None = None


@dataclass(frozen=True, slots=True)
class ForecastTask:
    """A task that a stage waits for.

    Args:
        place: Before or after its clusters.
        type: Approval or TimedWait.
        done: Whether it is complete.
        request: Name of the approval request.
        wait: Length of a timed wait.
        until: Earliest end of a timed wait. None for an approval.
    """

    place: TaskPlace
    type: StageTaskType
    done: bool
    request: str = ""
    wait: timedelta = NO_TIME
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class ForecastStage:
    """One stage.

    Args:
        planned: The computed stage.
        progress: Progress.
        clusters: Clusters, in order.
        tasks: Tasks, in order. Empty for a stage without clusters, which is skipped.
        begins: Earliest start of its first cluster. None once it has started.
        ends: Earliest start of the next stage. None if it is in the past.
    """

    planned: PlannedStage
    progress: ForecastProgress
    clusters: tuple[ForecastCluster, ...]
    tasks: tuple[ForecastTask, ...] = ()
    begins: datetime | None = None
    ends: datetime | None = None

    @property
    def batches(self) -> list[list[str]]:
        """Batches of unfinished clusters: those in flight or next, those after them, and so on."""
        busy = [cluster.name for cluster in self.clusters if cluster.progress is ForecastProgress.UNDER_WAY]
        unstarted = [cluster.name for cluster in self.clusters if cluster.progress is ForecastProgress.TO_COME]
        unfinished = [*busy, *unstarted]
        return [
            unfinished[at : at + self.planned.max_concurrency]
            for at in range(0, len(unfinished), self.planned.max_concurrency)
        ]


@dataclass(frozen=True, slots=True)
class StagedUpdateForecast:
    """Forecast of a run.

    Args:
        run: The run after its initialization.
        facts: State of the hub, with the resource snapshot that the run would create.
        snapshot: Name of the resource snapshot that every cluster gets.
        stages: Stages, in order.
        removed: Clusters that lose the placement at the end, sorted by name.
        ends: Earliest end of the run.
        policy: Failure policy. None: disabled, the run waits for failed clusters.
    """

    run: JsonObject
    facts: StagedUpdateFacts
    snapshot: str
    stages: tuple[ForecastStage, ...]
    removed: tuple[str, ...]
    ends: datetime
    policy: FailurePolicy | None = None


def forecast(
    run: JsonObject, facts: StagedUpdateFacts, each: timedelta = NO_TIME, waits: Waits | None = None
) -> StagedUpdateForecast:
    """Return the forecast of an unfinished run.

    Args:
        run: The run as stored, or a hypothetical one.
        facts: State of the hub. For an uninitialized run, with all inputs of an initialization.
        each: Duration per cluster.
        waits: Returns why a cluster may not be changed at an instant. None means that the current holds apply.

    Raises:
        scorer.staged_update.outcome.RunFailedError: The engine would end the run.
        scorer.staged_update.outcome.NotYetError: The engine would wait.
    """
    run, facts = initialize_run(run, facts)
    record = StagedUpdateRecord(run, facts.now)
    validation, policy = validate(run, record, facts), policy_of(run)
    snapshot, clock = target_snapshot(run, record), facts.now
    clusters = _Clusters(snapshot, facts, validation, record, windows_known=waits is not None)
    stages = []
    for at in range(len(validation.stages)):
        stage = _stage(record, validation, at, clusters)
        if at >= validation.at:
            stage = _Timing(each, waits or partial(_now, facts.waits)).time_stage(stage, record.stages[at], clock)
            clock = stage.ends or clock
        stages.append(stage)
    return StagedUpdateForecast(
        run, facts, snapshot, tuple(stages), tuple(sorted(validation.targets.removed)), clock, policy
    )


def initialize_run(run: JsonObject, facts: StagedUpdateFacts) -> tuple[JsonObject, StagedUpdateFacts]:
    """Return a run after its initialization, and the facts with the resource snapshot that initialization creates.

    Raises:
        scorer.staged_update.outcome.RunFailedError: The run would fail.
        scorer.staged_update.outcome.NotYetError: The run would wait.
    """
    if status(status_of(run), INITIALIZED):
        return run, facts
    initialization = initialise(run, facts)
    if initialization.snapshots:
        documents = applied(
            [document for group in facts.groups for document in group.documents], initialization.snapshots
        )
        facts = replace(facts, groups=snapshot_groups(documents))
        initialization = initialise(run, facts)
    new_run = with_metadata(
        {**run, "status": {**status_of(run), **initialization.status}}, annotations=initialization.annotations
    )
    record = StagedUpdateRecord(new_run, facts.now)
    record.set_condition(record.status, INITIALIZED, TRUE, "UpdateRunInitializedSuccessfully")
    return {**new_run, "status": record.status}, facts


@dataclass(frozen=True, slots=True)
class _Clusters:
    """Parser for the clusters of a record. A recorded wait for a window does not count if the windows are known."""

    snapshot: str
    facts: StagedUpdateFacts
    validated: Validated
    record: StagedUpdateRecord
    windows_known: bool

    def read(self, entry: JsonObject) -> ForecastCluster:
        """Read one entry."""
        name, progress = cluster_name(entry), _progress(entry)
        desired = DesiredBinding.of(entry, self.snapshot, self.record)
        wait = _recorded_wait(entry) if progress is ForecastProgress.TO_COME else None
        if wait is not None and self.windows_known and is_about_windows(wait.message):
            wait = None
        return ForecastCluster(name, progress, self.validated.targets.selected.get(name), desired, wait=wait)


def _recorded_wait(entry: JsonObject) -> ClusterWait | None:
    """Return the recorded reason for not starting a cluster, or None. Its end is only in the message."""
    start_condition = condition(entry, STARTED)
    return ClusterWait(text_at(start_condition, "message")) if text_at(start_condition, "reason") == WAITING else None


def _progress(entry: JsonObject) -> ForecastProgress:
    match status(entry, SUCCEEDED):
        case "":
            return ForecastProgress.UNDER_WAY if is_in_flight(entry) else ForecastProgress.TO_COME
        case outcome:
            return ForecastProgress.DONE if outcome == TRUE else ForecastProgress.FAILED


def _stage(record: StagedUpdateRecord, validation: Validated, at: int, clusters: _Clusters) -> ForecastStage:
    stage, planned_stage = record.stages[at], validation.stages[at]
    entries = tuple(map(clusters.read, clusters_of(stage)))
    if at < validation.at:
        return ForecastStage(planned_stage, ForecastProgress.DONE, entries)
    has_begun = reason(stage, PROGRESSING) not in (
        "",
        "StageUpdatingStopped",
    )  # the run was stopped before the stage started
    began = has_begun or any(item.progress is not ForecastProgress.TO_COME for item in entries)
    return ForecastStage(planned_stage, ForecastProgress.UNDER_WAY if began else ForecastProgress.TO_COME, entries)


def _tasks(
    stage_record: JsonObject, planned_stage: PlannedStage, place: TaskPlace, begins: datetime
) -> Iterator[ForecastTask]:
    """Yield the tasks before or after a stage. A timed wait counts from *begins*."""
    is_before = place is TaskPlace.BEFORE
    waits = planned_stage.stage.before_stage_tasks if is_before else planned_stage.stage.after_stage_tasks
    tasks = dicts_at(stage_record, "beforeStageTaskStatus" if is_before else "afterStageTaskStatus")
    by_type = {text_at(task, "type"): task for task in tasks}
    for task in waits:
        previous = by_type.get(task.type, {})
        if task.type is StageTaskType.APPROVAL:
            is_done = status(previous, REQUEST_APPROVED) == TRUE
            yield ForecastTask(place, task.type, is_done, request=text_at(previous, "approvalRequestName"))
        else:
            wait = min(parse_wait_time(task.wait_time or "0s"), LONGEST_WAIT)
            yield ForecastTask(place, task.type, status(previous, WAIT_ELAPSED) == TRUE, wait=wait, until=begins + wait)


@dataclass(frozen=True, slots=True)
class _Timing:
    """Calculates start and end of stages and clusters.

    Args:
        each: Duration per cluster.
        waits: Returns why a cluster may not be changed at an instant.
    """

    each: timedelta
    waits: Waits

    def time_stage(self, stage: ForecastStage, stage_record: JsonObject, clock: datetime) -> ForecastStage:
        """Return a stage with its start and end, if its predecessors are finished at *clock*."""
        if not stage.clusters:
            return replace(stage, begins=clock, ends=clock)
        stage, done = self._time_starts(stage, stage_record, clock)
        is_waiting = not stage.batches and status(stage_record, PROGRESSING) == FALSE
        since_done = (since(stage_record, PROGRESSING) if is_waiting else None) or done
        tasks = [*_tasks(stage_record, stage.planned, TaskPlace.BEFORE, clock)]
        tasks += _tasks(stage_record, stage.planned, TaskPlace.AFTER, since_done)
        ends = max([done, *(task.until for task in tasks if task.until is not None and not task.done)])
        began = any(cluster.progress is not ForecastProgress.TO_COME for cluster in stage.clusters)
        return replace(stage, tasks=tuple(tasks), begins=None if began else clock, ends=ends)

    def _time_starts(
        self, stage: ForecastStage, stage_record: JsonObject, clock: datetime
    ) -> tuple[ForecastStage, datetime]:
        """Return a stage with the starts of its clusters, and the end of the last one.

        If the clusters have an order, one that may not be changed occupies a slot and is waited for. Otherwise it is
        skipped, and started in the first free slot after its hold ends.
        """
        entries = {cluster_name(entry): entry for entry in clusters_of(stage_record)}
        slots = [
            max(clock, (since(entries[cluster.name], STARTED) or clock) + self.each)
            for cluster in stage.clusters
            if cluster.progress is ForecastProgress.UNDER_WAY
        ]
        slots += [clock] * (min(stage.planned.max_concurrency, len(stage.clusters)) - len(slots))
        heapq.heapify(slots)
        starts: dict[str, datetime] = {}
        for name in self._in_turn(stage, clock):
            starts[name] = self._next_opening(name, heapq.heappop(slots))
            heapq.heappush(slots, starts[name] + self.each)
        clusters = [
            replace(cluster, starts=starts[cluster.name], wait=self.waits(cluster.name, clock) or cluster.wait)
            if cluster.name in starts
            else cluster
            for cluster in stage.clusters
        ]
        return replace(stage, clusters=tuple(clusters)), max(slots)

    def _in_turn(self, stage: ForecastStage, clock: datetime) -> Sequence[str]:
        """Return the unstarted clusters in the order of their start."""
        unstarted = [cluster.name for cluster in stage.clusters if cluster.progress is ForecastProgress.TO_COME]
        if stage.planned.stage.sorting_label_key is not None:
            return unstarted
        return sorted(unstarted, key=lambda name: self._next_opening(name, clock))

    def _next_opening(self, name: str, at: datetime) -> datetime:
        """Return the earliest time, from *at* on, when a cluster may be changed.

        A hold with an unknown end counts as ended.
        """
        wait = self.waits(name, at)
        return at if wait is None or wait.until is None else max(at, wait.until)


def _now(waits: Mapping[str, ClusterWait], name: str, at: datetime) -> ClusterWait | None:
    """Return the current hold of a cluster, if it still applies at *at*."""
    wait = waits.get(name)
    return None if wait is None or (wait.until is not None and wait.until <= at) else wait
