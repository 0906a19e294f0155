"""A run as a document for users and programs: its phase, its waits, and its stages with their clusters."""

from collections.abc import Mapping
from typing import Final

from scorer.api.conditions import FALSE, TRUE, UNKNOWN
from scorer.api.meta import JsonObject, format_instant
from scorer.api.names import ROLLBACK_OF
from scorer.api.unstructured.documents import annotation, name_of, namespace_of, spec_of, text_at
from scorer.staged_update.orders import index_used, rejected
from scorer.staged_update.phase import RunSituation, RunWait, stages_of
from scorer.staged_update.record import (
    PROGRESSING,
    STARTED,
    SUCCEEDED,
    cluster_name,
    clusters_of,
    condition,
    reason,
    since,
    stage_name,
    status,
)

_STAGE_STATES: Final = {
    "StageUpdatingWaiting": "waiting",
    "StageUpdatingStarted": "updating",
    "StageUpdatingStopping": "stopping",
    "StageUpdatingStopped": "stopped",
    "StageUpdatingSucceeded": "done",
    "StageUpdatingSkippedNoClusters": "skipped",
    "StageUpdatingFailed": "failed",
}

_ENDED: Final[Mapping[str, str]] = {TRUE: "done", FALSE: "failed"}
_BEGUN: Final[Mapping[str, str]] = {TRUE: "updating", FALSE: "held"}


def overview(run: JsonObject, situation: RunSituation) -> JsonObject:
    """Return the complete overview of a run.

    Args:
        run: The run.
        situation: Situation of the run.
    """
    spec = spec_of(run)
    identity = {
        "kind": text_at(run, "kind"),
        "namespace": namespace_of(run),
        "name": name_of(run),
        "placement": text_at(spec, "placementName"),
        "strategy": text_at(spec, "stagedRolloutStrategyName"),
        "resourceSnapshotIndex": index_used(run) or text_at(spec, "resourceSnapshotIndex"),
        "state": text_at(spec, "state"),
        "phase": str(situation.phase),
        "stage": situation.stage,
        "message": situation.message,
        "rejected": rejected(run),
        "rollbackOf": annotation(run, ROLLBACK_OF),
    }
    return {
        "run": identity,
        "waits": [_wait(wait) for wait in situation.waits],
        "stages": [_stage(stage) for stage in stages_of(run)],
    }


def _wait(wait: RunWait) -> JsonObject:
    return {
        "kind": str(wait.kind),
        "stage": wait.stage,
        "cluster": wait.cluster,
        "approvalRequest": wait.request,
        "since": format_instant(wait.since),
        "until": format_instant(wait.until),
        "needsPerson": wait.needs_person,
        "message": wait.message,
    }


def _stage(stage: JsonObject) -> JsonObject:
    return {
        "stage": stage_name(stage),
        "state": _STAGE_STATES.get(reason(stage, PROGRESSING), "pending"),
        "startTime": text_at(stage, "startTime") or None,
        "endTime": text_at(stage, "endTime") or None,
        "message": text_at(condition(stage, PROGRESSING), "message"),
        "clusters": [_cluster(cluster) for cluster in clusters_of(stage)],
    }


def _cluster(entry: JsonObject) -> JsonObject:
    state = _cluster_state(entry)
    current = condition(entry, SUCCEEDED if state in ("done", "failed") else STARTED)
    return {
        "cluster": cluster_name(entry),
        "state": state,
        "since": format_instant(since(entry, STARTED)) if status(entry, STARTED) == TRUE else None,
        "finished": format_instant(since(entry, SUCCEEDED)) if status(entry, SUCCEEDED) not in ("", UNKNOWN) else None,
        "message": text_at(current, "message"),
    }


def _cluster_state(entry: JsonObject) -> str:
    """Return the state of a cluster: pending, held, updating, done or failed."""
    final_state = _ENDED.get(status(entry, SUCCEEDED), "")
    return final_state or _BEGUN.get(status(entry, STARTED), "pending")
