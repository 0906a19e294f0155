"""The in-memory objects of the embedded store. They serve every read.

Documents in here are shared with every reader. They are never mutated, only replaced.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any, Final

from scorer.api.meta import JsonObject
from webhook.embedded.storage.journal import KindId
from webhook.kube.ports import Key

Place = tuple[KindId, Key]
"""Kind and key of an object."""

EVENT_KINDS: Final = frozenset({("", "Event"), ("events.k8s.io", "Event")})


class _KindTable:
    """The objects of one kind, and their namespaces and names in order."""

    __slots__ = ("documents", "order")

    def __init__(self) -> None:
        self.documents: dict[Key, JsonObject] = {}
        self.order: list[tuple[str, str]] = []


class ObjectIndex:
    """All objects by kind, namespace and name. Also by uid, by owner, and Events by age."""

    def __init__(self) -> None:
        self._tables: dict[KindId, _KindTable] = {}
        self._by_uid: dict[str, Place] = {}
        self._dependents: dict[str, set[Place]] = {}
        self._events: dict[Place, None] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, kind: KindId, key: Key) -> JsonObject | None:
        """Return the object, or None if it does not exist."""
        table = self._tables.get(kind)
        return table.documents.get(key) if table else None

    def store(self, kind: KindId, key: Key, document: JsonObject) -> None:
        """Add the object, or replace its older state."""
        table = self._tables.get(kind)
        if table is None:
            table = self._tables[kind] = _KindTable()
        old = table.documents.get(key)
        table.documents[key] = document
        if old is None:
            insort(table.order, (key.namespace, key.name))
            self._by_uid[document["metadata"]["uid"]] = kind, key
            self._link(kind, key, owner_uids(document))
        elif owner_references(old) != owner_references(document):
            self._unlink(kind, key, owner_uids(old))
            self._link(kind, key, owner_uids(document))
        if kind in EVENT_KINDS:
            self._events.pop((kind, key), None)
            self._events[kind, key] = None

    def remove(self, kind: KindId, key: Key) -> None:
        """Remove the object, which must exist."""
        table = self._tables[kind]
        document = table.documents.pop(key)
        del table.order[bisect_left(table.order, (key.namespace, key.name))]
        del self._by_uid[document["metadata"]["uid"]]
        self._unlink(kind, key, owner_uids(document))
        self._events.pop((kind, key), None)

    def _link(self, kind: KindId, key: Key, uids: set[str]) -> None:
        for uid in uids:
            self._dependents.setdefault(uid, set()).add((kind, key))

    def _unlink(self, kind: KindId, key: Key, uids: set[str]) -> None:
        for uid in uids:
            self._dependents[uid].discard((kind, key))
            if not self._dependents[uid]:
                del self._dependents[uid]

    def documents(self, kind: KindId, namespace: str | None = None) -> list[JsonObject]:
        """Return the objects of a kind, by namespace and name."""
        table = self._tables.get(kind)
        return [table.documents[key] for key in _keys(table, namespace)] if table else []

    def in_namespace(self, namespace: str) -> Iterator[Place]:
        """Yield every object of a namespace, by kind and name."""
        for kind, table in sorted(self._tables.items(), key=lambda item: item[0]):
            for key in _keys(table, namespace):
                yield kind, key

    def of_kind(self, kind: KindId) -> Iterator[Place]:
        """Yield every object of a kind."""
        if table := self._tables.get(kind):
            for key in _keys(table, None):
                yield kind, key

    def place_of(self, uid: str) -> Place | None:
        """Return the place of the object with that uid, or None if it does not exist."""
        return self._by_uid.get(uid)

    def dependents_of(self, uid: str) -> list[Place]:
        """Return the objects that name *uid* as an owner, by kind, namespace and name."""
        return sorted(self._dependents.get(uid, ()), key=lambda place: (place[0], place[1].namespace, place[1].name))

    def surplus_events(self, limit: int) -> list[Place]:
        """Return the oldest Events, all but the *limit* that were written last."""
        surplus = len(self._events) - limit
        return [place for place, _ in zip(self._events, range(surplus), strict=False)] if surplus > 0 else []


def _keys(table: _KindTable, namespace: str | None) -> Iterator[Key]:
    if namespace is None:
        return (Key(name, space) for space, name in table.order)
    start = bisect_left(table.order, (namespace, ""))
    end = bisect_left(table.order, (namespace + "\0", ""), start)
    return (Key(name, space) for space, name in table.order[start:end])


def owner_references(document: JsonObject) -> list[dict[str, Any]]:
    """Return ``metadata.ownerReferences`` of a stored object, whose shape has been checked."""
    references: list[dict[str, Any]] = document["metadata"].get("ownerReferences", [])
    return references


def owner_uids(document: JsonObject) -> set[str]:
    """Return the uid of every owner that an object names."""
    return {reference["uid"] for reference in owner_references(document)}
