"""Upgrades by Cluster API: its real definitions on a real hub, and a provider that moves the conditions.

Source: docs/specifications/upgrade-runs.md 13.3.
"""

import json
import signal
from collections.abc import Iterator

import pytest
import yaml

from e2e.controlplane.cluster import ApiError, JsonObject
from e2e.controlplane.printed import printed_with
from e2e.fleet.bed import ACCOUNT, Fleet, grant_loop
from e2e.fleet.cluster_api import CLUSTER, QUAYS, Provider, cluster_api
from e2e.fleet.objects import condition_of
from e2e.fleet.scene import Scene
from e2e.fleet.settled import assert_settled
from e2e.fleet.upgrades import OURS, SETTINGS, Upgrades, make_ship, ships
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import MEMBER_CLUSTER, UPGRADE_RUN
from scorer.api.unstructured.documents import annotation, status_of

NAMES = ("ferry", "tug")
SETTINGS_HERE = {**SETTINGS, "upgraders": "cluster-api,handoff", "default_upgrader": "handoff"}
POOLS = {"tug": ("green",)}
"""The MachinePools of members that have some."""
STAGE = {"name": "only", "groups": [{"name": "capi"}]}
REFUSING = "cluster-api-refuses"


def member(name: str) -> JsonObject:
    """Make a member that Cluster API upgrades."""
    return make_ship(name, "capi", upgrader="cluster-api", capi_cluster=f"{QUAYS}/{name}", capi_image_variable="image")


@pytest.fixture(scope="module", autouse=True)
def _upgraded(fleet: Fleet) -> Iterator[None]:
    with cluster_api(fleet):
        words = ("rbac", "reconcile", "--service-account", ACCOUNT, "--secrets")
        roles = list(yaml.safe_load_all(printed_with({"HARBORMASTER_UPGRADERS": "cluster-api,handoff"}, *words)))
        fleet.on_hub.apply([role for role in roles if role["kind"] == "ClusterRole"])
        loop = fleet.add_reconciler("by-cluster-api", **SETTINGS_HERE)
        with fleet.other_reconcilers(loop):
            fleet.wait_leader(loop.identity)
            with ships(fleet, [member(name) for name in NAMES]):
                yield
    grant_loop(fleet.hub, ACCOUNT)
    assert_settled(fleet)


@pytest.fixture
def providers(fleet: Fleet) -> Iterator[dict[str, Provider]]:
    found = {name: Provider(fleet, name, *POOLS.get(name, ())) for name in NAMES}
    for provider in found.values():
        provider.create()
    yield found
    fleet.on_hub.cluster.request("DELETE", f"/apis/cluster.x-k8s.io/v1beta2/namespaces/{QUAYS}/clusters")
    for group, plural in (
        ("cluster.x-k8s.io", "machinedeployments"),
        ("cluster.x-k8s.io", "machinepools"),
        ("controlplane.cluster.x-k8s.io", "kubeadmcontrolplanes"),
    ):
        fleet.on_hub.cluster.request("DELETE", f"/apis/{group}/v1beta2/namespaces/{QUAYS}/{plural}")
    for name in NAMES:
        fleet.on_hub.patch(MEMBER_CLUSTER, name, {"metadata": {"annotations": {f"{OURS}upgrade-observed": None}}})


@pytest.fixture
def upgrades(fleet: Fleet, scene: Scene, providers: dict[str, Provider]) -> Iterator[Upgrades]:
    yield Upgrades(fleet, scene)
    scene.clear()


