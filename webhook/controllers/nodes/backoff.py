"""Exponential backoff per key, on a monotonic clock, in memory only.

By a clock that never jumps, and remembered here alone: a process that takes over tries at once.
"""

from collections.abc import Callable, Collection, Hashable
from datetime import timedelta
from typing import Final, Generic, TypeVar

FIRST_PAUSE: Final = timedelta(milliseconds=100)
LONGEST_PAUSE: Final = timedelta(seconds=10)
"""Between two attempts to evict one pod."""


K = TypeVar("K", bound=Hashable)


class Pauses(Generic[K]):
    """The pauses of things by their keys.

    Args:
        clock: Seconds, of a clock that never jumps.
        first: How long the first pause is.
        longest: How long no pause is exceeded.
    """

    def __init__(self, clock: Callable[[], float], first: timedelta, longest: timedelta) -> None:
        self._clock = clock
        self._first = first.total_seconds()
        self._longest = longest.total_seconds()
        self._pauses: dict[K, tuple[float, float]] = {}

    def __contains__(self, key: K) -> bool:
        """Say whether the pause of *key* is not over yet."""
        return self._clock() < self.until(key)

    def until(self, key: K) -> float:
        """Return when the last pause of *key* ends or has ended, by the clock; long ago where there was none."""
        return self._pauses.get(key, (0.0, float("-inf")))[1]

    def failed(self, key: K) -> None:
        """Begin a pause that is twice as long as the one before."""
        before, _ = self._pauses.get(key, (self._first / 2, 0.0))
        self._begin(key, min(2 * before, self._longest))

    def set_longest(self, key: K) -> None:
        """Begin the longest pause."""
        self._begin(key, self._longest)

    def over(self, key: K) -> None:
        """End what pause there is: it could be done."""
        self._pauses.pop(key, None)

    def retain(self, keys: Collection[K]) -> None:
        """Forget all others."""
        self._pauses = {key: pause for key, pause in self._pauses.items() if key in keys}

    def _begin(self, key: K, seconds: float) -> None:
        self._pauses[key] = (seconds, self._clock() + seconds)
