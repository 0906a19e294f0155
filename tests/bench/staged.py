"""Staged update rows: runs over simulated members on the embedded store, with everything the loop does beside them.

What is ours of a batch: a pass over the run, from reading to the record that is stored; and the time from the report
that a cluster is available until the next one is given its content, which has the wait in it by which reports that come
together are looked at once. The record of a run is one object, which etcd takes up to 1.5 MiB of.

FULL=1 in the environment: 100 runs on 100 clusters each in place of 20 on 100.
"""

import asyncio
import os
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import uvloop

from scorer.api.conditions import TRUE
from scorer.api.kinds import BINDING, STAGED_RUN
from scorer.api.meta import JsonObject, dump_json
from scorer.api.names import PARENT_PLACEMENT
from scorer.api.unstructured.documents import current_condition, label, spec_of, status_of, text_at
from scorer.staged_update.record import SUCCEEDED, status
from tests.bench.figures import Figure, Part
from tests.builders.placement import make_placement
from tests.webhook.controllers.staged_world import make_run, make_stage, make_strategy
from tests.webhook.controllers.world import World, make_config_map, make_member, running
from webhook.controllers.machinery.queue import WorkQueue
from webhook.controllers.machinery.result import Result
from webhook.kube.cache.changes import ObjectDelta

PATIENCE_SECONDS = 1800.0
FULL = os.environ.get("FULL") == "1"


@dataclass(slots=True)
class Batches:
    """Watches bindings, and notes how long after a report the next cluster of the same placement begins."""

    seconds: list[float] = field(default_factory=list)
    _reported: dict[str, float] = field(default_factory=dict)

    def see(self, change: ObjectDelta) -> None:
        """Note a change of a binding."""
        old, new = change.old, change.new
        if old is None or new is None:
            return
        placement = label(new, PARENT_PLACEMENT)
        if text_at(spec_of(old), "resourceSnapshotName") != text_at(spec_of(new), "resourceSnapshotName"):
            if (since := self._reported.pop(placement, None)) is not None:
                self.seconds.append(time.perf_counter() - since)
        elif _is_available(new) and not _is_available(old):
            self._reported.setdefault(placement, time.perf_counter())


def _is_available(binding: JsonObject) -> bool:
    return (current_condition(binding, "Available") or {}).get("status") == TRUE


def timed(queue: WorkQueue[Any]) -> list[float]:
    """Have a queue time its reconciles; return where the seconds are put."""
    reconcile, seconds = queue._reconcile, list[float]()

    async def watched(key: Any) -> Result:
        start = time.perf_counter()
        try:
            return await reconcile(key)
        finally:
            seconds.append(time.perf_counter() - start)

    queue._reconcile = watched
    return seconds


async def measure(part: Part, runs: int, clusters: int) -> None:
    """Tell the figures of *runs* runs at once, each of a placement of its own on all *clusters*."""
    async with running(workers=4) as world:
        await _fill(world, runs, clusters)
        batches, passes = Batches(), timed(world.loop.queues["staged_update"])
        world.cache.subscribe(BINDING, batches.see, changes_only=True)
        start = time.perf_counter()
        for number in range(runs):
            await world.add(make_run(f"r{number:03}", placementName=f"p{number:03}"))
        while sum(status(status_of(run), SUCCEEDED) == TRUE for run in world.cache.list(STAGED_RUN)) < runs:
            await asyncio.sleep(0.1)
            assert time.perf_counter() - start < PATIENCE_SECONDS, "the runs do not end"
        seconds = time.perf_counter() - start
        size = max(len(dump_json(run)) for run in world.cache.list(STAGED_RUN))
    reaction, share = (1e3 * float(np.percentile(found, 95)) for found in (batches.seconds, passes))
    title = f"{runs} runs of {clusters:,} clusters"
    note = f"{size / 1024:.0f} KiB per run, {size / clusters:.0f} bytes per cluster"
    part.report(Figure(title, seconds, "s", note=note))
    part.report(Figure(f"{title}, p95 of a pass", share, "ms"))
    part.report(Figure(f"{title}, p95 to the next cluster", reaction, "ms"))


async def _fill(world: World, runs: int, clusters: int) -> None:
    """Make the members, a tenth of them in the first stage, and placements that wait for their runs."""
    for number in range(clusters):
        await world.add(make_member(f"member-{number:04}", stage="live" if number % 10 else "test"))
    await world.add(make_strategy(make_stage("test"), make_stage("live", maxConcurrency="25%")))
    for number in range(runs):
        home = f"app-{number:03}"
        await world.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home}})
        await world.add(make_config_map("settings", home, level="1"))
        await world.add(make_placement(f"p{number:03}", home=home, strategy={"type": "External"}))
    while len(world.cache.list(BINDING)) < runs * clusters:
        await asyncio.sleep(0.1)


def main() -> None:
    """Tell all figures."""
    part = Part("staged")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as `up` runs
        for runs, clusters in ((100 if FULL else 20, 100), (1, 1_000)):
            runner.run(measure(part, runs, clusters))


if __name__ == "__main__":
    main()
