"""Fields that belong to the member rather than to the author of a manifest, on a real API server.

An apply neither sends nor reverts them, and in steady state the audit log of the member shows no write.
"""

from collections.abc import AsyncIterator, Iterator

import pytest

from e2e.controlplane.cluster import Cluster
from e2e.controlplane.process import PATIENCE, Program, kill
from e2e.fleet.bed import COLLECTORS
from e2e.members.applying import CLIENT, FULL, IF_NOT_DRIFTED, REPORT, SERVER, Bed, JsonObject, running_bed
from scorer.api.kinds import KINDS
from scorer.api.names import IGNORE_FIELDS
from scorer.rollout.selection.content import stored_content
from tests.waiting import until
from webhook.member.store.ports import MANAGER

CONFIG_MAP = KINDS["", "ConfigMap"]
FORCED = {**SERVER, "serverSideApplyConfig": {"force": True}}
APPLYING = [
    pytest.param(CLIENT, id="client-side"),
    pytest.param(SERVER, id="server-side"),
    pytest.param(FORCED, id="forced"),
]
HUB_FINALIZER, MEMBER_FINALIZER = "operator.example.com/cleanup", "backup.example.com/hold"


@pytest.fixture(scope="module")
def cluster(own_hub: Cluster) -> Iterator[Cluster]:
    """A member whose controllers run."""
    controllers: Program = own_hub.start_controller_manager(("*", *(f"-{name}" for name in COLLECTORS)))
    yield own_hub
    kill(controllers)


@pytest.fixture
async def bed(cluster: Cluster) -> AsyncIterator[Bed]:
    async with running_bed(cluster) as bed:
        yield bed


def with_finalizers(document: JsonObject, *finalizers: str) -> JsonObject:
    return {**document, "metadata": {**document["metadata"], "finalizers": list(finalizers)}}


def finalizers(bed: Bed) -> list[str]:
    live = bed.live("configmaps", "settings")
    assert live is not None
    return list(live["metadata"].get("finalizers") or ())


def drop_finalizers(bed: Bed) -> None:
    bed.patch("configmaps", "settings", metadata={"finalizers": None})


@pytest.mark.parametrize("strategy", APPLYING)
async def test_finalizers_of_the_hub_are_not_placed_and_those_of_the_member_remain(bed, strategy):
    manifest = with_finalizers(bed.config_map(level="info"), HUB_FINALIZER)
    await bed.place(manifest, applyStrategy={**strategy, **FULL})
    await bed.reconcile()
    assert finalizers(bed) == []
    bed.patch("configmaps", "settings", metadata={"finalizers": [MEMBER_FINALIZER]})
    await bed.reconcile()
    await bed.assert_quiet()
    for finalizer in (HUB_FINALIZER, MEMBER_FINALIZER):
        manifest = with_finalizers(bed.config_map(level=finalizer), finalizer)
        await bed.place(manifest, applyStrategy={**strategy, **FULL})
        await bed.reconcile()
        assert bed.live("configmaps", "settings")["data"] == {"level": finalizer}
        assert finalizers(bed) == [MEMBER_FINALIZER]
    assert "driftDetails" not in (await bed.entries())[0]
    await bed.assert_quiet()
    drop_finalizers(bed)


@pytest.mark.parametrize("strategy", APPLYING)
async def test_finalizers_that_an_earlier_release_placed_remain_until_the_object_is_removed(bed, strategy):
    """The member's own operator may rely on them: nothing tells that it does not."""
    placed = with_finalizers(bed.config_map(level="info"), HUB_FINALIZER)
    if strategy is CLIENT:
        await bed.member.create(CONFIG_MAP, placed)
    else:
        await bed.member.apply(CONFIG_MAP, placed, manager=MANAGER, force=False)
    await bed.place(placed, applyStrategy=strategy)
    await bed.reconcile()
    await bed.place(with_finalizers(bed.config_map(level="debug"), HUB_FINALIZER), applyStrategy=strategy)
    await bed.reconcile()
    assert bed.live("configmaps", "settings")["data"] == {"level": "debug"}
    assert finalizers(bed) == [HUB_FINALIZER]
    await bed.assert_quiet()
    drop_finalizers(bed)


WEBHOOKS = "admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
ROLES = "rbac.authorization.k8s.io/v1/clusterroles"
INJECTED = "Y2EtYnVuZGxl"


def path_of(bed: Bed, resource: str, name: str = "") -> str:
    """Return the path of an object or, without a name, of a collection; two resources here are cluster-scoped."""
    return (f"/apis/{resource}/{name}" if resource in (WEBHOOKS, ROLES) else bed.path(resource, name)).rstrip("/")


