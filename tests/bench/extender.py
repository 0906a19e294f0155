"""Extender rows: ``filter`` and ``prioritize`` over HTTPS for many candidates, one call after the other.

kube-scheduler asks for one pod at a time over a connection that it keeps, so what counts is how long one call takes.
The server is a process of its own on one core. The floor is a bare aiohttp handler, in a process of its own on the
same core, that reads the same body and answers as many bytes; the two take turns, so that a disturbance meets both.
Consecutive pods follow different placements.
"""

import asyncio
import gc
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle

import numpy as np
import orjson
import uvloop
from aiohttp import web

from certs.authority import Authority
from certs.context import ServerContext
from scorer.api.kinds import MEMBER_CLUSTER, NODE, PLACEMENT
from scorer.api.meta import JsonObject
from tests.bench.figures import Figure, Part
from tests.bench.fleets import NOW, member, policy
from tests.webhook.services import unheard
from webhook.admission.rights import UndisputedRights
from webhook.embedded.api_server.owner_token import OwnerToken
from webhook.embedded.storage.store import EmbeddedStore
from webhook.endpoints.http.services import Admittance
from webhook.history.record import RecordSource
from webhook.history.service import EventSinks, history_of
from webhook.kube.cache.informer import Cache
from webhook.processes.services import answers_of, services_of
from webhook.runtime.clock import utc_now
from webhook.server.certificates import Certificates, own_leaves
from webhook.server.server import Server
from webhook.settings.programs import ServerSettings
from webhook.telemetry.metrics import Metrics
from webhook.validation.framework.context import Context

MEMBERS, PLACEMENTS = 1_000, 20
SIZES = (1_000, 5_000)
VERBS = ("filter", "prioritize")
ROUNDS, CALLS, WARM_UP_CALLS = 5, 200, 40
GOAL_MS = 10
LOOPBACK = "127.0.0.1"


def node_name(number: int) -> str:
    """Return the name of a virtual node, as long as they usually are."""
    return f"liqo-member-{number % MEMBERS:04}-{number // MEMBERS}"


def node(number: int) -> JsonObject:
    """Return a virtual node."""
    labels = {
        "liqo.io/type": "virtual-node",
        "kubernetes.io/hostname": node_name(number),
        "harbormaster.dev/member-cluster": f"member-{number % MEMBERS:04}",
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node_name(number), "labels": labels}, "spec": {}}


