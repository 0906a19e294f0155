"""Waiting for a state, never for a time."""

import asyncio
from collections.abc import Callable


async def until(holds: Callable[[], object], seconds: float = 120) -> None:
    """Wait until *holds* says so.

    Raises:
        TimeoutError: It has not within *seconds*.
    """
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.001)
