"""Reviews that may not come from the API server have their turn one by one, and only a share of the time.

Source: serving.md 8, "Strangers at the hooks".
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

SHARE_OF_STRANGERS: Final = 0.2
"""The share of the time that the reviews of all strangers together may take."""


class TooManyStrangersError(Exception):
    """Too many strangers wait for their turn; the message may be shown to them."""


class Strangers:
    """Lets strangers in one by one, and keeps most of the time free for the API server.

    Args:
        most: How many may wait.
    """

    def __init__(self, most: int) -> None:
        self._most = max(1, most)
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._next = 0.0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn. Raises `TooManyStrangersError`."""
        if self._waiting >= self._most:
            raise TooManyStrangersError("too many reviews that are not the API server's")
        self._waiting += 1
        try:
            async with self._turn:
                loop = asyncio.get_running_loop()
                # The pause is made while holding the lock: otherwise all that wait would sleep side by side, and their
                # reviews would come at once, in time that belongs to the API server.
                await asyncio.sleep(self._next - loop.time())
                began = loop.time()
                try:
                    yield
                finally:
                    ended = loop.time()
                    self._next = ended + (ended - began) * (1 / SHARE_OF_STRANGERS - 1)
        finally:
            self._waiting -= 1
