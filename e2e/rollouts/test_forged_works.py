"""A compromised agent claims content of other members through its own Works, with its own token and Role.

A placement selects a namespace with a Secret for one member; the agent of another member tries to get it. It also tries
to keep its cluster open for placements, and to stay in the fleet.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, takewhile
from threading import Event

import pytest

from e2e.controlplane.cluster import ApiError, JsonObject
from e2e.fleet.bed import ACCOUNT, Fleet, grant_loop
from e2e.fleet.changes import TAINT, UNTAINT, live_bindings, member_change
from e2e.fleet.objects import APPLY, CONFIG_MAP, MERGE, Objects, make_placement, selects
from e2e.fleet.scene import Scene
from e2e.fleet.settled import assert_settled
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import BINDING, EVENT, INTERNAL_MEMBER_CLUSTER, KINDS, MEMBER_CLUSTER, NAMESPACE, WORK
from scorer.api.names import (
    PARENT_BINDING,
    PARENT_PLACEMENT,
    PARENT_RESOURCE_SNAPSHOT_NAME,
    PROVENANCE,
    WORK_CLEANUP,
    member_namespace,
)
from webhook.kube.client.paths import path_of

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
    labels = {PARENT_PLACEMENT: HARMLESS, PARENT_BINDING: owner_of(fleet)}
    yield
    # Meanwhile its name was taken by another placement, so the loop has made a Work of another name.
    fleet.on_hub.patch(WORK, f"{HARMLESS}-work", {"metadata": {"labels": labels}}, member_namespace(ROGUE))
    second = f"{HARMLESS}-work-crp"
    space = member_namespace(ROGUE)
    wait_until("one Work is left", lambda: "there are two" if fleet.on_hub.find(WORK, second, space) else "")
    grant_loop(fleet.hub, ACCOUNT)
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
    assert "may write only" in refusal(agent, CLAIM)
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


STATUS = "/status"
PATCH = "application/json-patch+json"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000"}
FOREIGN = {"metadata": {"finalizers": [WORK_CLEANUP, "example.com/foreign"]}}


WAYS = {
    "labels through the status": (STATUS, MERGE, CLAIM),
    "labels applied to the status": (STATUS, APPLY, CLAIM),
    "labels applied": ("", APPLY, CLAIM),
    "one more label": ("", PATCH, [{"op": "add", "path": "/metadata/labels/x", "value": "y"}]),
    "no annotations": ("", PATCH, [{"op": "remove", "path": "/metadata/annotations"}]),
    "no labels": ("", PATCH, [{"op": "remove", "path": "/metadata/labels"}]),
    "dead owner": ("", MERGE, {"metadata": {"ownerReferences": [OWNER]}}),
    "dead owner through the status": (STATUS, MERGE, {"metadata": {"ownerReferences": [OWNER]}}),
    "foreign finalizer": ("", MERGE, FOREIGN),
    "foreign finalizer through the status": (STATUS, MERGE, FOREIGN),
    "no content": ("", MERGE, {"spec": {"workload": {"manifests": []}}}),
    "another strategy": ("", MERGE, {"spec": {"applyStrategy": {"type": "ReportDiff"}}}),
}


@pytest.mark.usefixtures("_placed")
def test_no_way_of_writing_changes_what_the_loop_reads_of_a_work(fleet: Fleet, agent: Objects) -> None:
    """One test for all ways: each leaves the Work as it was."""
    before = kept_of(fleet)
    for way, (subresource, content_type, change) in WAYS.items():
        at = path_of(WORK, member_namespace(ROGUE), f"{HARMLESS}-work") + subresource
        body: object = change
        if content_type == APPLY and isinstance(change, dict):
            at += "?fieldManager=rogue&force=true"
            head = {"name": f"{HARMLESS}-work", "namespace": member_namespace(ROGUE), **change["metadata"]}
            body = {"apiVersion": WORK.api_version, "kind": WORK.kind, "metadata": head}
        try:
            agent.cluster.request("PATCH", at, body, user=agent.user, content_type=content_type)
        except ApiError as error:
            assert error.code == 403, (way, error)
            assert not subresource, way
        else:
            assert subresource, way  # through the status the change is not refused but ignored
        assert kept_of(fleet) == before, way


def kept_of(fleet: Fleet) -> JsonObject:
    """What of the harmless Work only the loop may change."""
    work = fleet.on_hub.get(WORK, f"{HARMLESS}-work", member_namespace(ROGUE))
    names = ("labels", "annotations", "ownerReferences", "finalizers")
    return {"spec": work["spec"], **{name: work["metadata"].get(name) for name in names}}


@pytest.mark.parametrize("verb", ["POST", "DELETE"])
def test_an_agent_neither_creates_nor_deletes_works(agent: Objects, verb: str) -> None:
    metadata = {"name": "forged", "namespace": member_namespace(ROGUE), **CLAIM["metadata"]}
    forged = {"apiVersion": WORK.api_version, "kind": WORK.kind, "metadata": metadata, "spec": {}}
    with pytest.raises(ApiError, match="403"):
        agent.cluster.request(verb, path_of(WORK, member_namespace(ROGUE)), forged, user=agent.user)


def test_a_report_that_cannot_be_read_keeps_no_cluster_open(fleet: Fleet, agent: Objects, scene: Scene) -> None:
    """The API server takes the instant; the true agent reports again within seconds, so it is sent more than once."""
    forged = {"example.com/forged": {"value": "1", "observationTime": "0000-01-01T00:00:00Z"}}

    def unreported() -> str:
        agent.patch_status(INTERNAL_MEMBER_CLUSTER, ROGUE, {"properties": forged}, member_namespace(ROGUE))
        listing, _ = fleet.hub.request("GET", path_of(EVENT))
        about = [each for each in listing["items"] if each["reason"] == "UnreadableReport"]
        return "" if any(each["regarding"]["name"] == ROGUE for each in about) else "no Event reports it"

    with member_change(fleet, ROGUE, TAINT, UNTAINT):
        wait_until("the loop has ignored the report", unreported)
        assert "example.com/forged" not in fleet.on_hub.get(MEMBER_CLUSTER, ROGUE)["status"]["properties"]
        scene.home("e2e-closed", a="1")
        scene.put(make_placement("e2e-closed"))
        wait_until("the others have it", lambda: "" if len(live_bindings(fleet, "e2e-closed")) == 2 else "not yet")
        assert ROGUE not in live_bindings(fleet, "e2e-closed")


def test_an_agent_that_keeps_writing_cannot_stay(fleet: Fleet) -> None:
    """It hammers its Work from several connections while its MemberCluster is being deleted."""
    name = "e2e-leaver"
    space, user = member_namespace(name), {"username": f"{name}-agent", "groups": ["system:authenticated"]}
    member = {"apiVersion": MEMBER_CLUSTER.api_version, "kind": MEMBER_CLUSTER.kind, "metadata": {"name": name}}
    fleet.on_hub.create({**member, "spec": {"identity": {"kind": "User", "name": f"{name}-agent"}}})

    def write(kind: str, change: JsonObject) -> str:
        path = f"{path_of(WORK if kind == 'work' else INTERNAL_MEMBER_CLUSTER, space, name)}/status"
        try:
            fleet.hub.request("PATCH", path, {"status": change}, acting_as=user, content_type=MERGE)
        except ApiError as error:
            return str(error)
        return ""

    def said(joined: str) -> JsonObject:
        words = {"reason": "Said", "message": "", "lastTransitionTime": NOON}
        condition = {"type": "Joined", "status": joined, **words}
        return {"agentStatus": [{"type": "MemberAgent", "conditions": [condition], "lastReceivedHeartbeat": NOON}]}

    ended = Event()

    def hammer() -> None:
        for number in takewhile(lambda _: not ended.is_set(), count()):
            words = {"status": "True", "reason": "X", "message": str(number), "lastTransitionTime": NOON}
            if "403" in write("work", {"conditions": [{"type": "Busy", **words}]}):
                return

    wait_until("its agent may report", lambda: write("internal", said("True")))
    metadata = {"name": name, "namespace": space, "finalizers": [WORK_CLEANUP]}
    work = {"apiVersion": WORK.api_version, "kind": WORK.kind, "metadata": metadata}
    fleet.on_hub.create({**work, "spec": {"workload": {"manifests": []}}})
    with ThreadPoolExecutor(4) as threads:
        for _ in range(4):
            threads.submit(hammer)
        try:
            fleet.on_hub.delete(MEMBER_CLUSTER, name)
            wait_until("it is asked to leave", lambda: "" if told_to_leave(fleet, name) else "not yet")
            assert not write("internal", said("False"))
            wait_until("it is gone", lambda: "it is still there" if fleet.on_hub.find(MEMBER_CLUSTER, name) else "")
        finally:
            ended.set()
    assert fleet.on_hub.find(NAMESPACE, space) is None


def told_to_leave(fleet: Fleet, name: str) -> bool:
    """Whether the hub asks the agent of a member to leave."""
    internal = fleet.on_hub.find(INTERNAL_MEMBER_CLUSTER, name, member_namespace(name))
    return internal is not None and internal["spec"]["state"] == "Leave"
