"""Keeping something in line with objects of the hub: once at the start, then after every change of them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from webhook.kube.ports import StoreError

START_SECONDS: Final = 5.0
"""Timeout of the first attempt, which the listeners wait for."""
RETRY_SECONDS: Final = (0.5, 30.0)
"""Backoff after a failure: the first pause and the longest."""
PAUSE_SECONDS: Final = 0.2
"""Pause before a watch that has ended is started again."""


async def settle_at_start(settle: Callable[[], Awaitable[object]], complain: Callable[[str], object]) -> None:
    """Settle once, within `START_SECONDS`.

    Args:
        settle: Reads the objects, and acts on them. Raises `StoreError`.
        complain: Called with the reason of a failure.
    """
    try:
        async with asyncio.timeout(START_SECONDS):
            await settle()
    except TimeoutError:
        complain(f"the hub did not answer within {START_SECONDS:g} s")
    except StoreError as error:
        complain(str(error))


async def settle_at_changes(
    changes: Callable[[], AsyncIterator[None]],
    settle: Callable[[], Awaitable[object]],
    complain: Callable[[str], object],
) -> None:
    """Settle at every change until cancelled, with backoff after failures.

    Args:
        changes: Starts a watch, which yields at first and at every change. Raises `StoreError`.
        settle: As for `settle_at_start`.
        complain: As for `settle_at_start`.
    """
    pause = RETRY_SECONDS[0]
    while True:
        try:
            async for _ in changes():
                await settle()
                pause = RETRY_SECONDS[0]
            await asyncio.sleep(PAUSE_SECONDS)
        except StoreError as error:
            complain(str(error))
            await asyncio.sleep(pause)
            pause = min(2 * pause, RETRY_SECONDS[1])