def test_clusters_are_upgraded_one_after_the_other(fleet, upgrades, providers):
    upgrades.start("capi-full", STAGE)
    first, second = (providers[name] for name in NAMES)
    first.wait_order("1.31.2")
    uid = upgrades.get("capi-full")["metadata"]["uid"]
    assert first.operation == f"{uid}/{first.name}/1"
    assert second.wanted == "1.30.4", "one after the other"
    first.begin()
    first.finish_control_plane()
    upgrades.wait_member("capi-full", first.name, "Running")
    first.rest()
    upgrades.wait_member("capi-full", first.name, "Completed")
    upgrades.wait_member("capi-full", second.name, "Running")
    second.wait_order("1.31.2")
    second.upgrade()
    upgrades.wait("capi-full", "Completed")
    observed = json.loads(annotation(fleet.on_hub.get(MEMBER_CLUSTER, first.name), f"{OURS}upgrade-observed"))
    assert observed["controlPlaneVersion"] == "1.31.2"
    assert {pool["kubernetesVersion"] for pool in observed["pools"]} == {"1.31.2"}


def test_the_control_plane_alone_and_the_workers_later(upgrades, providers):
    first = providers["tug"]
    only = {"memberSelector": {"matchLabels": {f"{OURS}upgrade-group": "capi"}}}
    control_plane = {"type": "ControlPlaneOnly", "kubernetesVersion": "1.31.2"}
    upgrades.start("capi-cp", STAGE, upgrade=control_plane, **only)
    for name in NAMES:
        providers[name].wait_order("1.31.2")
        assert providers[name].holds_workers
        providers[name].upgrade()
        upgrades.wait_member("capi-cp", name, "Completed")
    upgrades.wait("capi-cp", "Completed")
    upgrades.start("capi-rest", STAGE, **only)
    for name in NAMES:
        wait_until("the workers are let go", lambda name=name: "held" if providers[name].holds_workers else "")
        providers[name].upgrade()
    upgrades.wait("capi-rest", "Completed")
    assert first.wanted == "1.31.2"


def test_a_refusal_is_waited_for_or_fails_the_member(fleet, upgrades, providers):
    first, second = (providers[name] for name in NAMES)
    refuse(fleet, first.name, "version cannot be changed: control plane is still completing a previous upgrade")
    upgrades.start("capi-refused", STAGE)
    found = upgrades.wait_member("capi-refused", first.name, "Pending")
    assert (found["reason"], found["attempt"]) == ("ClusterBusy", 1)
    assert "still completing" in found["message"]
    admit(fleet, first.name)
    upgrades.wait_member("capi-refused", second.name, "Running")
    second.upgrade()
    first.wait_order("1.31.2")
    first.upgrade()
    upgrades.wait("capi-refused", "Completed")
    refuse(fleet, first.name, 'version cannot be increased from "1.31.2" to "1.32.0"')
    upgrades.start("capi-wrong", STAGE, upgrade={"type": "Full", "kubernetesVersion": "1.32.0"})
    found = upgrades.wait_member("capi-wrong", first.name, "Failed")
    assert found["reason"] == "UpgradeRejected"
    assert "cannot be increased" in json.dumps(found)
    admit(fleet, first.name)


def test_one_error_of_a_topology_fails_nothing(upgrades, providers):
    """The condition has been False for long, as during every upgrade; only its reason is new."""
    first, second = (providers[name] for name in NAMES)
    upgrades.start("capi-blip", {"name": "only", "groups": [{"name": "capi", "maxConcurrency": 2}]})
    for provider in (first, second):
        provider.wait_order("1.31.2")
        provider.begin()
    first.say(TopologyReconciled=("False", "ReconcileFailed"), RollingOut=("True", "RollingOut"))
    second.upgrade()
    upgrades.wait_member("capi-blip", second.name, "Completed")
    assert upgrades.states("capi-blip")[first.name] == "Running", "both were looked at together"
    first.upgrade()
    upgrades.wait("capi-blip", "Completed")


