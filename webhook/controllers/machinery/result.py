"""Result of a reconcile, the exceptions that the queue handles, and the check whether this task was cancelled."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from webhook.kube.ports import RetryError


@dataclass(frozen=True, slots=True)
class Result:
    """Delay until the key is requeued without an event. None: disabled. Zero or less: immediately, with backoff."""

    requeue_after: timedelta | None = None


DONE = Result()


def soonest(*results: Result) -> Result:
    """Return the result with the shortest delay."""
    waits = [result.requeue_after for result in results if result.requeue_after is not None]
    return Result(min(waits)) if waits else DONE


class StuckError(RetryError):
    """A failure that lasts until a user fixes its cause. Reported on the object after three failures."""


class TerminalError(Exception):
    """No retry helps until the object changes."""


def is_cancelled(error: BaseException) -> bool:
    """Return whether an error is the cancellation of the current task itself.

    Example: a reconcile awaits a token request that it shares with others, and another caller cancels the request. The
    reconcile gets a ``CancelledError`` although its worker was not cancelled. A task group treats a child that ends
    with this error as cancelled, and logs nothing: the controller would silently lose one worker each time.
    """
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)
