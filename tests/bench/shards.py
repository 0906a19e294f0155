"""Shard rows: one, two and four replicas of the loop place the same placements, each with its share.

On a hub whose every answer takes the same time (`tests.bench.slow_hub`), so long that waiting for it is nearly all that
a replica does: there four processes need no more processor than these machines have. And on a real API server, which
takes its own share of the same processor. The names of the placements are chosen so that all shards have as many: what
an uneven hash costs is chance, and less the more placements there are.
"""

import asyncio
import json
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from e2e.conftest import install_definitions
from e2e.controlplane.build import Programs
from e2e.controlplane.cluster import LOOPBACK, Cluster, Etcd
from e2e.controlplane.process import Program, free_port
from e2e.controlplane.service import HARBORMASTER
from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, MEMBER_CLUSTER, NAMESPACE, PLACEMENT, WORK
from scorer.api.meta import JsonObject, format_time
from scorer.api.names import member_namespace
from scorer.shards import shard_of
from tests.bench.figures import PER_SECOND, SHORT, Figure, Part
from tests.bench.processes import processor_seconds
from tests.bench.slow_hub import TOKEN
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.kube.client.paths import path_of
from webhook.kube.ports import AlreadyExistsError, Key, NotFoundError

COUNTS = (1, 2, 4)
MEMBERS, CLUSTERS = 20, 10
PLACEMENTS = 16 if SHORT else 48
ANSWER_SECONDS = 0.1
WRITE_CONCURRENCY = 4
"""Of one replica on the slow hub: 40 writes a second at the most."""
LEAST = 0.8
"""Of as many times the rate of one."""
PATIENCE_SECONDS = 600

Works = Callable[[ApiServer], Awaitable[int]]


