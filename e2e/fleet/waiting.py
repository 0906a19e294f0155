"""Waiting for a state, never for a time: what is asked again and again says what is still wrong."""

import time
from collections.abc import Callable

from e2e.controlplane.cluster import ApiError
from e2e.controlplane.process import PATIENCE

SHARE = 2.0
"""A question is followed by so many times its own length of silence."""


def wait_until(what: str, problem: Callable[[], str], seconds: float = PATIENCE, pause: float = 0.1) -> None:
    """Ask until *problem* returns an empty text.

    Args:
        what: What is waited for, for the message.
        problem: Says what is still wrong. An API server that does not answer now counts as a problem.
        seconds: Patience.
        pause: Between two questions, at least: a question that takes long, since it is about everything there is, must
            not take the processor from those whose answer it waits for.

    Raises:
        AssertionError: It took too long; the message has the last problem.
    """
    end = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        try:
            found = problem()
        except (OSError, ApiError) as error:
            found = f"cannot be asked: {error}"
        if not found:
            return
        assert time.monotonic() < end, f"{what}: after {seconds:g} s still: {found}"
        time.sleep(max(pause, SHARE * (time.monotonic() - asked)))
