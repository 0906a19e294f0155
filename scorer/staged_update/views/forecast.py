"""How a run would go from here: its stages, what they wait for, and when it would be done at the earliest.

The run is initialised and validated as the engine does it; what the engine would refuse is what is found here. From
there on nothing is guessed but time: a cluster takes as long as the caller says, approvals are given at once, and a
cluster that may not be touched now is touched when that ends. So the run can only take longer, unless it is changed.

Source: issue 16, item 5; staged-updates.md 4 to 6.
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

LONGEST_WAIT: Final = timedelta(days=36500)
NO_TIME: Final = timedelta()
Waits: TypeAlias = Callable[[str, datetime], ClusterWait | None]
"""Why a cluster may not be touched at an instant; None: it may."""


class ForecastProgress(StrEnum):
    """How far a stage or a cluster is."""

    DONE = "Done"
    FAILED = "Failed"
    UNDER_WAY = "UnderWay"
    TO_COME = "ToCome"


@dataclass(frozen=True, slots=True)
class ForecastCluster:
    """One cluster of a stage.

    Args:
        name: Its name.
        progress: How far it is.
        binding: As it is now; None: it is gone.
        wanted: What the run gives it.
        starts: When it is started at the earliest; None: it has been.
        wait: Why it may not be touched when its stage can begin; None: it may.
    """

    name: str
    progress: ForecastProgress
    binding: JsonObject | None
    wanted: DesiredBinding
    starts: datetime | None = None
    wait: ClusterWait | None = None


@dataclass(frozen=True, slots=True)
class ForecastTask:
    """Something that a stage waits for.

    Args:
        place: Before or after its clusters.
        type: Approval or TimedWait.
        done: Whether that is over.
        request: Name of the approval request, for whoever may approve.
        wait: How long a timed wait is.
        until: When a timed wait ends at the earliest.
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
        planned: As it was computed.
        progress: How far it is.
        clusters: In order.
        tasks: What it waits for, in order; none where it has no cluster, as it is skipped.
        begins: When its first cluster may be started; None: that is past.
        ends: When the next stage may begin; None: that is past.
    """

    planned: PlannedStage
    progress: ForecastProgress
    clusters: tuple[ForecastCluster, ...]
    tasks: tuple[ForecastTask, ...] = ()
    begins: datetime | None = None
    ends: datetime | None = None

    @property
    def batches(self) -> list[list[str]]:
        """The clusters that are not done: those that are in flight or can be next, those after them, and so on."""
        busy = [cluster.name for cluster in self.clusters if cluster.progress is ForecastProgress.UNDER_WAY]
        to_come = [cluster.name for cluster in self.clusters if cluster.progress is ForecastProgress.TO_COME]
        left = [*busy, *to_come]
        return [
            left[at : at + self.planned.max_concurrency] for at in range(0, len(left), self.planned.max_concurrency)
        ]


@dataclass(frozen=True, slots=True)
class StagedUpdateForecast:
    """How a run would go.

    Args:
        run: As it is after its initialisation.
        facts: The hub, with the resource snapshot that the run would make.
        snapshot: Name of the resource snapshot that every cluster gets.
        stages: In order.
        removed: The clusters that lose the placement at the end, by name.
        ends: When the run is done at the earliest.
        policy: What happens when clusters fail; None: they are waited for.
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
    """Say how a run that is not over would go.

    Args:
        run: As it is stored, or as it would be.
        facts: The hub around it; everything that an initialisation needs if the run has not been initialised.
        each: How long a cluster takes.
        waits: The clusters that may not be touched, at any instant; None: those that may not now.

    Raises:
        scorer.staged_update.outcome.RunFailedError: The engine would end the run.
        scorer.staged_update.outcome.NotYetError: The engine would wait before it decides.
    """
    run, facts = as_initialised(run, facts)
    record = StagedUpdateRecord(run, facts.now)
    validated, policy = validate(run, record, facts), policy_of(run)
    snapshot, clock = target_snapshot(run, record), facts.now
    stages = []
    for at in range(len(validated.stages)):
        stage = _stage(record, validated, at, _Clusters(snapshot, facts, validated, record))
        if at >= validated.at:
            stage = _Timing(each, waits or partial(_now, facts.waits)).timed(stage, record.stages[at], clock)
            clock = stage.ends or clock
        stages.append(stage)
    return StagedUpdateForecast(
        run, facts, snapshot, tuple(stages), tuple(sorted(validated.targets.removed)), clock, policy
    )


