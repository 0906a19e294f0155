"""A transaction of the embedded store: one write with its consequences, stored as a whole or not at all.

Consequences: dependents are deleted with their last owner, or before an owner that is deleted in the foreground, as by
the garbage collector of Kubernetes (``pkg/controller/garbagecollector``). A namespace or definition that is being
deleted is removed after its content. The oldest Events are deleted to make room for new ones.
"""

from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime

import orjson

from scorer.api.kinds import NAMESPACE
from scorer.api.meta import JsonObject, dump_json
from scorer.api.unstructured.documents import labels_of
from webhook.embedded.storage import lifecycle
from webhook.embedded.storage.journal import KindId, Row
from webhook.embedded.storage.kinds import DEFINITION, StoredKinds
from webhook.embedded.storage.lifecycle import Propagation
from webhook.embedded.storage.object_table import ObjectIndex, Place, owner_references, owner_uids
from webhook.embedded.storage.watcher import StoreEvent
from webhook.kube.ports import EventType, Key, key_of


class WriteTransaction:
    """A write in progress, already applied to memory, but not in the journal yet.

    Args:
        table: Changed as the write proceeds. `undo` reverts all changes.
        kinds: Changed as definitions are written. `undo` reverts all changes.
        version: The newest resource version before the write.
        now: The clock.
        most_events: Maximum number of Events.
    """

    def __init__(
        self, table: ObjectIndex, kinds: StoredKinds, version: int, now: Callable[[], datetime], most_events: int
    ) -> None:
        self._table = table
        self._kinds = kinds
        self._version = version
        self._now = now
        self._most_events = most_events
        self._before: list[tuple[Place, JsonObject | None]] = []
        self._suspects: deque[Place] = deque()
        self.rows: list[Row] = []
        self.changes: list[StoreEvent] = []

    def put(self, kind: KindId, document: JsonObject, *, is_shared: bool = False) -> JsonObject:
        """Store the new state of an object and return it. Delete an object that was only waiting for its finalizers.

        Args:
            kind: Group and kind.
            document: The new state, except for the resource version.
            is_shared: Whether *document* needs no copy, because no caller can mutate any part of it.
        """
        place = kind, key_of(document)
        if self._is_released(place, document):
            return self._record(place, document, EventType.DELETED, is_shared=is_shared)
        if owner_references(document):
            self._suspects.append(place)
        return self._record(place, document, EventType.MODIFIED, is_shared=is_shared)

    def delete(self, kind: KindId, current: JsonObject, propagation: Propagation | None = None) -> None:
        """Delete the object and its content. Mark the object as being deleted while finalizers or content keep it.

        Args:
            kind: Group and kind.
            current: The stored object.
            propagation: Policy for its dependents. None means that of its finalizers.
        """
        place, uid = (kind, key_of(current)), current["metadata"]["uid"]
        propagation = propagation or lifecycle.propagation_of(current)
        if propagation is Propagation.ORPHAN:
            self._release_dependents(uid)
        waits = propagation is Propagation.FOREGROUND and self._is_blocked(uid)
        document = lifecycle.held_for_dependents(current, held=waits)
        if not document["metadata"].get("finalizers") and not self._has_content(place):
            self._record(place, document, EventType.DELETED)
            return
        if "deletionTimestamp" not in document["metadata"]:
            self._record(place, lifecycle.deleting(document, self._now()), EventType.MODIFIED)
        elif document is not current:
            self._record(place, document, EventType.MODIFIED)
        if waits and not lifecycle.waits_for_dependents(current):
            self._suspects.extend(self._table.dependents_of(uid))
        for content_place in tuple(self._content(place)):
            if content := self._table.get(*content_place):
                self.delete(content_place[0], content)

    def settle(self) -> None:
        """Process the consequences until none are left."""
        while True:
            while self._suspects:
                self._look_at(self._suspects.popleft())
            surplus = self._table.surplus_events(self._most_events)
            if not surplus:
                return
            for place in surplus:
                if document := self._table.get(*place):
                    self._record(place, document, EventType.DELETED)

    def undo(self) -> None:
        """Restore the previous state in memory."""
        for (kind, key), document in reversed(self._before):
            if document is not None:
                self._table.store(kind, key, document)
            elif self._table.get(kind, key):
                self._table.remove(kind, key)
            if kind == DEFINITION:
                self._learn(key, document)

    def _look_at(self, place: Place) -> None:
        document = self._table.get(*place)
        if document is None:
            return
        if lifecycle.waits_for_dependents(document) and not self._is_blocked(document["metadata"]["uid"]):
            released = lifecycle.held_for_dependents(document, held=False)
            document = self._record(place, released, EventType.MODIFIED)
        if self._is_released(place, document):
            self._record(place, document, EventType.DELETED)
            return
        owners = owner_uids(document)
        alive = {uid for uid in owners if self._is_alive(uid, place[1].namespace)}
        solid = {uid for uid in alive if not self._waits(uid)}
        if owners and not solid:
            self.delete(place[0], document, self._propagation(document) if alive else None)
        elif solid != owners:
            self._record(place, lifecycle.without_owners(document, solid), EventType.MODIFIED)

    def _propagation(self, document: JsonObject) -> Propagation | None:
        """Return the deletion policy for a dependent of an owner that waits for the deletion of its dependents.

        It is Foreground if the dependent has dependents of its own, unless owners form a cycle. Otherwise, it is None.
        """
        dependents = self._table.dependents_of(document["metadata"]["uid"])
        in_circle = any(lifecycle.waits_for_dependents(self._table.get(*place) or document) for place in dependents)
        return Propagation.FOREGROUND if dependents and not in_circle else None

    def _release_dependents(self, uid: str) -> None:
        """Remove an owner from all its dependents, which therefore remain."""
        for place in self._table.dependents_of(uid):
            if dependent := self._table.get(*place):
                others = owner_uids(dependent) - {uid}
                self._record(place, lifecycle.without_owners(dependent, others), EventType.MODIFIED)

    def _waits(self, uid: str) -> bool:
        """Return whether an owner waits for the deletion of its dependents."""
        place = self._table.place_of(uid)
        document = self._table.get(*place) if place else None
        return document is not None and lifecycle.waits_for_dependents(document)

    def _waiting_owners(self, document: JsonObject) -> Iterator[Place]:
        for uid in owner_uids(document):
            if self._waits(uid) and (place := self._table.place_of(uid)):
                yield place

    def _is_blocked(self, uid: str) -> bool:
        """Return whether an owner has a dependent that must be deleted before it."""
        dependents = (self._table.get(*place) for place in self._table.dependents_of(uid))
        return any(
            reference["uid"] == uid and reference.get("blockOwnerDeletion") is True
            for dependent in dependents
            if dependent is not None
            for reference in owner_references(dependent)
        )

    def _is_alive(self, uid: str, namespace: str) -> bool:
        """Return whether an owner exists. An object in another namespace cannot be an owner."""
        place = self._table.place_of(uid)
        return place is not None and place[1].namespace in ("", namespace)

    def _is_released(self, place: Place, document: JsonObject) -> bool:
        metadata = document["metadata"]
        return "deletionTimestamp" in metadata and not metadata.get("finalizers") and not self._has_content(place)

    def _content(self, place: Place) -> Iterator[Place]:
        kind, key = place
        if kind == NAMESPACE.group_kind:
            yield from self._table.in_namespace(key.name)
        elif kind == DEFINITION and (defined_kind := self._kinds.defined_by(key.name)):
            yield from self._table.of_kind(defined_kind.group_kind)

    def _has_content(self, place: Place) -> bool:
        return next(self._content(place), None) is not None

    def _record(self, place: Place, document: JsonObject, event: EventType, *, is_shared: bool = True) -> JsonObject:
        kind, key = place
        old = self._table.get(kind, key)
        if old is None:
            event = EventType.ADDED
        self._version += 1
        document = document | {"metadata": document["metadata"] | {"resourceVersion": str(self._version)}}
        body = dump_json(document)
        if not is_shared:
            document = orjson.loads(body)
        self._before.append((place, old))
        if event is EventType.DELETED:
            self._table.remove(kind, key)
            self._suspects.extend(self._affected_by_removal(place, document))
        else:
            self._table.store(kind, key, document)
            if old is not None and owner_references(old) != owner_references(document):
                self._suspects.extend(self._waiting_owners(old))  # the new state may no longer block them
        if kind == DEFINITION:
            self._learn(key, None if event is EventType.DELETED else document)
        labels, old_labels = labels_of(document), labels_of(old or document)
        changed = None if labels == old_labels else dump_json(old_labels)
        replaced_version = int(old["metadata"]["resourceVersion"]) if old else 0
        self.rows.append(Row(self._version, event, kind, key, body, changed, replaced_version))
        self.changes.append(StoreEvent(self._version, event, document, old_labels))
        return document

    def _affected_by_removal(self, place: Place, document: JsonObject) -> Iterator[Place]:
        kind, key = place
        yield from self._table.dependents_of(document["metadata"]["uid"])
        yield from self._waiting_owners(document)
        if key.namespace:
            yield NAMESPACE.group_kind, Key(key.namespace)
        if custom := self._kinds.custom.get(kind):
            yield DEFINITION, Key(custom.resource)

    def _learn(self, key: Key, definition: JsonObject | None) -> None:
        if definition is None:
            self._kinds.forget(key.name)
        else:
            self._kinds.define(definition)
