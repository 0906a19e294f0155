"""The memory of programs over time, and why it grew: by a leak, by tables that are not full yet, or by the allocator.

A process also counts what it holds itself: the blocks that Python objects take, the bytes in use of the C library, and
the bytes of the cache's bounded table. Objects that leak raise the first two by more than the table has grown. Memory
that was freed and kept raises none of them.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import nan
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from e2e.controlplane.process import Program

EVERY_SECONDS: Final = 10.0
START_SECONDS: Final = 60.0
"""After so much load, caches and connections are there: the size that the last one is compared with."""
MOST_GROWTH: Final = 0.05
MOST_PLATEAU: Final = 1.3
LEAST_BLOCK_BYTES: Final = 64
"""An entry of a table takes at most one block for so many of its bytes."""
_OWN: Final = ("Private_Clean:", "Private_Dirty:", "Swap:")
HEADING: Final = f"{'':20}{'at start':>11}{'at first':>11}{'at last':>11}{'growth':>9}  cause"


class Cause(StrEnum):
    """Why a program is larger than before."""

    STEADY = "steady"
    LEAK = "leak"
    BOUND = "bound"
    ALLOCATOR = "allocator"


@dataclass(frozen=True, slots=True)
class Sample:
    """A program at one moment.

    Args:
        private: Megabytes that it has for itself.
        blocks: Blocks of Python's allocator in use.
        used: Megabytes of the C library's allocator in use.
        table: Megabytes of the table of shared parts.
    """

    private: float
    blocks: float
    used: float
    table: float


class Watched(NamedTuple):
    """A program, and the text of its metrics."""

    program: Program
    metrics: Callable[[], str]


class Memory:
    """Samples programs at intervals.

    Args:
        programs: By the names that they have in the table.
        warm_up_seconds: Load before the first window.
        window_seconds: Length of the windows after the warm-up and at the end, whose medians are compared.
    """

    def __init__(self, programs: Mapping[str, Watched], warm_up_seconds: float, window_seconds: float) -> None:
        self._programs = programs
        self._warm_up_seconds = warm_up_seconds
        self._window_seconds = window_seconds
        self._seconds = 0.0
        self._pids = {name: watched.program.pid for name, watched in programs.items()}
        self._samples: dict[str, list[tuple[float, Sample]]] = {name: [] for name in programs}

    async def watch(self, seconds: float) -> None:
        """Sample for so many seconds, the warm-up included."""
        self._seconds = seconds
        begin = time.perf_counter()
        while (passed := time.perf_counter() - begin) < seconds:
            for name, (program, metrics) in self._programs.items():
                if program.running:
                    text = await asyncio.to_thread(metrics)
                    self._samples[name].append((passed, sample_of(own_megabytes(self._pids[name]), text)))
            await asyncio.sleep(EVERY_SECONDS)

    def problems(self) -> list[str]:
        """Return which programs leak, have grown too far, or were restarted."""
        found = [
            f"{name} has ended: {program.last_words()}"
            for name, (program, _) in self._programs.items()
            if not program.running or program.pid != self._pids[name]
        ]
        for name in self._samples:
            start, first, last = self._windows(name)
            if cause_of(first, last) is Cause.LEAK:
                found.append(f"{name} leaks: {first} became {last}")
            if last.private > start.private * MOST_PLATEAU:
                found.append(f"{name} has grown from {start.private:.1f} to {last.private:.1f} MB since its start")
        return found

    def rows(self) -> list[str]:
        """Return one line of the table for each program."""
        return [
            f"{name:20}{start.private:>8.1f} MB{first.private:>8.1f} MB{last.private:>8.1f} MB"
            f"{last.private / first.private - 1:>9.1%}  {cause_of(first, last)}"
            for name in self._samples
            for start, first, last in [self._windows(name)]
        ]

    def _windows(self, name: str) -> tuple[Sample, Sample, Sample]:
        begin, window = self._warm_up_seconds, self._window_seconds
        bounds = (
            (START_SECONDS, 2 * START_SECONDS),
            (begin, begin + window),
            (self._seconds - window, self._seconds),
        )
        start, first, last = (
            _median([sample for passed, sample in self._samples[name] if since <= passed < until])
            for since, until in bounds
        )
        return start, first, last


def cause_of(first: Sample, last: Sample) -> Cause:
    """Return why a program has grown between two samples, if it has."""
    table = max(0.0, last.table - first.table)
    more_blocks = last.blocks - first.blocks * (1 + MOST_GROWTH)
    more_used = last.used - first.used * (1 + MOST_GROWTH)
    growth = last.private - first.private * (1 + MOST_GROWTH)
    if more_blocks > table * 2**20 / LEAST_BLOCK_BYTES or more_used > table:
        return Cause.LEAK
    if growth <= 0:
        return Cause.STEADY
    return Cause.BOUND if growth <= table else Cause.ALLOCATOR


def sample_of(private: float, metrics: str) -> Sample:
    """Return a sample by the size of a process in megabytes and its metrics; a metric that it does not have is 0."""
    lines = [line.rpartition(" ") for line in metrics.splitlines() if not line.startswith("#")]
    values = {name: float(value) for name, _, value in lines}
    return Sample(
        private,
        values.get("harbormaster_memory_blocks", 0.0),
        values.get('harbormaster_memory_allocator_bytes{state="used"}', 0.0) / 2**20,
        values.get("harbormaster_cache_shared_bytes", 0.0) / 2**20,
    )


def own_megabytes(pid: int) -> float:
    """Return the private memory of a process, swapped or not."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(_OWN)) / 1024


def _median(samples: list[Sample]) -> Sample:
    rows = [(each.private, each.blocks, each.used, each.table) for each in samples] or [(nan,) * 4]
    return Sample(*map(median, zip(*rows, strict=True)))
