"""``/v1/score`` over HTTPS on 1,000 clusters: alone, and while every cluster reports once a second.

``harbormaster serve`` runs as a process of its own on one core. A small server beside the load plays the API server,
because none keeps up with 1,000 writes a second on the other core: it speaks list and watch, and sends each heartbeat
as a real one does, ``managedFields`` and all. The floor is a bare aiohttp handler that answers as much.
"""

import asyncio
import base64
import json
import os
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import numpy as np
import orjson
import uvloop
from aiohttp import web

from certs.authority import Authority
from certs.context import ServerContext
from e2e.load.connection import dial, request
from scorer.api.kinds import MEMBER_CLUSTER, PLACEMENT
from scorer.api.meta import JsonObject, format_time
from tests.bench.figures import SHORT, Figure, Part
from tests.bench.fleets import member, policy
from tests.bench.processes import processor_seconds, resident_megabytes

MEMBERS, MANY_MEMBERS, ANSWER = 1_000, 10_000, 100
HEARTBEATS_PER_SECOND, QUESTIONS_PER_SECOND, CONNECTIONS = 1_000, 100, 4
SECONDS, WARM_UP_SECONDS, PATIENCE_SECONDS = 4.0 if SHORT else 10.0, 2.0, 60.0
FILLING_SECONDS: Final = 600.0
PART: Final = Part("scoring")
TICK_SECONDS: Final = 0.005
LOOPBACK: Final = "127.0.0.1"
TOKEN: Final = "bench"
REVIEWED: Final = {"authenticated": True, "allowed": True, "user": {"username": "bench"}}