def as_initialised(run: JsonObject, facts: StagedUpdateFacts) -> tuple[JsonObject, StagedUpdateFacts]:
    """Return a run as its initialisation leaves it, and the hub with the resource snapshot that it makes.

    Raises:
        scorer.staged_update.outcome.RunFailedError: It is refused.
        scorer.staged_update.outcome.NotYetError: It has to wait.
    """
    if status(status_of(run), INITIALIZED):
        return run, facts
    prepared = initialise(run, facts)
    if prepared.snapshots:
        documents = applied([document for group in facts.groups for document in group.documents], prepared.snapshots)
        facts = replace(facts, groups=snapshot_groups(documents))
        prepared = initialise(run, facts)
    initialized = with_metadata(
        {**run, "status": {**status_of(run), **prepared.status}}, annotations=prepared.annotations
    )
    record = StagedUpdateRecord(initialized, facts.now)
    record.set_condition(record.status, INITIALIZED, TRUE, "UpdateRunInitializedSuccessfully")
    return {**initialized, "status": record.status}, facts


@dataclass(frozen=True, slots=True)
class _Clusters:
    """Reads the clusters of a record."""

    snapshot: str
    facts: StagedUpdateFacts
    validated: Validated
    record: StagedUpdateRecord

    def read(self, entry: JsonObject) -> ForecastCluster:
        """Read one entry."""
        name, progress = cluster_name(entry), _progress(entry)
        desired = DesiredBinding.of(entry, self.snapshot, self.record)
        wait = _noted(entry) if progress is ForecastProgress.TO_COME else None
        return ForecastCluster(name, progress, self.validated.targets.selected.get(name), desired, wait=wait)


def _noted(entry: JsonObject) -> ClusterWait | None:
    """Return the reason that the loop has noted for not starting a cluster; until when it holds is in its words."""
    started = condition(entry, STARTED)
    return ClusterWait(text_at(started, "message")) if text_at(started, "reason") == WAITING else None


def _progress(entry: JsonObject) -> ForecastProgress:
    match status(entry, SUCCEEDED):
        case "":
            return ForecastProgress.UNDER_WAY if is_in_flight(entry) else ForecastProgress.TO_COME
        case found:
            return ForecastProgress.DONE if found == TRUE else ForecastProgress.FAILED


def _stage(record: StagedUpdateRecord, validated: Validated, at: int, clusters: _Clusters) -> ForecastStage:
    stage, planned = record.stages[at], validated.stages[at]
    entries = tuple(map(clusters.read, clusters_of(stage)))
    if at < validated.at:
        return ForecastStage(planned, ForecastProgress.DONE, entries)
    has_begun = reason(stage, PROGRESSING) not in (
        "",
        "StageUpdatingStopped",
    )  # the run was stopped first
    began = has_begun or any(each.progress is not ForecastProgress.TO_COME for each in entries)
    return ForecastStage(planned, ForecastProgress.UNDER_WAY if began else ForecastProgress.TO_COME, entries)


