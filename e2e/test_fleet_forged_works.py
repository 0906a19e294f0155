"""A compromised agent claims content of other members through its own Works, with its own token and Role.

A placement selects a namespace with a Secret for one member; the agent of another member tries to get it.
"""

from collections.abc import Iterator

import pytest

from e2e.controlplane.cluster import ApiError, JsonObject
from e2e.fleet.bed import ACCOUNT, Fleet, grant
from e2e.fleet.objects import CONFIG_MAP, MERGE, Objects, make_placement, selects
from e2e.fleet.scene import Scene
from e2e.fleet.settled import assert_settled
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import BINDING, INTERNAL_MEMBER_CLUSTER, KINDS, NAMESPACE, WORK
from scorer.api.names import (
    PARENT_BINDING,
    PARENT_PLACEMENT,
    PARENT_RESOURCE_SNAPSHOT_NAME,
    PROVENANCE,
    member_namespace,
)
from webhook.kube.event_documents import EVENT
from webhook.kube.paths import path_of

GOOD, ROGUE = "bravelion", "jumpingcat"
HOME, HARMLESS = "e2e-vault", "e2e-harmless"
SECRET = KINDS["", "Secret"]
POLICY = KINDS["admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"]
NOON = "2026-11-28T12:00:00Z"
CLAIM = {
    "metadata": {
        "labels": {PARENT_PLACEMENT: HOME, PARENT_BINDING: "x"},
        "annotations": {PARENT_RESOURCE_SNAPSHOT_NAME: f"{HOME}-0-snapshot"},
    }
}


def in_region(region: str) -> JsonObject:
    """All members of a region: a policy that any change of a member makes the scheduler evaluate."""
    terms = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"region": region}}}]}
    affinity = {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return {"placementType": "PickAll", "affinity": affinity}


@pytest.fixture
def agent(fleet: Fleet) -> Objects:
    """The hub as the agent of the rogue member sees it."""
    return Objects(fleet.hub, f"{ROGUE}-agent")


@pytest.fixture
def _placed(fleet: Fleet) -> Iterator[None]:
    scene = Scene(fleet)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "card", "namespace": HOME}, "data": {}}
    scene.home(HOME, secret)
    scene.home(HARMLESS, a="1")
    for home, region in ((HOME, "east"), (HARMLESS, "europe")):
        scene.put(make_placement(home, in_region(region), resourceSelectors=[selects(NAMESPACE, home)]))
    wait_placed(fleet)
    yield
    scene.clear()
    assert_settled(fleet)


@pytest.fixture
def _without_policies(fleet: Fleet, agent: Objects) -> Iterator[None]:
    """A hub without ValidatingAdmissionPolicies, as before Kubernetes 1.30."""
    for binding in fleet.on_hub.all(POLICY):
        if binding["metadata"]["name"].startswith("harbormaster-member-works"):
            fleet.on_hub.delete(POLICY, binding["metadata"]["name"])
    yield
    labels = {PARENT_PLACEMENT: HARMLESS, PARENT_BINDING: None}
    fleet.on_hub.patch(WORK, f"{HARMLESS}-work", {"metadata": {"labels": labels}}, member_namespace(ROGUE))
    wait_until("the Work is owned again", lambda: "" if owner_of(fleet) else "no binding owns it")
    grant(fleet.hub, "reconcile", ACCOUNT, "--secrets")
    wait_until("the policy is back", lambda: "" if refusal(agent, CLAIM, "?dryRun=All") else "the change was allowed")


def wait_placed(fleet: Fleet) -> None:
    """Wait until each placement is on its member."""
    good, rogue = fleet.clusters[GOOD], fleet.clusters[ROGUE]
    wait_until("the Secret is placed", lambda: "" if good.find(SECRET, "card", HOME) else "it is not there")
    wait_until("the rest is placed", lambda: "" if rogue.find(CONFIG_MAP, "settings", HARMLESS) else "it is not there")


def refusal(agent: Objects, change: JsonObject, query: str = "") -> str:
    """Why the API server refuses a change of the harmless Work by the agent; empty: it does not."""
    path = path_of(WORK, member_namespace(ROGUE), f"{HARMLESS}-work") + query
    try:
        agent.cluster.request("PATCH", path, change, user=agent.user, content_type=MERGE)
    except ApiError as error:
        return str(error)
    return ""


def owner_of(fleet: Fleet) -> str:
    """The binding that the harmless Work names."""
    work = fleet.on_hub.get(WORK, f"{HARMLESS}-work", member_namespace(ROGUE))
    return str(work["metadata"]["labels"].get(PARENT_BINDING, ""))


def bindings(fleet: Fleet) -> list[str]:
    """The clusters on which the hub believes "vault" to be."""
    found = (item for item in fleet.on_hub.all(BINDING) if item["metadata"]["labels"][PARENT_PLACEMENT] == HOME)
    return sorted(item["spec"]["targetCluster"] for item in found)


@pytest.mark.core
@pytest.mark.usefixtures("_placed")
def test_an_agent_cannot_relabel_its_work(fleet: Fleet, agent: Objects) -> None:
    assert "and nothing else" in refusal(agent, CLAIM)
    assert bindings(fleet) == [GOOD]


@pytest.mark.parametrize("proof", ["none", "of its own Work", "of the other member's Work"])
@pytest.mark.usefixtures("_placed", "_without_policies")
def test_without_policies_a_relabelled_work_brings_no_content(fleet: Fleet, agent: Objects, proof: str) -> None:
    source = (f"{HOME}-work", GOOD) if "other" in proof else (f"{HARMLESS}-work", ROGUE)
    work = fleet.on_hub.get(WORK, source[0], member_namespace(source[1]))
    value = None if proof == "none" else work["metadata"]["annotations"][PROVENANCE]
    claim = {"metadata": {**CLAIM["metadata"], "annotations": {**CLAIM["metadata"]["annotations"], PROVENANCE: value}}}
    wait_until("the policy is gone", lambda: refusal(agent, claim))
    status = agent.get(INTERNAL_MEMBER_CLUSTER, ROGUE, member_namespace(ROGUE))["status"]
    properties = {**status.get("properties", {}), "example.com/forged": {"value": "1", "observationTime": NOON}}
    agent.patch_status(INTERNAL_MEMBER_CLUSTER, ROGUE, {"properties": properties}, member_namespace(ROGUE))

    def unreported() -> str:
        listing, _ = fleet.hub.request("GET", path_of(EVENT))
        about = [each for each in listing["items"] if each["reason"] == "UnprovenWorks"]
        return "" if any(each["regarding"]["name"] == HOME for each in about) else "no Event reports the Work"

    wait_until("the loop has judged the Work", unreported)
    assert bindings(fleet) == [GOOD]
    assert fleet.clusters[ROGUE].find(SECRET, "card", HOME) is None
