"""Those who want to be told of something."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

Subscribe = Callable[[Callable[[T], None]], Callable[[], None]]
"""Given who is to be told, returns what ends that."""


class Channel(Generic[T]):
    """Tells everybody who has subscribed, in that order and at once."""

    def __init__(self) -> None:
        self._handlers: list[Callable[[T], None]] = []

    def subscribe(self, handler: Callable[[T], None]) -> Callable[[], None]:
        """Call *handler* with whatever is told, until the returned function is called, which is done once."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    def tell(self, told: T) -> None:
        """Tell of something."""
        for handler in tuple(self._handlers):
            handler(told)
