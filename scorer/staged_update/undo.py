"""Undo: a user rolls back the changes of a run with another run, to the previous resource snapshot.

The failure policy does the same automatically: `scorer.staged_update.rollback`.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from scorer.api.conditions import TRUE
from scorer.api.meta import JsonObject
from scorer.api.names import PREVIOUS_INDEX, ROLLBACK_OF
from scorer.api.unstructured.documents import annotation, dicts_at, name_of, status_of, text_at
from scorer.staged_update.orders import RunOrderRefusedError, index_used
from scorer.staged_update.phase import RunPhase, RunSituation
from scorer.staged_update.record import STARTED, SUCCEEDED, clusters_of, condition, is_final, status
from scorer.staged_update.rollback import changed_clusters, free_name, previous_index, rollback_run

_MOST_NAMED: Final = 5


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
        RunOrderRefusedError: The run is unfinished, was undone already, or has changed nothing. Or its previous
            resource snapshot is unavailable, or a newer run exists and *force* is False.
    """
    name, other_runs = name_of(run), list(runs)
    if not changed_clusters(dicts_at(status_of(run), "stagesStatus")):
        raise RunOrderRefusedError(f"run {name} has changed no cluster ({situation.phase}): nothing to undo")
    if not situation.is_over and situation.phase is not RunPhase.STOPPED:
        raise RunOrderRefusedError(f"run {name} is not finished ({situation.phase}). Stop it first")
    if existing_undo := _find_undo(run, other_runs):
        raise RunOrderRefusedError(f"run {existing_undo} already undoes run {name}")
    if not force:
        _check_newest(run, other_runs)
    index = undo_index(run, retained_indices)
    if index == index_used(run):
        raise RunOrderRefusedError(
            f"run {name} rolled out resource snapshot {index}, which its clusters already had: nothing to undo"
        )
    return rollback_run(run, free_name(name, "undo", {name_of(other) for other in other_runs}), index)


def undo_index(run: JsonObject, retained_indices: Collection[int]) -> str:
    """Return the index of the resource snapshot to roll back to.

    It is the one that most clusters had before, recorded when the run was initialized. It is never guessed.

    Raises:
        RunOrderRefusedError: The index of that snapshot is unknown, or the snapshot is no longer retained.
    """
    recorded_index, indices = previous_index(run), sorted(retained_indices)
    if recorded_index in {str(index) for index in indices}:
        return recorded_index
    if recorded_index:
        message = f"its clusters had resource snapshot {recorded_index[:63]}, which no longer exists"
    elif annotation(run, PREVIOUS_INDEX):
        message = f"its clusters had no earlier resource snapshot than {index_used(run)}"
    else:
        message = f"it has no annotation {PREVIOUS_INDEX}, so the previous resource snapshot is unknown"
    raise RunOrderRefusedError(f"run {name_of(run)} cannot be undone: {message}. {_choices(indices)}")


def _choices(indices: Sequence[int]) -> str:
    return f"Existing snapshots: {', '.join(map(str, indices[-10:]))}" if indices else "No snapshots exist"


def _check_newest(run: JsonObject, other_runs: Iterable[JsonObject]) -> None:
    """Raise `RunOrderRefusedError` if an undo would also revert newer runs, whose content the clusters have."""
    newer = _newer(run, other_runs)
    if not newer:
        return
    names_text = ", ".join(newer[:_MOST_NAMED]) + (
        f" and {len(newer) - _MOST_NAMED} more" if newer[_MOST_NAMED:] else ""
    )
    message = f"the placement was changed since then by {names_text}, which would be undone as well"
    raise RunOrderRefusedError(f"run {name_of(run)} is not the newest: {message}. To undo them too, use --force")


def _newer(run: JsonObject, other_runs: Iterable[JsonObject]) -> list[str]:
    """Return the runs of the same placement that have changed clusters after *run*, the oldest first.

    A run that was rolled back does not count, nor does its rollback: together they changed nothing.
    """
    later = sorted(
        (other for other in other_runs if _same_placement(run, other) and _last_start(other) > _last_start(run)),
        key=_last_start,
    )
    undone_names = {name_of(other) for other in later if _is_taken_back(other, later)}
    return [
        name_of(other)
        for other in later
        if name_of(other) not in undone_names and annotation(other, ROLLBACK_OF) not in {*undone_names, name_of(run)}
    ]


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


def _is_taken_back(run: JsonObject, other_runs: Iterable[JsonObject]) -> bool:
    return any(
        annotation(other, ROLLBACK_OF) == name_of(run) and status(status_of(other), SUCCEEDED) == TRUE
        for other in other_runs
    )


def _find_undo(run: JsonObject, other_runs: Iterable[JsonObject]) -> str:
    """Return a run that rolls back *run*, in progress or successful, or an empty string."""
    began = text_at(run, "metadata", "creationTimestamp")
    for other in other_runs:
        if annotation(other, ROLLBACK_OF) != name_of(run) or text_at(other, "metadata", "creationTimestamp") < began:
            continue
        if not is_final(status_of(other)) or status(status_of(other), SUCCEEDED) == TRUE:
            return name_of(other)
    return ""
