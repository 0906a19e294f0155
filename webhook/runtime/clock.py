"""The wall clock, and deadlines for work in a thread, which cannot be cancelled from outside.

Long work repeatedly calls the function that `patience` returns. It raises after the deadline.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic


def utc_now() -> datetime:
    """Return the time of the wall clock, in UTC."""
    return datetime.now(UTC)


class DeadlineExceededError(Exception):
    """Work has exceeded its deadline."""


def patience(subject: str, seconds: float) -> Callable[[], None]:
    """Return a function that raises `DeadlineExceededError` after the deadline.

    Args:
        subject: The work, for the message.
        seconds: Time until the deadline.
    """
    end = monotonic() + seconds

    def check() -> None:
        if monotonic() > end:
            raise DeadlineExceededError(f"{subject} takes longer than {seconds:g} s")

    return check