def fetch(bed: Bed, resource: str, name: str) -> JsonObject:
    return dict(bed.cluster.request("GET", path_of(bed, resource, name))[0])


def patch(bed: Bed, resource: str, name: str, changes: JsonObject) -> None:
    path = path_of(bed, resource, name) + "?fieldManager=filler"
    bed.cluster.request("PATCH", path, changes, content_type="application/merge-patch+json")


def service(bed: Bed, name: str, kind: str, **spec: object) -> JsonObject:
    ports = [
        {"name": "web", "port": 80},
        {"name": "dns", "port": 53},
        {"name": "dns-udp", "port": 53, "protocol": "UDP"},
    ]
    body = {"type": kind, "selector": {"app": "web"}, "ports": ports if kind == "NodePort" else ports[:1], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": bed.space}, "spec": body}


def claim(bed: Bed) -> JsonObject:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
    metadata = {"name": "data", "namespace": bed.space}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def job(bed: Bed) -> JsonObject:
    spec = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "migrate:1"}]}
    template = {"metadata": {"labels": {"app": "migrate"}}, "spec": spec}
    metadata = {"name": "migrate", "namespace": bed.space}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


def webhooks(bed: Bed) -> JsonObject:
    """A configuration whose CA bundle an injector writes; it concerns a group that does not exist."""
    rule = {
        "apiGroups": ["none.example.com"],
        "apiVersions": ["v1"],
        "resources": ["nothings"],
        "operations": ["CREATE"],
    }
    hook = {
        "name": "none.example.com",
        "clientConfig": {"service": {"name": "none", "namespace": bed.space}, "caBundle": "aHVi"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    annotations = {"cert-manager.io/inject-ca-from": f"{bed.space}/none"}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": f"hooks-{bed.space}", "annotations": annotations},
        "webhooks": [hook],
    }


def roles(bed: Bed) -> list[JsonObject]:
    """A role that aggregates another; its rules are those of the hub."""
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    label = {f"aggregate-{bed.space}": "true"}
    selectors = {"clusterRoleSelectors": [{"matchLabels": label}]}
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    of_the_hub = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]
    whole = {"metadata": {"name": f"whole-{bed.space}"}, "aggregationRule": selectors, "rules": of_the_hub}
    return [{**role, **whole}, {**role, "metadata": {"name": f"part-{bed.space}", "labels": label}, "rules": rules}]


def filled_objects(bed: Bed) -> list[tuple[str, JsonObject]]:
    """Return objects with fields that a cluster fills, each with its resource."""
    return [
        ("services", service(bed, "cluster-ip", "ClusterIP")),
        ("services", service(bed, "node-port", "NodePort")),
        ("services", service(bed, "balanced", "LoadBalancer", externalTrafficPolicy="Local")),
        ("persistentvolumeclaims", claim(bed)),
        ("batch/v1/jobs", job(bed)),
        (WEBHOOKS, webhooks(bed)),
        *((ROLES, role) for role in roles(bed)),
    ]


def content_on_hub(bed: Bed, resource: str, document: JsonObject) -> JsonObject:
    """Return what a hub stores of an object that it has defaulted and filled, with the hub's own values."""
    return stored_content(bed.cluster.request("POST", path_of(bed, resource) + "?dryRun=All", document)[0])


async def fill(bed: Bed) -> None:
    """Fill the fields that no controller of the control plane fills, and wait for the others."""
    annotations = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
    bound = {"metadata": {"annotations": annotations}, "spec": {"volumeName": f"volume-{bed.space}"}}
    patch(bed, "persistentvolumeclaims", "data", bound)
    hook = {**fetch(bed, WEBHOOKS, f"hooks-{bed.space}")["webhooks"][0]}
    hook["clientConfig"] = {**hook["clientConfig"], "caBundle": INJECTED}
    patch(bed, WEBHOOKS, f"hooks-{bed.space}", {"webhooks": [hook]})
    part, whole = (fetch(bed, ROLES, f"{name}-{bed.space}")["rules"] for name in ("part", "whole"))
    if part != whole:
        await until(lambda: fetch(bed, ROLES, f"whole-{bed.space}")["rules"] == part, PATIENCE)


