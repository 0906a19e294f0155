"""Worker rows: reviews over TLS by `harbormaster serve` with one and with two workers, by turns.

The load comes from this process, on the same cores. So the rate says little on a machine with two of them: servers and
load share what they have to give. What several workers cost is seen in the processor time of a review: scaling is how
many times as many reviews N workers answer on N cores as one worker on one, and that is N if a review costs no more.
"""

import asyncio
import contextlib
import os
import ssl
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np
import uvloop

from e2e.controlplane.cluster import LOOPBACK
from e2e.controlplane.service import Service
from tests.bench.admission import CONNECTIONS, DISTINCT, Caller, call
from tests.bench.figures import PER_SECOND, TIMES, Figure, Part
from tests.bench.processes import children_of, processor_seconds
from tests.bench.real_hub import real_hub

WORKERS, ROUNDS, SECONDS = (1, 2), 7, 3.0


@dataclass
class Tally:
    """What the rounds of one server found: one entry per round, milliseconds of all answers."""

    rates: list[float] = field(default_factory=list)
    server_microseconds: list[float] = field(default_factory=list)
    load_microseconds: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    """Of the worker with the least to do, in the processor time of all."""
    milliseconds: list[float] = field(default_factory=list)


def main() -> None:
    """Start an API server and both servers, let these take turns, and tell the figures."""
    with (
        tempfile.TemporaryDirectory() as folder,
        _servers(Path(folder)) as servers,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        found = runner.run(measure(servers))
    part = Part("workers")
    one = float(np.median(found[1].server_microseconds))
    for workers, tally in found.items():
        rate, own = float(np.median(tally.rates)), float(np.median(tally.server_microseconds))
        load, least = float(np.median(tally.load_microseconds)), float(np.median(tally.shares))
        cores = min(len(os.sched_getaffinity(0)), workers + 1)
        possible = min(workers * 1e6 / own, cores * 1e6 / (own + load))
        title = f"{workers} workers, {CONNECTIONS} connections"
        part.report(Figure(f"{title}, of what the cores can give", rate, PER_SECOND, floor=possible))
        part.report(Figure(f"{title}, p99", float(np.percentile(tally.milliseconds, 99)), "ms"))
        note = f"{own:.0f} us of a processor for a review; the load takes {load:.0f}; the idlest does {least:.0%}"
        scaling = workers * one / own
        part.report(Figure(f"{title}, scaling by processor time", scaling, TIMES, 0.9 * workers, note=note))


@contextlib.contextmanager
def _servers(folder: Path) -> Iterator[dict[int, Service]]:
    with real_hub(folder) as hub, contextlib.ExitStack() as stack:
        servers = {}
        for workers in WORKERS:
            service = Service(hub, folder / f"serve-{workers}", words=(f"--workers={workers}",))
            stack.callback(service.program.stop)
            service.start()
            servers[workers] = service
        yield servers


async def measure(servers: dict[int, Service]) -> dict[int, Tally]:
    """Let the servers take turns."""
    found = {workers: Tally() for workers in servers}
    for workers, service in servers.items():
        await _round(workers, service, Tally(), 1.0)
    for _ in range(ROUNDS):
        for workers, service in servers.items():
            await _round(workers, service, found[workers], SECONDS)
    return found


async def _round(workers: int, service: Service, tally: Tally, seconds: float) -> None:
    """Keep all connections busy for so long."""
    path = service.hook("/validate").encode("ascii")
    calls = cycle([call("rules", number).replace(b"/validate", path, 1) for number in range(DISTINCT)])
    trust = ssl.create_default_context(cafile=str(service.ca_file))
    callers = [Caller() for _ in range(CONNECTIONS)]
    loop = asyncio.get_running_loop()
    for caller in callers:
        same = partial(_same, caller)
        await loop.create_connection(same, LOOPBACK, service.port, ssl=trust, server_hostname="localhost")
    pids = [service.program.pid] if workers == 1 else children_of(service.program.pid)
    before, own, start = [processor_seconds(pid) for pid in pids], time.process_time(), time.perf_counter()
    for caller in callers:
        caller.start(calls, start + seconds)
    await asyncio.gather(*(caller.done for caller in callers))
    taken = [processor_seconds(pid) - earlier for pid, earlier in zip(pids, before, strict=True)]
    own, passed = time.process_time() - own, time.perf_counter() - start
    milliseconds = [value for caller in callers for value in caller.milliseconds]
    tally.rates.append(len(milliseconds) / passed)
    tally.server_microseconds.append(sum(taken) / len(milliseconds) * 1e6)
    tally.load_microseconds.append(own / len(milliseconds) * 1e6)
    tally.shares.append(min(taken) / sum(taken))
    tally.milliseconds.extend(milliseconds)


def _same(caller: Caller) -> Caller:
    return caller


if __name__ == "__main__":
    main()
