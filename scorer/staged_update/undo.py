"""Undo: a user rolls back the changes of a run with another run, to the previous resource snapshot.

The failure policy does the same automatically: `scorer.staged_update.rollback`.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from scorer.api.conditions import TRUE
from scorer.api.meta import JsonObject
from scorer.api.names import PREVIOUS_INDEX, ROLLBACK_OF
from scorer.api.unstructured.documents import annotation, dicts_at, name_of, status_of, text_at
from scorer.staged_update.orders import RunOrderRefusedError, index_used
from scorer.staged_update.phase import OVER, RunPhase, RunSituation
from scorer.staged_update.record import STARTED, SUCCEEDED, clusters_of, condition, is_final, status
from scorer.staged_update.rollback import NO_INDEX, changed_clusters, free_name, previous_index, rollback_run

_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True, eq=False)
class UndoRecord:
    """The parts of a run that decide whether it, or an older run, can be undone. Not updated when the run changes.

    Args:
        run: The run.
        last_start: Start time of its last started cluster, and its creation time. Both are empty without a start.
        rollback_of: Name of the run that it rolls back, empty if none.
        is_final: Whether it has ended.
        has_succeeded: Whether it has succeeded.
    """

    run: JsonObject
    last_start: tuple[str, str]
    rollback_of: str
    is_final: bool
    has_succeeded: bool

    @classmethod
    def of(cls, run: JsonObject) -> Self:
        """Return the record of a run."""
        report = status_of(run)
        return cls(
            run,
            _last_start(run),
            annotation(run, ROLLBACK_OF),
            is_final(report),
            status(report, SUCCEEDED) == TRUE,
        )

    @property
    def name(self) -> str:
        """Name of the run."""
        return name_of(self.run)

    @property
    def created(self) -> str:
        """Creation time of the run."""
        return text_at(self.run, "metadata", "creationTimestamp")


class PlacementRuns:
    """All runs of one placement.

    A run that was rolled back has no effect on older runs, nor has its rollback: together they changed nothing. Runs
    between the two are affected, because the rollback reverted them as well. A rollback that was itself rolled back
    does not count, so the run that it rolled back is in effect again.

    Args:
        records: The runs.
    """

    def __init__(self, records: Iterable[UndoRecord]) -> None:
        self._rollbacks = defaultdict[str, list[UndoRecord]](list)
        """Rollback runs, by the name of the run that they roll back."""
        started: list[UndoRecord] = []
        for record in records:
            if record.rollback_of:
                self._rollbacks[record.rollback_of].append(record)
            if record.last_start[0]:
                started.append(record)
        started.sort(key=_by_start)
        self._undone: dict[str, UndoRecord] = {}
        """Runs that were rolled back, by name."""
        for record in reversed(started):  # the newest first: whether a run is undone depends on its later rollbacks
            if any(self._undoes(other, record) for other in self._rollbacks.get(record.name, ())):
                self._undone[record.name] = record
        self._counting = [record for record in started if not {record.name, record.rollback_of} & self._undone.keys()]
        """Runs that affect all older runs, by their start."""
        self._reverting: list[tuple[UndoRecord, UndoRecord]] = []
        """Runs that were rolled back, each with its rollback, if other runs are between the two."""
        for rollback in started:
            original = self._undone.get(rollback.rollback_of)
            if original is None or rollback.name in self._undone:
                continue
            first, end = (bisect_left(started, record.last_start, key=_by_start) for record in (original, rollback))
            if end - first > 1:
                self._reverting.append((original, rollback))

    def undo_of(self, record: UndoRecord) -> str:
        """Return the name of a run that rolls back *record*, in progress or successful, or an empty string."""
        for other in self._rollbacks.get(record.name, ()):
            is_pending = not other.is_final and other.created >= record.created and other.name not in self._undone
            if is_pending or self._undoes(other, record):
                return other.name
        return ""

    def newer(self, record: UndoRecord) -> list[UndoRecord]:
        """Return the runs that have changed clusters after *record*, or in the same second, the oldest first.

        The page lists thousands of runs, so a call must not execute code for each newer run.
        """
        start = record.last_start
        first, end = (find(self._counting, start, key=_by_start) for find in (bisect_left, bisect_right))
        own_names = record.name, record.rollback_of
        tied = [other for other in self._counting[first:end] if other.name not in own_names]
        newer = [*tied, *self._counting[end:]]
        reverting = [
            rollback for original, rollback in self._reverting if original.last_start <= start < rollback.last_start
        ]
        if reverting:
            newer = sorted([*newer, *reverting], key=_by_start)
        if record.name in self._rollbacks:
            newer = [other for other in newer if other.rollback_of != record.name]
        return newer

    def _undoes(self, rollback: UndoRecord, record: UndoRecord) -> bool:
        """Return whether *rollback* has rolled back *record*, and was not itself rolled back."""
        return rollback.has_succeeded and rollback.last_start > record.last_start and rollback.name not in self._undone


def _by_start(record: UndoRecord) -> tuple[str, str]:
    return record.last_start


def undo(
    run: JsonObject,
    situation: RunSituation,
    runs: Iterable[JsonObject],
    retained_indices: Collection[int],
    *,
    force: bool = False,
) -> JsonObject:
    """Return the run that undoes another one.

    Args:
        run: The run to undo.
        situation: Situation of the run.
        runs: All runs of its family and namespace.
        retained_indices: Indexes of the placement's existing resource snapshots.
        force: Also undo the changes of newer runs.

    Raises:
        RunOrderRefusedError: The run is neither finished nor stopped, was undone already, or has changed nothing. Or
            its previous resource snapshot is unavailable, or a newer run exists and *force* is False.
    """
    other_runs, record = list(runs), UndoRecord.of(run)
    others = (UndoRecord.of(other) for other in other_runs if _same_placement(run, other))
    index = undo_target(record, situation.phase, PlacementRuns([record, *others]), retained_indices, force=force)
    return rollback_run(run, free_name(name_of(run), "undo", {name_of(other) for other in other_runs}), index)


def undo_target(
    record: UndoRecord,
    phase: RunPhase,
    placement_runs: PlacementRuns,
    retained_indices: Collection[int] | None,
    *,
    force: bool = False,
) -> str:
    """Return the index of the resource snapshot that an undo of a run rolls back to.

    Args:
        record: The run to undo.
        phase: Phase of the run.
        placement_runs: All runs of its placement.
        retained_indices: Indexes of the placement's existing resource snapshots. None: unknown.
        force: Also undo the changes of newer runs.

    Raises:
        RunOrderRefusedError: See `undo`.
    """
    run, name = record.run, record.name
    if not changed_clusters(dicts_at(status_of(run), "stagesStatus")):
        raise RunOrderRefusedError(f"run {name} has changed no cluster ({phase}): nothing to undo")
    if phase not in OVER and phase is not RunPhase.STOPPED:
        raise RunOrderRefusedError(f"run {name} is not finished ({phase}). Stop it first")
    if existing_undo := placement_runs.undo_of(record):
        raise RunOrderRefusedError(f"run {existing_undo} already undoes run {name}")
    if not force:
        _check_newest(record, placement_runs)
    index = undo_index(run, retained_indices)
    if index == index_used(run):
        raise RunOrderRefusedError(
            f"run {name} rolled out resource snapshot {index}, which its clusters already had: nothing to undo"
        )
    return index


def undo_index(run: JsonObject, retained_indices: Collection[int] | None) -> str:
    """Return the index of the resource snapshot to roll back to.

    It is the one that most clusters had before, recorded when the run was initialized. It is never guessed. If the
    retained snapshots are unknown (None), it counts as retained.

    Raises:
        RunOrderRefusedError: The index of that snapshot is unknown, or the snapshot is no longer retained.
    """
    recorded_index, indices = previous_index(run), sorted(retained_indices or ())
    if recorded_index and (retained_indices is None or recorded_index in {str(index) for index in indices}):
        return recorded_index
    if recorded_index:
        message = f"its clusters had resource snapshot {recorded_index}, which no longer exists"
    elif annotation(run, PREVIOUS_INDEX) == NO_INDEX:
        message = f"its clusters had no resource snapshot other than {index_used(run)}"
    else:
        message = f"it has no valid annotation {PREVIOUS_INDEX}, so the previous resource snapshot is unknown"
    choices = "" if retained_indices is None else f". {_choices(indices)}"
    raise RunOrderRefusedError(f"run {name_of(run)} cannot be undone: {message}{choices}")


def _choices(indices: Sequence[int]) -> str:
    return f"Existing snapshots: {', '.join(map(str, indices[-10:]))}" if indices else "No snapshots exist"


def _check_newest(record: UndoRecord, placement_runs: PlacementRuns) -> None:
    """Raise `RunOrderRefusedError` if an undo would also revert newer runs, whose content the clusters have."""
    newer = placement_runs.newer(record)
    if not newer:
        return
    names_text = ", ".join(other.name for other in newer[:_MOST_NAMED]) + (
        f" and {len(newer) - _MOST_NAMED} more" if newer[_MOST_NAMED:] else ""
    )
    message = f"the placement was changed since then by {names_text}, which would be undone as well"
    raise RunOrderRefusedError(f"run {record.name} is not the newest: {message}. To undo them too, use --force")


def _same_placement(run: JsonObject, other: JsonObject) -> bool:
    placements = {text_at(item, "spec", "placementName") for item in (run, other)}
    return len(placements) == 1 and name_of(run) != name_of(other)


def _last_start(run: JsonObject) -> tuple[str, str]:
    """Return the start time of a run's last started cluster, and its creation time. Both are empty without a start."""
    stages = dicts_at(status_of(run), "stagesStatus")
    start_conditions = [condition(entry, STARTED) for stage in stages for entry in clusters_of(stage)]
    last = max(
        (text_at(condition, "lastTransitionTime") for condition in start_conditions if condition.get("status") == TRUE),
        default="",
    )
    return (last, text_at(run, "metadata", "creationTimestamp")) if last else ("", "")