def filled_values(bed: Bed) -> JsonObject:
    """Return the values that the member has filled in."""
    services = {name: fetch(bed, "services", name)["spec"] for name in ("cluster-ip", "node-port", "balanced")}
    live_job = fetch(bed, "batch/v1/jobs", "migrate")
    (hook,) = fetch(bed, WEBHOOKS, f"hooks-{bed.space}")["webhooks"]
    values = {
        "clusterIP": services["cluster-ip"]["clusterIP"],
        "clusterIPs": services["cluster-ip"]["clusterIPs"],
        "nodePorts": [port["nodePort"] for port in services["node-port"]["ports"]],
        "healthCheckNodePort": services["balanced"]["healthCheckNodePort"],
        "volumeName": fetch(bed, "persistentvolumeclaims", "data")["spec"]["volumeName"],
        "caBundle": hook["clientConfig"]["caBundle"],
        "rules": fetch(bed, ROLES, f"whole-{bed.space}")["rules"],
        "selector": live_job["spec"]["selector"]["matchLabels"],
        "labels": live_job["spec"]["template"]["metadata"]["labels"],
    }
    assert all(values.values())
    return values


async def assert_no_differences(bed: Bed, reason: str) -> None:
    entries = await bed.entries()
    details = [
        (entry["identifier"]["name"], entry.get("driftDetails") or entry.get("diffDetails")) for entry in entries
    ]
    assert [detail for detail in details if detail[1]] == []
    assert [entry["conditions"][0]["reason"] for entry in entries] == [reason] * len(entries)


def relabelled(document: JsonObject) -> JsonObject:
    metadata = document["metadata"]
    return {**document, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), "changed": "yes"}}}


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param({**CLIENT, **FULL}, id="client-side"),
        pytest.param({**SERVER, **FULL}, id="server-side"),
        pytest.param({**FORCED, **FULL}, id="forced"),
        pytest.param({**CLIENT, **FULL, **IF_NOT_DRIFTED}, id="client-side-if-not-drifted"),
        pytest.param({**SERVER, **FULL, **IF_NOT_DRIFTED}, id="server-side-if-not-drifted"),
        pytest.param({**SERVER, **IF_NOT_DRIFTED}, id="server-side-if-not-drifted-partial"),
    ],
)
async def test_fields_that_the_member_fills_are_no_drift_and_remain(bed, strategy):
    manifests = [content_on_hub(bed, *item) for item in filled_objects(bed)]
    await bed.place(*manifests, applyStrategy=strategy)
    await bed.reconcile()
    await fill(bed)
    values = filled_values(bed)
    await bed.reconcile()
    await assert_no_differences(bed, "Applied")
    await bed.assert_quiet()
    await bed.place(*map(relabelled, manifests), applyStrategy=strategy)
    await bed.reconcile()
    await assert_no_differences(bed, "Applied")
    assert filled_values(bed) == values
    assert fetch(bed, "services", "cluster-ip")["metadata"]["labels"] == {"changed": "yes"}
    await bed.assert_quiet()
    await bed.delete()
    await bed.until_gone()


@pytest.mark.parametrize("comparison", [{}, FULL], ids=["partial", "full"])
async def test_fields_that_the_member_fills_are_no_difference(bed, comparison):
    manifests = [content_on_hub(bed, *item) for item in filled_objects(bed)]
    for resource, document in filled_objects(bed):
        bed.cluster.request("POST", path_of(bed, resource), document)
    await fill(bed)
    await bed.place(*manifests, applyStrategy={**REPORT, **comparison})
    await bed.reconcile()
    await assert_no_differences(bed, "NoDiffFound")
    await bed.assert_quiet()
    for resource, document in filled_objects(bed):
        if resource in (WEBHOOKS, ROLES):
            bed.cluster.request("DELETE", path_of(bed, resource, document["metadata"]["name"]))


@pytest.mark.parametrize("strategy", APPLYING)
async def test_fields_that_an_earlier_release_sent_remain_with_the_member(bed, strategy):
    """Earlier releases sent the hub's CA bundle and volume: our entries in managedFields have both."""
    sent = [(WEBHOOKS, webhooks(bed)), ("persistentvolumeclaims", claim(bed))]
    sent[1][1]["spec"]["volumeName"] = f"volume-{bed.space}"
    kinds = [
        KINDS["admissionregistration.k8s.io", "ValidatingWebhookConfiguration"],
        KINDS["", "PersistentVolumeClaim"],
    ]
    for kind, (_, document) in zip(kinds, sent, strict=True):
        if strategy is CLIENT:
            await bed.member.create(kind, document)
        else:
            await bed.member.apply(kind, document, manager=MANAGER, force=False)
    await bed.place(webhooks(bed), claim(bed), applyStrategy=strategy)
    for _ in range(2):
        await bed.reconcile()
    assert await bed.reasons() == ["Applied", "Applied"]
    (hook,) = fetch(bed, WEBHOOKS, f"hooks-{bed.space}")["webhooks"]
    assert hook["clientConfig"]["caBundle"] == "aHVi"
    assert fetch(bed, "persistentvolumeclaims", "data")["spec"]["volumeName"] == f"volume-{bed.space}"
    await bed.assert_quiet()
    await bed.delete()
    await bed.until_gone()


