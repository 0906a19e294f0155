"""A bad network in front of an API server: a proxy that loses, delays and falsifies answers by dice.

It ends TLS with a certificate of its own, so whoever uses it needs the kubeconfig that `FaultProxy.kubeconfig` writes,
and passes everything on with the caller's own token: what the API server sees of the caller does not change. A fault
strikes *before* the request is passed on, or *after*: then the write took place and its writer does not hear of it.

The proxy is a process of its own (``python -m e2e.controlplane.fault_proxy``), told what to do at run time by `Faults`
sent to its control port. With equal seeds and equal requests in equal order it does the same again.
"""

import argparse
import asyncio
import contextlib
import json
import random
import re
import ssl
import sys
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import aiohttp
from aiohttp import web
from yarl import URL

from certs.authority import Authority
from e2e.controlplane.cluster import LOOPBACK, Cluster
from e2e.controlplane.process import PATIENCE, Program, free_port, kill

ANSWERS = {
    "409": "Conflict",
    "429": "TooManyRequests",
    "500": "InternalError",
    "503": "ServiceUnavailable",
}
HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "host"}
)
EVERYTHING = ("409", "429", "500", "503", "drop", "hang", "delay")


@dataclass(frozen=True)
class Faults:
    """What the proxy does to requests; none by default.

    Args:
        seed: Of the dice, thrown anew with every change of the faults.
        share: Of the requests that meet a fault, 0 to 1.
        faults: Which; each as likely as the others: a status of `ANSWERS`, ``drop`` (the connection ends), ``hang``
            (no answer for *hang_seconds*, then the connection ends) or ``delay`` (passed on after *delay_seconds*).
        after: Share of the faults that strike after the request took place, 0 to 1.
        methods: Only requests with these; empty: all.
        path: Only requests whose path with its query matches this expression anywhere.
        hang_seconds: Longer than the client's patience, or not.
        delay_seconds: How long a delayed request waits.
        watch_seconds: Watches end after so long; 0: when the server ends them.
        watch_gone: Share of the watches that are told at once that their version is too old (410), 0 to 1.
        cut: ``refuse``: every connection ends, open ones too. ``outage``: nothing comes through, in no direction,
            until the cut is healed; then what waited goes on.
    """

    seed: int = 0
    share: float = 0.0
    faults: tuple[str, ...] = EVERYTHING
    after: float = 0.5
    methods: tuple[str, ...] = ()
    path: str = ""
    hang_seconds: float = 3600
    delay_seconds: float = 0.5
    watch_seconds: float = 0
    watch_gone: float = 0.0
    cut: Literal["", "refuse", "silence"] = ""

    def __post_init__(self) -> None:
        unknown = set(self.faults) - set(EVERYTHING)
        if unknown:
            raise ValueError(f"faults: {sorted(unknown)}: only {', '.join(EVERYTHING)}")


NO_FAULTS = Faults()


