"""The wall clock, and deadlines for work in a thread, which cannot be ended from outside.

Long work calls the function that `patience` returns again and again; it raises once the time is over.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic


def utc_now() -> datetime:
    """Return the wall clock."""
    return datetime.now(UTC)


class DeadlineExceededError(Exception):
    """Something has been worked on for too long."""


def patience(subject: str, seconds: float) -> Callable[[], None]:
    """Return a function that raises `DeadlineExceededError` from some time on.

    Args:
        subject: The work, for the message.
        seconds: How long it may take from now on.
    """
    end = monotonic() + seconds

    def check() -> None:
        if monotonic() > end:
            raise DeadlineExceededError(f"{subject} takes longer than {seconds:g} s")

    return check
