"""Exponential backoff per key, on a monotonic clock, in memory only.

A new leader starts without backoffs and retries immediately.
"""

from collections.abc import Callable, Collection, Hashable
from datetime import timedelta
from typing import Final, Generic, TypeVar

FIRST_PAUSE: Final = timedelta(milliseconds=100)
LONGEST_PAUSE: Final = timedelta(seconds=10)
"""Maximum backoff of the eviction of one pod, or of the step of a command on one node."""


K = TypeVar("K", bound=Hashable)


class Pauses(Generic[K]):
    """Backoffs by key.

    Args:
        clock: Monotonic clock, in seconds.
        first: The first backoff.
        longest: The longest backoff.
    """

    def __init__(self, clock: Callable[[], float], first: timedelta, longest: timedelta) -> None:
        self._clock = clock
        self._first = first.total_seconds()
        self._longest = longest.total_seconds()
        self._pauses: dict[K, tuple[float, float]] = {}

    def __contains__(self, key: K) -> bool:
        """Return whether *key* is backed off now."""
        return self._clock() < self.until(key)

    def until(self, key: K) -> float:
        """Return the end of the last backoff of *key*, on the clock. Without one it is minus infinity."""
        return self._pauses.get(key, (0.0, float("-inf")))[1]

    def failed(self, key: K) -> None:
        """Back off twice as long as the last time, up to the longest backoff."""
        before, _ = self._pauses.get(key, (self._first / 2, 0.0))
        self._begin(key, min(2 * before, self._longest))

    def set_longest(self, key: K) -> None:
        """Back off for the longest time."""
        self._begin(key, self._longest)

    def over(self, key: K) -> None:
        """Reset the backoff of *key* after a success."""
        self._pauses.pop(key, None)

    def retain(self, keys: Collection[K]) -> None:
        """Drop all other keys."""
        self._pauses = {key: pause for key, pause in self._pauses.items() if key in keys}

    def _begin(self, key: K, seconds: float) -> None:
        self._pauses[key] = (seconds, self._clock() + seconds)
