"""Memory of cached documents: equal parts are interned, trees are hidden from the garbage collector, Nodes are trimmed.

Ten thousand bindings say the same few things about themselves: the same conditions, strategies and labels; and the
hundred Works of a placement have the same status. Documents in the cache are read-only, so their equal parts can be
one; that is more than half of the memory.

The table is bounded by bytes. A part that has not come again while as many bytes of others came is forgotten, or each
process would grow by everything it has received. Two generations do that without a pass over the table. Parts that one
object alone has never enter it: those with the time of a report, and large ones, such as the data of a ConfigMap of
800 KB, of which the table would keep every version.

The collector walks all maps, lists and models that exist, to find those that refer to each other in a circle. What was
read from JSON never does: documents are trees, as are the models of them, and nobody writes to either. With a hundred
thousand members they are millions, and to walk those that came since the last time stops every answer for a fifth of a
second. An object that the collector does not know is freed as ever, with the last reference to it.

On the way, models that were given the same fields get one set of their names: else a third of what models take is sets.

Trimming: of Nodes, which are large and many, the cache keeps only the fields that are read.
"""

import ctypes
from collections.abc import Callable
from gc import is_tracked
from sys import intern
from typing import Any, Final, TypeVar

import orjson
from pydantic import BaseModel

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dict_at, dicts_at

MOST_BYTES: Final = 2 * 2**20
"""Estimated size of a generation of parts. The table holds two. Documents keep the parts that the table evicts.

3,000 bindings and their Works take the same memory with 0.5 MiB as with 16 MiB: the parts that many objects have in
common are few. A larger table only keeps more parts of heartbeats that no object has any more.
"""
LARGEST_PART: Final = MOST_BYTES // 64
"""A part of more bytes is not interned."""
_SLOT_BYTES: Final = 64
"""Size of an entry for each item of its key: the key, the map or list, and the objects in it, texts aside."""
_OF_MANY: Final = frozenset({"namespace", "creationTimestamp"})
"""Members of metadata that many objects have in common."""
_LOOKED_FOR: Final = 17
"""One in so many states of objects is looked for in the table although the state before is known: what many have in
common stays in the table, and what has come to be there twice becomes one again."""
_LEVELS: Final = 4
"""So deep a part is compared with the state before: each level is compared with all that is in it."""


