"""What strangers do to a replica, each for some seconds: ``python -m e2e.soak.attacks``.

A process of its own, so that those who measure are not slowed by it; for the same reason it begins only so many
connections and sends only so many requests in a second. Whatever fails, because the server defends itself, is tried
again.
"""

import asyncio
import contextlib
import functools
import json
import secrets
import ssl
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from e2e.controlplane.cluster import LOOPBACK

MOST_PER_SECOND = 300
"""Connections that are begun, and requests that are sent."""
ELSEWHERE = "127.0.0.2"
HOOK = "/validate/placement.kubernetes-fleet.io/clusterresourceplacements"
JsonObject = dict[str, Any]


class Pace:
    """Lets so many go on in a second."""

    def __init__(self, per_second: float) -> None:
        self._between = 1 / per_second
        self._next = 0.0

    async def take(self) -> None:
        """Wait for a turn."""
        now = asyncio.get_running_loop().time()
        self._next = max(now, self._next + self._between)
        await asyncio.sleep(self._next - now)


PACE = Pace(MOST_PER_SECOND)


@dataclass(frozen=True)
class Target:
    """A replica as attackers see it.

    Args:
        port: Of HTTPS.
        certificate: Of somebody whom the hub knows.
        key: Of that.
    """

    port: int
    certificate: str
    key: str

    @functools.cache  # noqa: B019 - one per process
    def context(self, *, known: bool = False) -> ssl.SSLContext:
        """For a client that trusts anybody."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if known:
            context.load_cert_chain(self.certificate, self.key)
        return context

    async def dial(
        self, *, known: bool = False, source: str = LOOPBACK
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect."""
        await PACE.take()
        context = self.context(known=known)
        return await asyncio.open_connection(LOOPBACK, self.port, ssl=context, local_addr=(source, 0))

    async def ask(self, path: str, body: bytes, repeat: bool = True, **headers: str) -> None:
        """Send a body on one connection, again and again."""
        reader, writer = await self.dial()
        try:
            while True:
                await PACE.take()
                writer.write(head("POST", path, len(body), **headers) + body)
                await writer.drain()
                answer = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (int(line[15:]) for line in answer.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
                )
                await reader.readexactly(length)
                if not repeat or b"onnection: close" in answer:
                    return
        finally:
            writer.transport.abort()


