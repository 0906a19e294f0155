"""The result of a reconcile, the exceptions that the queue handles, and the check whether this task was cancelled."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from webhook.kube.ports import RetryError


@dataclass(frozen=True, slots=True)
class Result:
    """When to reconcile the key again without an event; None: not; zero: at once, but later each time in a row."""

    requeue_after: timedelta | None = None


DONE = Result()


def soonest(*results: Result) -> Result:
    """Return the result that asks to come back first."""
    waits = [result.requeue_after for result in results if result.requeue_after is not None]
    return Result(min(waits)) if waits else DONE


class StuckError(RetryError):
    """Try again later, but a user has to put something right first: the object says so before long."""


class TerminalError(Exception):
    """Nothing can be done until the object changes."""


def is_cancelled(error: BaseException) -> bool:
    """Say whether an error means that the current task itself is asked to end."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)
