"""What belongs to a cluster is not placed: objects of its controllers, fields that it fills, finalizers that it holds.

Owners, allocated addresses and field managers are those of a real API server. The reported case is a ConfigMap whose
finalizer is the hub's: on a member no controller removes it.
"""

from collections.abc import Iterator

import pytest

from e2e.controlplane.cluster import JsonObject
from e2e.fleet.bed import Fleet
from e2e.fleet.complete import Complete, wait_complete
from e2e.fleet.objects import (
    CONFIG_MAP,
    annotations_of,
    condition_of,
    make_config_map,
    make_cron_job,
    make_namespace,
    make_placement,
    pick_fixed,
    selects,
)
from e2e.fleet.scene import Scene
from e2e.fleet.settled import assert_settled
from e2e.fleet.waiting import wait_until
from e2e.fleet.writes import Writes
from scorer.api.kinds import APPLIED_WORK, KINDS, NAMESPACE, PLACEMENT, WORK
from scorer.api.names import RELEASE, member_namespace

MEMBER = "bravelion"
CRON_JOB, JOB = KINDS["batch", "CronJob"], KINDS["batch", "Job"]
CLAIM, SERVICE = KINDS["", "PersistentVolumeClaim"], KINDS["", "Service"]
STATEFUL_SET = KINDS["apps", "StatefulSet"]
WEBHOOKS = KINDS["admissionregistration.k8s.io", "MutatingWebhookConfiguration"]
NOT_SELECTED = ("ObjectsNotSelected", "True", "CreatedByControllers")
OPERATOR = "operator.example.com/cleanup"


def make_claim(name: str, namespace: str) -> JsonObject:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "x"}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def make_stateful_set(name: str, namespace: str, *templates: str) -> JsonObject:
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "example.com/a:1"}]}}
    claims = [{"metadata": {"name": each}, "spec": make_claim(each, namespace)["spec"]} for each in templates]
    spec = {"selector": {"matchLabels": labels}, "serviceName": name, "replicas": 0, "template": pod}
    metadata = {"name": name, "namespace": namespace}
    spec |= {"volumeClaimTemplates": claims}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


def make_job(name: str, namespace: str, owner: JsonObject) -> JsonObject:
    """Make a Job as a CronJob controller does."""
    reference = {key: owner["metadata"][key] for key in ("name", "uid")} | {"controller": True}
    metadata = {"name": name, "namespace": namespace}
    metadata |= {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", **reference}]}
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "example.com/a:1"}]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}}}


@pytest.fixture
def unprotected(fleet: Fleet) -> Iterator[set[str]]:
    """Namespaces whose claims lose their finalizers after a test: no controller here removes those."""
    homes: set[str] = set()
    yield homes
    for objects in (fleet.on_hub, fleet.clusters[MEMBER]):
        for claim in (claim for home in homes for claim in objects.all(CLAIM, home)):
            metadata = claim["metadata"]
            objects.patch(CLAIM, metadata["name"], {"metadata": {"finalizers": None}}, metadata["namespace"])


def manifests(fleet: Fleet, placement: str) -> dict[str, JsonObject]:
    """Return the manifests of the only Work of a placement, by name."""
    work = fleet.on_hub.get(WORK, f"{placement}-work", member_namespace(MEMBER))
    return {each["metadata"]["name"]: each for each in work["spec"]["workload"]["manifests"]}


@pytest.mark.core
def test_objects_of_controllers_are_counted_and_not_placed(fleet: Fleet, scene: Scene, unprotected: set[str]) -> None:
    home = "e2e-controllers"
    unprotected.add(home)
    scene.put(make_namespace(home))
    cron_job = scene.put(make_cron_job("backup", home))
    scene.put(
        make_job("backup-1", home, cron_job),
        make_stateful_set("db", home, "data"),
        make_claim("data-db-0", home),
        make_config_map("istio-ca-root-cert", home, ca="x"),
        make_placement(home, pick_fixed(MEMBER)),
    )
    wait_complete(fleet, Complete(home, [MEMBER], trackable=False, more=[NOT_SELECTED]))
    assert manifests(fleet, home).keys() == {home, "backup", "db"}
    message = condition_of(fleet.on_hub.get(PLACEMENT, home), "ClusterResourcePlacementObjectsNotSelected")["message"]
    assert message.startswith("3 objects are not placed")
    for origin in ("Jobs of CronJobs (1)", "PersistentVolumeClaims of StatefulSets (1)", "CA ConfigMaps of Istio (1)"):
        assert origin in message
    assert fleet.clusters[MEMBER].find(JOB, "backup-1", home) is None


