"""Limit of concurrent writes, and priority of waiting writes.

Writes that finish work precede writes that start work: a Work before a binding, a binding before a snapshot. A hundred
placements that are created together are therefore rolled out one after another. Each reports its result early,
instead of all of them at the end.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count
from types import MappingProxyType
from typing import Final

from scorer.api.family import FAMILIES
from scorer.api.kinds import WORK, Kind

_RANKS: Final[Mapping[tuple[str, str], int]] = MappingProxyType(
    {WORK.group_kind: 0, **{family.binding.group_kind: 1 for family in FAMILIES}}
)
_LAST: Final = 2


class WriteSlots:
    """Slots for writes, by priority.

    Args:
        number: Number of slots.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._free = number
        self._line: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = count()

    @asynccontextmanager
    async def acquire(self, kind: Kind) -> AsyncIterator[None]:
        """Hold a slot for a write of an object of *kind*."""
        await self._acquire(_RANKS.get(kind.group_kind, _LAST))
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, rank: int) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        heappush(self._line, (rank, next(self._arrivals), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # its slot was assigned just before
                self._release()
            raise

    def _release(self) -> None:
        while self._line:
            turn = heappop(self._line)[-1]
            if not turn.done():  # otherwise it was cancelled
                turn.set_result(None)
                return
        self._free += 1
