"""What is to be looked at, and when: a keyed queue with one clock for everything in it.

An entry is due at an instant or at once. One that is being handled is not handed out a second time;
when it is added meanwhile, it comes again afterwards. Thousands of entries that are due later cost a
place in a heap each, no task.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from datetime import datetime
from itertools import count
from typing import Generic, TypeVar

Entry = TypeVar("Entry", bound=Hashable)


class Agenda(Generic[Entry]):
    """Hands out entries when they are due, each to one worker at a time.

    Args:
        now: The clock.
        sleep: Waits for a number of seconds of that clock.
    """

    def __init__(self, now: Callable[[], datetime], sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._now = now
        self._sleep = sleep
        self._order = count()
        self._heap: list[tuple[datetime, int, Entry]] = []
        self._due: dict[Entry, datetime] = {}
        self._ready: deque[Entry] = deque()
        self._is_ready: set[Entry] = set()
        self._taken: set[Entry] = set()
        self._again: set[Entry] = set()
        self._work = asyncio.Semaphore(0)
        self._sooner = asyncio.Event()

    def __len__(self) -> int:
        """Count the entries that are waiting, ready or being handled."""
        return len(self._due) + len(self._is_ready) + len(self._taken)

    @property
    def busy(self) -> bool:
        """Whether something is ready or being handled."""
        return bool(self._is_ready or self._taken)

    def add(self, entry: Entry) -> None:
        """Have *entry* handled as soon as possible."""
        self._due.pop(entry, None)
        if entry in self._taken:
            self._again.add(entry)
        elif entry not in self._is_ready:
            self._is_ready.add(entry)
            self._ready.append(entry)
            self._work.release()

    def add_at(self, entry: Entry, due: datetime) -> None:
        """Have *entry* handled at *due*, or earlier if it is already to be handled earlier."""
        if entry in self._is_ready or entry in self._again:
            return
        known = self._due.get(entry)
        if known is None or due < known:
            self._due[entry] = due
            heapq.heappush(self._heap, (due, next(self._order), entry))
            if self._heap[0][0] == due:
                self._sooner.set()

    def forget(self, entry: Entry) -> None:
        """Take *entry* off; a pass that is under way goes on."""
        self._due.pop(entry, None)
        self._again.discard(entry)
        if entry in self._is_ready:
            self._is_ready.discard(entry)

    async def take(self) -> Entry:
        """Wait for an entry that is due; give it back with `done`."""
        while True:
            await self._work.acquire()
            entry = self._ready.popleft()
            if entry in self._is_ready:
                self._is_ready.discard(entry)
                self._taken.add(entry)
                return entry

    def done(self, entry: Entry) -> None:
        """Say that the handling of *entry* has ended."""
        self._taken.discard(entry)
        if entry in self._again:
            self._again.discard(entry)
            self.add(entry)

    async def run(self) -> None:
        """Move entries to the ready ones when they are due, for ever."""
        while True:
            self._sooner.clear()
            wait = self._promote()
            if wait is None:
                await self._sooner.wait()
            else:
                await self._wait(wait)

    def _promote(self) -> float | None:
        """Make ready what is due; return the seconds until the next entry is, None when there is none."""
        now = self._now()
        while self._heap:
            due, _, entry = self._heap[0]
            if self._due.get(entry) != due:
                heapq.heappop(self._heap)  # was added anew, forgotten or handled early
            elif due <= now:
                heapq.heappop(self._heap)
                self.add(entry)
            else:
                return (due - now).total_seconds()
        return None

    async def _wait(self, seconds: float) -> None:
        waits = [asyncio.ensure_future(self._sleep(seconds)), asyncio.ensure_future(self._sooner.wait())]
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        for wait in done:
            wait.result()