def _tasks(recorded: JsonObject, planned: PlannedStage, place: TaskPlace, begins: datetime) -> Iterator[ForecastTask]:
    """Yield the tasks before or after a stage; a timed wait counts from *begins*."""
    before = place is TaskPlace.BEFORE
    waits = planned.stage.before_stage_tasks if before else planned.stage.after_stage_tasks
    tasks = dicts_at(recorded, "beforeStageTaskStatus" if before else "afterStageTaskStatus")
    by_type = {text_at(task, "type"): task for task in tasks}
    for task in waits:
        previous = by_type.get(task.type, {})
        if task.type is StageTaskType.APPROVAL:
            done = status(previous, REQUEST_APPROVED) == TRUE
            yield ForecastTask(place, task.type, done, request=text_at(previous, "approvalRequestName"))
        else:
            wait = min(parse_wait_time(task.wait_time or "0s"), LONGEST_WAIT)
            yield ForecastTask(place, task.type, status(previous, WAIT_ELAPSED) == TRUE, wait=wait, until=begins + wait)


@dataclass(frozen=True, slots=True)
class _Timing:
    """Says when stages and clusters begin and end.

    Args:
        each: How long a cluster takes.
        waits: The clusters that may not be touched.
    """

    each: timedelta
    waits: Waits

    def timed(self, stage: ForecastStage, recorded: JsonObject, clock: datetime) -> ForecastStage:
        """Say when a stage begins and ends that can begin at *clock*, apart from what comes before it."""
        if not stage.clusters:
            return replace(stage, begins=clock, ends=clock)
        stage, done = self._started(stage, recorded, clock)
        waiting = not stage.batches and status(recorded, PROGRESSING) == FALSE
        since_done = (since(recorded, PROGRESSING) if waiting else None) or done
        tasks = [*_tasks(recorded, stage.planned, TaskPlace.BEFORE, clock)]
        tasks += _tasks(recorded, stage.planned, TaskPlace.AFTER, since_done)
        ends = max([done, *(task.until for task in tasks if task.until is not None and not task.done)])
        began = any(cluster.progress is not ForecastProgress.TO_COME for cluster in stage.clusters)
        return replace(stage, tasks=tuple(tasks), begins=None if began else clock, ends=ends)

    def _started(self, stage: ForecastStage, recorded: JsonObject, clock: datetime) -> tuple[ForecastStage, datetime]:
        """Say when the clusters of a stage are started, and when all are done.

        Where the clusters have an order, one that may not be touched takes a slot and is waited for; else it is passed
        over, and started in the first slot that is free once it may be touched.
        """
        entries = {cluster_name(entry): entry for entry in clusters_of(recorded)}
        slots = [
            max(clock, (since(entries[cluster.name], STARTED) or clock) + self.each)
            for cluster in stage.clusters
            if cluster.progress is ForecastProgress.UNDER_WAY
        ]
        slots += [clock] * (min(stage.planned.max_concurrency, len(stage.clusters)) - len(slots))
        heapq.heapify(slots)
        starts: dict[str, datetime] = {}
        for name in self._in_turn(stage, clock):
            starts[name] = self._opening(name, heapq.heappop(slots))
            heapq.heappush(slots, starts[name] + self.each)
        clusters = [
            replace(cluster, starts=starts[cluster.name], wait=self.waits(cluster.name, clock) or cluster.wait)
            if cluster.name in starts
            else cluster
            for cluster in stage.clusters
        ]
        return replace(stage, clusters=tuple(clusters)), max(slots)

    def _in_turn(self, stage: ForecastStage, clock: datetime) -> Sequence[str]:
        """Return the clusters that are to come, in the order in which they are started."""
        to_come = [cluster.name for cluster in stage.clusters if cluster.progress is ForecastProgress.TO_COME]
        if stage.planned.stage.sorting_label_key is not None:
            return to_come
        return sorted(to_come, key=lambda name: self._opening(name, clock))

    def _opening(self, name: str, at: datetime) -> datetime:
        """Return when a cluster may be touched from *at* on; one for which nobody knows counts as if at once."""
        wait = self.waits(name, at)
        return at if wait is None or wait.until is None else max(at, wait.until)


def _now(waits: Mapping[str, ClusterWait], name: str, at: datetime) -> ClusterWait | None:
    """Look among the clusters that may not be touched now, for what still holds then."""
    wait = waits.get(name)
    return None if wait is None or (wait.until is not None and wait.until <= at) else wait
