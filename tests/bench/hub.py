"""Rollout rows: `harbormaster reconcile` on a real API server, beside what the same server takes by itself.

Placements of one namespace with two ConfigMaps each, on 10 of 100 members: until all Works exist, until the statuses of
the placements say so, the processor time of the loop, and its writes by verb and resource; a restart over everything,
which may write nothing; what the process holds. The API server, etcd and the loop share the machine.

ROWS in the environment: how many placements each row makes, as "50 200"; with it, nothing is restarted. FULL=1: 1,000
placements on 100 clusters for the restart, and the memory of 1,000 members with 1,000 placements on 10.
"""

import asyncio
import os
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Self

import uvloop

from e2e.controlplane.cluster import Cluster
from e2e.controlplane.process import Program, free_port
from e2e.controlplane.service import HARBORMASTER
from scorer.api.family import CLUSTER
from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, KINDS, MEMBER_CLUSTER, NAMESPACE, PLACEMENT, WORK, Kind
from scorer.api.meta import JsonObject, format_time
from scorer.api.names import member_namespace
from scorer.api.unstructured.documents import current_condition
from tests.bench.exposed import metrics
from tests.bench.figures import PER_SECOND, Figure, Part
from tests.bench.processes import processor_seconds, resident_megabytes
from tests.bench.real_hub import real_hub
from webhook.controllers.machinery.loop import RESYNC
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.kube.client.paths import path_of
from webhook.kube.ports import EventType, Key, NotFoundError, key_of

CONFIG_MAP = KINDS["", "ConfigMap"]
MADE = (CLUSTER.policy_snapshot, CLUSTER.resource_snapshot, CLUSTER.binding, WORK)
PART = Part("hub")
CONNECTIONS, RAW_CREATES, PATIENCE_SECONDS = 32, 2_000, 900
LOOK_SECONDS, QUIET_SECONDS = 0.5, 2.0
BY_PLACEMENT = 5
"""How many controllers look again at a placement, whether it has changed or not; one does at each of its Works."""
TARGETS = {50: 4.0, 200: 11.0}
"""Placements of a row, and in how many seconds all their Works are to exist."""
FULL = os.environ.get("FULL") == "1"
ROWS = tuple(int(count) for count in os.environ.get("ROWS", "").split())
_WRITES = re.compile(
    r'^apiserver_request_total\{.*resource="(?!leases)([a-z]+)".*subresource="([a-z]*)",verb="(POST|PUT|PATCH|DELETE)"'
    r".*\} (\S+)",
    re.MULTILINE,
)


