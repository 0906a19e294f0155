"""Token buckets and concurrency limits per key, in bounded memory."""

import asyncio
import math
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Final

MOST_KEYS: Final = 4096
"""Maximum number of buckets. The least recently used one is evicted first, and its key starts again with a full bucket.
"""

_ONE: Final = 1 - 1e-6
"""Minimum content of a bucket for one call. Time is a float: after exactly the advised wait, a bucket may hold slightly
less than one."""


class TokenBuckets:
    """A rate limit for each key: bursts of *burst*, and *per_second* on average.

    Args:
        per_second: Refill rate of a bucket.
        burst: Capacity of a bucket.
    """

    def __init__(self, per_second: float, burst: float) -> None:
        self._rate = per_second
        self._burst = burst
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, key: Hashable, now: float) -> int:
        """Take one token out of the bucket of *key*.

        Args:
            key: Key of the bucket.
            now: Seconds of a monotonic clock.

        Returns:
            0 if there was a token, else the whole seconds, at least 1, until there is one.
        """
        wait = self.wait(key, now)
        self._set(key, self._left(key, now) - (0 if wait else 1), now)
        return wait

    def wait(self, key: Hashable, now: float) -> int:
        """Return the same as `take`, without taking a token."""
        tokens = self._left(key, now)
        return 0 if tokens >= _ONE else max(1, math.ceil((1 - tokens) / self._rate))

    def charge(self, key: Hashable, now: float) -> None:
        """Take one token even if none is left. The debt is limited to the capacity of the bucket."""
        self._set(key, max(-self._burst, self._left(key, now) - 1), now)

    def _left(self, key: Hashable, now: float) -> float:
        tokens, since = self._buckets.get(key, (self._burst, now))
        return min(self._burst, tokens + (now - since) * self._rate)

    def _set(self, key: Hashable, tokens: float, now: float) -> None:
        self._buckets[key] = (tokens, now)
        self._buckets.move_to_end(key)
        if len(self._buckets) > MOST_KEYS:
            self._buckets.popitem(last=False)


class KeyedSemaphore:
    """A semaphore per key: *limit* callers enter concurrently, and the next one waits until one of them leaves.

    Args:
        limit: Maximum number of concurrent callers per key, at least 1.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._slots: dict[Hashable, asyncio.Semaphore] = {}
        self._present: Counter[Hashable] = Counter()

    def __len__(self) -> int:
        return len(self._slots)

    @asynccontextmanager
    async def acquire(self, key: Hashable, seconds: float) -> AsyncIterator[None]:
        """Enter the semaphore of *key*.

        Raises:
            TimeoutError: The wait for a turn exceeded *seconds*.
        """
        slots = self._slots.setdefault(key, asyncio.Semaphore(self._limit))
        # Counted before the wait: if the last holder deleted the entry while others wait on its semaphore, the next
        # one would get a new semaphore, and more than *limit* would enter.
        self._present[key] += 1
        try:
            async with asyncio.timeout(seconds):
                await slots.acquire()
            try:
                yield
            finally:
                slots.release()
        finally:
            self._present[key] -= 1
            if not self._present[key]:
                del self._present[key], self._slots[key]
