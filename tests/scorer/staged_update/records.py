"""Records of runs, written by hand: conditions, clusters, stages, tasks and requests."""

from datetime import UTC, datetime

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BEGAN = datetime(2026, 3, 1, 11, tzinfo=UTC)


def said(text, message=""):
    """Return a condition from ``Type=Status Reason``."""
    kind, _, rest = text.partition("=")
    status, _, reason = rest.partition(" ")
    return {
        "type": kind,
        "status": status or "True",
        "reason": reason,
        "message": message,
        "observedGeneration": 1,
        "lastTransitionTime": "2026-03-01T11:00:00Z",
    }


def cluster(name, *conditions):
    return {"clusterName": name, "conditions": list(conditions)}


STARTED, DONE = said("Started"), said("Succeeded")
WAITS = said("Progressing=False StageUpdatingWaiting")
WAITING = ("Initialized", "Progressing=False UpdateRunWaiting")
OVER = ("Initialized", "Progressing=False UpdateRunSucceeded", "Succeeded=True UpdateRunSucceeded")


def stage(name, *clusters, conditions=(), before=(), after=()):
    return {
        "stageName": name,
        "clusters": list(clusters),
        "conditions": list(conditions),
        "beforeStageTaskStatus": list(before),
        "afterStageTaskStatus": list(after),
    }


def approval(request, *conditions):
    return {"type": "Approval", "approvalRequestName": request, "conditions": list(conditions)}


def run_of(*stages, state="Run", generation=1, plan=(), removed=(), conditions=None):
    found = [said("Initialized"), said("Progressing=True UpdateRunProgressing")] if conditions is None else conditions
    return {
        "metadata": {"name": "r", "generation": generation},
        "spec": {"placementName": "p", "state": state},
        "status": {
            "conditions": [said(each) if isinstance(each, str) else each for each in found],
            "stagesStatus": list(stages),
            "deletionStageStatus": stage("kubernetes-fleet.io/deleteStage", *removed),
            "stagedUpdateStrategySnapshot": {"stages": list(plan)},
        },
    }


def request(name, *conditions, run="r"):
    return {
        "metadata": {"name": name, "generation": 1},
        "spec": {"parentStageRollout": run},
        "status": {"conditions": list(conditions)},
    }
