"""What one worker says of all of them."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.parser import text_string_to_metric_families

from webhook.telemetry import crew
from webhook.telemetry.crew import Seat, WorkerGroup
from webhook.telemetry.health import Health
from webhook.telemetry.process_metrics import ProcessMetrics


@dataclass
class Member:
    """A worker, as far as the others hear of it."""

    crew: WorkerGroup
    health: Health
    metrics: ProcessMetrics


@contextlib.asynccontextmanager
async def crew_of(count: int, silent: int = 0) -> AsyncIterator[list[Member]]:
    """Have so many workers answer each other; *silent*: the number of one that does not."""
    with contextlib.ExitStack() as stack:
        meetings = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(count)]
        for meeting in meetings:
            meeting.bind(b"")
            meeting.listen()
            meeting.setblocking(False)
        addresses = {number: meeting.getsockname() for number, meeting in enumerate(meetings, 1)}
        found = []
        for number, meeting in enumerate(meetings, 1):
            health, metrics = Health(), ProcessMetrics()
            found.append(
                Member(WorkerGroup(Seat(number, meeting, addresses, number - 1), health, metrics), health, metrics)
            )
        running = [asyncio.create_task(each.crew.run()) for number, each in enumerate(found, 1) if number != silent]
        try:
            yield found
        finally:
            for task in running:
                task.cancel()
            await asyncio.wait(running)


async def shown(member: Member, accept: str = "") -> dict[tuple[str, str], float]:
    """All samples that a worker shows, by name and worker, without what every process has."""
    text, _ = await member.crew.exposition(accept)
    samples = [each for family in text_string_to_metric_families(text.decode()) for each in family.samples]
    return {(each.name, each.labels["worker"]): each.value for each in samples}


async def test_a_check_fails_where_it_fails_in_any_worker():
    async with crew_of(3) as workers:
        assert all(not trouble for trouble in (await workers[0].crew.readiness()).values())
        for worker in workers:
            worker.health.require("caches", lambda: "")
        workers[1].health.require("caches", lambda: "not synced yet")
        workers[2].health.require("caches", lambda: "refused")
        for worker in workers:
            found = await worker.crew.readiness()
            assert found == {"workers": "", "not-draining": "", "caches": "worker 2: not synced yet; worker 3: refused"}


async def test_liveness_is_that_of_all_until_they_end():
    """Then the first to have finished does not answer any more, and nobody is to kill the others for it."""
    async with crew_of(2) as workers:
        workers[1].health.lag_seconds = 7.0
        assert (await workers[0].crew.liveness())["event-loop"] == "worker 2: timers fire 7.0 s late"
        workers[0].health.draining.set()
        assert await workers[0].crew.liveness() == {"event-loop": ""}


async def test_a_worker_that_does_not_answer_is_said(monkeypatch):
    monkeypatch.setattr(crew, "PROBE_SECONDS", 0.05)
    monkeypatch.setattr(crew, "METRICS_SECONDS", 0.05)
    async with crew_of(2, silent=2) as (worker, _):
        assert (await worker.crew.readiness())["workers"] == "worker 2 does not respond"
        found = await shown(worker)
    assert found["harbormaster_worker_up", "1"] == 1
    assert found["harbormaster_worker_up", "2"] == 0
    assert ("harbormaster_build_info", "2") not in found


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"], ids=["text", "openmetrics"])
async def test_every_worker_shows_the_metrics_of_all(accept):
    async with crew_of(2) as workers:
        for number, worker in enumerate(workers, 1):
            registry = worker.metrics.registry
            Counter("asked", "a", registry=registry).inc(10 * number)
            Gauge("held", "h", registry=registry).set(float("inf"))
            Histogram("took", "t", registry=registry, buckets=(1.0,)).observe(number)
        first, second = [await shown(worker, accept) for worker in workers]
        text = (await workers[0].crew.exposition(accept))[0].decode()
    assert first.keys() == second.keys()
    assert (first["asked_total", "1"], first["asked_total", "2"]) == (10, 20)
    assert first["held", "2"] == float("inf")
    assert (first["took_sum", "1"], first["took_sum", "2"]) == (1, 2)
    assert first["harbormaster_worker_restarts_total", "2"] == 1
    assert text.count("# TYPE took histogram") == 1


async def test_what_is_prepared_is_prepared_in_all():
    async with crew_of(2) as workers:
        value = Gauge("looked", "l", registry=workers[1].metrics.registry)

        async def look() -> None:
            value.set(5)

        workers[1].metrics.prepare_with(look)
        assert (await shown(workers[0]))["looked", "2"] == 5


@pytest.mark.parametrize("sent", [b"", b"secrets", b"\xff" * 8, b"m" * 100], ids=["nothing", "else", "bytes", "long"])
async def test_who_asks_for_something_else_gets_nothing_and_the_rest_goes_on(sent):
    async with crew_of(2) as workers:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(workers[1].crew._seat.addresses[2])
            asking.sendall(sent)
            asking.shutdown(socket.SHUT_WR)
            asking.setblocking(False)
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.get_running_loop().sock_recv(asking, 10) == b""
        assert (await workers[0].crew.readiness())["workers"] == ""


async def test_another_user_gets_nothing(monkeypatch):
    """The address has no file whose mode could keep others away."""
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    async with crew_of(2) as workers:
        assert (await workers[0].crew.readiness())["workers"] == "worker 2 does not respond"
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(workers[1].crew._seat.addresses[2])
            asking.setblocking(False)
            assert await asyncio.get_running_loop().sock_recv(asking, 10) == b""


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "Too many open files"), ConnectionAbortedError()])
async def test_a_worker_without_sockets_goes_on_and_is_asked_again(monkeypatch, error):
    """Else whoever opens many connections could end it with a probe."""
    monkeypatch.setattr(crew, "PAUSE_SECONDS", 0)
    loop, left = asyncio.get_running_loop(), [error, error]
    accept = loop.sock_accept

    async def scarce(listener):
        if left:
            raise left.pop()
        return await accept(listener)

    monkeypatch.setattr(loop, "sock_accept", scarce)
    async with crew_of(2) as workers:
        assert (await workers[0].crew.readiness())["workers"] == ""
    assert not left


async def test_a_check_that_breaks_does_not_end_the_worker(caplog):
    """As in one process, where only that probe fails."""

    def breaks() -> str:
        raise RuntimeError("a bug")

    async with crew_of(2) as workers:
        workers[1].health.require("caches", breaks)
        assert (await workers[0].crew.readiness())["workers"] == "worker 2 does not respond"
        workers[1].health.require("caches", lambda: "")
        assert (await workers[0].crew.readiness())["workers"] == ""
    assert "request of a worker failed" in caplog.text
