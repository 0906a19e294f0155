"""Keeps equal parts of documents once.

Ten thousand bindings say the same few things about themselves: the same conditions, strategies and labels; and the
hundred Works of a placement have the same status. Documents in the cache are read-only, so their equal parts can be
one; that is more than half of the memory.

Every report of a member has parts that no other will have, those that say when. What no document holds any more is
forgotten from time to time, as otherwise each process would grow by what it has heard for hours. A plain dictionary
cannot be referred to weakly, so references are counted.
"""

from collections.abc import Mapping
from sys import getrefcount, intern
from typing import Any, Final

from scorer.api.meta import JsonObject
from webhook.kube.untracked import untracked

MOST_PARTS: Final = 100_000
"""How many parts are remembered that documents hold; with more, the table starts again from empty, and parts that are
shared stay shared."""
MOST_UNUSED: Final = 2_000
"""How many parts are added before those are forgotten that no document holds; as many as there are, if that is more."""
_OF_MANY: Final = frozenset({"namespace", "creationTimestamp"})
"""Members of metadata that many objects have in common."""


class Sharing:
    """Turns equal maps and lists into one, within and across documents."""

    def __init__(self) -> None:
        self._parts: dict[tuple[object, ...], Any] = {}
        """By the names and values in each, with their types: 1, 1.0 and true are equal in Python, and three things in
        JSON. What is nested is in there by its id: it is held by the part, and equal ones are one already."""
        self._enough = MOST_UNUSED

    def share(self, document: JsonObject) -> None:
        """Replace the parts of a document, in place, by equal ones that are known; no two have the same metadata."""
        for name, value in document.items():
            if name == "metadata" and type(value) is dict:
                self._share_members(value)
            elif type(value) is dict or type(value) is list:
                document[name] = self._shared(value)
            elif type(value) is str:  # which API, which kind
                document[name] = intern(value)

    def _share_members(self, metadata: JsonObject) -> None:
        for name, value in metadata.items():
            if type(value) is dict or type(value) is list:
                metadata[name] = self._shared(value)
            elif type(value) is str and name in _OF_MANY:
                metadata[name] = intern(value)

    def _shared(self, part: Any) -> Any:
        """Return what is known that equals *part*, or *part* itself, with parts that are known.

        A part of which any part is new is new itself: it is not looked for, nor remembered. So what is large and unlike
        any other costs little.
        """
        is_map = type(part) is dict
        values = [*part.values()] if is_map else part
        types = [*map(type, values)]
        if dict not in types and list not in types:
            return self._known((*part, *values, *types) if is_map else (list, *values, *types), part)
        is_new, identities = False, []
        for name, value in [*part.items()] if is_map else enumerate(part):
            if type(value) is dict or type(value) is list:
                shared = part[name] = self._shared(value)
                is_new = is_new or shared is value
                identities.append(id(shared))
            else:
                identities.append(value)
        if is_new:
            return part
        return self._known((*part, *identities, *types) if is_map else (list, *identities, *types), part)

    def _known(self, key: tuple[object, ...], part: Any) -> Any:
        if len(self._parts) >= self._enough:
            self._forget_unused()
        known = self._parts.setdefault(key, part)
        if known is part:
            untracked(key)
        return known

    def _forget_unused(self) -> None:
        counts = _references(self._parts)
        used = {key: part for (key, part), count in zip(self._parts.items(), counts, strict=True) if count > _UNUSED}
        self._parts = used if len(used) < MOST_PARTS else {}
        more = max(MOST_UNUSED, len(self._parts))
        self._enough = min(len(self._parts) + more, MOST_PARTS + MOST_UNUSED)


def _references(parts: Mapping[tuple[object, ...], Any]) -> list[int]:
    """Count what refers to each part: the table, and this function while it counts, among others."""
    return [getrefcount(part) for part in parts.values()]


_UNUSED: Final = _references({(): {}})[0]
"""The count of a part that only the table holds; which it is depends on the interpreter."""