class FaultProxy:
    """The proxy as the tests see it: started, told what to do, asked what it did.

    Args:
        cluster: In front of which API server.
        folder: For its certificate, its log and the kubeconfigs; made when missing.
    """

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.cluster = cluster
        self.folder = folder
        self.port, self._control = free_port(), free_port()
        self._authority = Authority.new(datetime.now(UTC))
        leaf = self._authority.issue(("localhost",), (LOOPBACK,), datetime.now(UTC))
        certificate = folder / "proxy.pem"
        certificate.touch(mode=0o600)
        certificate.write_bytes(leaf.chain_pem + leaf.key_pem)
        self.program = Program(
            [
                sys.executable,
                "-m",
                "e2e.controlplane.fault_proxy",
                f"--to={cluster.url}",
                f"--ca={cluster.ca_file}",
                f"--port={self.port}",
                f"--control={self._control}",
                f"--certificate={certificate}",
            ],
            folder / "fault-proxy.log",
        )

    def start(self) -> None:
        """Start it, without faults."""
        self.program.start()
        self.program.wait_ready(lambda: isinstance(self.counts(), Counter))

    def stop(self) -> None:
        """End it."""
        kill(self.program)

    def set(self, faults: Faults) -> None:
        """Have it do this from now on, and forget what it counted."""
        self._ask("PUT", asdict(faults))

    def heal(self) -> Counter[str]:
        """Have it pass everything on; return what it did before, by fault."""
        counts = self.counts()
        self.set(NO_FAULTS)
        return counts

    def counts(self) -> Counter[str]:
        """How often it did what: ``passed`` and the faults, those after the fact as ``409 after``."""
        return Counter(self._ask("GET"))

    def kubeconfig(self, name: str, token: str) -> Path:
        """A kubeconfig by which somebody with *token* reaches the API server through the proxy."""
        return self.cluster.write_kubeconfig(
            name, token, server=f"https://{LOOPBACK}:{self.port}", authority=self._authority, folder=self.folder
        )

    def _ask(self, method: str, body: object = None) -> Any:
        request = urllib.request.Request(
            f"http://{LOOPBACK}:{self._control}/",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.loads(answer.read())


class _Proxy:
    """The proxy itself."""

    def __init__(self, to: str, session: aiohttp.ClientSession) -> None:
        self._to = to
        self._session = session
        self._counts: Counter[str] = Counter()
        self._open: dict[int, web.Request] = {}
        self._healed = asyncio.Event()
        self._set(NO_FAULTS)

    async def control(self, request: web.Request) -> web.Response:
        """Take new faults, or tell what was done."""
        if request.method == "PUT":
            given = await request.json()
            lists = {name: tuple(given[name]) for name in ("faults", "methods") if name in given}
            self._counts.clear()
            self._set(Faults(**{**given, **lists}))
        return web.json_response(self._counts)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Pass one request on, or not."""
        self._open[id(request)] = request
        try:
            return await self._answer(request)
        finally:
            del self._open[id(request)]

    def _set(self, faults: Faults) -> None:
        self._faults = faults
        self._dice = random.Random(faults.seed)
        self._path = re.compile(faults.path)
        if faults.cut == "silence":
            self._healed.clear()
        else:
            self._healed.set()
        if faults.cut == "refuse":
            for request in list(self._open.values()):
                _drop(request)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        await self._healed.wait()
        if self._faults.cut == "refuse":
            return self._ended(request, "refused")
        faults, fault, after = self._faults, *self._throw(request)
        body = await request.read()
        if fault == "delay":
            await asyncio.sleep(faults.delay_seconds)
        elif fault:
            if after:
                with contextlib.suppress(aiohttp.ClientError):
                    async with self._pass_on(request, body) as upstream:
                        await upstream.read()
            self._counts[f"{fault} after" if after else fault] += 1
            return await self._strike(request, fault, faults)
        self._counts[fault or "passed"] += 1
        return await self._carry(request, body, faults)

    def _throw(self, request: web.Request) -> tuple[str, bool]:
        """Which fault this request meets, if any, and whether after the fact; watches meet only their own."""
        faults = self._faults
        chosen = (not faults.methods or request.method in faults.methods) and self._path.search(request.path_qs)
        if not chosen or _is_watch(request) or self._dice.random() >= faults.share:
            return "", False
        return self._dice.choice(faults.faults), self._dice.random() < faults.after

    async def _strike(self, request: web.Request, fault: str, faults: Faults) -> web.StreamResponse:
        if fault in ANSWERS:
            headers = {"Retry-After": "1"} if fault in {"429", "503"} else {}
            return web.json_response(_status(int(fault), ANSWERS[fault]), status=int(fault), headers=headers)
        if fault == "hang":
            await asyncio.sleep(faults.hang_seconds)
        return self._ended(request)

    async def _carry(self, request: web.Request, body: bytes, faults: Faults) -> web.StreamResponse:
        """Pass the request on and its answer back as it comes."""
        if _is_watch(request) and self._dice.random() < faults.watch_gone:
            self._counts["watch gone"] += 1
            expired = {"type": "ERROR", "object": _status(410, "Expired")}
            return web.Response(body=json.dumps(expired).encode() + b"\n", content_type="application/json")
        try:
            async with self._pass_on(request, body) as upstream:
                answer = web.StreamResponse(status=upstream.status, headers=_kept(upstream.headers.items()))
                await answer.prepare(request)
                limit = faults.watch_seconds if _is_watch(request) else 0
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(limit or None):
                        async for chunk in upstream.content.iter_any():
                            await self._healed.wait()
                            await answer.write(chunk)
                await answer.write_eof()
                return answer
        except aiohttp.ClientError:
            return self._ended(request, "unreachable")

    def _pass_on(self, request: web.Request, body: bytes) -> "aiohttp.client._RequestContextManager":
        headers = _kept(request.headers.items(), but={"content-length"})
        url = URL(self._to + request.raw_path, encoded=True)
        return self._session.request(request.method, url, headers=headers, data=body or None)

    def _ended(self, request: web.Request, counted: str = "") -> web.StreamResponse:
        if counted:
            self._counts[counted] += 1
        _drop(request)
        return web.Response(status=502)  # never seen


def _drop(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _is_watch(request: web.Request) -> bool:
    return request.query.get("watch") in {"true", "1"}


def _kept(headers: Iterable[tuple[str, str]], but: Iterable[str] = ()) -> list[tuple[str, str]]:
    left_out = HOP_BY_HOP | set(but)
    return [(name, value) for name, value in headers if name.lower() not in left_out]


def _status(code: int, reason: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": f"the network says {code}",
        "reason": reason,
        "code": code,
    }


@contextlib.asynccontextmanager
async def _running(options: argparse.Namespace) -> AsyncIterator[None]:
    trust = ssl.create_default_context(cafile=options.ca)
    identity = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    identity.load_cert_chain(options.certificate)
    connector = aiohttp.TCPConnector(ssl=trust, limit=0)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
        proxy = _Proxy(options.to, session)
        doors = (
            (proxy.answer, options.port, identity),
            (proxy.control, options.control, None),
        )
        async with contextlib.AsyncExitStack() as stack:
            for handler, port, context in doors:
                app = web.Application(client_max_size=64 * 1024 * 1024)
                app.router.add_route("*", "/{path:.*}", handler)
                runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5, handler_cancellation=True)
                await runner.setup()
                stack.push_async_callback(runner.cleanup)
                await web.TCPSite(runner, LOOPBACK, port, ssl_context=context).start()
            yield


async def _main(options: argparse.Namespace) -> None:
    async with _running(options):
        await asyncio.Event().wait()


def main() -> None:
    """Run the proxy until it is killed."""
    parser = argparse.ArgumentParser()
    for name in ("to", "ca", "certificate"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("port", "control"):
        parser.add_argument(f"--{name}", required=True, type=int)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
