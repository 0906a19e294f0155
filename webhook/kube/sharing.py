"""Keeps equal parts of documents once.

Ten thousand bindings say the same few things about themselves: the same conditions, strategies and labels. Documents in
the cache are read-only, so their equal parts can be one; that is more than half of the memory.

Every report of a member has parts that no other will have, those that say when. What no document holds any more is
forgotten from time to time, as otherwise each process would grow by what it has heard for hours. A plain dictionary
cannot be referred to weakly, so references are counted.
"""

from collections.abc import Iterable, Mapping
from sys import getrefcount
from typing import Any, Final

from scorer.api.meta import JsonObject

MOST_PARTS: Final = 20_000
"""How many parts are remembered that documents hold; with more, the table starts again from empty, and parts that are
shared stay shared."""
MOST_UNUSED: Final = 2_000
"""How many parts are added before those are forgotten that no document holds."""
_NESTED: Final = (dict, list)


class Sharing:
    """Turns equal maps of plain values into one map, within and across documents."""

    def __init__(self) -> None:
        self._parts: dict[tuple[object, ...], JsonObject] = {}
        self._enough = MOST_UNUSED

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
        if len(self._parts) >= self._enough:
            self._forget_unused()
        return self._parts.setdefault(tuple(_identities(part.items())), part)

    def _forget_unused(self) -> None:
        counts = _references(self._parts)
        used = {key: part for (key, part), count in zip(self._parts.items(), counts, strict=True) if count > _UNUSED}
        self._parts = used if len(used) < MOST_PARTS else {}
        self._enough = len(self._parts) + MOST_UNUSED

    def _share_items(self, items: list[Any]) -> None:
        for position, item in enumerate(items):
            if isinstance(item, dict):
                items[position] = self._shared(item)
            elif isinstance(item, list):
                self._share_items(item)


def _references(parts: Mapping[tuple[object, ...], JsonObject]) -> list[int]:
    """Count what refers to each part: the table, and this function while it counts, among others."""
    return [getrefcount(part) for part in parts.values()]


_UNUSED: Final = _references({(): {}})[0]
"""The count of a part that only the table holds; which it is depends on the interpreter."""


def _identities(items: Iterable[tuple[str, object]]) -> Iterable[object]:
    """Yield what tells maps apart: 1, 1.0 and true are equal in Python, and three things in JSON."""
    for name, value in items:
        yield name
        yield value if isinstance(value, str) else (type(value), value)
