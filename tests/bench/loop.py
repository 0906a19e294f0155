"""Loop row: `up` with 1,000 members schedules 100 placements; what it holds in memory when idle."""

import asyncio
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import uvloop

from scorer.api.kinds import MEMBER_CLUSTER, NAMESPACE, PLACEMENT
from scorer.api.meta import JsonObject
from tests.bench.figures import Figure, Part
from tests.bench.fleets import member, policy
from webhook.embedded.simulation.annotations import status_in_annotation
from webhook.processes.up import Up
from webhook.settings.programs import UpSettings

MEMBERS, PLACEMENTS, GOAL_SECONDS = 1_000, 100, 2.0


async def measure() -> None:
    """Start `up` in a folder of its own, add the fleet, then the placements, and watch them."""
    with tempfile.TemporaryDirectory() as folder:
        settings = UpSettings(https_port=0, http_port=0, drain_seconds=0)
        async with Up(settings, Path(folder)) as up:
            await _add_fleet(up)
            start = time.perf_counter()
            for number in range(PLACEMENTS):
                await up.store.create(PLACEMENT, _placement(f"placement-{number:03}"))
            while sum(_is_scheduled(document) for document in up.cache.list(PLACEMENT)) < PLACEMENTS:
                await asyncio.sleep(0.01)
            seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    title = f"{PLACEMENTS} placements on {MEMBERS:,} members scheduled"
    part = Part("loop")
    part.report(Figure(title, seconds, "s", GOAL_SECONDS))
    part.report(Figure("memory at the most", peak, "MB"))


async def _add_fleet(up: Up) -> None:
    dice = np.random.default_rng(11)
    for number in range(MEMBERS):
        await up.store.create(MEMBER_CLUSTER, status_in_annotation(member(f"member-{number:04}", dice)))
    await up.store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    while sum(1 for cluster in up.cache.fleet.members if cluster.status.properties) < MEMBERS or up.members.busy:
        await asyncio.sleep(0.05)


def _placement(name: str) -> JsonObject:
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
    return {
        "apiVersion": PLACEMENT.api_version,
        "kind": PLACEMENT.kind,
        "metadata": {"name": name},
        "spec": {"resourceSelectors": [selector], "policy": policy(10)},
    }


def _is_scheduled(document: JsonObject) -> bool:
    conditions = (document.get("status") or {}).get("conditions") or ()
    return any(
        condition["type"] == "ClusterResourcePlacementScheduled" and condition["status"] == "True"
        for condition in conditions
    )


def main() -> None:
    """Print the row."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as `up` runs
        runner.run(measure())


if __name__ == "__main__":
    main()
