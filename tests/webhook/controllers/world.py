"""A whole hub in memory: store, cache, loop and simulated members, all of them the real ones."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from scorer.api.family import family_in
from scorer.api.kinds import BINDING, EVENT, KINDS, MEMBER_CLUSTER, NAMESPACE, PLACEMENT, WORK, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import REMOVAL_CONFIRMATION
from scorer.api.unstructured.documents import current_condition, is_deleting, with_metadata, with_spec
from scorer.membership.missed_heartbeats import LIMIT, REPORTING
from scorer.rollout.confirmation.policy import ConfirmationMode
from scorer.rollout.snapshots.resources import SnapshotSettings
from tests.virtual_time import loop_clock
from tests.waiting import PATIENCE_SECONDS, until
from tests.webhook.controllers.by_hand import CrashError, MortalStore
from tests.webhook.edits import edit
from webhook.answers.placements import placement_view
from webhook.controllers.assembly import make_loop
from webhook.controllers.machinery.loop import Loop
from webhook.controllers.machinery.queue import WorkQueue
from webhook.controllers.placements.resource_watches import Selectables
from webhook.embedded.simulation.annotations import status_in_annotation
from webhook.embedded.simulation.members import SimulatedMembers
from webhook.embedded.storage.kinds import EmbeddedKinds
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import Key
from webhook.settings.loop import LoopSettings
from webhook.telemetry.loop_metrics import LoopMetrics

CONFIG_MAP, DEPLOYMENT = KINDS["", "ConfigMap"], KINDS["apps", "Deployment"]
NO_DEBOUNCE = SnapshotSettings(timedelta(), timedelta())


SILENT_AFTER = LIMIT + timedelta(seconds=1)


class World:
    """The hub and everything that runs on it.

    Args:
        data: Folder that keeps the hub and the members for the next world. None: disabled.
        settings: Of the loop.
    """

    def __init__(self, data: Path | None = None, **settings: Any) -> None:
        self.now = loop_clock()
        self.store = EmbeddedStore.open(data / "hub.db" if data else None, now=self.now)
        self.settings = LoopSettings(snapshots=NO_DEBOUNCE, **settings)
        self.ahead = timedelta()
        """How far the clock of the loop is ahead of that of the members."""
        self.members = SimulatedMembers(self.store, data, now=self.now)
        self._replaced = asyncio.Event()
        self._make_process()

    def _make_process(self) -> None:
        """Make a process of the loop. It knows nothing but what is stored."""
        self.mortal = MortalStore(self.store)
        """The store as the loop uses it: it may die at any write."""
        self.cache = Cache(self.store)
        self.hub = Hub(self.mortal, self.cache)
        self.selectables = Selectables(self.cache, EmbeddedKinds(self.store.kinds), self.settings.selection)
        self.registry = CollectorRegistry()
        observer = LoopMetrics(self.registry, lambda: True).term()
        self.loop = make_loop(self.hub, lambda: self.now() + self.ahead, self.selectables, self.settings, observer)

    async def run(self) -> None:
        """Run the members, and one process of the loop after the other."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.members.run())
            while True:
                process = [tasks.create_task(self.cache.run()), tasks.create_task(self._live())]
                await self._replaced.wait()
                for task in process:
                    task.cancel()
                await asyncio.wait(process)
                self._make_process()
                self._replaced.clear()

    async def _live(self) -> None:
        try:
            await self.loop.run()
        except* CrashError:
            await asyncio.Event().wait()

    async def restart(self) -> None:
        """Replace the process of the loop, as after a crash."""
        before = self.loop
        self._replaced.set()
        await until(lambda: self.loop is not before)

    async def add(self, *documents: JsonObject) -> None:
        """Create objects."""
        for document in documents:
            kind = next(kind for kind in KINDS.values() if kind.kind == document["kind"])
            await self.store.create(kind, status_in_annotation(document))

    async def change(self, kind: Kind, name: str, namespace: str = "", **spec: Any) -> None:
        """Replace fields of an object's spec."""
        await edit(self.store, kind, Key(name, namespace), lambda it: with_spec(it, **spec))

    async def delete_placement(self, name: str) -> None:
        """Delete a ClusterResourcePlacement whose removals need no confirmation."""
        off = {REMOVAL_CONFIRMATION: str(ConfirmationMode.OFF)}
        await edit(self.store, PLACEMENT, Key(name), lambda it: with_metadata(it, annotations=off))
        await self.store.delete(PLACEMENT, Key(name))

    async def until(self, test: Callable[[], object], seconds: float = 5 * PATIENCE_SECONDS) -> None:
        """Wait until *test* holds and no object, not even an Event, is written any more.

        In virtual time, all work that is due is done between two samples, however slow the machine is. The limit is
        virtual, too, and has to cover rollouts: the default unavailable period of two clusters alone is 120 s.
        """
        revision, quiet = ("", -1), 0
        async with asyncio.timeout(seconds):
            while quiet < 8 or not test():
                now = self.store.resource_version, self.cache.revision
                still = await self._comes_to_rest() and now == revision
                revision, quiet = now, quiet + 1 if still and test() else 0
                await asyncio.sleep(0.02)

    async def _comes_to_rest(self) -> bool:
        """Return whether the loop and the members are idle as soon as what is due now is done.

        A back end is polled every 50 ms. On a slow machine each sample meets such a poll, and none would find idleness.
        """
        for _ in range(100):
            if self.loop.idle and not self.members.busy:
                return True
            await asyncio.sleep(0)
        return False

    async def until_silent(self) -> None:
        """Move the clock until all members are called silent: a later count of writes has none that tell of it."""
        self.ahead += SILENT_AFTER
        self.again()
        await self.until(lambda: all(map(_is_silent, self.cache.list(MEMBER_CLUSTER))))

    def standing(self, name: str, kind: Kind) -> float | None:
        """Return what the metric ``harbormaster_NAME`` says about objects of a kind."""
        return self.registry.get_sample_value(f"harbormaster_{name}", {"kind": kind.kind})

    def events(self, reason: str) -> list[str]:
        """Return the notes of the stored Events of a reason."""
        return [each["note"] for each in self.store.objects(EVENT) if each["reason"] == reason]

    def view(self, name: str, namespace: str = "") -> JsonObject:
        """Return a placement as people see it."""
        family = family_in(namespace)
        document = self.cache.get(family.placement, name, namespace)
        assert document is not None
        return placement_view(self.cache, family, document)

    def condition(self, name: str, word: str) -> JsonObject:
        """Return a condition of a ClusterResourcePlacement, empty when it has none of that type."""
        document = self.cache.get(PLACEMENT, name) or {}
        conditions = (document.get("status") or {}).get("conditions") or ()
        return next((entry for entry in conditions if entry["type"] == f"ClusterResourcePlacement{word}"), {})

    def has_joined(self, member: str) -> bool:
        """Return whether the agent of a member has joined it."""
        document = self.cache.get(MEMBER_CLUSTER, member) or {}
        return (current_condition(document, "Joined") or {}).get("status") == "True"

    def bound(self, name: str) -> list[str]:
        """Return the clusters that hold a live binding of a placement."""
        found = self.cache.labelled(BINDING, "kubernetes-fleet.io/parent-CRP", name)
        live = (entry for entry in found if not is_deleting(entry) and entry["spec"]["state"] != "Unscheduled")
        return sorted(entry["spec"]["targetCluster"] for entry in live)

    def works(self) -> list[JsonObject]:
        """Return all Works, as they are stored."""
        return list(self.store.objects(WORK))

    async def on_member(self, cluster: str, kind: Kind, name: str, namespace: str = "") -> JsonObject | None:
        """Return an object of a member, None when it is not there."""
        async with self.members.store(cluster) as store:
            listing = await store.list(kind, namespace or None)
        return next((item for item in listing.items if item["metadata"]["name"] == name), None)

    def again(self) -> None:
        """Put everything in line once more, as at the start."""
        for controller in self.loop.controllers:
            for watch in controller.watches:
                end = watch.start(self.cache, self.loop.queues[controller.name])
                end()