@dataclass
class Bed:
    """A hub, the loop in front of it, and a connection of our own."""

    cluster: Cluster
    server: ApiServer
    store: HubStore
    loop: Program
    http_port: int
    members: int = 0
    """How many have joined."""

    @classmethod
    def of(cls, cluster: Cluster, server: ApiServer) -> "Bed":
        port = free_port()
        command = [HARBORMASTER, "reconcile", f"--kubeconfig={cluster.kubeconfig}", f"--http-port={port}"]
        return cls(cluster, server, HubStore(server), Program(command, cluster.folder / "reconcile.log"), port)

    async def start(self) -> None:
        """Start the loop and wait until it leads."""
        self.loop.start()
        await self.until(lambda: metrics(self.http_port, "harbormaster_leader") == [1])

    async def until(self, test: Callable[[], bool | Awaitable[bool]], pause: float = 0.1) -> None:
        """Wait until *test* holds; nobody listening counts as no."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    found = test()
                    if found if isinstance(found, bool) else await found:
                        return
                except OSError:
                    assert self.loop.running, self.loop.last_words()
                await asyncio.sleep(pause)

    async def at_rest(self) -> None:
        """Wait until no queue has anything to do, for two seconds together, but what it looks at again anyway."""
        names = ("harbormaster_reconcile_total", "harbormaster_workqueue_depth")
        works, members, placements = [await self.count(kind) for kind in (WORK, MEMBER_CLUSTER, PLACEMENT)]
        keys = works + members + placements * BY_PLACEMENT
        quiet, seen, looked = 0.0, float("-inf"), 0.0
        async with asyncio.timeout(PATIENCE_SECONDS):
            while quiet < QUIET_SECONDS:
                await asyncio.sleep(LOOK_SECONDS)
                done, line = await asyncio.to_thread(metrics, self.http_port, *names)
                now = time.perf_counter()
                again = 1 + keys * (now - looked) / RESYNC.total_seconds()
                quiet = quiet + LOOK_SECONDS if done - seen <= again and not line else 0.0
                seen, looked = done, now

    async def count(self, kind: Kind) -> int:
        """How many objects of *kind* there are."""
        page = await self.server.request("GET", path_of(kind), query={"limit": "1"})
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount") or 0)

    def writes(self) -> Counter[str]:
        """How many writes the API server has been asked for, by verb and resource, those to Leases left out."""
        text = self.cluster.kubectl("get", "--raw", "/metrics").stdout
        found: Counter[str] = Counter()
        for resource, subresource, verb, count in _WRITES.findall(text):
            found[f"{verb} {resource}{subresource and '/'}{subresource}"] += int(float(count))
        return found

    @property
    def megabytes(self) -> float:
        """What the loop holds in memory."""
        return resident_megabytes(self.loop.pid)

    @property
    def processor(self) -> float:
        """The seconds of processor time that the loop has taken."""
        return processor_seconds(self.loop.pid)


async def run_concurrently(count: int, make: Callable[[int], Awaitable[object]], first: int = 0) -> float:
    """Do something *count* times over 32 connections; return the seconds it took."""
    numbers = iter(range(first, first + count))

    async def work() -> None:
        for number in numbers:
            await make(number)

    start = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONNECTIONS):
            tasks.create_task(work())
    return time.perf_counter() - start


async def join(bed: Bed, count: int) -> None:
    """Let members join, and report for them as their agents would."""

    async def one(number: int) -> None:
        await bed.store.create(MEMBER_CLUSTER, _member(f"member-{number:04}", number))

    await run_concurrently(count, one, bed.members)
    bed.members += count
    await report(bed)


async def report(bed: Bed) -> None:
    """Report for all members: one that has been silent for five minutes is given nothing, and said to be silent."""

    async def one(number: int) -> None:
        name = f"member-{number:04}"
        key = Key(name, member_namespace(name))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    found = await bed.store.get(INTERNAL_MEMBER_CLUSTER, key)
                    break
                except NotFoundError:
                    await asyncio.sleep(0.2)
        await bed.store.replace_status(INTERNAL_MEMBER_CLUSTER, {**found, "status": _report(number)})

    await run_concurrently(bed.members, one)
    await bed.at_rest()


async def raw_rate(bed: Bed, count: int) -> float:
    """Return how many of the objects that placing makes the API server takes in a second, from us alone.

    The loop must not run: what it has made is made once more under other names, and removed.
    """
    made = [(kind, document) for kind in MADE for document in (await bed.store.list(kind)).items]
    chosen = random.Random(count).sample(made, min(RAW_CREATES, len(made)))

    async def create(number: int) -> None:
        kind, document = chosen[number]
        await bed.store.create(kind, _copy(document))

    async def delete(number: int) -> None:
        kind, document = chosen[number]
        await bed.store.delete(kind, key_of(_copy(document)))

    seconds = await run_concurrently(len(chosen), create)
    await run_concurrently(len(chosen), delete)
    return len(chosen) / seconds


def _copy(document: JsonObject) -> JsonObject:
    found = document["metadata"]
    metadata = {name: found[name] for name in ("labels", "annotations", "namespace") if name in found}
    spec = {name: document[name] for name in ("apiVersion", "kind", "spec")}
    return {**spec, "metadata": {**metadata, "name": f"raw-{found['name']}"[:63].rstrip("-.")}}


class Watcher:
    """Sees what placing makes as the API server tells of it: to ask for it would take the server's time."""

    def __init__(self, store: HubStore) -> None:
        self._store = store
        self._seen = asyncio.Event()
        self._watches: list[asyncio.Task[None]] = []
        self.works: set[Key] = set()
        """Works that exist."""
        self.told: set[str] = set()
        """Placements that say that all their Works are as wanted."""

    async def __aenter__(self) -> Self:
        for kind, take in ((WORK, self._take_work), (PLACEMENT, self._take_placement)):
            listing = await self._store.list(kind)
            for document in listing.items:
                take(document)
            self._watches.append(asyncio.create_task(self._follow(kind, listing.resource_version, take)))
        return self

    async def __aexit__(self, *_: object) -> None:
        for watch in self._watches:
            watch.cancel()
        await asyncio.wait(self._watches)

    async def until(self, test: Callable[[], bool]) -> None:
        """Wait until *test* holds."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not test():
                self._seen.clear()
                await self._seen.wait()

    async def _follow(self, kind: Kind, since: str, take: Callable[[JsonObject], None]) -> None:
        async for event in self._store.watch(kind, since):
            if event.type is not EventType.BOOKMARK:
                take(event.document)
                self._seen.set()

    def _take_work(self, work: JsonObject) -> None:
        self.works.add(key_of(work))

    def _take_placement(self, placement: JsonObject) -> None:
        said = current_condition(placement, "ClusterResourcePlacementWorkSynchronized") or {}
        if said.get("status") == "True":
            self.told.add(placement["metadata"]["name"])


class RolledOut(NamedTuple):
    """What placing took.

    Args:
        seconds: Until all Works existed.
        told_after: Seconds from then until the last status of a placement said so.
        processor: Seconds of processor time of the loop, until it was at rest.
        early: Writes of ours until all Works existed, Events left out.
        writes: All writes of ours, by verb and resource.
    """

    seconds: float
    told_after: float
    processor: float
    early: int
    writes: Counter[str]


async def roll_out(bed: Bed, count: int, first: int, clusters: int | None) -> RolledOut:
    """Make placements, and see what becomes of them."""

    async def content(number: int) -> None:
        await bed.store.create(NAMESPACE, _namespace(f"app-{number:04}"))
        for part in range(2):
            await bed.store.create(CONFIG_MAP, _config(f"app-{number:04}", part))

    await run_concurrently(count, content, first)
    await report(bed)
    processor, before, works = bed.processor, bed.writes(), await bed.count(WORK)
    wanted = works + count * (clusters or await bed.count(MEMBER_CLUSTER))
    names = {f"app-{number:04}" for number in range(first, first + count)}

    async with Watcher(bed.store) as seen:
        start = time.perf_counter()
        await run_concurrently(count, lambda number: bed.store.create(PLACEMENT, _placement(number, clusters)), first)
        await seen.until(lambda: len(seen.works) >= wanted)
        there = time.perf_counter()
        early = asyncio.create_task(asyncio.to_thread(bed.writes))
        await seen.until(lambda: names <= seen.told)
        told = time.perf_counter()
    await bed.at_rest()
    used, so_far, written = bed.processor - processor, await early - before, bed.writes() - before
    written[f"POST {PLACEMENT.plural}"] -= count
    early_writes = sum(number for name, number in so_far.items() if not name.endswith(" events")) - count
    return RolledOut(there - start, told - there, used, early_writes, +written)


async def restart(bed: Bed) -> tuple[float, int]:
    """Restart the loop: everything is looked at once. Return seconds until it is at rest, and what it wrote."""
    if not bed.loop.running:
        await bed.start()
    await report(bed)
    bed.loop.stop(30)
    before = bed.writes()
    start = time.perf_counter()
    await bed.start()
    await bed.at_rest()
    return time.perf_counter() - start - QUIET_SECONDS, (bed.writes() - before).total()


async def measure(cluster: Cluster) -> None:
    """Print all rows."""
    async with await ApiServer.connect(cluster.kubeconfig) as server:
        bed = Bed.of(cluster, server)
        await bed.store.create(NAMESPACE, _namespace("harbormaster-system"))
        try:
            await bed.start()
            await join(bed, 100)
            made, found = 0, {}
            for count in ROWS or TARGETS:
                found[count] = await roll_out(bed, count, made, 10)
                made += count
            bed.loop.stop(30)
            rate = await raw_rate(bed, made)
            title = f"creates of the same objects, {CONNECTIONS} connections"
            PART.report(Figure(title, rate, PER_SECOND))
            for count, each in found.items():
                _placing_rows(each, count, rate)
            if ROWS:
                return
            await _resync_row(bed, made, 10)
            if FULL:
                await _full(bed, made)
            else:
                await roll_out(bed, 200, made, None)
                await _resync_row(bed, 200, 100)
        finally:
            bed.loop.stop(30)


def _placing_rows(found: RolledOut, count: int, rate: float) -> None:
    title, goal = f"{count} placements on 10 of 100", TARGETS.get(count)
    note = f"{found.early / count:.1f} writes each"
    PART.report(Figure(f"{title}, until all Works exist", found.seconds, "s", goal, found.early / rate, 2.0, note))
    told_goal = None if goal is None else goal + 1
    note = f"{found.told_after:+.1f} s after the Works, goal +1 s"
    PART.report(
        Figure(f"{title}, until the statuses say so", found.seconds + found.told_after, "s", told_goal, note=note)
    )
    PART.report(Figure(f"CPU of the loop for {count} placements", found.processor, "s", count / 20))
    PART.report(Figure(f"{title}: writes of each, Events included", found.writes.total() / count, "writes"))
    for name, number in found.writes.most_common():
        print(f"    {name:48}{number / count:>8.1f}", flush=True)


async def _resync_row(bed: Bed, placements: int, clusters: int) -> None:
    seconds, writes = await restart(bed)
    title = f"restart over {placements:,} more placements on {clusters} clusters each"
    PART.report(Figure(title, seconds, "s", note=f"{writes} writes (goal 0); {bed.megabytes:.0f} MB"))


async def _full(bed: Bed, made: int) -> None:
    await roll_out(bed, 1_000 - made, made, 10)
    await join(bed, 900)
    await restart(bed)
    PART.report(Figure("memory, 1,000 members, 1,000 placements on 10", bed.megabytes, "MB", 300))


def _namespace(name: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _config(namespace: str, number: int) -> JsonObject:
    metadata = {"name": f"config-{number}", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"settings": "value " * 40}}


def _member(name: str, number: int) -> JsonObject:
    return {
        "apiVersion": MEMBER_CLUSTER.api_version,
        "kind": MEMBER_CLUSTER.kind,
        "metadata": {"name": name, "labels": {"env": "prod", "region": f"r{number % 5}"}},
        "spec": {"identity": {"kind": "User", "name": name}},
    }


def _report(number: int) -> JsonObject:
    at = format_time(datetime.now(UTC))

    def condition(kind: str) -> JsonObject:
        reason = f"InternalMemberCluster{kind}"
        return {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": at}

    cpu, memory = 16 + number % 49, 64 + number % 97
    usage = {"capacity": {"cpu": "64", "memory": "256Gi"}, "allocatable": {"cpu": "62", "memory": "250Gi"}}
    agent = {"type": "MemberAgent", "conditions": [condition("Joined"), condition("Healthy")]}
    return {
        "agentStatus": [{**agent, "lastReceivedHeartbeat": at}],
        "properties": {"kubernetes-fleet.io/node-count": {"value": str(number % 17 + 1), "observationTime": at}},
        "resourceUsage": {**usage, "available": {"cpu": str(cpu), "memory": f"{memory}Gi"}, "observationTime": at},
    }


def _placement(number: int, clusters: int | None) -> JsonObject:
    policy: JsonObject = {"placementType": "PickAll"}
    if clusters is not None:
        term = {"labelSelector": {"matchLabels": {"env": "prod"}}}
        sorter = {"name": "resources.kubernetes-fleet.io/available-cpu", "sortOrder": "Descending"}
        affinity = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [term]},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 50, "preference": {"propertySorter": sorter}}
            ],
        }
        policy = {"placementType": "PickN", "numberOfClusters": clusters, "affinity": {"clusterAffinity": affinity}}
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": f"app-{number:04}"}
    return {
        "apiVersion": PLACEMENT.api_version,
        "kind": PLACEMENT.kind,
        "metadata": {"name": f"app-{number:04}"},
        "spec": {"resourceSelectors": [selector], "policy": policy},
    }


def main() -> None:
    """Start a control plane, and measure on it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        real_hub(Path(folder)) as cluster,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(measure(cluster))


if __name__ == "__main__":
    main()
