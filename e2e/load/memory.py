"""The memory of programs over time: what each has for itself, which is what it would grow by."""

import asyncio
import time
from collections.abc import Mapping
from math import nan
from pathlib import Path
from statistics import median
from typing import Final

from e2e.controlplane.process import Program

EVERY_SECONDS: Final = 10.0
MOST_GROWTH: Final = 0.05
_OWN: Final = ("Private_Clean:", "Private_Dirty:", "Swap:")
HEADING: Final = f"{'':20}{'at first':>11}{'at last':>11}{'growth':>9}"


class Memory:
    """Looks at programs again and again.

    Args:
        programs: By the names that they have in the table.
        warm_up_seconds: What is not compared.
        window_seconds: How long the time is, after the warm-up and at the end, whose medians are compared.
    """

    def __init__(self, programs: Mapping[str, Program], warm_up_seconds: float, window_seconds: float) -> None:
        self._programs = programs
        self._warm_up_seconds = warm_up_seconds
        self._window_seconds = window_seconds
        self._seconds = 0.0
        self._pids = {name: program.pid for name, program in programs.items()}
        self._samples: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}

    async def watch(self, seconds: float) -> None:
        """Look for so long, the warm-up included."""
        self._seconds = seconds
        begin = time.perf_counter()
        while (passed := time.perf_counter() - begin) < seconds:
            for name, pid in self._pids.items():
                if self._programs[name].running:
                    self._samples[name].append((passed, own_megabytes(pid)))
            await asyncio.sleep(EVERY_SECONDS)

    def problems(self) -> list[str]:
        """Say which programs have grown, or are not the same as in the beginning."""
        found = [
            f"{name} has ended: {program.last_words()}"
            for name, program in self._programs.items()
            if not program.running or program.pid != self._pids[name]
        ]
        for name in self._samples:
            first, last = self._medians(name)
            if last > first * (1 + MOST_GROWTH):
                found.append(f"{name} has grown from {first:.1f} to {last:.1f} MB")
        return found

    def rows(self) -> list[str]:
        """One line of the table for each program."""
        return [
            f"{name:20}{first:>8.1f} MB{last:>8.1f} MB{last / first - 1:>9.1%}"
            for name in self._samples
            for first, last in [self._medians(name)]
        ]

    def _medians(self, name: str) -> tuple[float, float]:
        samples, begin, window = self._samples[name], self._warm_up_seconds, self._window_seconds
        first = [size for passed, size in samples if begin <= passed < begin + window]
        last = [size for passed, size in samples if passed >= self._seconds - window]
        return median(first or [nan]), median(last or [nan])


def own_megabytes(pid: int) -> float:
    """What a process has for itself, in memory or swapped out."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(_OWN)) / 1024
