"""Handlers that are to be called when something happens."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

Subscribe = Callable[[Callable[[T], None]], Callable[[], None]]
"""Given a handler, returns what unsubscribes it."""


class Channel(Generic[T]):
    """Calls all handlers at once, in the order in which they were subscribed."""

    def __init__(self) -> None:
        self._handlers: list[Callable[[T], None]] = []

    def subscribe(self, handler: Callable[[T], None]) -> Callable[[], None]:
        """Call *handler* with everything that is told until the returned function is called; call that once."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    @property
    def is_heard(self) -> bool:
        """Whether there is any handler."""
        return bool(self._handlers)

    def tell(self, told: T) -> None:
        """Call every handler with *told*."""
        for handler in tuple(self._handlers):  # a copy: a handler may unsubscribe itself
            handler(told)
