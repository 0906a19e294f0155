"""Changes of objects, the handlers that receive them, and their subscriptions."""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from scorer.api.meta import JsonObject

View = Callable[[JsonObject], object]
"""Returns the part of an object that matters to a handler."""


def desired(document: JsonObject) -> object:
    """Return the generation and deletion timestamp of an object. They change with its spec and when it is deleted."""
    metadata = document["metadata"]
    return metadata.get("generation"), metadata.get("deletionTimestamp")


class ObjectDelta(NamedTuple):
    """An object before and after a change. At least one of the two is set.

    Args:
        old: Previous state. None: unknown, or the object did not exist.
        new: Present state. None if the object was deleted.
    """

    old: JsonObject | None
    new: JsonObject | None

    @property
    def document(self) -> JsonObject:
        """The present state, or the last one of a deleted object."""
        document = self.new if self.new is not None else self.old
        assert document is not None
        return document

    @property
    def is_added_or_deleted(self) -> bool:
        """Whether only one of the two states is set."""
        return self.old is None or self.new is None

    def alters(self, view: View) -> bool:
        """Return whether the object was updated and differs in *view*."""
        return self.old is not None and self.new is not None and view(self.old) != view(self.new)

    def touches(self, view: View) -> bool:
        """Return whether the object was added, deleted, or differs in *view*."""
        return self.old is None or self.new is None or view(self.old) != view(self.new)


Handler = Callable[[ObjectDelta], None]
"""Called with every change on the event loop. Must not block."""


T = TypeVar("T")

Subscribe = Callable[[Callable[[T], None]], Callable[[], None]]
"""Takes a handler and returns a function that unsubscribes it."""


class Broadcaster(Generic[T]):
    """Calls all handlers synchronously, in the order of subscription."""

    def __init__(self) -> None:
        self._handlers: list[Callable[[T], None]] = []

    def subscribe(self, handler: Callable[[T], None]) -> Callable[[], None]:
        """Call *handler* with every event until the returned function is called. Call that function only once."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    @property
    def has_handlers(self) -> bool:
        """Whether any handler is subscribed."""
        return bool(self._handlers)

    def publish(self, event: T) -> None:
        """Call every handler with *event*."""
        for handler in tuple(self._handlers):  # a copy: a handler may unsubscribe itself
            handler(event)