class Interner:
    """Turns equal maps and lists into one, within and across documents."""

    def __init__(self) -> None:
        self._parts: dict[tuple[object, ...], Any] = {}
        """By the names and values in each, with their types: 1, 1.0 and true are equal in Python, and three things in
        JSON. What is nested is in there by its id: it is held by the part, and equal ones are one already."""
        self._earlier: dict[tuple[object, ...], Any] = {}
        """The generation before, without the parts that have come again."""
        self._held: set[int] = set()
        self._held_earlier: set[int] = set()
        """The ids of the parts of each generation."""
        self._bytes = self._earlier_bytes = 0
        self._states = 0

    @property
    def bytes(self) -> int:
        """The estimated size of the table, with the parts that it alone refers to."""
        return self._bytes + self._earlier_bytes

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
        any other costs little. Nor is a part remembered that has a part of the state before which the table does not
        hold: it would hold that part as well, of any size, and each version of it.

        Args:
            part: A map or a list.
            before: What stood in its place.
            levels: How deep *before* is looked at.
        """
        earlier: Any = {}
        if levels and type(before) is type(part):
            if _is_same_text(part, before):
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
                is_new = is_new or shared is value or not self._holds(shared)
                identities.append(id(shared))
            else:
                identities.append(value)
        if is_new:
            return part
        return self._known((*part, *identities, *types) if is_map else (list, *identities, *types), part)

    def _holds(self, part: Any) -> bool:
        return id(part) in self._held or id(part) in self._held_earlier

    def _known(self, key: tuple[object, ...], part: Any) -> Any:
        count = len(self._parts)
        interned = self._parts.setdefault(key, part)
        if len(self._parts) == count:
            return interned
        size = _size(key, part)
        if (interned := self._earlier.pop(key, None)) is not None:
            self._earlier_bytes -= size
            self._parts[key] = interned
        elif size > LARGEST_PART or "observationTime" in part or "lastReceivedHeartbeat" in part:
            del self._parts[key]
            return part
        else:
            interned = part
        self._bytes += size
        self._held.add(id(interned))
        if self._bytes > MOST_BYTES:
            self._parts, self._earlier = {}, self._parts
            self._held, self._held_earlier = set(), self._held
            self._bytes, self._earlier_bytes = 0, self._bytes
        return interned


def _size(key: tuple[object, ...], part: Any) -> int:
    """Return the estimated size of an entry in bytes, without nested parts, which are entries of their own."""
    size, values = _SLOT_BYTES * len(key), part
    if type(part) is dict:
        size += sum(map(len, part))
        values = part.values()
    for value in values:
        if type(value) is str:
            size += len(value)
    return size


def _is_same_text(part: Any, other: Any) -> bool:
    """Return whether two parts are the same JSON, in the same order: documents keep the order that they came in.

    A part that cannot be written as JSON equals no other.
    """
    try:
        return bool(part == other) and orjson.dumps(part) == orjson.dumps(other)
    except orjson.JSONEncodeError:  # nested too deeply, or an integer of more than 64 bits
        return False


T = TypeVar("T")


def untracked(tree: T) -> T:
    """Return *tree* itself, after the collector has been told to leave it out.

    Args:
        tree: Maps, lists, tuples and frozen models, in each other but not in a circle; not to be changed any more. A
            map that is nevertheless given another one is walked again.
    """
    if is_tracked(tree):
        _leave_out(tree)
    return tree


def _leave_out(part: Any) -> None:
    """Leave out a part that is tracked; one that is not holds none that is."""
    if isinstance(part, dict):
        _UNTRACK(part)
        inner: Any = part.values()
    elif isinstance(part, list | tuple):
        _UNTRACK(part)
        inner = part
    elif isinstance(part, BaseModel):
        fields_set = part.__pydantic_fields_set__
        object.__setattr__(part, "__pydantic_fields_set__", _GIVEN.setdefault(frozenset(fields_set), fields_set))
        _UNTRACK(part)
        _UNTRACK(part.__dict__)
        inner = part.__dict__.values()
    else:
        return
    for value in inner:
        if is_tracked(value):
            _leave_out(value)


def _from_interpreter() -> Callable[[Any], None]:
    untrack = ctypes.pythonapi.PyObject_GC_UnTrack
    untrack.argtypes, untrack.restype = (ctypes.py_object,), None
    return untrack


_UNTRACK: Final = _from_interpreter()
"""Does nothing to what is not tracked. Source: docs.python.org/3/c-api/gcsupport.html."""
_GIVEN: Final[dict[frozenset[str], set[str]]] = {}
"""Sets of names of fields; bounded, as models have few. Nothing changes one: a copy of a model makes its own."""


def essential_node(node: JsonObject) -> JsonObject:
    """Return what answers need of a node; whole, with its images and conditions, it is nine times as large.

    Pools are counted by the condition Ready, and find the claim of a node by its providerID.
    """
    spec = dict_at(node, "spec")
    remaining = {name: spec[name] for name in ("providerID", "unschedulable") if name in spec}
    conditions = [
        {"type": "Ready", "status": condition.get("status")}
        for condition in dicts_at(node, "status", "conditions")
        if condition.get("type") == "Ready"
    ]
    return {
        "apiVersion": node["apiVersion"],
        "kind": node["kind"],
        "metadata": node["metadata"],
        "spec": {**remaining, "taints": spec.get("taints") or []},
        "status": {"conditions": conditions},
    }
