"""Memory of cached documents: interned parts, trees untracked by the garbage collector, trimmed Nodes.

Ten thousand bindings repeat the same conditions, strategies and labels, and the hundred Works of a placement have the
same status. Documents in the cache are read-only, so their equal parts can be interned. That saves more than half of
the memory.

The size of the table is limited in bytes. It has two generations: when the newer one is full, the older one is evicted,
except for parts that were seen again. Without eviction, each process would grow by everything it receives. Parts unique
to one object never enter it: those with the time of a report, and large ones. Otherwise the table would keep every
version of a ConfigMap of 800 KB.

The garbage collector traverses all maps, lists and models to find reference cycles. Documents from JSON and their
models are immutable trees and never have cycles. With a hundred thousand members they are millions of objects, and each
traversal would block every answer for 0.2 s. An untracked object is still freed with its last reference.

Models with the same fields also share one set of field names. Such sets would otherwise be a third of the models' size.

Trimming: Nodes are large and many, so the cache keeps only the fields that are read.
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

3,000 bindings and their Works take the same memory with 0.5 MiB as with 16 MiB, because few parts are shared by many
objects. A larger table only keeps more parts of stale heartbeats.
"""
LARGEST_PART: Final = MOST_BYTES // 64
"""Size limit in bytes of an interned part."""
_SLOT_BYTES: Final = 64
"""Estimated size per item of an entry's key: the key, the map or list, and the objects in it, without texts."""
_OF_MANY: Final = frozenset({"namespace", "creationTimestamp"})
"""Metadata fields whose values are shared by many objects."""
_LOOKED_FOR: Final = 17
"""Every 17th update does a full lookup although the previous state is available.

This keeps shared parts in the table, and merges duplicates.
"""
_LEVELS: Final = 4
"""Maximum depth of comparison with the previous state. Each level compares its whole subtree."""


class Interner:
    """Interns equal maps and lists, within and across documents."""

    def __init__(self) -> None:
        self._parts: dict[tuple[object, ...], Any] = {}
        """Parts by their names, values and types: 1, 1.0 and true are equal in Python, but distinct in JSON.

        Nested parts are represented by their id. The enclosing part holds a reference to them, and equal ones are
        interned.
        """
        self._earlier: dict[tuple[object, ...], Any] = {}
        """The previous generation, without the parts that were seen again."""
        self._held: set[int] = set()
        self._held_earlier: set[int] = set()
        """Ids of the parts of each generation."""
        self._bytes = self._earlier_bytes = 0
        self._states = 0

    @property
    def bytes(self) -> int:
        """The estimated size of the table, including parts without other references."""
        return self._bytes + self._earlier_bytes

    def share(self, document: JsonObject, before: JsonObject | None = None) -> None:
        """Replace the parts of a document by equal interned ones, in place. Its metadata is not interned as a whole.

        Args:
            document: The object.
            before: Previous, interned state of the object. Unchanged parts are taken from it, which is much cheaper
                than a lookup.
        """
        self._states += 1
        earlier = before or {} if self._states % _LOOKED_FOR else {}
        for name, value in document.items():
            if name == "metadata" and type(value) is dict:
                self._share_members(value, dict_at(earlier, name))
            elif type(value) is dict or type(value) is list:
                document[name] = self._shared(value, earlier.get(name))
            elif type(value) is str:  # apiVersion and kind
                document[name] = intern(value)

    def _share_members(self, metadata: JsonObject, before: JsonObject) -> None:
        for name, value in metadata.items():
            if type(value) is dict or type(value) is list:
                metadata[name] = self._shared(value, before.get(name))
            elif type(value) is str and name in _OF_MANY:
                metadata[name] = intern(value)

    def _shared(self, part: Any, before: Any = None, levels: int = _LEVELS) -> Any:
        """Return the interned equal of *part*, or *part* itself with interned nested parts.

        A part with a new nested part is new itself: it is neither looked up nor interned, so large unique parts cost
        little. A part is not interned either if it reuses a nested part that the table does not hold. Otherwise the
        table would hold that nested part as well, of any size, and each version of it.

        Args:
            part: A map or a list.
            before: Previous value in the same place.
            levels: Remaining depth of comparison with *before*.
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
            return self._intern((*part, *values, *types) if is_map else (list, *values, *types), part)
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
        return self._intern((*part, *identities, *types) if is_map else (list, *identities, *types), part)

    def _holds(self, part: Any) -> bool:
        return id(part) in self._held or id(part) in self._held_earlier

    def _intern(self, key: tuple[object, ...], part: Any) -> Any:
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
    """Return whether two parts are equal as JSON text, including the order of members, which documents keep.

    A part that cannot be written as JSON equals no other.
    """
    try:
        return bool(part == other) and orjson.dumps(part) == orjson.dumps(other)
    except orjson.JSONEncodeError:  # nested too deeply, or an integer of more than 64 bits
        return False


T = TypeVar("T")


def untracked(tree: T) -> T:
    """Return *tree* itself, untracked by the garbage collector.

    Args:
        tree: Nested maps, lists, tuples and frozen models without cycles. Must no longer be mutated. A map that
            nevertheless gets another map is tracked again.
    """
    if is_tracked(tree):
        _leave_out(tree)
    return tree


def _leave_out(part: Any) -> None:
    """Untrack a tracked part. An untracked part has no tracked children."""
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
"""A no-op on untracked objects. Source: docs.python.org/3/c-api/gcsupport.html."""
_GIVEN: Final[dict[frozenset[str], set[str]]] = {}
"""Interned sets of field names. Bounded, because models have few fields. Never mutated: a copy makes its own set."""


def essential_node(node: JsonObject) -> JsonObject:
    """Return the fields of a node that answers need. The full node, with images and conditions, is nine times as large.

    The Ready condition counts for the pool's budgets, and the providerID leads to the node's claim.
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
