"""Admission rows: reviews over TLS, the server confined to one core, beside a bare aiohttp handler.

The floor reads the body and answers a constant of the same size, with the same TLS settings on the same event
loop. Both servers are processes of their own on one core, the load comes from another; they take turns, so that
a disturbance meets both. Every review differs from the one before. CPU time is the server's own, so it says
something even on a machine that has other work to do.

The first rows are reviews of one policy with other numbers, on a hub of members alone. The rows of shapes are reviews
of an ordinary user, with live checks on a hub of 1,000 namespaces and 1,000 placements: see
`tests.bench.reviews.shapes`.
"""

import asyncio
import gc
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import orjson
import uvloop
from aiohttp import web

from certs.authority import Authority
from certs.context import ServerContext
from scorer.api.kinds import MEMBER_CLUSTER, NAMESPACE, PLACEMENT
from scorer.api.meta import JsonObject
from tests.bench.figures import PER_SECOND, SHORT, Figure, Part
from tests.bench.fleets import COST, CPU, NODES, member
from tests.bench.reviews.shapes import CASE, HELD, NAMESPACES, PLACEMENTS, REFUSED, held_objects
from tests.bench.reviews.shapes import ROWS as SHAPE_ROWS
from webhook.defaulting.placement import default
from webhook.embedded.simulation.annotations import status_in_annotation
from webhook.processes.up import Up
from webhook.settings.admission import OWN_CONTROLLER
from webhook.settings.programs import UpSettings
from webhook.settings.secret_files import read_secrets, secret_path

CONNECTIONS, ROUNDS, SECONDS, WARM_UP_SECONDS = 16, 2 if SHORT else 5, 2.0, 0.5
DISTINCT = 512
"""How many different reviews there are."""
MEMBERS = 100
ROWS = {"rules": "validate", "no two alike": "validate", "live checks": "validate", "mutate": "mutate"}
"""Rows, and the hooks that they call. Policies repeat, as those of a fleet do, but where no two are alike."""
OWN_ROWS = frozenset({"rules", "no two alike"})
"""Reviews of our own controller, for which there are no live checks."""
SHAPE_SECONDS, SHAPE_WARM_UP_SECONDS = 0.5, 0.2
"""Of a round of each shape; there are many."""
MEDIAN_USER, MEDIAN_OWN = "create, median of the shapes", "own account, median of the shapes"
RATIOS = {
    "rules": 0.55,
    "live checks": 0.35,
    "mutate": 0.6,
    f"create, {CASE}": 0.3,
    f"own account, {CASE}": 0.6,
    f"annotation, {CASE}": 0.35,
    MEDIAN_USER: 0.3,
    MEDIAN_OWN: 0.6,
}
"""How much of the rate of the bare handler each row is to reach."""
P99_MS = {"rules": 5.0}
P99_RATIOS = {f"create, {CASE}": 4.0}
"""How many times the p99 of the bare handler each row may take."""
CPU_MS = dict.fromkeys(REFUSED, 3.0)
"""How much CPU time a review of each row may take."""
PART = Part("admission")
LOOPBACK = "127.0.0.1"
ALLOWED, DENIED = b'"allowed":true', b'"allowed":false'
TIERS = {"key": "tier", "operator": "In", "values": ["1", "2"]}


def written(number: int) -> JsonObject:
    """Return a placement as someone applies it."""
    required: JsonObject = {
        "labelSelector": {"matchLabels": {"env": "prod"}, "matchExpressions": [TIERS]},
        "propertySelector": {"matchExpressions": [{"name": NODES, "operator": "Ge", "values": [str(number % 50)]}]},
    }
    preferred = [
        {"weight": 40, "preference": {"propertySorter": {"name": CPU, "sortOrder": "Descending"}}},
        {"weight": 60, "preference": {"propertySorter": {"name": COST, "sortOrder": "Ascending"}}},
    ]
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [required]},
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    }
    managed: JsonObject = {
        "f:metadata": {"f:labels": {".": {}, "f:app.kubernetes.io/part-of": {}}},
        "f:spec": {
            "f:policy": {
                "f:affinity": {"f:clusterAffinity": {f"f:{name}": {} for name in affinity}},
                "f:numberOfClusters": {},
                "f:placementType": {},
                "f:tolerations": {},
            },
            "f:resourceSelectors": {},
            "f:strategy": {"f:rollingUpdate": {"f:maxSurge": {}, "f:maxUnavailable": {}}, "f:type": {}},
        },
    }
    return {
        "apiVersion": PLACEMENT.api_version,
        "kind": PLACEMENT.kind,
        "metadata": {
            "name": f"payments-{number:04}",
            "labels": {"app.kubernetes.io/part-of": f"shop-{number % 40:02}"},
            "managedFields": [
                {
                    "manager": "deployer",
                    "operation": "Update",
                    "apiVersion": PLACEMENT.api_version,
                    "time": "2026-11-20T12:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": managed,
                }
            ],
        },
        "spec": {
            "resourceSelectors": [
                {"group": "", "version": "v1", "kind": "Namespace", "name": f"shop-{number:04}"},
                {
                    "group": "rbac.authorization.k8s.io",
                    "version": "v1",
                    "kind": "ClusterRole",
                    "labelSelector": {"matchLabels": {"app": f"shop-{number:04}"}},
                },
            ],
            "policy": {
                "placementType": "PickN",
                "numberOfClusters": 1 + number % 20,
                "affinity": {"clusterAffinity": affinity},
                "tolerations": [{"key": "spot", "operator": "Exists"}],
            },
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
        },
    }


