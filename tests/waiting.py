"""Waiting for a state, never for a time."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Final

PATIENCE_SECONDS: Final = 120
"""Limit of a wait for something that comes unless there is a bug; a machine under load needs a part of it."""


async def until(holds: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until *holds* returns, or is a coroutine function that returns, something true.

    Raises:
        TimeoutError: It did not within *seconds*.
    """
    async with asyncio.timeout(seconds):
        while True:
            result = holds()
            if inspect.isawaitable(result):
                result = await result
            if result:
                return
            await asyncio.sleep(0.001)


def block_until(
    holds: Callable[[], object], seconds: float = PATIENCE_SECONDS, *, pause_seconds: float = 0.002
) -> None:
    """Wait like `until`, where no event loop runs.

    Raises:
        TimeoutError: *holds* was false for *seconds*.
    """
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() >= end:
            raise TimeoutError
        time.sleep(pause_seconds)
