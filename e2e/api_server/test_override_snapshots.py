"""Overrides on a real API server: what it stores of their snapshots is what was meant, and nothing is written twice."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import count

import pytest

from e2e.controlplane.cluster import Cluster
from scorer.api.family import FAMILIES, family_in
from scorer.api.kinds import MEMBER_CLUSTER, NAMESPACED_OVERRIDE, OVERRIDE
from scorer.api.meta import JsonObject
from scorer.api.names import IS_LATEST_SNAPSHOT, OVERRIDE_CLEANUP
from scorer.api.unstructured.documents import owner_reference
from scorer.rollout.bindings import Overrides
from scorer.rollout.overrides.application import binding_override
from webhook.controllers.machinery.result import DONE
from webhook.controllers.placements.overrides import UNUSED_GRACE, OverrideController, OverrideRef
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.informer import Cache
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.kube.listers.overrides import named_override_snapshots
from webhook.kube.ports import Key, NotFoundError

REFS = [
    pytest.param(OverrideRef("zone"), id="cluster-scoped"),
    pytest.param(OverrideRef("zone", "default"), id="namespaced"),
]
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rates", "namespace": "default"}}
MEMBER = {
    "apiVersion": MEMBER_CLUSTER.api_version,
    "kind": MEMBER_CLUSTER.kind,
    "metadata": {"name": "a", "labels": {"zone": "west"}},
}


KINDS = tuple(
    kind for family in FAMILIES for kind in (family.override, family.override_snapshot, family.binding, family.run)
)


class Process:
    """What one process knows of the hub. For it, the grace period ends before the next pass."""

    def __init__(self, store: HubStore) -> None:
        self.store = store
        self.cache = Cache(store)
        self.hub = Hub(store, self.cache)
        passes = count()
        now = datetime(2026, 11, 20, tzinfo=UTC)
        self._controller = OverrideController(self.hub, lambda: now + next(passes) * UNUSED_GRACE, lambda *_: None)

    async def reconcile(self, ref: OverrideRef) -> int:
        """Hear of everything and reconcile until nothing is left to do. Return how many writes that took."""
        before, result = self.hub.writes, None
        while result != DONE:
            for kind in KINDS:
                listing = await self.store.list(kind)
                self.cache.of_kind(kind).replace_all(listing.items, listing.resource_version)
            result = await self._controller.reconcile(ref)
        return self.hub.writes - before

    async def snapshots(self, ref: OverrideRef) -> dict[str, JsonObject]:
        """Return the snapshots as they are stored, by name."""
        listing = await self.store.list(ref.snapshot_kind, ref.namespace or None)
        return {item["metadata"]["name"]: item for item in listing.items if OverrideRef.parent(item) == ref}


@pytest.fixture
async def process(bare_hub: Cluster) -> AsyncIterator[Process]:
    async with await ApiServer.connect(bare_hub.kubeconfig) as server:
        found = Process(HubStore(server))
        yield found
        for kind in (OVERRIDE, NAMESPACED_OVERRIDE):
            for item in (await found.store.list(kind)).items:
                ref = OverrideRef.of(item)
                await found.store.delete(kind, Key(ref.name, ref.namespace))
                await found.reconcile(ref)


def make_override(ref: OverrideRef, value: object) -> JsonObject:
    """Make an override that leaves everything to the defaults of the definition that may be left to them."""
    selector = {"group": "", "version": "v1"}
    selectors = (
        {"resourceSelectors": [{**selector, "kind": "ConfigMap", "name": "rates"}]}
        if ref.namespace
        else {"clusterResourceSelectors": [{**selector, "kind": "Namespace", "name": "default"}]}
    )
    patches = [
        {"op": "add", "path": "/data", "value": {}},
        {"op": "add", "path": "/data/x", "value": value},
        {"op": "remove", "path": "/data/x"},
        {"op": "add", "path": "/data/x", "value": value},
    ]
    rule = {"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": patches}
    metadata = {"name": ref.name} | ({"namespace": ref.namespace} if ref.namespace else {})
    spec = {"placement": {"name": "p"}, **selectors, "policy": {"overrideRules": [rule]}}
    return {"apiVersion": ref.kind.api_version, "kind": ref.kind.kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("ref", REFS)
@pytest.mark.parametrize(
    "value",
    [
        pytest.param("${MEMBER-CLUSTER-NAME}-${MEMBER-CLUSTER-LABEL-KEY-zone}", id="text"),
        pytest.param({"deep": [1, 2.5, True, {"a": None, "b": "${MEMBER-CLUSTER-NAME}"}]}, id="object"),
        pytest.param(7, id="number"),
        pytest.param(None, id="null"),
    ],
)
async def test_snapshots_keep_what_the_override_says(process: Process, ref: OverrideRef, value: object) -> None:
    stored = await process.store.create(ref.kind, make_override(ref, value))
    assert await process.reconcile(ref) == 2
    assert await process.reconcile(ref) == 0
    (snapshot,) = (await process.snapshots(ref)).values()
    assert snapshot["spec"]["overrideSpec"] == stored["spec"]
    assert "ownerReferences" not in snapshot["metadata"]
    name = snapshot["metadata"]["name"]
    overrides = Overrides(namespaced=((ref.namespace, name),)) if ref.namespace else Overrides(cluster=(name,))
    binding = {"metadata": {"name": "p-a"}, "spec": {"targetCluster": "a", **overrides.fields()}}
    snapshots = named_override_snapshots(process.cache, binding)
    result = binding_override(binding, MEMBER, snapshots)(CONFIG_MAP)
    wanted = {"text": "a-west", "object": {"deep": [1, 2.5, True, {"a": None, "b": "a"}]}, "number": 7, "null": None}
    key = {str: "text", dict: "object", int: "number"}.get(type(value), "null")
    assert isinstance(result, dict)
    assert result["data"] == {"x": wanted[key]}


@pytest.mark.parametrize("ref", REFS)
async def test_ten_versions_and_the_end_of_all_of_them(process: Process, ref: OverrideRef) -> None:
    await process.store.create(ref.kind, make_override(ref, "0"))
    for number in range(12):
        stored = await process.store.get(ref.kind, Key(ref.name, ref.namespace))
        spec = make_override(ref, str(number))["spec"]
        await process.store.replace(ref.kind, {**stored, "spec": spec})
        await process.reconcile(ref)
    found = await process.snapshots(ref)
    assert sorted(found) == sorted(f"zone-{number}" for number in range(2, 12))
    latest = [name for name, item in found.items() if item["metadata"]["labels"][IS_LATEST_SNAPSHOT] == "true"]
    assert latest == ["zone-11"]
    await process.store.delete(ref.kind, Key(ref.name, ref.namespace))
    held = await process.store.get(ref.kind, Key(ref.name, ref.namespace))
    assert held["metadata"]["finalizers"] == [OVERRIDE_CLEANUP]
    await process.reconcile(ref)
    assert await process.snapshots(ref) == {}
    with pytest.raises(NotFoundError):
        await process.store.get(ref.kind, Key(ref.name, ref.namespace))


@pytest.mark.parametrize("ref", REFS)
async def test_a_deleted_override_leaves_the_snapshot_that_a_binding_names(process: Process, ref: OverrideRef) -> None:
    """The version of an earlier release had the override as its owner."""
    override = await process.store.create(ref.kind, make_override(ref, "0"))
    await process.reconcile(ref)
    (snapshot,) = (await process.snapshots(ref)).values()
    owned = {**snapshot["metadata"], "ownerReferences": [owner_reference(override)]}
    await process.store.replace(ref.snapshot_kind, {**snapshot, "metadata": owned})
    overrides = Overrides(namespaced=((ref.namespace, "zone-0"),)) if ref.namespace else Overrides(cluster=("zone-0",))
    kind = family_in(ref.namespace).binding
    spec = {"state": "Bound", "targetCluster": "a", "resourceSnapshotName": "p-0-snapshot"}
    spec |= {key: names for key, names in overrides.fields().items() if names}
    spec |= {
        "schedulingPolicySnapshotName": "p-0",
        "clusterDecision": {"clusterName": "a", "selected": True, "reason": ""},
    }
    metadata = {"name": "p-a"} | ({"namespace": ref.namespace} if ref.namespace else {})
    document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
    binding = await process.store.create(kind, document)
    await process.store.delete(ref.kind, Key(ref.name, ref.namespace))
    await process.reconcile(ref)
    with pytest.raises(NotFoundError):
        await process.store.get(ref.kind, Key(ref.name, ref.namespace))
    (kept,) = (await process.snapshots(ref)).values()
    assert kept["metadata"]["labels"][IS_LATEST_SNAPSHOT] == "false"
    assert "ownerReferences" not in kept["metadata"]
    assert await process.reconcile(ref) == 0
    await process.store.create(ref.kind, make_override(ref, "0"))
    await process.reconcile(ref)
    (adopted,) = (await process.snapshots(ref)).values()
    assert adopted["metadata"]["uid"] == snapshot["metadata"]["uid"]
    assert adopted["metadata"]["labels"][IS_LATEST_SNAPSHOT] == "true"
    await process.store.delete(ref.kind, Key(ref.name, ref.namespace))
    await process.store.delete(kind, Key("p-a", ref.namespace), uid=binding["metadata"]["uid"])
    await process.reconcile(ref)
    assert await process.snapshots(ref) == {}
