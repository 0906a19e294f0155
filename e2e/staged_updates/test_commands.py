"""The commands of staged updates over a real hub, with the rights that the guide gives an approver."""

import json
import subprocess
from collections.abc import Iterator

import pytest

from e2e.controlplane.cluster import Cluster
from e2e.controlplane.process import PATIENCE
from e2e.controlplane.service import HARBORMASTER
from e2e.fleet.objects import Objects
from e2e.fleet.waiting import wait_until
from e2e.staged_updates.written_runs import (
    APPROVER,
    REQUESTS,
    RUNS,
    approval_request,
    documented_role,
    waiting_run,
)
from scorer.api.kinds import STAGED_STRATEGY
from tests.webhook.cli.fleets import placement

RBAC = "rbac.authorization.k8s.io"
ROLES, BINDINGS = f"/apis/{RBAC}/v1/clusterroles", f"/apis/{RBAC}/v1/clusterrolebindings"
REQUEST = "spring-after-test"


@pytest.fixture(scope="module")
def asking(own_hub: Cluster) -> Iterator[Cluster]:
    """A hub with a run that waits for an approval, and ``bob``, who may give it."""
    head = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": APPROVER}}
    bound = {"roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": APPROVER}}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": "bob"}]
    own_hub.request("POST", ROLES, documented_role())
    own_hub.request("POST", BINDINGS, {**head, **bound, "subjects": subjects})
    words = ("auth", "can-i", "list", "clusterapprovalrequests.placement.kubernetes-fleet.io")
    wait_until(
        "bob may list", lambda: own_hub.kubectl(*words, user="bob", check=False).stdout.strip().removeprefix("yes")
    )
    start = ("run", "start", "spring", "--placement=p", "--strategy=careful")
    refused = run(own_hub, "admin", *start)
    assert (refused.returncode, refused.stderr.count("there is no such ")) == (1, 2)
    external = placement("p", placementType="PickAll")
    external["spec"]["strategy"] = {"type": "External"}
    stages = {"stages": [{"name": "test", "afterStageTasks": [{"type": "Approval"}]}]}
    strategy = {"apiVersion": STAGED_STRATEGY.api_version, "kind": STAGED_STRATEGY.kind, "spec": stages}
    Objects(own_hub).apply([external, {**strategy, "metadata": {"name": "careful"}}])
    assert run(own_hub, "admin", *start).returncode == 0
    stored = own_hub.request("GET", f"{RUNS}/spring")[0]
    own_hub.request("PUT", f"{RUNS}/spring/status", {**stored, "status": waiting_run(REQUEST)})
    own_hub.request("POST", REQUESTS, approval_request("spring", REQUEST))
    yield own_hub
    for path in (f"{ROLES}/{APPROVER}", f"{BINDINGS}/{APPROVER}"):
        own_hub.request("DELETE", path)
    for words in (("crp", "p"), (STAGED_STRATEGY.resource, "careful")):
        own_hub.kubectl("delete", *words, "--wait=false")


def run(hub: Cluster, user: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [HARBORMASTER, *words, "--kubeconfig", str(hub.kubeconfigs[user])]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_an_approver_may_approve_and_nothing_else(asking: Cluster) -> None:
    for words in (("run", "stop", "spring"), ("reject", "spring", "--reason", "no"), ("undo", "spring")):
        refused = run(asking, "bob", *words)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "Forbidden" in refused.stderr
    looked = run(asking, "bob", "run", "status", "spring", "--wait")
    assert (looked.returncode, looked.stderr) == (2, "")
    shown = f"  harbormaster approve spring --stage test --kubeconfig {asking.kubeconfigs['bob']}"
    assert looked.stdout.splitlines()[-1] == shown

    given = run(asking, "bob", "approve", "spring", "-m", "error rate is flat")
    assert (given.returncode, given.stdout) == (0, f"{REQUEST} approved: run spring continues\n")
    (approved,) = asking.request("GET", f"{REQUESTS}/{REQUEST}")[0]["status"]["conditions"]
    assert (approved["type"], approved["status"], approved["observedGeneration"]) == ("Approved", "True", 1)
    assert run(asking, "bob", "approve", REQUEST).stdout == f"{REQUEST} is already approved\n"
    patch = json.dumps({"status": {"conditions": [{**approved, "message": "still flat"}]}})
    words = ("patch", "clusterapprovalrequests", REQUEST, "--type=merge", "--subresource=status", "-p", patch)
    asking.kubectl(*words, user="bob")


def test_what_is_not_there_is_told_as_on_any_hub(asking: Cluster) -> None:
    assert "there is no ClusterStagedUpdateRun autumn" in run(asking, "bob", "run", "status", "autumn").stderr
    assert "there is no run and no approval request autumn" in run(asking, "bob", "approve", "autumn").stderr


def test_a_run_is_stopped_and_resumed_by_who_may_write_it(asking: Cluster) -> None:
    assert run(asking, "admin", "run", "stop", "spring").returncode == 0
    assert asking.request("GET", f"{RUNS}/spring")[0]["spec"]["state"] == "Stop"
    assert run(asking, "admin", "run", "resume", "spring").returncode == 0
    assert asking.request("GET", f"{RUNS}/spring")[0]["spec"]["state"] == "Run"
