"""``serve`` on a hub of 100,000 members: its memory, ``/v1/score`` beside their heartbeats, and a storm of those.

The hub is the small server of `tests.bench.scoring`, which speaks list, in pages, and watch. Every member reports once
a minute; in the storm, every six seconds. MEMBERS in the environment: another number of members.
"""

import asyncio
import gc
import os
import ssl
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import orjson
import uvloop

from scorer.api.kinds import MEMBER_CLUSTER
from scorer.fleet import Fleet
from scorer.placement.request import read_request
from scorer.placement.schedule import schedule
from tests.bench.exposed import metrics
from tests.bench.figures import Figure, Part
from tests.bench.fleets import NOW, make_fleet, policy
from tests.bench.processes import most_resident_megabytes, processor_seconds
from tests.bench.scoring import (
    ANSWER,
    SERVING_CORE,
    Hub,
    Replica,
    ask_concurrently,
    ask_steadily,
    floor_of,
    listening,
    once,
    question,
    tell,
    with_replica,
)
from webhook.kube.cache.indexer import KindCache
from webhook.kube.cache.informer import read_member

T = TypeVar("T")

MEMBERS: Final = int(os.environ.get("MEMBERS", "100000"))
PART: Final = Part("large_fleet")
HEARTBEATS_PER_SECOND, STORM = MEMBERS / 60, 10
QUESTIONS_PER_SECOND, SECONDS, PATIENCE_SECONDS = 20, 20.0, 300.0
EVENTS: Final = f'harbormaster_watch_events_total{{resource="{MEMBER_CLUSTER.resource}"}}'
TARGET_MEGABYTES, TARGET_MILLISECONDS, TARGET_GROWTH = 1_000, 10, 11


async def _heard(found: Replica) -> float:
    [events] = await asyncio.to_thread(metrics, found.plain_port, EVENTS)
    return events


async def _asked(found: Replica, hub: Hub, floor: list[float], times: int) -> None:
    """Ask beside so many times the usual heartbeats, and print what came of it."""
    hub.rate = HEARTBEATS_PER_SECOND * times
    await asyncio.sleep(2)
    sent, heard, cpu, begun = hub.sent, await _heard(found), processor_seconds(found.pid), time.perf_counter()
    asked = await ask_steadily(found.port, found.trust, question(), QUESTIONS_PER_SECOND, SECONDS)
    passed = time.perf_counter() - begun
    busy, rate = (processor_seconds(found.pid) - cpu) / passed, (hub.sent - sent) / passed
    taken = (await _heard(found) - heard) / passed
    note = f"{rate:,.0f}/s sent, {taken:,.0f}/s taken, {busy:.0%} of a core, {found.megabytes:.0f} MB"
    title = f"{QUESTIONS_PER_SECOND}/s beside {HEARTBEATS_PER_SECOND * times:,.0f} heartbeats/s"
    tell(PART, title, asked, floor, TARGET_MILLISECONDS if times == 1 else None, note)
    hub.rate = 0
    begun = time.perf_counter()
    while await _heard(found) < hub.sent and time.perf_counter() - begun < PATIENCE_SECONDS:
        await asyncio.sleep(0.2)
    PART.report(Figure(f"{title}, until all are taken in", time.perf_counter() - begun, "s"))


async def measure() -> None:
    """Print the rows."""

    async def work(found: Replica, hub: Hub) -> None:
        cpu = processor_seconds(found.pid)
        most = most_resident_megabytes(found.pid)
        title = f"filled with {MEMBERS:,} members"
        PART.report(Figure(f"{title}, processor", cpu, "s"))
        PART.report(Figure(f"{title}, memory at most", most, "MB", TARGET_MEGABYTES, note=f"{found.megabytes:.0f} now"))
        _, answer = await once(found, question())
        async with listening(floor_of(len(answer))) as (port, authority):
            trust = ssl.create_default_context(cadata=authority)
            floor = await ask_concurrently(port, trust, question(), SECONDS / 4)
            paced = await ask_steadily(port, trust, question(), QUESTIONS_PER_SECOND, SECONDS / 2)
        alone = await ask_concurrently(found.port, found.trust, question(), SECONDS / 2)
        tell(PART, "one after the other, no heartbeats", alone, floor, TARGET_MILLISECONDS)
        # A processor that rests between two questions answers later, with nothing else to do.
        rested = await ask_steadily(found.port, found.trust, question(), QUESTIONS_PER_SECOND, SECONDS)
        tell(PART, f"{QUESTIONS_PER_SECOND}/s, no heartbeats", rested, paced, None)
        await _asked(found, hub, paced, 1)
        await _asked(found, hub, paced, STORM)

    with tempfile.TemporaryDirectory() as folder:
        await with_replica(MEMBERS, 0, Path(folder), work)


def growth() -> None:
    """Print how the time of a decision grows with the fleet."""
    request, before = read_request(policy(ANSWER)), 0.0
    for size in (1_000, 10_000, 100_000):
        fleet = make_fleet(size)
        schedule(request, fleet, [], NOW)
        taken = []
        for _ in range(30):
            begun = time.perf_counter()
            schedule(request, fleet, [], NOW)
            taken.append((time.perf_counter() - begun) * 1000)
        least = min(taken)
        PART.report(Figure(f"PickN {ANSWER} of {size:,}, the engine alone", least, "ms"))
        if before:
            PART.report(Figure(f"growth to {size:,}", least / before, "-fold", TARGET_GROWTH))
        before = least


def memory() -> None:
    """Print where the memory goes that the members take, part by part; traced, on a tenth of them."""
    count = MEMBERS // 10
    texts = [orjson.dumps(document) for document in Hub(count).members]
    tracemalloc.start()

    def holding(title: str, make: Callable[[], T]) -> T:
        before = tracemalloc.get_traced_memory()[0]
        made = make()
        gc.collect()
        each = (tracemalloc.get_traced_memory()[0] - before) / count
        PART.report(Figure(title, each * MEMBERS / 1e6, "MB", note=f"{each / 1e3:.2f} kB for each member"))
        return made

    def shelve() -> KindCache:
        shelf = KindCache(MEMBER_CLUSTER)
        for text in texts:
            document = orjson.loads(text)
            del document["metadata"]["managedFields"]
            shelf.put(document)
        return shelf

    shelf = holding("their documents and the indexes of them", shelve)
    read = holding("the models that the engine reads", lambda: [*map(read_member, shelf.objects.values())])
    fleet = Fleet.of(member for member in read if member is not None)
    holding("columns of one policy", lambda: schedule(read_request(policy(ANSWER)), fleet, [], NOW))
    tracemalloc.stop()


def main() -> None:
    """Measure with the load on the last core, the server on the first."""
    os.sched_setaffinity(0, set(os.sched_getaffinity(0)) - SERVING_CORE or SERVING_CORE)
    growth()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(measure())
    memory()


if __name__ == "__main__":
    main()
