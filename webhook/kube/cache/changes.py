"""A change of one object, the handlers that receive it, and subscriptions in general."""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from scorer.api.meta import JsonObject

View = Callable[[JsonObject], object]
"""The part of an object that matters to a handler."""


def desired(document: JsonObject) -> object:
    """View what users can ask of an object: its spec, by its generation, and its deletion."""
    metadata = document["metadata"]
    return metadata.get("generation"), metadata.get("deletionTimestamp")


class ObjectDelta(NamedTuple):
    """An object before and after: at least one of both is there.

    Args:
        old: As it was; None: it did not exist, or was not known.
        new: As it is; None: it is gone.
    """

    old: JsonObject | None
    new: JsonObject | None

    @property
    def document(self) -> JsonObject:
        """The object as it is now, or as it was last when it is gone."""
        document = self.new if self.new is not None else self.old
        assert document is not None
        return document

    @property
    def is_added_or_deleted(self) -> bool:
        """Whether it is new or gone."""
        return self.old is None or self.new is None

    def alters(self, view: View) -> bool:
        """Say whether it existed before and still does, and differs in this view."""
        return self.old is not None and self.new is not None and view(self.old) != view(self.new)

    def touches(self, view: View) -> bool:
        """Say whether it differs in this view, or is new or gone."""
        return self.old is None or self.new is None or view(self.old) != view(self.new)


Handler = Callable[[ObjectDelta], None]
"""Called with a change, on the event loop; has to be quick."""


T = TypeVar("T")

Subscribe = Callable[[Callable[[T], None]], Callable[[], None]]
"""Given a handler, returns what unsubscribes it."""


class Broadcaster(Generic[T]):
    """Calls all handlers at once, in the order in which they were subscribed."""

    def __init__(self) -> None:
        self._handlers: list[Callable[[T], None]] = []

    def subscribe(self, handler: Callable[[T], None]) -> Callable[[], None]:
        """Call *handler* with everything that is told until the returned function is called; call that once."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    @property
    def has_handlers(self) -> bool:
        """Whether there is any handler."""
        return bool(self._handlers)

    def publish(self, event: T) -> None:
        """Call every handler with *event*."""
        for handler in tuple(self._handlers):  # a copy: a handler may unsubscribe itself
            handler(event)