def stored(number: int) -> JsonObject:
    """Return the same placement as the validating hook gets it: with defaults, and what the API server fills in."""
    document = default(written(number), None).document
    metadata = {
        **document["metadata"],
        "uid": str(UUID(int=number)),
        "generation": 1,
        "creationTimestamp": "2026-11-20T12:00:00Z",
    }
    return {**document, "metadata": metadata}


def call(row: str, number: int, root: str = "") -> bytes:
    """Return a whole request of an API server, which calls the hooks below *root*."""
    hook = ROWS[row]
    user = OWN_CONTROLLER if row in OWN_ROWS else f"system:serviceaccount:platform-{number % 30:02}:deployer"
    kind = {"group": PLACEMENT.group, "version": PLACEMENT.versions[0], "kind": PLACEMENT.kind}
    resource = {"group": PLACEMENT.group, "version": PLACEMENT.versions[0], "resource": PLACEMENT.plural}
    document = stored(number) if hook == "validate" else written(number)
    if row == "no two alike":
        document["spec"]["policy"]["numberOfClusters"] = 1 + number
    review = {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": str(UUID(int=2**127 + number)),
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": document["metadata"]["name"],
            "operation": "CREATE",
            "userInfo": {"username": user, "groups": ["system:authenticated"]},
            "object": document,
            "oldObject": None,
            "dryRun": False,
            "options": {
                "kind": "CreateOptions",
                "apiVersion": "meta.k8s.io/v1",
                "fieldManager": "deployer",
            },
        },
    }
    body = orjson.dumps(review)
    return request(f"{root}/{hook}/{PLACEMENT.group}/{PLACEMENT.plural}?timeout=5s", body)


def request(target: str, body: bytes) -> bytes:
    """Return a whole request of an API server."""
    head = (
        f"POST {target} HTTP/1.1\r\n"
        "Host: harbormaster.harbormaster-system.svc\r\n"
        "User-Agent: kube-apiserver-admission\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Accept: application/json, */*\r\n"
        "Content-Type: application/json\r\n"
        "Accept-Encoding: gzip\r\n"
        "\r\n"
    )
    return head.encode("ascii") + body


class Caller(asyncio.Protocol):
    """One connection that asks again as soon as it is answered.

    Args:
        verdict: What every answer must hold.
    """

    def __init__(self, verdict: bytes) -> None:
        self._verdict = verdict
        self.milliseconds: list[float] = []
        self.answer = b""
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self._transport = transport

    def start(self, calls: Iterator[bytes], until: float) -> None:
        """Send *calls*, one after the other, until the performance counter says *until*."""
        self._calls = calls
        self._until = until
        self._ask()

    def _ask(self) -> None:
        self.answer = b""
        self._asked = time.perf_counter()
        self._transport.write(next(self._calls))

    def data_received(self, data: bytes) -> None:
        """Count a whole answer and ask again."""
        self.answer += data
        head, end, body = self.answer.partition(b"\r\n\r\n")
        if not end or len(body) < _length(head):
            return
        now = time.perf_counter()
        self.milliseconds.append((now - self._asked) * 1000)
        if not head.startswith(b"HTTP/1.1 200 ") or self._verdict not in body:
            self._finish(RuntimeError(f"unexpected answer: {self.answer.decode()}"))
        elif now < self._until:
            self._ask()
        else:
            self._finish(None)

    def connection_lost(self, error: Exception | None) -> None:
        """Spoil the round, unless it is over."""
        self._finish(error or ConnectionError("the server hung up"))

    def _finish(self, error: Exception | None) -> None:
        if self.done.done():
            return
        if error is not None:
            self.done.set_exception(error)
        else:
            self.done.set_result(None)
        self._transport.abort()


