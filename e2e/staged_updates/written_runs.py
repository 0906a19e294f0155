"""Runs that wait for an approval, written by hand as the loop writes them, and the role of an approver."""

import re
from pathlib import Path

import yaml

from e2e.controlplane.cluster import JsonObject

GUIDE = Path(__file__).parents[2] / "docs" / "staged-updates.md"
GROUP = "/apis/placement.kubernetes-fleet.io/v1beta1"
RUNS, REQUESTS = f"{GROUP}/clusterstagedupdateruns", f"{GROUP}/clusterapprovalrequests"
APPROVER = "staged-update-approver"


def documented_role() -> JsonObject:
    """Return the role of an approver, as the guide has it."""
    section = GUIDE.read_text().partition("### Who may approve")[2]
    found = re.search(r"(?:^    .*\n)+", section, re.MULTILINE)
    assert found is not None
    role: JsonObject = yaml.safe_load(found[0])
    return role


def said(kind: str, status: str, reason: str) -> JsonObject:
    """Return a condition."""
    at = {"observedGeneration": 1, "lastTransitionTime": "2026-03-01T12:00:00Z"}
    return {"type": kind, "status": status, "reason": reason, "message": "", **at}


def waiting_run(request: str) -> JsonObject:
    """Return the status of a run that waits for its approval after its first stage."""
    done = [said("Started", "True", "ClusterUpdatingStarted"), said("Succeeded", "True", "ClusterUpdatingSucceeded")]
    task = {
        "type": "Approval",
        "approvalRequestName": request,
        "conditions": [said("ApprovalRequestCreated", "True", "StageTaskApprovalRequestCreated")],
    }
    stage = {
        "stageName": "test",
        "clusters": [{"clusterName": "dover", "conditions": done}],
        "afterStageTaskStatus": [task],
        "conditions": [said("Progressing", "False", "StageUpdatingWaiting")],
    }
    conditions = [
        said("Initialized", "True", "UpdateRunInitializedSuccessfully"),
        said("Progressing", "False", "UpdateRunWaiting"),
    ]
    return {"stagesStatus": [stage], "conditions": conditions}


def approval_request(run: str, name: str) -> JsonObject:
    """Return the approval request of a run."""
    labels = {"kubernetes-fleet.io/targetUpdateRun": run}
    return {
        "apiVersion": GROUP.removeprefix("/apis/"),
        "kind": "ClusterApprovalRequest",
        "metadata": {"name": name, "labels": labels},
        "spec": {"parentStageRollout": run, "targetStage": "test"},
    }
