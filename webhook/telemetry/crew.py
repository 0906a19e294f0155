"""Workers of one server, which answer probes and expose metrics as one process.

A probe or a scrape reaches any worker. That worker asks all workers, each over its own socket. The server is healthy if
every worker is healthy. The metrics of each worker are exposed with the label ``worker``, as for separate replicas.
They are not summed: a sum drops when a worker dies, and Prometheus treats a drop as a counter reset. Also, some gauges
would need a sum, and others the minimum or the maximum.

Source: docs/specifications/serving.md 6.1 and 6.4.
"""

import asyncio
import json
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric

from webhook.telemetry.health import Health
from webhook.telemetry.process_metrics import ProcessMetrics

LABEL: Final = "worker"
UP: Final = "harbormaster_worker_up"
PROBE_SECONDS: Final = 1.5
"""Timeout of a worker's answer to a probe. The probes of the chart time out after two seconds."""
METRICS_SECONDS: Final = 4.0
"""Timeout of a worker's answer to a scrape. Prometheus times out after ten seconds."""
PAUSE_SECONDS: Final = 0.5
"""Pause before the next accept when the system has no more sockets."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""Limit of an answer."""
_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group, as SO_PEERCRED returns them."""

Answer = dict[str, Any]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Seat:
    """The place of one worker among the others.

    Args:
        number: Number of the worker, from 1 on.
        own: Listening socket for the other workers. Only this process holds it, so no worker waits for a dead one.
        addresses: Socket address of each worker, by number.
        restarts: Number of restarts of this worker number.
    """

    number: int
    own: socket.socket
    addresses: Mapping[int, bytes]
    restarts: int


def count_worker(registry: CollectorRegistry, restarts: int) -> None:
    """Register the metrics of a worker.

    Args:
        registry: Registry of its metrics.
        restarts: Number of restarts of this worker number.
    """
    Gauge(UP, "Whether a worker responds to the worker that serves the scrape: 1 or 0.", registry=registry).set(1)
    Counter("harbormaster_worker_restarts", "Number of restarts of a worker.", registry=registry).inc(restarts)


class WorkerGroup:
    """One worker's view of all workers.

    Args:
        seat: Place of this worker.
        health: Checks of this worker.
        metrics: Metrics of this worker.
    """

    def __init__(self, seat: Seat, health: Health, metrics: ProcessMetrics) -> None:
        self._seat = seat
        self._health = health
        self._metrics = metrics
        self._answers: Mapping[str, Callable[[], Awaitable[Answer]]] = {
            "livez": self._own_liveness,
            "readyz": self._own_readiness,
            "metrics": self._own_metrics,
        }
        count_worker(metrics.registry, seat.restarts)

    async def run(self) -> None:
        """Answer the other workers until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    asker, _ = await loop.sock_accept(self._seat.own)
                except OSError as error:  # the system has no more sockets, which must not stop the worker
                    _log.warning("worker socket not opened", extra={"reason": error.strerror})
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                tasks.create_task(self._answer(asker))

    async def liveness(self) -> Mapping[str, str]:
        """Run every liveness check in all workers. Return the problems by check, an empty string if healthy.

        While draining, only this worker is checked.
        """
        if self._health.draining.is_set():  # workers that have finished no longer answer
            return self._health.liveness()
        return await self._checked("livez")

    async def readiness(self) -> Mapping[str, str]:
        """Run every readiness check in all workers. Return the problems by check, an empty string if healthy."""
        return await self._checked("readyz")

    async def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics of all workers in the format for the ``Accept`` header, and its content type."""
        answers = await self._ask_all("metrics", METRICS_SECONDS)
        encode, content_type = choose_encoder(accept)
        return encode(_Families(_merged(answers))), content_type

    async def _checked(self, question: str) -> dict[str, str]:
        """Return the problems of all workers by check. ``workers`` is the check that every worker answers."""
        answers = await self._ask_all(question, PROBE_SECONDS)
        silent = [f"worker {number} does not respond" for number, answer in answers.items() if answer is None]
        checks: dict[str, list[str]] = {"workers": silent}
        for number, answer in answers.items():
            for check, trouble in (answer or {}).items():
                checks.setdefault(check, []).extend([f"worker {number}: {trouble}"] if trouble else [])
        return {check: "; ".join(troubles) for check, troubles in checks.items()}

    async def _ask_all(self, question: str, seconds: float) -> dict[int, Answer | None]:
        """Ask every worker, including this one. None: unknown, the worker does not respond."""
        numbers = sorted(self._seat.addresses)
        answers = await asyncio.gather(*(self._ask(number, question, seconds) for number in numbers))
        return dict(zip(numbers, answers, strict=True))

    async def _ask(self, number: int, question: str, seconds: float) -> Answer | None:
        if number == self._seat.number:
            return await self._answers[question]()
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX) as client:
            client.setblocking(False)
            try:
                async with asyncio.timeout(seconds):
                    await loop.sock_connect(client, self._seat.addresses[number])
                    if not _is_ours(client):
                        return None
                    await loop.sock_sendall(client, question.encode())
                    client.shutdown(socket.SHUT_WR)
                    return dict(json.loads(await _read(client, MOST_BYTES)))
            except (OSError, TimeoutError, ValueError) as error:
                _log.debug("worker not responding", extra={"asked": number, "reason": str(error)})
                return None

    async def _answer(self, asker: socket.socket) -> None:
        with asker:
            asker.setblocking(False)
            if not _is_ours(asker):
                return
            try:
                async with asyncio.timeout(METRICS_SECONDS):
                    answer = self._answers.get((await _read(asker, 16)).decode())
                    if answer is not None:
                        await asyncio.get_running_loop().sock_sendall(asker, json.dumps(await answer()).encode())
            except (OSError, TimeoutError, ValueError) as error:  # the asking worker has timed out
                _log.debug("request of a worker failed", extra={"reason": str(error)})
            except Exception:  # noqa: BLE001 - a broken check or metric must not stop the worker, nor its reviews
                _log.exception("request of a worker failed")

    async def _own_liveness(self) -> Answer:
        return self._health.liveness()

    async def _own_readiness(self) -> Answer:
        return self._health.readiness()

    async def _own_metrics(self) -> Answer:
        await self._metrics.prepared()
        return {
            family.name: {
                "about": family.documentation,
                "type": family.type,
                "samples": [[sample.name, sample.labels, sample.value] for sample in family.samples],
            }
            for family in self._metrics.registry.collect()
        }


class _Families:
    """A registry of given families, for the encoder."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _merged(answers: Mapping[int, Answer | None]) -> Iterable[Metric]:
    """Return the merged families of all workers, with the number of the worker as a label of every sample."""
    families: dict[str, Metric] = {}
    for number, answer in answers.items():
        for name, family in (answer or {}).items():
            metric = families.setdefault(name, Metric(name, family["about"], family["type"]))
            for sample, labels, value in family["samples"]:
                metric.add_sample(sample, {**labels, LABEL: str(number)}, value)
    for number, answer in answers.items():
        if answer is None:
            families[UP].add_sample(UP, {LABEL: str(number)}, 0)
    return families.values()


def _is_ours(connection: socket.socket) -> bool:
    """Return whether the peer runs as this user: every user of this machine can find the addresses."""
    _, user, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return bool(user == os.geteuid())


async def _read(source: socket.socket, most: int) -> bytes:
    """Read until the end of the stream. Raises `ValueError` above *most* bytes."""
    loop, parts, length = asyncio.get_running_loop(), [], 0
    while part := await loop.sock_recv(source, 65536):
        parts.append(part)
        length += len(part)
        if length > most:
            raise ValueError(f"larger than {most} bytes")
    return b"".join(parts)