def head(method: str, path: str, length: int, **headers: str) -> bytes:
    """The beginning of a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: a", "Content-Type: application/json", f"Content-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def review(group: str, version: str, kind: str, plural: str, document: JsonObject, **more: object) -> bytes:
    """A review in a body."""
    request = {
        "uid": "attack",
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": plural},
        "operation": "CREATE",
        "name": "a",
        "userInfo": {"username": "somebody"},
        "object": document,
        **more,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def placement(name: str = "a", terms: int = 1, kind: str = "PickAll") -> JsonObject:
    """A placement of some namespaces."""
    selectors = [{"group": "", "version": "v1", "kind": "Namespace", "name": f"shop-{n}"} for n in range(terms)]
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": name},
        "spec": {"resourceSelectors": selectors, "policy": {"placementType": kind}},
    }


def placement_review(document: JsonObject) -> bytes:
    """Its review."""
    group = "placement.kubernetes-fleet.io"
    return review(group, "v1", "ClusterResourcePlacement", "clusterresourceplacements", document)


async def bodies_that_never_come(target: Target, _number: int) -> None:
    """Announce a body and wait."""
    _, writer = await target.dial()
    writer.write(head("POST", HOOK, 3000) + b"{")
    await asyncio.sleep(60)


async def half_open(target: Target, _number: int) -> None:
    """Connect, and say nothing."""
    await PACE.take()
    reader, writer = await asyncio.open_connection(LOOPBACK, target.port)
    await reader.read(1)
    writer.transport.abort()


async def idle(target: Target, _number: int) -> None:
    """Shake hands, and say nothing."""
    reader, writer = await target.dial()
    await reader.read(1)
    writer.transport.abort()


async def handshakes(target: Target, _number: int) -> None:
    """Shake hands and go, from where nobody honest is."""
    _, writer = await target.dial(source=ELSEWHERE)
    writer.transport.abort()


async def slow_bodies(target: Target, _number: int) -> None:
    """Send a byte now and then."""
    _, writer = await target.dial()
    writer.write(head("POST", HOOK, 100_000))
    for _ in range(600):
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.1)


async def stuck_big_bodies(target: Target, _number: int) -> None:
    """Send nearly all of eight MiB, and wait."""
    _, writer = await target.dial()
    writer.write(head("POST", HOOK, 8 << 20) + b" " * ((8 << 20) - 1000))
    await writer.drain()
    await asyncio.sleep(60)


async def big_bodies(target: Target, _number: int) -> None:
    """Reviews of eight MiB."""
    document = placement()
    document["metadata"]["annotations"] = {"pad": "x" * ((8 << 20) - 2000)}
    await target.ask(HOOK, placement_review(document))


async def hostile_numbers(target: Target, _number: int) -> None:
    """Durations, quantities and schedules of absurd length."""
    spec = {
        "template": {"spec": {"expireAfter": "1h" * 1_300_000}},
        "disruption": {"consolidateAfter": "1" * 1_000_001 + "s", "budgets": [{"nodes": "9" * 1_000_000}]},
        "limits": {"cpu": "1" * 500_000},
    }
    document = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"}, "spec": spec}
    await target.ask(
        "/validate/karpenter.sh/nodepools", review("karpenter.sh", "v1", "NodePool", "nodepools", document)
    )


async def bad_tokens(target: Target, _number: int) -> None:
    """Tokens that nobody has."""
    await target.ask("/v1/score", b"{}", repeat=True, Authorization=f"Bearer {secrets.token_hex(16)}")


async def event_streams(target: Target, _number: int) -> None:
    """Streams that nobody reads."""
    reader, writer = await target.dial(known=True)
    writer.write(b"GET /v1/events HTTP/1.1\r\nHost: a\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    await asyncio.sleep(60)


async def forged_reviews(target: Target, number: int) -> None:
    """Reviews in the name of others, that ask for many rights."""
    await target.ask(HOOK, placement_review(placement(f"forged-{number}", terms=100)))


async def path_traversal(target: Target, _number: int) -> None:
    """Evictions of pods whose names are paths."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "../../../../api/v1/secrets"}}
    more = {"subResource": "eviction", "name": "../../../../api/v1/secrets", "namespace": "default"}
    body = review("policy", "v1", "Eviction", "pods", eviction, **more)
    await target.ask("/validate/disruption", body)


ATTACKS: dict[str, tuple[Callable[[Target, int], Awaitable[None]], int]] = {
    "bodies that never come": (bodies_that_never_come, 300),
    "half-open handshakes": (half_open, 4000),
    "idle connections": (idle, 1200),
    "handshakes": (handshakes, 400),
    "slow bodies": (slow_bodies, 300),
    "stuck big bodies": (stuck_big_bodies, 60),
    "big bodies": (big_bodies, 4),
    "hostile numbers": (hostile_numbers, 2),
    "bad tokens": (bad_tokens, 20),
    "event streams": (event_streams, 150),
    "forged reviews": (forged_reviews, 20),
    "path traversal": (path_traversal, 20),
}
"""What is done, and by how many at once."""


async def attack(name: str, target: Target, seconds: float) -> None:
    """Attack for so long."""
    deed, concurrency = ATTACKS[name]

    async def again(number: int) -> None:
        while True:
            with contextlib.suppress(OSError, EOFError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await deed(target, number)
            await asyncio.sleep(0.01)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as tasks:
            for number in range(concurrency):
                tasks.create_task(again(number))
            await asyncio.sleep(2.5)
            print("at it", flush=True)


if __name__ == "__main__":
    import uvloop

    uvloop.run(attack(sys.argv[1], Target(int(sys.argv[2]), sys.argv[3], sys.argv[4]), float(sys.argv[5])))