def names() -> list[str]:
    """Return names of placements of which all shards of every number have as many."""
    found: list[str] = []
    rooms = {count: Counter(dict.fromkeys(range(count), PLACEMENTS // count)) for count in COUNTS}
    number = 0
    while len(found) < PLACEMENTS:
        name, number = f"app-{number:05}", number + 1
        shards = {count: shard_of(f"crp/{name}", count) for count in COUNTS}
        if all(rooms[count][shard] for count, shard in shards.items()):
            for count, shard in shards.items():
                rooms[count][shard] -= 1
            found.append(name)
    return found


class Replicas:
    """Replicas of the loop in front of one hub.

    Args:
        kubeconfig: The hub.
        folder: For their logs.
        count: How many, and how many shards.
        settings: Of each.
    """

    def __init__(self, kubeconfig: Path, folder: Path, count: int, settings: dict[str, str]) -> None:
        self._count = count
        self._ports = [free_port() for _ in range(count)]
        self.programs = [
            Program(
                [
                    *(HARBORMASTER, "reconcile", f"--kubeconfig={kubeconfig}", f"--shards={count}"),
                    *(f"--http-host={LOOPBACK}", f"--http-port={port}"),
                ],
                folder / f"replica-{port}.log",
                settings,
            )
            for port in self._ports
        ]

    async def start(self) -> None:
        """Start them, and wait until each works on one shard."""
        for program in self.programs:
            program.start()
        await until(self._work)
        await asyncio.sleep(1)

    def stop(self) -> None:
        """End them."""
        for program in self.programs:
            program.stop(30)

    @property
    def cpu_seconds(self) -> float:
        """The processor time that all of them have taken."""
        return sum(processor_seconds(program.pid) for program in self.programs)

    async def _work(self) -> bool:
        return all([await asyncio.to_thread(self._works_on_one, port) for port in self._ports])

    def _works_on_one(self, port: int) -> bool:
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return False
        if self._count == 1:
            return "harbormaster_leader 1.0" in lines
        return sum(line.startswith("harbormaster_shard_held{") and line.endswith(" 1.0") for line in lines) == 1


async def until(test: Callable[[], Awaitable[bool]]) -> None:
    """Wait until *test* holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await test():
            await asyncio.sleep(0.1)


async def measure(kubeconfig: Path, folder: Path, count: int, settings: dict[str, str], works: Works) -> Figure:
    """Have so many replicas place everything on an empty hub; return the rate, and what processor time it took."""
    async with await ApiServer.connect(kubeconfig) as server:
        store = HubStore(server)
        for name in ("default", "harbormaster-system"):
            with suppress(AlreadyExistsError):
                await store.create(NAMESPACE, _namespace(name))
        replicas = Replicas(kubeconfig, folder, count, settings)
        try:
            await replicas.start()
            await _join(store)
            for name in names():
                await store.create(NAMESPACE, _namespace(name))
            await asyncio.sleep(3)
            wanted, begun, before = PLACEMENTS * CLUSTERS, time.perf_counter(), replicas.cpu_seconds
            async with asyncio.TaskGroup() as tasks:
                for name in names():
                    tasks.create_task(store.create(PLACEMENT, _placement(name)))

            async def all_there() -> bool:
                return await works(server) >= wanted

            await until(all_there)
            seconds, cpu = time.perf_counter() - begun, replicas.cpu_seconds - before
        finally:
            replicas.stop()
    note = f"{seconds:.1f} s; the replicas took {cpu / seconds:.2f} processors"
    return Figure(f"works placed by {count}", wanted / seconds, PER_SECOND, note=note)


async def _join(store: HubStore) -> None:
    """Let the members join, and report for them as their agents would."""

    async def one(number: int) -> None:
        name = f"member-{number:02}"
        spec = {"identity": {"kind": "User", "name": name}, "heartbeatPeriodSeconds": 600}
        head = {"apiVersion": MEMBER_CLUSTER.api_version, "kind": MEMBER_CLUSTER.kind, "metadata": {"name": name}}
        await store.create(MEMBER_CLUSTER, {**head, "spec": spec})
        key, found = Key(name, member_namespace(name)), None
        while found is None:
            try:
                found = await store.get(INTERNAL_MEMBER_CLUSTER, key)
            except NotFoundError:
                await asyncio.sleep(0.2)
        at = format_time(datetime.now(UTC))
        said = {"status": "True", "reason": "Said", "message": "", "lastTransitionTime": at}
        conditions = [{**said, "type": "Joined"}, {**said, "type": "Healthy"}]
        agent = {"type": "MemberAgent", "conditions": conditions, "lastReceivedHeartbeat": at}
        await store.replace_status(INTERNAL_MEMBER_CLUSTER, {**found, "status": {"agentStatus": [agent]}})

    async with asyncio.TaskGroup() as tasks:
        for number in range(MEMBERS):
            tasks.create_task(one(number))


def _namespace(name: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _placement(name: str) -> JsonObject:
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": name}
    policy = {"placementType": "PickN", "numberOfClusters": CLUSTERS}
    head = {"apiVersion": PLACEMENT.api_version, "kind": PLACEMENT.kind, "metadata": {"name": name}}
    return {**head, "spec": {"resourceSelectors": [selector], "policy": policy}}


@contextmanager
def slow_hub(folder: Path) -> Iterator[Path]:
    """Run a hub whose answers all take `ANSWER_SECONDS`, in a process of its own; yield its kubeconfig."""
    port = free_port()
    program = Program(
        [sys.executable, "-m", "tests.bench.slow_hub", str(port), str(ANSWER_SECONDS)], folder / "hub.log"
    )
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": {"server": f"http://{LOOPBACK}:{port}"}}],
        "users": [{"name": "bench", "user": {"token": TOKEN}}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "bench"}}],
        "current-context": "hub",
    }
    path = folder / "hub.kubeconfig"
    path.write_text(json.dumps(kubeconfig), encoding="utf-8")
    program.start()
    try:
        program.wait_ready(lambda: _answers(port), 60)
        yield path
    finally:
        program.stop(30)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/works", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def real_hub(folder: Path, etcd: Etcd) -> Iterator[Path]:
    """Run an API server with our definitions; yield its kubeconfig."""
    cluster = Cluster(Programs(), folder, etcd, folder.name)
    try:
        cluster.start()
        install_definitions(cluster)
        yield cluster.kubeconfig
    finally:
        cluster.stop()


async def count_concurrently(server: ApiServer) -> int:
    """Ask the slow hub how many Works there are."""
    return int(await asyncio.to_thread(_count, server.address))


def _count(url: str) -> int:
    with urllib.request.urlopen(f"{url}/works", timeout=30) as answer:
        return int(answer.read())


async def count_by_page(server: ApiServer) -> int:
    """Ask an API server how many Works there are."""
    page = await server.request("GET", path_of(WORK), query={"limit": "1"})
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount") or 0)


def main() -> None:
    """Measure both."""
    part = Part("shards")

    def rows(place: str, run: Callable[[int], Figure], ratio: float | None) -> None:
        one = 0.0
        for count in COUNTS:
            found = run(count)
            one = one or found.ours
            work = f"works placed by {count} replica{'s'[: count - 1]}, {place}"
            if count == 1:
                part.report(Figure(work, found.ours, found.unit, note=found.note))
            else:
                part.report(Figure(work, found.ours, found.unit, floor=count * one, ratio=ratio, note=found.note))

    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:

        def slow(count: int) -> Figure:
            here = Path(folder, f"slow-{count}")
            here.mkdir()
            settings = {"HARBORMASTER_WRITE_CONCURRENCY": str(WRITE_CONCURRENCY)}
            with slow_hub(here) as kubeconfig:
                return runner.run(measure(kubeconfig, here, count, settings, count_concurrently))

        rows(f"answers take {ANSWER_SECONDS * 1000:.0f} ms", slow, LEAST)
        if SHORT:
            return
        etcd = Etcd(Programs(), Path(folder))
        try:
            etcd.start()

            def real(count: int) -> Figure:
                here = Path(folder, f"real-{count}")
                with real_hub(here, etcd) as kubeconfig:
                    return runner.run(measure(kubeconfig, here, count, {}, count_by_page))

            rows("a real API server", real, None)
        finally:
            etcd.program.stop()


if __name__ == "__main__":
    main()
