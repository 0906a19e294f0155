"""Keeps equal parts of documents once.

Ten thousand bindings say the same few things about themselves: the same conditions, strategies and labels. Documents in
the cache are read-only, so their equal parts can be one; that is more than half of the memory.
"""

from collections.abc import Iterable
from typing import Any, Final

from scorer.api.meta import JsonObject

MOST_PARTS: Final = 20_000
"""How many parts are remembered; then the table starts again from empty, and parts that are shared stay shared."""
_NESTED: Final = (dict, list)


class Sharing:
    """Turns equal maps of plain values into one map, within and across documents."""

    def __init__(self) -> None:
        self._parts: dict[tuple[object, ...], JsonObject] = {}

    def share(self, document: JsonObject) -> None:
        """Replace the parts of a document, in place, by equal ones that are known."""
        for name, value in document.items():
            if isinstance(value, dict):
                document[name] = self._shared(value)
            elif isinstance(value, list):
                self._share_items(value)

    def _shared(self, part: JsonObject) -> JsonObject:
        if any(isinstance(value, _NESTED) for value in part.values()):
            self.share(part)
            return part
        if len(self._parts) >= MOST_PARTS:
            self._parts.clear()
        return self._parts.setdefault(tuple(_identities(part.items())), part)

    def _share_items(self, items: list[Any]) -> None:
        for position, item in enumerate(items):
            if isinstance(item, dict):
                items[position] = self._shared(item)
            elif isinstance(item, list):
                self._share_items(item)


def _identities(items: Iterable[tuple[str, object]]) -> Iterable[object]:
    """Yield what tells maps apart: 1, 1.0 and true are equal in Python, and three things in JSON."""
    for name, value in items:
        yield name
        yield value if isinstance(value, str) else (type(value), value)