class Hub:
    """Just enough of an API server: one kind with objects, one placement, every credential good.

    Of every other kind it has what `items` says by the plural of its name, and that never changes; mostly nothing.
    """

    def __init__(self, size: int) -> None:
        dice = np.random.default_rng(11)
        self.members = [_as_stored(member(f"member-{number:05}", dice), number) for number in range(size)]
        for document in self.members:
            document["status"]["agentStatus"][0]["lastReceivedHeartbeat"] = format_time(datetime.now(UTC))
        self.items: dict[str, list[JsonObject]] = {}
        self.version = size + 1
        self.rate = 0
        self.sent = 0
        spec = {"resourceSelectors": [], "policy": policy(10)}
        self._placement = _as_stored({"metadata": {"name": "payments"}, "spec": spec}, size)

    def routes(self) -> web.Application:
        """Return what it serves."""
        app = web.Application()
        app.router.add_get(f"/apis/{MEMBER_CLUSTER.api_version}/{MEMBER_CLUSTER.plural}", self._serve_members)
        app.router.add_get(f"/apis/{PLACEMENT.api_version}/{PLACEMENT.plural}", self._serve_placements)
        app.router.add_post("/apis/{rest:.*}reviews", self._serve_review)
        for rest in ("/api/{rest:.*}", "/apis/{rest:.*}"):
            app.router.add_get(rest, self._serve_others)
        return app

    async def _serve_others(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await _silence(request)
        return _listing(self.items.get(request.path.rpartition("/")[2], ()), self.version)

    async def _serve_review(self, request: web.Request) -> web.Response:
        asked = await request.json()
        return web.json_response({**asked, "status": {**REVIEWED, "audiences": asked["spec"].get("audiences", [])}})

    async def _serve_placements(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await _silence(request)
        return _listing([self._placement], self.version)

    async def _serve_members(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            start = int(request.query.get("continue", 0))
            limit = int(request.query.get("limit", len(self.members)))
            more = start + limit if start + limit < len(self.members) else None
            return _listing(self.members[start : start + limit], self.version, more)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        loop, behind, then = asyncio.get_running_loop(), 0.0, asyncio.get_running_loop().time()
        with suppress(ConnectionError):
            while True:
                await asyncio.sleep(TICK_SECONDS)
                now = loop.time()
                behind, then = behind + (now - then) * self.rate, now
                lines = [self._heartbeat() for _ in range(int(behind))]
                behind -= len(lines)
                if lines:
                    await response.write(b"".join(lines))
        return response

    def _heartbeat(self) -> bytes:
        document = self.members[self.sent % len(self.members)]
        self.sent += 1
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)
        now = format_time(datetime.now(UTC))
        status = document["status"]
        status["agentStatus"][0]["lastReceivedHeartbeat"] = now
        status["resourceUsage"]["observationTime"] = now
        status["resourceUsage"]["available"]["cpu"] = f"{self.sent * 7919 % 900_000}m"
        return orjson.dumps({"type": "MODIFIED", "object": document}) + b"\n"


def _as_stored(document: JsonObject, number: int) -> JsonObject:
    """Return *document* as an API server sends it."""
    now = format_time(datetime.now(UTC))
    fields = {f"f:{name}": {".": {}, f"f:{part}": {}} for name in ("spec", "status") for part in ("a", "b", "c")}
    writers = [
        {"manager": name, "operation": "Update", "apiVersion": "v1", "time": now, "fieldsV1": fields}
        for name in ("kubectl", "member-agent", "hub-agent")
    ]
    metadata = {
        "uid": f"00000000-0000-4000-a000-{number:012}",
        "resourceVersion": str(number + 1),
        "creationTimestamp": format_time(datetime.now(UTC) - timedelta(days=3)),
        "generation": 1,
        "managedFields": writers,
    }
    return {**document, "metadata": {**document["metadata"], **metadata}}


def _listing(items: Sequence[JsonObject], version: int, more: int | None = None) -> web.Response:
    metadata = {"resourceVersion": str(version)} | ({"continue": str(more)} if more is not None else {})
    return web.Response(body=orjson.dumps({"metadata": metadata, "items": items}), content_type="application/json")


async def _silence(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await asyncio.sleep(600)
    return response


@asynccontextmanager
async def listening(app: web.Application) -> AsyncIterator[tuple[int, str]]:
    """Serve *app* over TLS; yields the port and the authority to trust."""
    authority = Authority.new(datetime.now(UTC))
    tls = ServerContext(authority.issue(("localhost",), (LOOPBACK,), datetime.now(UTC)))
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0, ssl_context=tls.listener).start()
    try:
        yield runner.addresses[0][1], authority.pem.decode("ascii")
    finally:
        await runner.cleanup()


class Replica:
    """``harbormaster serve`` in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, plain: int, trust: ssl.SSLContext) -> None:
        self.port = port
        self.plain_port = plain
        self.pid = process.pid
        self.trust = trust
        self._process = process

    @property
    def megabytes(self) -> float:
        """Resident memory."""
        return resident_megabytes(self._process.pid)

    @property
    def cpu_seconds(self) -> float:
        """Processor time so far."""
        return processor_seconds(self._process.pid)


def kubeconfig(port: int, authority: str, folder: Path) -> Path:
    """Write the file by which a process finds the hub at *port*."""
    cluster = {
        "server": f"https://{LOOPBACK}:{port}",
        "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
    }
    config = {
        "clusters": [{"name": "hub", "cluster": cluster}],
        "users": [{"name": "bench", "user": {"token": TOKEN}}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "bench"}}],
        "current-context": "hub",
    }
    file = folder / "kubeconfig"
    file.write_text(json.dumps(config), encoding="utf-8")
    return file


@asynccontextmanager
async def replica(port: int, authority: str, folder: Path) -> AsyncIterator[Replica]:
    """Start it on the hub at *port*, and wait until its cache is filled."""
    own = Authority.new(datetime.now(UTC))
    leaf = own.issue(("localhost",), (LOOPBACK,), datetime.now(UTC))
    for name, content in (("ca.crt", own.pem), ("tls.crt", leaf.chain_pem), ("tls.key", leaf.key_pem)):
        (folder / name).write_bytes(content)
    config = kubeconfig(port, authority, folder)
    files = [
        f"--tls-{name}={folder / file}" for name, file in (("cert", "tls.crt"), ("key", "tls.key"), ("ca", "ca.crt"))
    ]
    command = [str(Path(sys.executable).with_name("harbormaster")), "serve", f"--kubeconfig={config}"]
    environment = {
        **os.environ,
        "HARBORMASTER_REQUESTS_PER_SECOND": "1000000",
        "HARBORMASTER_REQUEST_BURST": "1000000",
        "HARBORMASTER_DRAIN_SECONDS": "0",
        "HARBORMASTER_DRAIN_LIMIT_SECONDS": "0",
        "HARBORMASTER_LOG_LEVEL": "error",
    }
    process = await asyncio.create_subprocess_exec(
        *command,
        *files,
        "--https-port=0",
        "--http-port=0",
        env=environment,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=lambda: os.sched_setaffinity(0, SERVING_CORE),
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            words = (await process.stderr.readline()).decode().split()
        serving, plain = (int(word.rstrip(",").rpartition(":")[2]) for word in words if "://" in word)
        found = Replica(process, serving, plain, ssl.create_default_context(cadata=own.pem.decode("ascii")))
        await _filled(found)
        yield found
    finally:
        process.terminate()
        await process.wait()


async def _filled(found: Replica) -> None:
    async with asyncio.timeout(FILLING_SECONDS):
        while True:
            with suppress(ConnectionError):
                if (await once(found, question()))[0] == 200:
                    return
            await asyncio.sleep(0.2)


def question() -> bytes:
    """Return the request: rank the whole fleet for a placement, the best hundred."""
    ref = {"kind": PLACEMENT.kind, "name": "payments"}
    return request("/v1/score", {"placement": {"ref": ref}, "limit": ANSWER}, TOKEN)


async def once(found: Replica, asked: bytes) -> tuple[int, bytes]:
    """Ask one question over a connection of its own."""
    async with dial(found.port, found.trust) as connection:
        return await connection.ask(asked)


async def ask_steadily(port: int, trust: ssl.SSLContext, asked: bytes, rate: float, seconds: float) -> list[float]:
    """Ask at a steady rate over several connections, whatever the answers take; returns their milliseconds.

    A question that was due while its connection still waited for the answer before counts from when it was due, so
    that one slow answer shows in those behind it; that our own timer woke up late does not count.
    """
    taken: list[float] = []

    async def caller(number: int) -> None:
        async with dial(port, trust) as connection:
            begin = time.perf_counter()
            due, free = begin + number / rate, begin
            while due < begin + seconds:
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                asked_at = due if free > due else time.perf_counter()
                status, body = await connection.ask(asked)
                free = time.perf_counter()
                taken.append((free - asked_at) * 1000)
                if status != 200:
                    raise RuntimeError(f"unexpected answer: {status} {body.decode()[:500]}")
                due += CONNECTIONS / rate

    await asyncio.gather(*(caller(number) for number in range(CONNECTIONS)))
    return taken


async def ask_concurrently(port: int, trust: ssl.SSLContext, asked: bytes, seconds: float) -> list[float]:
    """Ask again as soon as there is an answer, over one connection; returns the milliseconds of each."""
    taken: list[float] = []
    end = time.perf_counter() + seconds
    async with dial(port, trust) as connection:
        while (started := time.perf_counter()) < end:
            status, body = await connection.ask(asked)
            taken.append((time.perf_counter() - started) * 1000)
            if status != 200:
                raise RuntimeError(f"unexpected answer: {status} {body.decode()[:500]}")
    return taken


def floor_of(size: int) -> web.Application:
    """Return a server that answers every question with so many bytes."""

    async def handle(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=b" " * size, content_type="application/json")

    app = web.Application()
    app.router.add_post("/v1/score", handle)
    return app


def tell(
    part: Part, title: str, ours: Sequence[float], floor: Sequence[float], p99_goal: float | None, note: str = ""
) -> None:
    """Tell the median of the milliseconds of answers, and what one of a hundred exceeds; the goal is of the latter."""
    for percent, goal in ((50, None), (99, p99_goal)):
        mine, least = (float(np.percentile(found, percent)) for found in (ours, floor))
        part.report(Figure(f"/v1/score, {title}, p{percent}", mine, "ms", goal, least, note=note))


async def with_replica(size: int, rate: int, folder: Path, work: Callable[[Replica, Hub], Awaitable[None]]) -> None:
    """Do something with a replica on a hub of that many members, each of which reports now and then."""
    hub = Hub(size)
    async with listening(hub.routes()) as (port, authority), replica(port, authority, folder) as found:
        hub.rate = rate
        await asyncio.sleep(WARM_UP_SECONDS)
        await work(found, hub)


async def measure() -> None:
    """Tell the figures."""
    megabytes: dict[int, float] = {}
    floor: list[float] = []
    with tempfile.TemporaryDirectory() as folder:

        async def alone(found: Replica, _: Hub) -> None:
            nonlocal floor
            megabytes[MEMBERS] = found.megabytes
            _, answer = await once(found, question())
            async with listening(floor_of(len(answer))) as (port, authority):
                floor = await ask_concurrently(
                    port, ssl.create_default_context(cadata=authority), question(), SECONDS / 4
                )
            await ask_concurrently(found.port, found.trust, question(), WARM_UP_SECONDS)
            asked = await ask_concurrently(found.port, found.trust, question(), SECONDS)
            tell(PART, f"{MEMBERS:,} clusters, answer of {ANSWER}", asked, floor, 3.0)

        async def reported(found: Replica, hub: Hub) -> None:
            sent, cpu = hub.sent, found.cpu_seconds
            asked = await ask_steadily(found.port, found.trust, question(), QUESTIONS_PER_SECOND, SECONDS)
            busy = (found.cpu_seconds - cpu) / SECONDS
            rate = (hub.sent - sent) / SECONDS
            title = f"{QUESTIONS_PER_SECOND}/s beside {HEARTBEATS_PER_SECOND:,} heartbeats/s"
            tell(PART, title, asked, floor, 25.0, f"{busy:.0%} of a core; {rate:,.0f} heartbeats came")

        async def large(found: Replica, _: Hub) -> None:
            megabytes[MANY_MEMBERS] = found.megabytes

        await with_replica(MEMBERS, 0, Path(folder), alone)
        await with_replica(MEMBERS, HEARTBEATS_PER_SECOND, Path(folder), reported)
        await with_replica(MANY_MEMBERS, 0, Path(folder), large)
    each = (megabytes[MANY_MEMBERS] - megabytes[MEMBERS]) / (MANY_MEMBERS - MEMBERS) * 1000
    title = f"memory of serve with {MEMBERS:,} members"
    PART.report(Figure(title, megabytes[MEMBERS], "MB", note=f"{each:.1f} MB per 1,000 more"))


*_others, _last = sorted(os.sched_getaffinity(0))
SERVING_CORE: Final = {_others[0]} if _others else {_last}


def main() -> None:
    """Measure with the load on the last core, the server on the first."""
    os.sched_setaffinity(0, {_last})
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(measure())


if __name__ == "__main__":
    main()