def test_an_image_is_done_when_it_is_rolled_out(fleet, upgrades, providers):
    custom = {"selection": "Custom", "customVersions": [{"family": "linux", "version": "200"}]}
    stage = {"name": "only", "groups": [{"name": "capi", "maxConcurrency": 2}]}
    upgrades.start("capi-image", stage, upgrade={"type": "NodeImageOnly", "nodeImage": custom})
    first, second = (providers[name] for name in NAMES)
    for provider in (first, second):
        wait_until("the image is ordered", lambda provider=provider: "" if provider.image == "200" else provider.image)
        provider.pass_on_image()
    second.rest()
    upgrades.wait_member("capi-image", second.name, "Completed")
    assert upgrades.states("capi-image")[first.name] == "Running", "its conditions say that it is done"
    first.rest()
    upgrades.wait("capi-image", "Completed")
    observed = json.loads(annotation(fleet.on_hub.get(MEMBER_CLUSTER, second.name), f"{OURS}upgrade-observed"))
    assert {pool["name"]: pool["imageVersion"] for pool in observed["pools"]} == dict.fromkeys(
        ("blue", "red", "green"), "200"
    )


def test_a_leader_that_is_killed_orders_nothing_twice(fleet, upgrades, providers):
    first = providers[NAMES[0]]
    upgrades.start("capi-killed", STAGE)
    first.wait_order("1.31.2")
    generation = first.cluster["metadata"]["generation"]
    loop = fleet.reconcilers[-1]
    loop.program.stop(number=signal.SIGKILL)
    loop.start(wait=False)
    first.upgrade()
    upgrades.wait_member("capi-killed", first.name, "Completed")
    assert upgrades.entries("capi-killed")[first.name]["attempt"] == 1
    assert first.cluster["metadata"]["generation"] == generation


def test_what_would_be_in_the_way_is_said_before_the_start(fleet, upgrades, providers):
    first = providers[NAMES[0]]
    fleet.on_hub.patch(CLUSTER, first.name, {"spec": {"paused": True}}, QUAYS)
    upgrades.start("capi-paused", STAGE, state="Initialize")

    def problem() -> str:
        found = condition_of(fleet.on_hub.get(UPGRADE_RUN, "capi-paused"), "Preflight")
        return "" if "is paused" in found.get("message", "") else f"Preflight is {found}"

    wait_until("Preflight says it", problem)
    assert status_of(upgrades.get("capi-paused"))["state"] == "NotStarted"


def refuse(fleet: Fleet, name: str, message: str) -> None:
    """Have a hub refuse new versions of a Cluster, with the words of the webhook of Cluster API."""
    api = "admissionregistration.k8s.io/v1"
    rule = {
        "apiGroups": ["cluster.x-k8s.io"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["clusters"],
    }
    policy = {
        "apiVersion": api,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": REFUSING},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [
                {
                    "expression": f"object.metadata.name != {json.dumps(name)} || "
                    "object.spec.topology.version == oldObject.spec.topology.version",
                    "message": message,
                }
            ],
        },
    }
    binding = {
        "apiVersion": api,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": REFUSING},
        "spec": {"policyName": REFUSING, "validationActions": ["Deny"]},
    }
    fleet.on_hub.apply([policy, binding])
    wait_until("the hub refuses", lambda: "it still takes a new version" if takes(fleet, name) else "")


def takes(fleet: Fleet, name: str) -> bool:
    """Say whether a hub takes a new version of a Cluster."""
    change = {"spec": {"topology": {"version": "v9.9.9"}}}
    path = f"/apis/cluster.x-k8s.io/v1beta2/namespaces/{QUAYS}/clusters/{name}?dryRun=All"
    try:
        fleet.hub.request("PATCH", path, change, content_type="application/merge-patch+json")
    except ApiError as error:
        assert "version cannot be" in str(error), error
        return False
    return True


def admit(fleet: Fleet, name: str) -> None:
    """Have a hub refuse nothing any more."""
    for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        fleet.hub.request("DELETE", f"/apis/admissionregistration.k8s.io/v1/{plural}/{REFUSING}")
    wait_until("the hub takes it again", lambda: "" if takes(fleet, name) else "it still refuses a new version")
