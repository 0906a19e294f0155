"""Tells viewers when something they see is different."""

from collections.abc import Callable

from scorer.api.family import FAMILIES, Family
from scorer.api.kinds import MEMBER_CLUSTER
from scorer.api.meta import JsonObject
from webhook.answers.questions import Change
from webhook.kube.cache import Cache
from webhook.kube.shelf import Handler


class HubChanges:
    """Watches the cache for what views are made of.

    Args:
        cache: The hub's objects.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._viewers: dict[int, Callable[[Change], None]] = {}
        self._next = 0
        cache.subscribe(MEMBER_CLUSTER, self._on_member)
        for family in FAMILIES:
            cache.subscribe(family.placement, self._on_placement(family))
            cache.subscribe(family.binding, self._on_binding(family))

    def everything(self) -> Change:
        """Return the change that covers all there is."""
        refs = (str(family.ref(document)) for family in FAMILIES for document in self._cache.list(family.placement))
        return Change(self._cache.revision, clusters=True, placements=frozenset(refs))

    def subscribe(self, handler: Callable[[Change], None]) -> Callable[[], None]:
        """Call *handler* after every change, until the returned function is called."""
        number = self._next
        self._next += 1
        self._viewers[number] = handler
        return lambda: self._viewers.pop(number, None) and None

    def _on_member(self, old: JsonObject | None, new: JsonObject | None) -> None:  # noqa: ARG002 - which one is no matter
        self._tell(Change(self._cache.revision, clusters=True))

    def _on_placement(self, family: Family) -> Handler:
        def handle(old: JsonObject | None, new: JsonObject | None) -> None:
            document = new or old
            assert document is not None
            self._tell(Change(self._cache.revision, placements=frozenset({str(family.ref(document))})))

        return handle

    def _on_binding(self, family: Family) -> Handler:
        def handle(old: JsonObject | None, new: JsonObject | None) -> None:
            document = new or old
            assert document is not None
            came_or_went = old is None or new is None
            ref = str(family.parent(document))
            self._tell(Change(self._cache.revision, clusters=came_or_went, placements=frozenset({ref})))

        return handle

    def _tell(self, change: Change) -> None:
        for viewer in tuple(self._viewers.values()):
            viewer(change)