def ignoring(document: JsonObject, *pointers: str) -> JsonObject:
    annotations = {IGNORE_FIELDS: ",".join(pointers)}
    return {**document, "metadata": {**document["metadata"], "annotations": annotations}}


def scale(bed: Bed, replicas: int) -> None:
    patch(bed, "apps/v1/deployments", "shop", {"spec": {"replicas": replicas}})


def replicas_and_image(bed: Bed) -> tuple[int, str]:
    spec = fetch(bed, "apps/v1/deployments", "shop")["spec"]
    return spec["replicas"], spec["template"]["spec"]["containers"][-1]["image"]


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param({**CLIENT, **IF_NOT_DRIFTED}, id="client-side"),
        pytest.param({**SERVER, **IF_NOT_DRIFTED}, id="server-side"),
        pytest.param({**FORCED, **IF_NOT_DRIFTED}, id="forced"),
    ],
)
async def test_ignored_fields_are_left_to_the_member(bed, strategy):
    """As for a HorizontalPodAutoscaler: the annotation comes later, and is removed again."""
    await bed.place(bed.deployment(), applyStrategy=strategy)
    await bed.reconcile()
    await bed.place(ignoring(bed.deployment(), "/spec/replicas"), applyStrategy=strategy)
    await bed.reconcile()
    assert replicas_and_image(bed) == (2, "shop:1"), "the replicas are not reset"
    scale(bed, 5)
    await bed.until_settled()
    await bed.reconcile()
    assert await bed.reasons() == ["Applied"]
    await bed.assert_quiet()
    await bed.place(ignoring(bed.deployment(image="shop:2"), "/spec/replicas"), applyStrategy=strategy)
    await bed.reconcile()
    assert replicas_and_image(bed) == (5, "shop:2")
    await bed.until_settled()
    await bed.reconcile()
    await bed.assert_quiet()
    await bed.place(bed.deployment(image="shop:2"), applyStrategy={**FORCED, **IF_NOT_DRIFTED})
    await bed.reconcile()
    assert replicas_and_image(bed) == (2, "shop:2")


@pytest.mark.parametrize("strategy", APPLYING)
async def test_an_object_is_created_with_the_fields_that_are_ignored_later(bed, strategy):
    pointers = ("/spec/template/spec/containers/0/image", "/spec/template/spec/tolerations/0/key")
    await bed.place(ignoring(bed.deployment(), *pointers), applyStrategy=strategy)
    await bed.reconcile()
    assert replicas_and_image(bed) == (2, "shop:1")
    pod = fetch(bed, "apps/v1/deployments", "shop")["spec"]["template"]["spec"]
    sidecar = {"name": "sidecar", "image": "sidecar:1"}
    pod["containers"] = [sidecar, {**pod["containers"][0], "image": "shop:9"}]
    tolerations = [{"key": "b", "operator": "Exists"}]
    patch(bed, "apps/v1/deployments", "shop", {"spec": {"template": {"spec": {**pod, "tolerations": tolerations}}}})
    await bed.until_settled()
    await bed.place(ignoring(bed.deployment(cpu="2000m"), *pointers), applyStrategy=strategy)
    for _ in range(2):
        await bed.reconcile()
    assert await bed.reasons() == ["Applied"]
    pod = fetch(bed, "apps/v1/deployments", "shop")["spec"]["template"]["spec"]
    images = {container["name"]: container["image"] for container in pod["containers"]}
    assert images == {"sidecar": "sidecar:1", "shop": "shop:9"}
    assert pod["tolerations"] == tolerations
    await bed.until_settled()
    await bed.reconcile()
    await bed.assert_quiet()


async def test_a_mistake_in_the_annotation_is_reported_and_nothing_is_applied(bed):
    await bed.place(ignoring(bed.config_map(), "/kind"))
    await bed.reconcile()
    assert await bed.reasons() == ["DecodingErred"]
    assert (
        await bed.message() == f'metadata.annotations[{IGNORE_FIELDS}] "/kind" must not name the identity of the object'
    )
    assert bed.live("configmaps", "settings") is None
