"""Evictions and back-reporting on a real API server: its generations, preconditions, status subresources, discovery."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from e2e.controlplane.cluster import Cluster
from scorer.api.family import PlacementRef
from scorer.api.kinds import BINDING, DISRUPTION_BUDGET, EVICTION, KINDS, NAMESPACE, PLACEMENT, WORK
from scorer.api.names import PARENT_BINDING, PARENT_PLACEMENT, SCHEDULER_BINDING_CLEANUP
from tests.builders.condition import condition
from tests.waiting import until
from webhook.controllers.placements.back_reports import BackReportController
from webhook.controllers.placements.evictions import EvictionController
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.informer import Cache
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.discovery import Discovery
from webhook.kube.client.hub_store import HubStore
from webhook.kube.ports import AlreadyExistsError, Key, NotFoundError

DEPLOYMENT = KINDS["apps", "Deployment"]
CACHED = (PLACEMENT, BINDING, WORK, EVICTION)
NAMESPACES = ("fleet-member-evictions", "evictions")


@pytest.fixture
async def server(bare_hub: Cluster) -> AsyncIterator[ApiServer]:
    async with await ApiServer.connect(bare_hub.kubeconfig) as found:
        yield found


@pytest.fixture
async def hub(server: ApiServer) -> AsyncIterator[Hub]:
    store = HubStore(server)
    cache = Cache(store)
    found = Hub(store, cache)
    cache.require(CACHED)
    for name in NAMESPACES:
        with contextlib.suppress(AlreadyExistsError):
            await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(cache.run()), tasks.create_task(found.run())]
        await cache.wait_synced()
        yield found
        for task in running:
            task.cancel()
    for kind in (*CACHED, DISRUPTION_BUDGET, DEPLOYMENT):
        for item in (await store.list(kind)).items:
            key = Key(item["metadata"]["name"], item["metadata"].get("namespace", ""))
            if item["metadata"].get("finalizers"):
                await store.replace(kind, {**item, "metadata": {**item["metadata"], "finalizers": []}})
            with contextlib.suppress(NotFoundError):
                await store.delete(kind, key)


async def add(hub, kind, metadata, spec, status=None):
    """Create an object, and wait until the cache shows it."""
    document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
    made = await hub.store.create(kind, document)
    if status is not None:
        made = await hub.store.replace_status(kind, {**made, "status": status})
    if kind in CACHED:
        key = Key(metadata["name"], metadata.get("namespace", ""))
        await until(lambda: (known := hub.cache.get(kind, *key)) and known.get("status") == made.get("status"))
    return made


async def add_placement(hub, number, **more):
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "evictions"}
    policy = {"placementType": "PickN", "numberOfClusters": number}
    return await add(
        hub,
        PLACEMENT,
        {"name": "evictions"},
        {"resourceSelectors": [selector], "policy": policy, **more},
        {"selectedResources": [{"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"} | AT_HOME]},
    )


AT_HOME = {"namespace": "evictions"}


async def add_binding(hub, cluster):
    await add(
        hub,
        BINDING,
        {
            "name": f"evictions-{cluster}",
            "labels": {PARENT_PLACEMENT: "evictions"},
            "finalizers": [SCHEDULER_BINDING_CLEANUP],
        },
        {
            "state": "Bound",
            "targetCluster": cluster,
            "resourceSnapshotName": "evictions-0-snapshot",
            "schedulingPolicySnapshotName": "evictions-0",
            "clusterDecision": {"clusterName": cluster, "selected": True, "reason": "picked"},
        },
        {"conditions": [condition("Available", observedGeneration=1)]},
    )


@pytest.mark.core
async def test_evictions_at_once_stay_within_the_budget_and_are_answered_once(hub):
    await add_placement(hub, 4)
    for cluster in "abcd":
        await add_binding(hub, cluster)
    await add(hub, DISRUPTION_BUDGET, {"name": "evictions"}, {"maxUnavailable": "50%"})
    for cluster in "abcd":
        spec = {"placementName": "evictions", "clusterName": cluster}
        await add(hub, EVICTION, {"name": f"off-{cluster}"}, spec)
    controller = EvictionController(hub, lambda: datetime.now(UTC))
    await asyncio.gather(*(controller.reconcile(f"off-{cluster}") for cluster in "cadb"))
    await until(lambda: hub.idle)
    bindings = (await hub.store.list(BINDING)).items
    going = [each["spec"]["targetCluster"] for each in bindings if "deletionTimestamp" in each["metadata"]]
    assert sorted(going) == ["a", "c"]
    answers = {}
    for eviction in (await hub.store.list(EVICTION)).items:
        valid, executed = eviction["status"]["conditions"]
        assert (valid["status"], valid["reason"]) == ("True", "ClusterResourcePlacementEvictionValid")
        answers[eviction["metadata"]["name"]] = executed["status"], executed["reason"]
    yes = ("True", "ClusterResourcePlacementEvictionExecuted")
    no = ("False", "ClusterResourcePlacementEvictionNotExecuted")
    assert answers == {"off-a": yes, "off-b": no, "off-c": yes, "off-d": no}
    before = hub.writes
    for cluster in "abcd":
        await controller.reconcile(f"off-{cluster}")
    assert (hub.writes, hub.idle) == (before, True)


@pytest.mark.core
async def test_the_status_of_the_member_reaches_the_original_once(hub, server):
    strategy = {"reportBackStrategy": {"type": "Mirror", "destination": "OriginalResource"}}
    await add_placement(hub, 1, strategy=strategy)
    await add_binding(hub, "evictions")
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod}
    await add(hub, DEPLOYMENT, {"name": "web", **AT_HOME}, spec)
    identifier = {"ordinal": 0, "group": "apps", "version": "v1", "kind": "Deployment", "name": "web", **AT_HOME}
    observed = {"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "availableReplicas": 2}
    entry = {
        "identifier": identifier,
        "conditions": [condition("Applied")],
        "backReportedStatus": {"observedStatus": observed, "observationTime": "2026-11-20T12:00:00Z"},
    }
    await add(
        hub,
        WORK,
        {
            "name": "evictions-work",
            "namespace": "fleet-member-evictions",
            "labels": {PARENT_PLACEMENT: "evictions", PARENT_BINDING: "evictions-evictions"},
        },
        {"workload": {"manifests": []}},
        {"conditions": [condition("Applied", observedGeneration=1)], "manifestConditions": [entry]},
    )
    served = Discovery(server)
    await served.refresh()
    told = []
    controller = BackReportController(hub, served, lambda document, event: told.append(event))
    before = hub.writes
    await controller.reconcile(PlacementRef(PLACEMENT.kind, "evictions"))
    stored = await hub.store.get(DEPLOYMENT, Key("web", "evictions"))
    assert (stored["status"], told, hub.writes) == (observed, [], before + 1)
    await controller.reconcile(PlacementRef(PLACEMENT.kind, "evictions"))
    assert hub.writes == before + 1
