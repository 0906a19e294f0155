"""What has happened on a real hub, as anybody with its kubeconfig reads it afterwards."""

import json
import subprocess

import pytest

from e2e.conftest import StartService
from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.process import PATIENCE, kill
from e2e.controlplane.service import HARBORMASTER, Service
from e2e.fleet.waiting import wait_until

NAMESPACE = "history"
PLACEMENTS = "/apis/placement.kubernetes-fleet.io/v1/clusterresourceplacements"
MEMBERS = "/apis/cluster.kubernetes-fleet.io/v1/memberclusters"


@pytest.fixture(scope="module")
def serving(own_hub: Cluster, start_service: StartService) -> Service:
    """A replica that answers and leads the loop, and writes its history every second."""
    own_hub.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    found = start_service(own_hub, words=("--reconcile",), namespace=NAMESPACE, history_seconds=1)
    found.register()
    return found


def history(hub: Cluster, *words: str) -> list[JsonObject]:
    """Return what is on record, the latest first."""
    command = [HARBORMASTER, "history", *words, "--installed-in", NAMESPACE, "-o", "json"]
    found = subprocess.run(
        [*command, "--kubeconfig", str(hub.kubeconfig)], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert found.returncode == 0, found.stderr
    items: list[JsonObject] = json.loads(found.stdout)["items"]
    return items


def wait_for(hub: Cluster, reason: str, *words: str) -> JsonObject:
    """Wait until something is on record for a reason, and return it."""
    wait_until(f"{reason} is on record", lambda: "" if history(hub, *words, "--reason", reason) else "it is not")
    return history(hub, *words, "--reason", reason)[0]


def test_who_changed_what_is_on_record_once(own_hub: Cluster, serving: Service) -> None:
    """Both hooks are called for a write. One that changes nothing, and one that is only tried out, are not recorded."""
    jane = {"username": "jane", "groups": ["system:masters"]}
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "quay"}
    head = {"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterResourcePlacement"}
    spec = {"resourceSelectors": [selector], "policy": {"placementType": "PickN", "numberOfClusters": 1}}
    own_hub.request("POST", PLACEMENTS, {**head, "metadata": {"name": "quay"}, "spec": spec}, acting_as=jane)
    for number, query in ((3, "?dryRun=All"), (2, ""), (2, "")):
        patch = {"spec": {"policy": {"numberOfClusters": number}}}
        path = f"{PLACEMENTS}/quay{query}"
        own_hub.request("PATCH", path, patch, acting_as=jane, content_type="application/merge-patch+json")
    own_hub.request("DELETE", f"{PLACEMENTS}/quay", acting_as=jane)
    wait_for(own_hub, "PlacementDeleted", "crp/quay")
    found = history(own_hub, "crp/quay", "--type", "action", "--by", "jane")
    assert [(each["reason"], each["message"], each.get("count", 1)) for each in reversed(found)] == [
        ("PlacementCreated", "created: PickN 1", 1),
        ("PlacementChanged", "changed policy.numberOfClusters from 1 to 2", 1),
        ("PlacementDeleted", "deleted", 1),
    ]
    assert history(own_hub, "--type", "action", "-q", "jane numberOfClusters quay") == [found[1]]


def test_who_cordons_and_deletes_a_member_is_on_record(own_hub: Cluster, serving: Service) -> None:
    own_hub.request("POST", MEMBERS, member("faro"))
    for verb in ("cordon", "cordon", "uncordon"):
        command = [HARBORMASTER, verb, "faro", "--kubeconfig", str(own_hub.kubeconfig)]
        subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE)
    jane = {"username": "jane", "groups": ["system:masters"]}
    own_hub.request("DELETE", f"{MEMBERS}/faro", acting_as=jane)
    wait_for(own_hub, "MemberDeleted", "membercluster/faro")
    found = history(own_hub, "membercluster/faro", "--type", "action")
    assert [(each["reason"], each["by"], each.get("count", 1)) for each in reversed(found)] == [
        ("MemberCreated", "admin", 1),
        ("MemberCordoned", "admin", 1),
        ("MemberUncordoned", "admin", 1),
        ("MemberDeleted", "jane", 1),
    ]


def test_what_the_loop_tells_and_what_admission_refuses_stay_on_record(own_hub: Cluster, serving: Service) -> None:
    own_hub.request("POST", MEMBERS, member("dover"))
    told = wait_for(own_hub, "InternalMemberClusterCreated", "membercluster/dover")
    assert (told["type"], told["object"]) == ("Event", {"kind": "MemberCluster", "name": "dover"})

    refuse(own_hub, "too-much")
    found = wait_for(own_hub, "X-01", "crp/too-much")
    assert found["type"] == "Refusal"
    assert found["by"]
    assert "kube-system" in found["message"]

    kill(serving.program)
    try:
        assert history(own_hub, "crp/too-much") == [found]
    finally:
        serving.start()


def member(name: str) -> JsonObject:
    identity = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}
    head = {"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster", "metadata": {"name": name}}
    return {**head, "spec": {"identity": identity}}


def refuse(hub: Cluster, name: str) -> None:
    """Try to place what a hub needs for itself."""
    selected = [{"group": "", "version": "v1", "kind": "Namespace", "name": "kube-system"}]
    head = {"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterResourcePlacement"}
    document = {**head, "metadata": {"name": name}, "spec": {"resourceSelectors": selected}}
    with pytest.raises(ApiError) as refused:
        hub.request("POST", PLACEMENTS, document)
    assert refused.value.code == 422