def _same(caller: Caller) -> Caller:
    return caller


def _length(head: bytes) -> int:
    return int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])


@dataclass
class Tally:
    """What the rounds of one row found: one entry per round, milliseconds of all answers."""

    rates: list[float] = field(default_factory=list)
    cpu_microseconds: list[float] = field(default_factory=list)
    load: list[float] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Target:
    """A server in a process of its own."""

    process_id: int
    port: int
    trust: ssl.SSLContext
    root: str

    async def round(
        self,
        calls: Iterator[bytes],
        seconds: float,
        tally: Tally,
        verdict: bytes = ALLOWED,
        connections: int = CONNECTIONS,
    ) -> int:
        """Keep all connections busy for so long; return the size of an answer."""
        loop = asyncio.get_running_loop()
        callers = [Caller(verdict) for _ in range(connections)]
        for caller in callers:
            await loop.create_connection(
                partial(_same, caller), LOOPBACK, self.port, ssl=self.trust, server_hostname="localhost"
            )
        cpu, own, start = self._cpu_seconds(), time.process_time(), time.perf_counter()
        for caller in callers:
            caller.start(calls, start + seconds)
        await asyncio.gather(*(caller.done for caller in callers))
        cpu, own, passed = self._cpu_seconds() - cpu, time.process_time() - own, time.perf_counter() - start
        found = [value for caller in callers for value in caller.milliseconds]
        tally.rates.append(len(found) / passed)
        tally.cpu_microseconds.append(cpu / len(found) * 1e6)
        tally.load.append(own / passed)
        tally.milliseconds.extend(found)
        return _length(callers[0].answer)

    def _cpu_seconds(self) -> float:
        return int(Path(f"/proc/{self.process_id}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


@contextmanager
def server(role: str, *arguments: str) -> Iterator[Target]:
    """Start a server of this module; it ends with its standard input."""
    command = [sys.executable, "-m", "tests.bench.admission", role, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            told = orjson.loads(process.stdout.readline())
            trust = ssl.create_default_context(cadata=told["authority"])
            yield Target(process.pid, told["port"], trust, told["root"])
        finally:
            process.stdin.close()


async def run_ours() -> None:
    """Serve as `up` does."""
    dice = np.random.default_rng(11)
    with tempfile.TemporaryDirectory() as folder:
        settings = UpSettings(https_port=0, http_port=0, drain_seconds=0)
        async with Up(settings, Path(folder)) as up:
            for number in range(MEMBERS):
                await up.store.create(MEMBER_CLUSTER, status_in_annotation(member(f"member-{number:04}", dice)))
            while len(up.cache.fleet) < MEMBERS or up.members.busy:
                await asyncio.sleep(0.05)
            https = up.server.addresses.https
            assert https is not None
            # Callers of the plain paths are strangers, whose reviews are slowed down on purpose.
            root = secret_path(read_secrets(up.hook_secret_file))
            await _announce(https[1], up.ca_file.read_text(encoding="ascii"), root)


class _StillUp(Up):
    """Serves as `up` does, on a hub that nothing changes."""

    async def _run(self) -> None:
        await self.cache.run()


async def run_hub() -> None:
    """Serve a hub of 1,000 namespaces and 1,000 placements, and the placements that the reviews of shapes update."""
    dice = np.random.default_rng(11)
    with tempfile.TemporaryDirectory() as folder:
        settings = UpSettings(https_port=0, http_port=0, drain_seconds=0)
        async with _StillUp(settings, Path(folder)) as up:
            for number in range(MEMBERS):
                document = member(f"member-{number:04}", dice)
                created = await up.store.create(MEMBER_CLUSTER, document)
                await up.store.replace_status(MEMBER_CLUSTER, {**created, "status": document["status"]})
            for number in range(NAMESPACES):
                labels = {"team": f"team-{number % 40:02}"}
                metadata = {"name": f"shop-{number:04}", "labels": labels}
                await up.store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
                await up.store.create(PLACEMENT, written(number))
            for kind, document in held_objects():
                await up.store.create(kind, document)
            await up.cache.wait_synced()
            while len(up.cache.list(PLACEMENT)) < NAMESPACES:
                await asyncio.sleep(0.05)
            https = up.server.addresses.https
            assert https is not None
            gc.collect()
            gc.freeze()
            root = secret_path(read_secrets(up.hook_secret_file))
            await _announce(https[1], up.ca_file.read_text(encoding="ascii"), root)


async def run_floor(sizes: Sequence[int]) -> None:
    """Serve the least that still reads the body and answers as much."""
    app = web.Application()
    answers = {hook: b'{"allowed":true}'.ljust(size) for hook, size in zip(ROWS.values(), sizes, strict=True)}
    for hook, answer in answers.items():
        app.router.add_post(f"/{hook}/{{rest:.*}}", _constant(answer))
    authority = Authority.new(datetime.now(UTC))
    tls = ServerContext(authority.issue(("localhost",), (), datetime.now(UTC)))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, LOOPBACK, 0, ssl_context=tls.listener)
    await site.start()
    gc.collect()
    gc.freeze()
    await _announce(runner.addresses[0][1], authority.pem.decode("ascii"))
    await runner.cleanup()


def _constant(answer: bytes) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=answer, content_type="application/json")

    return handle


async def _announce(port: int, authority: str, root: str = "") -> None:
    print(orjson.dumps({"port": port, "authority": authority, "root": root}).decode(), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def measure() -> None:
    """Let both servers take turns, and tell the figures."""
    with server("ours") as ours:
        calls, plain = ({row: _calls(row, root) for row in ROWS} for root in (ours.root, ""))
        sizes = [await ours.round(calls[row], WARM_UP_SECONDS, Tally()) for row in ROWS]
        with server("floor", *map(str, sizes)) as floor:
            for row in ROWS:
                await floor.round(plain[row], WARM_UP_SECONDS, Tally())
                mine, least = Tally(), Tally()
                for _ in range(ROUNDS):
                    await floor.round(plain[row], SECONDS, least)
                    await ours.round(calls[row], SECONDS, mine)
                _tell(row, len(next(calls[row]).partition(b"\r\n\r\n")[2]), mine, least)
            with server("hub") as hub:
                await _measure_shapes(hub, floor)


async def _measure_shapes(hub: Target, floor: Target) -> None:
    shares: dict[str, tuple[float, float]] = {}
    for row, review in SHAPE_ROWS.items():
        reviews = [review(number) for number in range(HELD)]
        mine, least = Tally(), Tally()
        calls, plain = (cycle([request(root + each.target, each.body) for each in reviews]) for root in (hub.root, ""))
        verdict = DENIED if row in REFUSED else ALLOWED
        await hub.round(calls, SHAPE_WARM_UP_SECONDS, Tally(), verdict)
        for _ in range(ROUNDS):
            await floor.round(plain, SHAPE_SECONDS, least)
            await hub.round(calls, SHAPE_SECONDS, mine, verdict)
        _tell(row, len(reviews[0].body), mine, least)
        shares[row] = float(np.median(mine.rates)), float(np.median(least.rates))
    for title in (MEDIAN_USER, MEDIAN_OWN):
        rates = np.array([shares[f"{title.partition(',')[0]}, {shape}"] for shape in PLACEMENTS])
        rate, least_rate = (float(value) for value in np.median(rates, axis=0))
        PART.report(Figure(title, rate, PER_SECOND, floor=least_rate, ratio=RATIOS[title]))


def _calls(row: str, root: str) -> Iterator[bytes]:
    return cycle([call(row, number, root) for number in range(DISTINCT)])


def _tell(row: str, size: int, mine: Tally, least: Tally) -> None:
    rate, floor_rate = float(np.median(mine.rates)), float(np.median(least.rates))
    p99, floor_p99 = (float(np.percentile(found.milliseconds, 99)) for found in (mine, least))
    cpu, floor_cpu = (float(np.median(found.cpu_microseconds)) for found in (mine, least))
    note = f"{size:,} bytes; {cpu:.0f} us of CPU; the load took {max(mine.load + least.load):.0%} of its core"
    PART.report(Figure(f"{row}, rate", rate, PER_SECOND, floor=floor_rate, ratio=RATIOS.get(row), note=note))
    if row in ROWS or row in P99_RATIOS:
        PART.report(Figure(f"{row}, p99", p99, "ms", P99_MS.get(row), floor_p99, P99_RATIOS.get(row)))
    if row in ROWS or row in CPU_MS:
        goal = CPU_MS[row] * 1000 if row in CPU_MS else None
        PART.report(Figure(f"{row}, processor time of a review", cpu, "us", goal, floor_cpu))


def main() -> None:
    """Tell the figures, or be one of the servers."""
    *others, last = sorted(os.sched_getaffinity(0))  # on a machine with one core everything shares it
    serving = len(sys.argv) > 1
    os.sched_setaffinity(0, {others[0] if serving and others else last})
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as `up` runs
        if not serving:
            runner.run(measure())
        elif sys.argv[1] == "floor":
            runner.run(run_floor([int(size) for size in sys.argv[2:]]))
        elif sys.argv[1] == "hub":
            runner.run(run_hub())
        else:
            runner.run(run_ours())


if __name__ == "__main__":
    main()