@asynccontextmanager
async def running(data: Path | None = None, **settings: Any) -> AsyncIterator[World]:
    """Run a world with these settings of the loop; on *data* of an earlier world, it goes on from there."""
    world = World(data, **settings)
    if not world.store.objects(NAMESPACE):
        for name in ("default", "shop", "dock", "quay", LoopSettings().namespace):
            await world.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await world.add(make_config_map("rates", value="1"))

    task = asyncio.create_task(world.run())
    try:
        yield world
    finally:
        task.cancel()
        await asyncio.wait([task])
        world.store.close()
        if not task.cancelled() and (error := task.exception()):
            raise error


def controller(loop: Loop, name: str) -> Any:
    """Return the controller behind a queue."""
    return next(each.reconcile for each in loop.controllers if each.name == name).__self__


@asynccontextmanager
async def held_up(queue: WorkQueue[Any]) -> AsyncIterator[None]:
    """Let a controller begin with nothing for so long."""
    reconcile, goes_on = queue._reconcile, asyncio.Event()

    async def wait(key: Any) -> Any:
        await goes_on.wait()
        return await reconcile(key)

    queue._reconcile = wait
    try:
        yield
    finally:
        queue._reconcile = reconcile
        goes_on.set()


def make_member(name: str, *, nodes: int = 1, simulate: str = "", **labels: str) -> JsonObject:
    """Make a member cluster; a heartbeat in the middle of a test would be a write that nobody expects."""
    annotations = {"harbormaster.dev/simulate": simulate} if simulate else {}
    return {
        "apiVersion": MEMBER_CLUSTER.api_version,
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"identity": {"kind": "User", "name": name}, "heartbeatPeriodSeconds": 600},
        "status": {"properties": {"kubernetes-fleet.io/node-count": {"value": str(nodes)}}},
    }


def make_config_map(name: str, namespace: str = "shop", **data: str) -> JsonObject:
    """Make a ConfigMap."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def pick_n(number: int, **policy: Any) -> JsonObject:
    """Make a PickN policy that prefers clusters with many nodes."""
    sorter = {"name": "kubernetes-fleet.io/node-count", "sortOrder": "Descending"}
    preferred = [{"weight": 100, "preference": {"propertySorter": sorter}}]
    affinity = {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return {"placementType": "PickN", "numberOfClusters": number, "affinity": affinity, **policy}


def _is_silent(member: JsonObject) -> bool:
    return (current_condition(member, REPORTING) or {}).get("status") == "False"
