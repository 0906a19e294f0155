"""The loop over placements at rest: started anew, then all of it looked at again; it may write nothing.

``harbormaster reconcile`` is a process of its own on one core. A small server on the other plays the API server: it
lists what the loop had stored when it was done (`tests.bench.settled`), and counts what it is asked to write.

PLACEMENTS and CLUSTERS in the environment: other numbers than 1,000 and 100.
"""

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import uvloop

from tests.bench.exposed import metrics
from tests.bench.figures import Figure, Part
from tests.bench.processes import most_resident_megabytes, processor_seconds, resident_megabytes
from tests.bench.scoring import SERVING_CORE, kubeconfig, listening
from tests.bench.settled import placed, settled
from tests.bench.still_hub import StillHub

PLACEMENTS, CLUSTERS = (int(os.environ.get(name, most)) for name, most in (("PLACEMENTS", 1_000), ("CLUSTERS", 100)))
PART: Final = Part("resync")
SPARE_MEMBERS: Final = 20
TARGET_SECONDS, TARGET_MEGABYTES, PATIENCE_SECONDS, QUIET_SECONDS = 30, 1_000, 1_800, 2.0
PAUSE_SECONDS, FEW = 1.0, 10
RECONCILED, IN_LINE = "harbormaster_reconcile_total", "harbormaster_workqueue_depth"


class Loop:
    """``harbormaster reconcile`` in a process of its own.

    Args:
        process: It.
        port: Where its metrics are.
    """

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.pid = process.pid
        self._port = port

    async def at_rest(self, least: int) -> float:
        """Wait until *least* keys have been reconciled and nothing is in line; return when that began.

        A few keys always are: the loop looks at everything again over ten minutes.
        """
        since = time.perf_counter()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                await asyncio.sleep(PAUSE_SECONDS)
                reconciled, in_line = await asyncio.to_thread(metrics, self._port, RECONCILED, IN_LINE)
                now = time.perf_counter()
                if in_line > FEW or reconciled < least:
                    since = now
                elif now - since > QUIET_SECONDS:
                    return since

    async def reconciled(self) -> int:
        """How many keys it has reconciled."""
        [reconciled] = await asyncio.to_thread(metrics, self._port, RECONCILED)
        return int(reconciled)


@asynccontextmanager
async def loop_on(config: Path) -> AsyncIterator[Loop]:
    """Start the loop on the hub of a kubeconfig."""
    command = ["-m", "tests.bench.woken_loop", "reconcile", f"--kubeconfig={config}", "--http-port=0"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "HARBORMASTER_LOG_LEVEL": "error"},
        preexec_fn=lambda: os.sched_setaffinity(0, SERVING_CORE),
    )
    try:
        assert process.stderr is not None
        words = (await process.stderr.readline()).decode().split()
        yield Loop(process, int(words[-1].rpartition(":")[2]))
    finally:
        process.terminate()
        await process.wait()


def _tell(title: str, seconds: float, cpu: float, loop: Loop, hub: StillHub) -> None:
    writes = ", ".join(f"{verb}: {count}" for verb, count in hub.writes.items())
    PART.report(Figure(title, seconds, "s", TARGET_SECONDS))
    PART.report(Figure(f"{title}, processor", cpu, "s"))
    most, after = most_resident_megabytes(loop.pid), resident_megabytes(loop.pid)
    PART.report(Figure(f"{title}, memory at most", most, "MB", TARGET_MEGABYTES, note=f"{after:.0f} MB after"))
    PART.report(Figure(f"{title}, writes", hub.writes.total(), "writes", 0, note=writes))


async def measure() -> None:
    """Print the rows."""
    once = await placed(1, CLUSTERS, CLUSTERS + SPARE_MEMBERS)
    hub = StillHub(settled(once, PLACEMENTS))
    keys = PLACEMENTS * CLUSTERS
    title = f"{PLACEMENTS:,} placements on {CLUSTERS} clusters"

    with tempfile.TemporaryDirectory() as folder:
        async with listening(hub.routes()) as (port, authority):
            begun = time.perf_counter()
            async with loop_on(kubeconfig(port, authority, Path(folder))) as loop:
                seconds = await loop.at_rest(keys) - begun
                _tell(f"{title}, started anew", seconds, processor_seconds(loop.pid), loop, hub)
                hub.writes.clear()
                cpu, done, begun = processor_seconds(loop.pid), await loop.reconciled(), time.perf_counter()
                os.kill(loop.pid, signal.SIGUSR1)
                seconds = await loop.at_rest(done + keys) - begun
                _tell(f"{title}, once more", seconds, processor_seconds(loop.pid) - cpu, loop, hub)


def main() -> None:
    """Measure with the hub on the last core, the loop on the first."""
    os.sched_setaffinity(0, set(os.sched_getaffinity(0)) - SERVING_CORE or SERVING_CORE)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(measure())


if __name__ == "__main__":
    main()
