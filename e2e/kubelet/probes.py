"""Probes and the other actions that are done to a container: over HTTP, by a connection, by a command in it."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import aiohttp

from e2e.controlplane.cluster import JsonObject

Run = Callable[[Sequence[str], float], Awaitable[str]]
"""Runs a command in the container for at most so many seconds; returns what went wrong, empty when nothing did."""


@dataclass(frozen=True)
class Target:
    """Where the actions of a container go.

    Args:
        address: Of the Pod.
        ports: Numbers by name.
        run: See `Run`.
    """

    address: str
    ports: Mapping[str, int]
    run: Run

    def port(self, named: int | str) -> int:
        """The number of a port that is written as a number or a name."""
        return self.ports.get(str(named)) or int(named)


async def perform(action: JsonObject, target: Target, seconds: float) -> str:
    """Do what a probe or a hook says.

    Args:
        action: With one of ``exec``, ``httpGet``, ``tcpSocket``, ``sleep``.
        target: To whom.
        seconds: Patience.

    Returns:
        What went wrong; empty when nothing did.
    """
    try:
        async with asyncio.timeout(seconds):
            if "exec" in action:
                return await target.run(action["exec"]["command"], seconds)
            if "httpGet" in action:
                return await _get(action["httpGet"], target)
            if "tcpSocket" in action:
                return await _connect(action["tcpSocket"], target)
            await asyncio.sleep(action["sleep"]["seconds"])
            return ""
    except TimeoutError:
        return f"no answer within {seconds:g} s"
    except (OSError, ValueError, aiohttp.ClientError) as error:  # ValueError: a port of that name is not there
        return str(error) or type(error).__name__


async def _get(action: JsonObject, target: Target) -> str:
    scheme, path = action.get("scheme", "HTTP").lower(), action.get("path", "/")
    url = f"{scheme}://{action.get('host') or target.address}:{target.port(action['port'])}{path}"
    headers = {"User-Agent": "kube-probe/1.36", "Accept": "*/*"}
    headers |= {header["name"]: header["value"] for header in action.get("httpHeaders") or ()}
    connector = aiohttp.TCPConnector(ssl=False, force_close=True)  # a kubelet does not verify either
    async with aiohttp.ClientSession(connector=connector) as session, session.get(url, headers=headers) as answer:
        if 200 <= answer.status < 400:
            return ""
        return f"HTTP probe failed with statuscode: {answer.status}"


async def _connect(action: JsonObject, target: Target) -> str:
    host = action.get("host") or target.address
    _, writer = await asyncio.open_connection(host, target.port(action["port"]))
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return ""


async def probe(spec: JsonObject, target: Target, report: Callable[[str], bool]) -> None:
    """Probe a container again and again.

    Args:
        spec: The probe.
        target: Whom.
        report: Called when as many probes in a row as the threshold says have ended the same way, and with each one
            after those: with what went wrong, or with an empty text. It returns whether to go on.
    """
    clock = asyncio.get_running_loop()
    due = clock.time() + spec.get("initialDelaySeconds", 0)
    good = bad = 0
    while True:
        await asyncio.sleep(due - clock.time())
        problem = await perform(spec, target, spec.get("timeoutSeconds", 1))
        good, bad = (0, bad + 1) if problem else (good + 1, 0)
        decided = bad >= spec.get("failureThreshold", 3) if problem else good >= spec.get("successThreshold", 1)
        if decided and not report(problem):
            return
        due = max(due + spec.get("periodSeconds", 10), clock.time())
