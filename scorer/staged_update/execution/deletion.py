"""The deletion stage: the placement is removed from clusters that are no longer selected.

Source: docs/specifications/staged-updates.md 6.5.
"""

from scorer.api.conditions import FALSE, TRUE
from scorer.api.meta import JsonObject, format_time
from scorer.api.unstructured.documents import is_deleting
from scorer.staged_update.execution.stage import StagePass, hold_back
from scorer.staged_update.outcome import RECHECK, Remove, RunFailedError, RunFailureCause
from scorer.staged_update.record import (
    PROGRESSING,
    STARTED,
    SUCCEEDED,
    cluster_name,
    clusters_of,
    condition,
    status,
)


def record_deletions(work: StagePass) -> None:
    """Record which clusters no longer have the placement.

    Raises:
        RunFailedError: A deleted binding exists again.
    """
    for entry in clusters_of(work.record.deletion):
        name = cluster_name(entry)
        binding = work.validated.targets.removed.get(name)
        if binding is None:
            _record_removal(work, entry)
        elif status(entry, SUCCEEDED) == TRUE or (status(entry, STARTED) == TRUE and not is_deleting(binding)):
            message = f"the binding of cluster {name} was deleted by this run, but exists and is not being deleted"
            raise RunFailedError(RunFailureCause.NOT_DELETING, message)


def execute_deletion(work: StagePass) -> None:
    """Delete every remaining binding as soon as its cluster may be changed.

    Raises:
        RunFailedError: A deleted binding exists again.
    """
    stage = work.record.deletion
    if "startTime" not in stage:
        stage["startTime"] = format_time(work.now)
    work.record.set_condition(stage, PROGRESSING, TRUE, "StageUpdatingStarted", "")
    record_deletions(work)
    for entry in clusters_of(stage):
        if status(entry, STARTED) != TRUE:
            _remove(work, entry)
    remaining_clusters = [cluster_name(entry) for entry in clusters_of(stage) if status(entry, SUCCEEDED) != TRUE]
    if remaining_clusters:
        more = f" and {len(remaining_clusters) - 3} more" if len(remaining_clusters) > 3 else ""
        work.set_run_progress(
            TRUE, "UpdateRunProgressing", f"removes the placement from {', '.join(remaining_clusters[:3])}{more}"
        )
        work.waits.append(RECHECK)
        return
    work.record.set_condition(stage, PROGRESSING, FALSE, "StageUpdatingSucceeded", "")
    work.record.set_condition(stage, SUCCEEDED, TRUE, "StageUpdatingSucceeded", "")
    stage["endTime"] = format_time(work.now)


def _remove(work: StagePass, entry: JsonObject) -> None:
    name = cluster_name(entry)
    binding = work.validated.targets.removed[name]
    wait = work.facts.waits.get(name)
    if wait is not None and not is_deleting(binding):
        hold_back(work, entry, wait)
        return
    if not is_deleting(binding):
        work.actions.append(Remove(name, binding))
    work.record.set_condition(entry, STARTED, TRUE, "ClusterUpdatingStarted", "")


def _record_removal(work: StagePass, entry: JsonObject) -> None:
    if not (condition(entry, STARTED) and status(entry, STARTED) == TRUE):
        work.record.set_condition(entry, STARTED, TRUE, "ClusterUpdatingStarted", "")
    if status(entry, SUCCEEDED) != TRUE:
        work.record.set_condition(entry, SUCCEEDED, TRUE, "ClusterUpdatingSucceeded", "")
