"""One gate per member on a real API server: an eviction and an upgrade do not have a member at once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from e2e.controlplane.cluster import Cluster
from scorer.api.kinds import BINDING, EVICTION, LEASE, NAMESPACE, PLACEMENT, UPGRADE_RUN
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_PLACEMENT
from scorer.member_gate.holds import MemberDisruption
from tests.waiting import until
from tests.webhook.gate.gates import Tool
from webhook.controllers.members.reservations import MemberReservations
from webhook.controllers.placements.evictions import EvictionController
from webhook.gate.errors import MemberHeldError
from webhook.gate.holds import HubMemberHolds
from webhook.gate.reservations import LeaseReservations
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.informer import Cache
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.kube.ports import AlreadyExistsError, Key, NotFoundError

RESERVED_IN = "member-gate"
GATED = (MemberDisruption.EVICTION, MemberDisruption.UPGRADE)
CACHED = (PLACEMENT, BINDING, EVICTION, UPGRADE_RUN)
NAME = "gated"


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
async def hub(bare_hub: Cluster) -> AsyncIterator[Hub]:
    async with await ApiServer.connect(bare_hub.kubeconfig) as server, asyncio.TaskGroup() as tasks:
        store = HubStore(server)
        found = Hub(store, Cache(store))
        found.cache.require(CACHED)
        with contextlib.suppress(AlreadyExistsError):
            await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RESERVED_IN}})
        running = [tasks.create_task(found.cache.run()), tasks.create_task(found.run())]
        await found.cache.wait_synced()
        yield found
        for kind in CACHED:
            for item in (await store.list(kind)).items:
                with contextlib.suppress(NotFoundError):
                    await store.delete(kind, Key(item["metadata"]["name"]))
        for task in running:
            task.cancel()


async def add(hub: Hub, kind, name: str, spec: JsonObject, status: JsonObject | None = None, **metadata) -> JsonObject:
    """Create an object, and wait until the cache shows it."""
    document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **metadata}, "spec": spec}
    made = await hub.store.create(kind, document)
    if status is not None:
        made = await hub.store.replace_status(kind, {**made, "status": status})
    version = int(made["metadata"]["resourceVersion"])
    await until(lambda: int((hub.cache.get(kind, name) or made)["metadata"]["resourceVersion"]) >= version)
    await until(lambda: hub.cache.get(kind, name) is not None)
    return made


async def add_placed(hub: Hub) -> None:
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "gated"}
    policy = {"placementType": "PickN", "numberOfClusters": 1}
    await add(hub, PLACEMENT, NAME, {"resourceSelectors": [selector], "policy": policy})


async def add_binding(hub: Hub) -> None:
    spec = {
        "state": "Bound",
        "targetCluster": "a",
        "resourceSnapshotName": "gated-0-snapshot",
        "schedulingPolicySnapshotName": "gated-0",
        "clusterDecision": {"clusterName": "a", "selected": True, "reason": "picked"},
    }
    await add(hub, BINDING, "gated-a", spec, labels={PARENT_PLACEMENT: NAME})


async def add_eviction(hub: Hub, name: str) -> None:
    await add(hub, EVICTION, name, {"placementName": NAME, "clusterName": "a"})


def gate_of(hub: Hub) -> tuple[EvictionController, LeaseReservations]:
    reservations = LeaseReservations(hub.store, RESERVED_IN, now)
    holds = HubMemberHolds(hub.cache, GATED, reservations.cached)
    return EvictionController(
        hub, now, MemberReservations(MemberDisruption.EVICTION, holds, reservations, now)
    ), reservations


async def said(hub: Hub, name: str) -> list[tuple[str, str]]:
    await until(lambda: hub.idle)
    stored = await hub.store.get(EVICTION, Key(name))
    return [(each["type"], each["status"]) for each in (stored.get("status") or {}).get("conditions") or ()]


async def leases(hub: Hub) -> list[str]:
    found = (await hub.store.list(LEASE, RESERVED_IN)).items
    return [each["metadata"]["annotations"]["harbormaster.dev/reserved-thing"] for each in found]


async def is_there(hub: Hub) -> bool:
    try:
        await hub.store.get(BINDING, Key("gated-a"))
    except NotFoundError:
        return False
    return True


def upgrade(state: str) -> JsonObject:
    stage = {"name": "s", "state": "Running", "groups": [{"name": "g", "state": "Running"}]}
    stage["groups"][0]["members"] = [{"name": "a", "state": state}]
    return {"state": "Running", "stages": [stage]}


async def test_an_eviction_waits_for_an_upgrade_and_goes_on_when_it_is_over(hub):
    await add_placed(hub)
    await add_binding(hub)
    spec = {"state": "Run", "upgrade": {"type": "ControlPlaneOnly", "kubernetesVersion": "1.31"}}
    run = await add(hub, UPGRADE_RUN, "v131", spec, upgrade("Running"))
    await add_eviction(hub, "off")
    controller, reservations = gate_of(hub)
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(reservations.run())
        await controller.reconcile("off")
        assert await said(hub, "off") == [("Valid", "True")]
        before = await hub.store.get(EVICTION, Key("off"))
        message = before["status"]["conditions"][0]["message"]
        assert message == "the eviction is allowed, but waits: member a is being upgraded by run v131"
        await controller.reconcile("off")
        assert await said(hub, "off") == [("Valid", "True")]
        after = await hub.store.get(EVICTION, Key("off"))
        assert before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
        assert (await is_there(hub), await leases(hub)) == (True, [])

        done = await hub.store.replace_status(UPGRADE_RUN, {**run, "status": upgrade("Completed")})
        await until(lambda: hub.cache.get(UPGRADE_RUN, "v131")["status"] == done["status"])
        await controller.reconcile("off")
        assert await said(hub, "off") == [("Valid", "True"), ("Executed", "True")]
        assert (await is_there(hub), await leases(hub)) == (False, [])
        following.cancel()


async def test_of_an_eviction_and_an_upgrade_at_once_one_waits(hub):
    await add_placed(hub)
    controller, _ = gate_of(hub)
    tool = Tool(hub.store, now, RESERVED_IN)
    for turn in range(12):
        await add_binding(hub)
        await add_eviction(hub, f"off-{turn}")

        async def upgrade_it(turn=turn):
            """Take the member for an upgrade; while it is ours, nothing is evicted from it."""
            await asyncio.sleep(0.004 * (turn % 6))
            try:
                await tool.hold("a")
            except MemberHeldError:
                return
            before = await is_there(hub)
            await asyncio.sleep(0.05)
            assert await is_there(hub) is before
            await tool.give_back("a")

        await asyncio.gather(upgrade_it(), controller.reconcile(f"off-{turn}"))
        await until(lambda: hub.idle)  # that it waits is stored behind, and would be in the way
        await controller.reconcile(f"off-{turn}")
        assert await said(hub, f"off-{turn}") == [("Valid", "True"), ("Executed", "True")]
        assert await is_there(hub) is False
        await until(lambda: hub.cache.get(BINDING, "gated-a") is None)
    assert await leases(hub) == []
