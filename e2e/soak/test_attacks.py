"""Honest reviews beside what strangers do: ``make soak``, or this file alone, with ``-s`` for the table.

The honest caller is like kube-apiserver: some connections that it keeps, now and then a new one, the secret path.
Figures are printed, not asserted: what counts is that each of its reviews is answered, with the right verdict, and that
memory stays bounded.

Attackers need processor time, too. So that it is not the replica's, the replica has one processor, where there are
several, and they have the others, at the lowest priority. What the replica takes of its processor, and how long
others keep it waiting for it, is printed beside the latencies: where it waits, it is the machine that is busy.
"""

import asyncio
import contextlib
import json
import os
import re
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from e2e.conftest import StartService
from e2e.controlplane.client_certificate import ClientCertificate
from e2e.controlplane.cluster import LOOPBACK, Cluster
from e2e.controlplane.service import Service
from e2e.soak.attacks import ATTACKS, HOOK, head, placement, placement_review

pytestmark = pytest.mark.soak

SECONDS = float(os.environ.get("HARBORMASTER_ATTACK_SECONDS", "6"))
PER_SECOND = 40
KEPT = 4
"""Connections that the honest caller keeps; every tenth review goes over a new one."""
MOST_MEBIBYTES = 512
"""The limit of the container that a replica runs in."""


@dataclass
class Seen:
    """What happened to the honest reviews."""

    seconds: list[float] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    busy: float = 0.0
    """Share of one processor that the replica took meanwhile."""
    kept_waiting: float = 0.0
    """Share of the time that its event loop waited for a processor that others used."""

    def quantile(self, part: float) -> float:
        """In milliseconds."""
        ordered = sorted(self.seconds) or [float("nan")]
        return 1000 * ordered[min(len(ordered) - 1, int(part * len(ordered)))]