def test_a_claim_that_becomes_one_of_a_stateful_set_remains_on_the_member(
    fleet: Fleet, scene: Scene, unprotected: set[str]
) -> None:
    home = "e2e-claims"
    unprotected.add(home)
    scene.put(make_namespace(home), make_claim("data-db-0", home), make_placement(home, pick_fixed(MEMBER)))
    wait_complete(fleet, Complete(home, [MEMBER], trackable=False))
    member = fleet.clusters[MEMBER]
    uid = member.get(CLAIM, "data-db-0", home)["metadata"]["uid"]
    scene.put(make_stateful_set("db", home, "data"))
    wait_complete(fleet, Complete(home, [MEMBER], index="1", more=[NOT_SELECTED]))
    wait_until(
        "the claim is released",
        lambda: str(member.get(CLAIM, "data-db-0", home)["metadata"].get("ownerReferences", "")),
    )
    live = member.get(CLAIM, "data-db-0", home)["metadata"]
    assert live["uid"] == uid
    assert "deletionTimestamp" not in live
    assert "data-db-0" in annotations_of(fleet.on_hub.get(WORK, f"{home}-work", member_namespace(MEMBER)))[RELEASE]
    assert_settled(fleet)


def test_finalizers_of_the_hub_are_not_placed_and_nothing_is_left_behind(fleet: Fleet, scene: Scene) -> None:
    home = "e2e-finalizers"
    held = make_config_map("app", home, a="1")
    held["metadata"]["finalizers"] = [OPERATOR]
    scene.put(make_namespace(home), held, make_placement(home, pick_fixed(MEMBER)))
    wait_complete(fleet, Complete(home, [MEMBER]))
    member = fleet.clusters[MEMBER]
    assert "finalizers" not in manifests(fleet, home)["app"]["metadata"]
    assert "finalizers" not in member.get(CONFIG_MAP, "app", home)["metadata"]
    fleet.on_hub.delete(CONFIG_MAP, "app", home)
    fleet.on_hub.patch(CONFIG_MAP, "app", {"metadata": {"finalizers": None}}, home)
    wait_until("the member loses it", lambda: "it is there" if member.find(CONFIG_MAP, "app", home) else "")
    fleet.on_hub.delete(PLACEMENT, home)
    wait_until("nothing is left", lambda: "a namespace" if member.find(NAMESPACE, home) else "")
    wait_until("its Work is gone", lambda: "it is there" if member.find(APPLIED_WORK, f"{home}-work") else "")


def test_fields_that_the_clusters_fill_are_neither_sent_nor_written_again(fleet: Fleet, scene: Scene) -> None:
    home = "e2e-filled"
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": home}}
    service |= {"spec": {"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80}]}}
    hook = {
        "name": "a.example.com",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
    }
    hook |= {"clientConfig": {"service": {"name": "a", "namespace": home}}}
    hook |= {
        "rules": [
            {"apiGroups": ["e2e.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["a"]}
        ]
    }
    configuration = {"apiVersion": WEBHOOKS.api_version, "kind": WEBHOOKS.kind, "metadata": {"name": home}}
    configuration |= {"webhooks": [hook]}
    scene.put(make_namespace(home), service, configuration)
    bundle = {**hook, "clientConfig": {**hook["clientConfig"], "caBundle": "Cg=="}}
    fleet.on_hub.patch(WEBHOOKS, home, {"webhooks": [bundle]}, manager="rotator")
    terms = [selects(NAMESPACE, home), selects(WEBHOOKS, home)]
    scene.put(make_placement(home, pick_fixed(MEMBER), resourceSelectors=terms))
    wait_complete(fleet, Complete(home, [MEMBER], trackable=False))
    sent = manifests(fleet, home)
    assert "nodePort" not in sent["web"]["spec"]["ports"][0]
    document = fleet.on_hub.get(WORK, f"{home}-work", member_namespace(MEMBER))
    (webhook,) = [each for each in document["spec"]["workload"]["manifests"] if each["kind"] == WEBHOOKS.kind]
    assert "caBundle" not in webhook["webhooks"][0]["clientConfig"]
    writes = Writes(fleet)
    fleet.on_hub.patch(WEBHOOKS, home, {"metadata": {"labels": {"e2e": "again"}}})
    wait_complete(fleet, Complete(home, [MEMBER], trackable=False, index="1"))
    assert not [write for write in writes.on_members().get(MEMBER, ()) if write.resource == "services"]
