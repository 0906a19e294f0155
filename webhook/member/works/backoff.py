"""The delay until the next pass over a Work that no change triggers.

Source: docs/specifications/rollout.md 11.7; KubeFleet pkg/controllers/workapplier/backoff.go.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

FIRST = timedelta(seconds=5)
SLOW_START = timedelta(seconds=2)
SLOW_LIMIT = timedelta(seconds=15)
FAST_LIMIT = timedelta(minutes=15)
HELD_DELAY = timedelta(minutes=1)
REMOVING_LIMIT = timedelta(minutes=1)
CONTESTED_DELAY = timedelta(seconds=10)
CONFLICT_DELAY = timedelta(milliseconds=100)
_SLOW_GROWTH = 1.2
_FAST_GROWTH = 1.5


@dataclass(frozen=True, slots=True)
class WorkOutcome:
    """The outcome of one pass over a Work.

    Args:
        generation: Generation of the Work.
        digest: Equal for two passes with equal results.
        settled: Whether everything is available, or all differences are reported.
        gone: Whether the Work needs no further pass: it no longer exists, or its clean-up is finished.
        held: Whether the Work is held until a user accepts it.
        contested: Whether another writer keeps changing one of its objects.
        removing: Whether objects that it no longer holds are being deleted.
    """

    generation: int = 0
    digest: str = ""
    settled: bool = False
    gone: bool = False
    held: bool = False
    contested: bool = False
    removing: bool = False


@dataclass(frozen=True, slots=True)
class Pace:
    """The delay chosen after a pass, and the inputs of the next choice."""

    delay: timedelta
    outcome: WorkOutcome
    growing_fast: bool = False


def next_pace(last: Pace | None, outcome: WorkOutcome) -> Pace:
    """Return the delay after a pass that ended in *outcome*.

    The delay is 5 s at first. It then grows from 2 s by a factor of 1.2 up to 15 s, and by 1.5 up to 15 min. A settled
    Work enters the last phase immediately. Another generation or another result restarts the sequence. A held Work gets
    a pass each minute, one with a contested object every 10 s. With objects that are being deleted, the delay is at
    most 1 min.
    """
    pace = _next_pace(last, outcome)
    return replace(pace, delay=min(pace.delay, REMOVING_LIMIT)) if outcome.removing else pace


def _next_pace(last: Pace | None, outcome: WorkOutcome) -> Pace:
    if outcome.held:
        return Pace(HELD_DELAY, outcome)
    if outcome.contested:
        return Pace(CONTESTED_DELAY, outcome)
    if last is None or (last.outcome.generation, last.outcome.digest) != (outcome.generation, outcome.digest):
        return Pace(FIRST, outcome)
    if outcome.settled or last.growing_fast or last.delay == SLOW_LIMIT:
        return Pace(min(last.delay * _FAST_GROWTH, FAST_LIMIT), outcome, growing_fast=True)
    if last.delay == FIRST:
        return Pace(SLOW_START, outcome)
    return Pace(min(last.delay * _SLOW_GROWTH, SLOW_LIMIT), outcome)