class Honest:
    """Asks at a steady rate, whether or not the answers come."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._path = service.hook(HOOK) + "?timeout=5s"
        self._trust = ssl.create_default_context(cafile=str(service.ca_file))
        self._kept: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter] | None] = asyncio.Queue()
        for _ in range(KEPT):
            self._kept.put_nowait(None)

    async def ask(self, seconds: float) -> Seen:
        """Ask for so long."""
        seen, loop = Seen(), asyncio.get_running_loop()
        begin = loop.time()
        async with asyncio.TaskGroup() as tasks:
            for number in range(int(seconds * PER_SECOND)):
                await asyncio.sleep(max(0.0, begin + number / PER_SECOND - loop.time()))
                tasks.create_task(self._one(number, seen))
        return seen

    async def end(self) -> None:
        """Close what is kept."""
        while not self._kept.empty():
            connection = self._kept.get_nowait()
            if connection is not None:
                connection[1].close()
                with contextlib.suppress(OSError):
                    await connection[1].wait_closed()

    async def _one(self, number: int, seen: Seen) -> None:
        sound = number % 4 != 0
        body = placement_review(placement("honest", kind="PickAll" if sound else "PickSome"))
        started = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(10):
                answer = await (self._anew(body) if number % 10 == 0 else self._over_kept(body))
        except (OSError, EOFError, TimeoutError) as error:
            seen.outcomes[type(error).__name__] += 1
            return
        seen.seconds.append(asyncio.get_running_loop().time() - started)
        status, document = answer
        right = status == 200 and document["response"]["allowed"] is sound
        seen.outcomes["right" if right else f"wrong {status}"] += 1

    async def _anew(self, body: bytes) -> tuple[int, dict]:
        connection = await self._dial()
        try:
            return await self._send(connection, body)
        finally:
            connection[1].transport.abort()

    async def _over_kept(self, body: bytes) -> tuple[int, dict]:
        connection = await self._kept.get()
        try:
            connection = connection or await self._dial()
            return await self._send(connection, body)
        except BaseException:
            if connection is not None:
                connection[1].transport.abort()
            connection = None
            raise
        finally:
            self._kept.put_nowait(connection)

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(LOOPBACK, self._service.port, ssl=self._trust)

    async def _send(
        self, connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], body: bytes
    ) -> tuple[int, dict]:
        reader, writer = connection
        writer.write(head("POST", self._path, len(body)) + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line.startswith(b"Content-Length:"))
        return int(lines[0].split()[1]), json.loads(await reader.readexactly(length))


def processor_seconds(service: Service) -> tuple[float, float]:
    """What all threads of the process have used, and how long the event loop, its first, has waited for a processor."""
    about = Path(f"/proc/{service.program.pid}")
    fields = (about / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
    used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used, int((about / "schedstat").read_text(encoding="ascii").split()[1]) / 1e9


def keep_apart(service: Service) -> set[int]:
    """Give the replica a processor of its own where there are several, and return those of the others."""
    all_ = os.sched_getaffinity(0)
    if len(all_) == 1:
        return all_
    for task in Path(f"/proc/{service.program.pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {min(all_)})
    return all_ - {min(all_)}


def memory(service: Service, name: str) -> int:
    """MiB that the process takes, by its name in ``/proc``."""
    text = Path(f"/proc/{service.program.pid}/status").read_text(encoding="ascii")
    found = re.search(rf"{name}:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) // 1024


@pytest.fixture(scope="module")
def attacked(bare_hub: Cluster, start_service: StartService) -> Service:
    """A replica that enforces budgets, too."""
    return start_service(bare_hub, enforce_budgets="true")


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    """The rows, printed in the end."""
    rows: list[str] = []
    yield rows
    print("\n" + "\n".join(rows))


def test_honest_reviews_are_answered_whatever_strangers_do(
    attacked: Service, bare_hub: Cluster, folder: Path, table: list[str]
) -> None:
    viewer = bare_hub.issue_client_certificate("viewer", ["system:masters"])
    others = keep_apart(attacked)
    wrong = {}
    with asyncio.Runner() as honest:
        caller = Honest(attacked)
        honest.run(caller.ask(1))
        quiet = measured(attacked, lambda: honest.run(caller.ask(SECONDS)))
        table.append(row("quiet", quiet, quiet, attacked))
        for name in ATTACKS:
            with attacker(name, attacked, viewer, folder, others):
                seen = measured(attacked, lambda: honest.run(caller.ask(SECONDS)))
            table.append(row(name, seen, quiet, attacked))
            if set(seen.outcomes) != {"right"}:
                wrong[name] = dict(seen.outcomes)
            honest.run(caller.ask(1))
        honest.run(caller.end())
    assert memory(attacked, "VmHWM") <= MOST_MEBIBYTES
    assert wrong == {}


@contextlib.contextmanager
def attacker(
    name: str, service: Service, viewer: ClientCertificate, folder: Path, processors: set[int]
) -> Iterator[None]:
    """Attack as long as the context lasts."""
    words = [sys.executable, "-m", "e2e.soak.attacks", name, service.port, viewer.certificate, viewer.key, SECONDS + 60]
    log = folder / "attacker.log"
    with log.open("wb") as errors, subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=errors) as it:
        try:
            os.setpriority(os.PRIO_PROCESS, it.pid, 19)
            os.sched_setaffinity(it.pid, processors)
            assert it.stdout is not None
            assert it.stdout.readline() == b"at it\n", f"{name}: {log.read_text(encoding='utf-8')[-2000:]}"
            yield
        finally:
            it.kill()


def measured(service: Service, ask: Callable[[], Seen]) -> Seen:
    """Ask, and note down what the replica needed for it."""
    (used, waited), began = processor_seconds(service), time.monotonic()
    seen = ask()
    (used_then, waited_then), took = processor_seconds(service), time.monotonic() - began
    seen.busy, seen.kept_waiting = (used_then - used) / took, (waited_then - waited) / took
    return seen


def row(name: str, seen: Seen, quiet: Seen, service: Service) -> str:
    """One line of the table."""
    ratio = seen.quantile(0.99) / quiet.quantile(0.99)
    now, most = memory(service, "VmRSS"), memory(service, "VmHWM")
    return (
        f"{name:24} p50 {seen.quantile(0.5):7.1f} ms  p99 {seen.quantile(0.99):7.1f} ms ({ratio:5.1f} x quiet)  "
        f"busy {seen.busy:4.0%}, kept waiting {seen.kept_waiting:4.0%}  "
        f"now {now:4d} MiB, most {most:4d} MiB  {dict(seen.outcomes)}"
    )
