"""What a reconcile tells the queue, and the two exceptions the queue knows."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Result:
    """When to reconcile the key again without an event; None: not; zero: at once, less often each time in a row."""

    requeue_after: timedelta | None = None


DONE = Result()


def soonest(*results: Result) -> Result:
    """Return the result that asks to come back first."""
    waits = [result.requeue_after for result in results if result.requeue_after is not None]
    return Result(min(waits)) if waits else DONE


class RetryError(Exception):
    """Try again later; nothing is wrong with the object.

    Args:
        message: Why.
        after: How long to wait; None: as the queue's backoff says.
    """

    def __init__(self, message: str, after: timedelta | None = None) -> None:
        super().__init__(message)
        self.after = after


class StuckError(RetryError):
    """Try again later, but somebody has to put something right first: it is said on the object before long."""


class TerminalError(Exception):
    """Nothing can be done until the object changes."""
