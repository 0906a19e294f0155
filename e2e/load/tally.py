"""What one kind of load has come to: how much was asked for, how much was sent, how long it took, what went wrong."""

import time
from dataclasses import dataclass, field

import numpy as np

MOST_KEPT = 1_000
"""Failures whose text is kept; the others are only counted."""
ENOUGH = 0.95
"""Less than this share of what was asked for is another load."""


@dataclass
class Tally:
    """The count of one kind of load.

    Args:
        name: What it is called in the table.
        rate: How many a second are asked for.

    Attributes:
        milliseconds: How long each took that was answered.
        failed: How many went wrong.
        failures: What was wrong with the first of them.
    """

    name: str
    rate: float
    milliseconds: list[float] = field(default_factory=list)
    failed: int = 0
    failures: list[str] = field(default_factory=list)

    def took(self, seconds: float) -> None:
        """Count one that was answered, rightly or not."""
        self.milliseconds.append(seconds * 1000)

    def fail(self, problem: str) -> None:
        """Note what went wrong with one."""
        self.failed += 1
        if len(self.failures) < MOST_KEPT:
            self.failures.append(f"{time.strftime('%H:%M:%S')} {self.name}: {problem}")

    def row(self, seconds: float) -> str:
        """One line of the table, for a load of so many seconds."""
        p50, p99, most = np.percentile(self.milliseconds or [np.nan], (50, 99, 100))
        count = len(self.milliseconds)
        return (
            f"{self.name:20}{self.rate:>9.1f}/s{count / seconds:>9.1f}/s{count:>10,}"
            f"{p50:>10.1f}{p99:>10.1f}{most:>10.1f}{self.failed:>8}"
        )

    def too_few(self, seconds: float) -> str:
        """Say so if it was not the load it was to be; empty: it was."""
        count, wanted = len(self.milliseconds), self.rate * seconds
        if count >= ENOUGH * wanted:
            return ""
        return f"{self.name}: only {count:,} of {wanted:,.0f} in {seconds:g} s, so nothing is shown about that load"


HEADING = f"{'':20}{'wanted':>11}{'reached':>11}{'answers':>10}{'p50 ms':>10}{'p99 ms':>10}{'max ms':>10}{'failed':>8}"