def call(verb: str, size: int, number: int) -> bytes:
    """Return a whole request of a kube-scheduler."""
    container = {"name": "main", "image": "registry.example.com/shop/main:1.9.2", "imagePullPolicy": "IfNotPresent"}
    pod = {
        "metadata": {
            "name": f"main-6d4cf56db6-{number:05}",
            "namespace": "shop",
            "uid": f"00000000-0000-4000-a000-{number:012}",
            "labels": {"app": "main", "pod-template-hash": "6d4cf56db6"},
            "annotations": {"harbormaster.dev/placement": f"placement-{number % PLACEMENTS:02}"},
        },
        "spec": {
            "containers": [{**container, "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}}}],
            "tolerations": [{"key": "virtual-node.liqo.io/not-allowed", "operator": "Exists"}],
            "schedulerName": "fleet-scheduler",
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
    body = orjson.dumps({"Pod": pod, "Nodes": None, "NodeNames": [node_name(number) for number in range(size)]})
    head = (
        f"POST /extender/v1/{verb} HTTP/1.1\r\n"
        "Host: harbormaster.harbormaster-system.svc\r\n"
        "User-Agent: Go-http-client/1.1\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Content-Type: application/json\r\n"
        "Accept-Encoding: gzip\r\n"
        "\r\n"
    )
    return head.encode("ascii") + body


@dataclass(frozen=True)
class Target:
    """A server in a process of its own."""

    port: int
    trust: ssl.SSLContext

    async def ask(self, calls: Iterator[bytes], count: int) -> tuple[list[float], int]:
        """Ask so often over one connection; return milliseconds, and the size of the last answer."""
        reader, writer = await asyncio.open_connection(
            LOOPBACK, self.port, ssl=self.trust, server_hostname="localhost", limit=2**22
        )
        taken, length = [], 0
        try:
            for _ in range(count):
                asked = next(calls)
                started = time.perf_counter()
                writer.write(asked)
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
                body = await reader.readexactly(length)
                taken.append((time.perf_counter() - started) * 1000)
                if not head.startswith(b"HTTP/1.1 200 "):
                    raise RuntimeError(f"unexpected answer: {head.decode()}{body[:500].decode()}")
        finally:
            writer.transport.abort()
        return taken, length


@contextmanager
def server(*role: str) -> Iterator[Target]:
    """Start a server of this module; it ends with its standard input."""
    command = [sys.executable, "-m", "tests.bench.extender", *role]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            told = orjson.loads(process.stdout.readline())
            yield Target(told["port"], ssl.create_default_context(cadata=told["authority"]))
        finally:
            process.stdin.close()


async def run_ours() -> None:
    """Serve as `serve` does, from a store in memory; the clock stands still, and nobody loses their heartbeat."""
    settings = ServerSettings(https_port=0, http_port=0, drain_seconds=0, extender_allow_anonymous=True)
    store = EmbeddedStore.open(None, now=lambda: NOW)
    dice = np.random.default_rng(11)
    for number in range(MEMBERS):
        document = member(f"member-{number:04}", dice)
        created = await store.create(MEMBER_CLUSTER, document)
        await store.replace_status(MEMBER_CLUSTER, {**created, "status": document["status"]})
    for number in range(max(SIZES)):
        await store.create(NODE, node(number))
    for number in range(PLACEMENTS):
        spec = {"resourceSelectors": [], "policy": policy(10 + number)}
        head = {"apiVersion": PLACEMENT.api_version, "kind": PLACEMENT.kind}
        await store.create(PLACEMENT, {**head, "metadata": {"name": f"placement-{number:02}"}, "spec": spec})
    cache = Cache(store)
    owner, metrics = OwnerToken("bench"), Metrics()
    answers = answers_of(cache, store, Context, UndisputedRights(), lambda: NOW)
    history = history_of(store, settings.namespace, settings, RecordSource.SERVER, "bench", lambda: NOW)
    services = services_of(
        answers, Admittance(owner, owner), cache, store, settings, metrics, EventSinks(unheard, history)
    )
    watching = asyncio.create_task(cache.run())
    await cache.wait_synced()
    certificates = Certificates(own_leaves(settings, utc_now), None, metrics, utc_now, 3600.0)
    async with Server(services, settings, certificates, metrics) as running:
        gc.collect()
        gc.freeze()
        await _announce(running.addresses.https[1], running.certificates.trust_pem.decode("ascii"))
    watching.cancel()
    await asyncio.wait([watching])
    store.close()


async def run_floor(size: int) -> None:
    """Serve the least that still reads the body and answers as much."""

    async def handle(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=answer, content_type="application/json")

    answer = b" " * size
    app = web.Application(client_max_size=2**25)
    app.router.add_post("/extender/v1/{verb}", handle)
    authority = Authority.new(datetime.now(UTC))
    tls = ServerContext(authority.issue(("localhost",), (), datetime.now(UTC)))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0, ssl_context=tls.listener).start()
    gc.collect()
    gc.freeze()
    await _announce(runner.addresses[0][1], authority.pem.decode("ascii"))
    await runner.cleanup()


async def _announce(port: int, authority: str) -> None:
    print(orjson.dumps({"port": port, "authority": authority}).decode(), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def measure() -> None:
    """Let ours and the floor take turns, and tell the figures."""
    part = Part("extender")
    with server("ours") as ours:
        for verb in VERBS:
            for size in SIZES:
                calls = cycle([call(verb, size, number) for number in range(PLACEMENTS)])
                _, length = await ours.ask(calls, WARM_UP_CALLS)
                mine: list[float] = []
                least: list[float] = []
                with server("floor", str(length)) as floor:
                    await floor.ask(calls, WARM_UP_CALLS)
                    for _ in range(ROUNDS):
                        least += (await floor.ask(calls, CALLS))[0]
                        mine += (await ours.ask(calls, CALLS))[0]
                for percent, goal in ((50, None), (99, GOAL_MS)):
                    ours_ms, floor_ms = (float(np.percentile(found, percent)) for found in (mine, least))
                    part.report(
                        Figure(f"{verb}, {size:,} of {MEMBERS:,} names, p{percent}", ours_ms, "ms", goal, floor_ms)
                    )


def main() -> None:
    """Tell the figures, or be one of the servers."""
    *others, last = sorted(os.sched_getaffinity(0))  # on a machine with one core everything shares it
    serving = len(sys.argv) > 1
    os.sched_setaffinity(0, {others[0] if serving and others else last})
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as `serve` runs
        if not serving:
            runner.run(measure())
        elif sys.argv[1] == "ours":
            runner.run(run_ours())
        else:
            runner.run(run_floor(int(sys.argv[2])))


if __name__ == "__main__":
    main()
