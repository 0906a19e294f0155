"""Stopping: nothing new is started, what is in flight is brought to an end.

Source: staged-updates.md 7; KubeFleet pkg/controllers/updaterun/stop.go.
"""

from scorer.api.conditions import FALSE, UNKNOWN
from scorer.api.meta import JsonObject
from scorer.staged_update.deletion import look_at_deletions
from scorer.staged_update.execution import Pass, is_in_flight, look_at_cluster
from scorer.staged_update.record import (
    PROGRESSING,
    STARTED,
    cluster_name,
    clusters_of,
    reason,
    status,
)
from scorer.staged_update.step import RECHECK


def stop_stage(work: Pass) -> None:
    """Bring the clusters in flight to an end, of an update stage or of the deletion stage.

    Raises:
        RunFailedError: The run has to be aborted.
    """
    deleting = work.validated.at == len(work.validated.stages)
    stage = work.record.deletion if deleting else work.stage
    if deleting:
        look_at_deletions(work)
    for entry in clusters_of(stage):
        if not deleting and is_in_flight(entry):
            look_at_cluster(work, entry)
        elif status(entry, STARTED) == FALSE:
            work.record.drop(entry, STARTED)
    busy = [cluster_name(entry) for entry in clusters_of(stage) if is_in_flight(entry)]
    if not busy:
        _is_stopped(work, begun=bool(status(stage, PROGRESSING)), stage=stage)
        return
    named = ", ".join(busy[:3]) + (f" and {len(busy) - 3} more" if len(busy) > 3 else "")
    work.waits.append(RECHECK)
    work.record.put(stage, PROGRESSING, UNKNOWN, "StageUpdatingStopping", f"waits for {named}")
    if work.stuck:
        message = f"stopping; in flight for more than 5 minutes: {named}"
        work.put_run(FALSE, "UpdateRunStuck", message)
    else:
        work.put_run(UNKNOWN, "UpdateRunStopping", f"waits for {named}")


def _is_stopped(work: Pass, *, begun: bool, stage: JsonObject) -> None:
    """Say that the run is stopped; a stage that has not begun says nothing."""
    if begun and reason(stage, PROGRESSING) != "StageUpdatingStopped":
        # The wait after a stage counts from the stop: Unknown lies between, so the time of the condition is new.
        work.record.put(stage, PROGRESSING, UNKNOWN, "StageUpdatingStopping", "")
        work.record.put(stage, PROGRESSING, FALSE, "StageUpdatingStopped", "")
    message = "nothing is in flight; state Run resumes it"
    work.put_run(FALSE, "UpdateRunStopped", message)
