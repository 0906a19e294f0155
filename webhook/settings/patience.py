"""How long something may be worked on in a thread, where nobody knows how long it takes.

A thread cannot be ended from outside, so what works there asks again and again whether it may go on.
"""

from collections.abc import Callable
from time import monotonic


class TakesTooLongError(Exception):
    """Something has been worked on for too long."""


def patience(what: str, seconds: float) -> Callable[[], None]:
    """Return a function that raises `TakesTooLongError` from some time on.

    Args:
        what: Is worked on, for the message.
        seconds: How long it may take from now on.
    """
    end = monotonic() + seconds

    def check() -> None:
        if monotonic() > end:
            raise TakesTooLongError(f"{what} takes longer than {seconds:g} s")

    return check
