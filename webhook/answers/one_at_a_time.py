"""Serializes large answers, each computed in a thread, so that one delays only others of its kind."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

QUEUE_TIMEOUT_SECONDS: Final = 20.0
"""Maximum time that a plan waits for earlier ones."""
MOST_WAITING: Final = 8
"""Maximum number of waiting plans. Each may be large, and all of them are in memory."""
MOST_OF_ONE: Final = MOST_WAITING // 2
"""Maximum number of waiting plans of one caller, so that a single one cannot exclude all others."""


class PlannerBusyError(Exception):
    """Too many plans are waiting, or one takes too long. A retry may succeed."""


class OneAtATime:
    """A queue that runs one plan at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting: Counter[str] = Counter()

    @asynccontextmanager
    async def acquire(self, caller: str = "") -> AsyncIterator[None]:
        """Wait for all earlier plans. Later ones wait until the block ends.

        Args:
            caller: Key of the caller, such as a namespace. Empty: unknown, only the limit of all plans applies.

        Raises:
            PlannerBusyError: Too many are waiting, or they take too long.
        """
        if (count := self._waiting.total()) >= MOST_WAITING:
            raise PlannerBusyError(f"{count} other plans are already waiting")
        if caller and self._waiting[caller] >= MOST_OF_ONE:
            raise PlannerBusyError(f"{self._waiting[caller]} plans of {caller} are already waiting")
        self._waiting[caller] += 1
        try:
            async with asyncio.timeout(QUEUE_TIMEOUT_SECONDS):
                await self._turn.acquire()
        except TimeoutError as error:
            raise PlannerBusyError(f"other plans have been running for {QUEUE_TIMEOUT_SECONDS:g} s") from error
        finally:
            self._waiting -= Counter({caller: 1})  # drops the key at zero
        try:
            yield
        finally:
            self._turn.release()
