"""Keeps equal parts of documents once.

Ten thousand bindings say the same few things about themselves: the same conditions, strategies and labels; and the
hundred Works of a placement have the same status. Documents in the cache are read-only, so their equal parts can be
one; that is more than half of the memory.

Every report of a member has parts that no other will have, those that say when. What has not come again for so many
other parts is forgotten, as otherwise each process would grow by what it has heard for hours. That it is done by the
table, and not part by part, takes no time that a caller would notice.
"""

from sys import intern
from typing import Any, Final

import orjson

from scorer.api.documents import dict_at
from scorer.api.meta import JsonObject
from webhook.kube.untracked import untracked

MOST_PARTS: Final = 20_000
"""How many parts come before those are forgotten that have not come again; what is shared stays shared."""
_OF_MANY: Final = frozenset({"namespace", "creationTimestamp"})
"""Members of metadata that many objects have in common."""
_LOOKED_FOR: Final = 17
"""One in so many states of objects is looked for in the table although the state before is known: what many have in
common stays in the table, and what has come to be there twice becomes one again."""
_LEVELS: Final = 4
"""So deep a part is compared with the state before: each level is compared with all that is in it."""


class Sharing:
    """Turns equal maps and lists into one, within and across documents."""

    def __init__(self) -> None:
        self._parts: dict[tuple[object, ...], Any] = {}
        """By the names and values in each, with their types: 1, 1.0 and true are equal in Python, and three things in
        JSON. What is nested is in there by its id: it is held by the part, and equal ones are one already."""
        self._earlier: dict[tuple[object, ...], Any] = {}
        """Those of the time before, but for the ones that have come again."""
        self._states = 0

    def share(self, document: JsonObject, before: JsonObject | None = None) -> None:
        """Replace the parts of a document, in place, by equal ones that are known; no two have the same metadata.

        Args:
            document: The object.
            before: The same object as it was, which has been shared. What has not changed since is taken from it, which
                costs a small part of looking for it.
        """
        self._states += 1
        earlier = before or {} if self._states % _LOOKED_FOR else {}
        for name, value in document.items():
            if name == "metadata" and type(value) is dict:
                self._share_members(value, dict_at(earlier, name))
            elif type(value) is dict or type(value) is list:
                document[name] = self._shared(value, earlier.get(name))
            elif type(value) is str:  # which API, which kind
                document[name] = intern(value)

    def _share_members(self, metadata: JsonObject, before: JsonObject) -> None:
        for name, value in metadata.items():
            if type(value) is dict or type(value) is list:
                metadata[name] = self._shared(value, before.get(name))
            elif type(value) is str and name in _OF_MANY:
                metadata[name] = intern(value)

    def _shared(self, part: Any, before: Any = None, levels: int = _LEVELS) -> Any:
        """Return what is known that equals *part*, or *part* itself, with parts that are known.

        A part of which any part is new is new itself: it is not looked for, nor remembered. So what is large and unlike
        any other costs little.

        Args:
            part: A map or a list.
            before: What stood in its place.
            levels: How deep *before* is looked at.
        """
        earlier: Any = {}
        if levels and type(before) is type(part):
            if _is_same(part, before):
                return before
            earlier = before if type(before) is dict else dict(enumerate(before))
        is_map = type(part) is dict
        values = [*part.values()] if is_map else part
        types = [*map(type, values)]
        if dict not in types and list not in types:
            return self._known((*part, *values, *types) if is_map else (list, *values, *types), part)
        is_new, identities = False, []
        for name, value in [*part.items()] if is_map else enumerate(part):
            if type(value) is dict or type(value) is list:
                shared = part[name] = self._shared(value, earlier.get(name), levels - 1)
                is_new = is_new or shared is value
                identities.append(id(shared))
            else:
                identities.append(value)
        if is_new:
            return part
        return self._known((*part, *identities, *types) if is_map else (list, *identities, *types), part)

    def _known(self, key: tuple[object, ...], part: Any) -> Any:
        if (known := self._parts.get(key)) is not None:
            return known
        if (known := self._earlier.pop(key, None)) is None:
            known = part
            untracked(key)
        if len(self._parts) >= MOST_PARTS:
            self._parts, self._earlier = {}, self._parts
        self._parts[key] = known
        return known


def _is_same(part: Any, other: Any) -> bool:
    """Say whether two parts are the same JSON, written in the same order: what is kept stays as it came.

    What cannot be written is never the same.
    """
    try:
        return bool(part == other) and orjson.dumps(part) == orjson.dumps(other)
    except orjson.JSONEncodeError:  # nested too deeply, or an integer of more than 64 bits
        return False
