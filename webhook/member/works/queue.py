"""A keyed work queue with delays, and one timer for all entries.

An entry is due immediately or at an instant. While a worker handles an entry, no other worker gets it. An entry added
in the meantime is requeued afterwards. Thousands of delayed entries cost a place in a heap each, not a task.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from datetime import datetime
from itertools import count
from typing import Generic, TypeVar

Entry = TypeVar("Entry", bound=Hashable)


class DelayingQueue(Generic[Entry]):
    """Hands out due entries, each to one worker at a time.

    Args:
        now: The clock.
        sleep: Sleeps for a number of seconds of that clock.
    """

    def __init__(self, now: Callable[[], datetime], sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._now = now
        self._sleep = sleep
        self._order = count()
        self._heap: list[tuple[datetime, int, Entry]] = []
        self._due: dict[Entry, datetime] = {}
        self._ready: deque[Entry] = deque()
        self._is_ready: set[Entry] = set()
        self._in_progress: set[Entry] = set()
        self._again: set[Entry] = set()
        self._work = asyncio.Semaphore(0)
        self._sooner = asyncio.Event()

    def __len__(self) -> int:
        """Return the number of entries that are waiting, ready or being handled."""
        return len(self._due) + len(self._is_ready) + len(self._in_progress)

    @property
    def busy(self) -> bool:
        """Whether any entry is ready or being handled."""
        return bool(self._is_ready or self._in_progress)

    def add(self, entry: Entry) -> None:
        """Enqueue *entry* immediately."""
        self._due.pop(entry, None)
        if entry in self._in_progress:
            # The running pass may have read the state before this change, and a second worker must not run
            # concurrently.
            self._again.add(entry)
        elif entry not in self._is_ready:
            self._is_ready.add(entry)
            self._ready.append(entry)
            self._work.release()

    def add_at(self, entry: Entry, due: datetime) -> None:
        """Enqueue *entry* at *due*, unless it is due earlier."""
        if entry in self._is_ready or entry in self._again:
            return
        previous_due = self._due.get(entry)
        if previous_due is None or due < previous_due:
            self._due[entry] = due
            heapq.heappush(self._heap, (due, next(self._order), entry))
            if self._heap[0][0] == due:
                self._sooner.set()

    def forget(self, entry: Entry) -> None:
        """Remove *entry*. A running pass continues."""
        self._due.pop(entry, None)
        self._again.discard(entry)
        # Its place in the deque remains, with its permit of the semaphore. `take` skips both.
        self._is_ready.discard(entry)

    async def take(self) -> Entry:
        """Wait for an entry that is due. The worker must call `done` for it."""
        while True:
            await self._work.acquire()
            entry = self._ready.popleft()
            if entry in self._is_ready:
                self._is_ready.discard(entry)
                self._in_progress.add(entry)
                return entry

    def done(self, entry: Entry) -> None:
        """Record that a worker has finished *entry*."""
        self._in_progress.discard(entry)
        if entry in self._again:
            self._again.discard(entry)
            self.add(entry)

    async def run(self) -> None:
        """Make entries ready as they fall due, until cancelled."""
        while True:
            self._sooner.clear()  # before the heap is read: an entry added from here on ends the wait below
            wait = self._promote()
            if wait is None:
                await self._sooner.wait()
            else:
                await self._wait(wait)

    def _promote(self) -> float | None:
        """Make due entries ready. Return the seconds until the next entry is due, or None if no entry is delayed."""
        now = self._now()
        while self._heap:
            due_at, _, entry = self._heap[0]
            if self._due.get(entry) != due_at:
                heapq.heappop(self._heap)  # stale: the entry was forgotten, handled early or rescheduled
            elif due_at <= now:
                heapq.heappop(self._heap)
                self.add(entry)
            else:
                return (due_at - now).total_seconds()
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
