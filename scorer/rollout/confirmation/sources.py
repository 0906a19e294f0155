"""The hub object behind each object of a resource snapshot, and the objects that wait there for confirmation.

A snapshot holds what is selected, plus the last content of objects whose removal is pending. Its annotation has one
entry for each of its objects, in order.

Source: docs/specifications/removal.md 6.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

import orjson

from scorer.api.meta import JsonObject, format_time, parse_time
from scorer.api.names import LEFT_OUT, SOURCES
from scorer.api.unstructured.documents import annotation, with_metadata, with_spec
from scorer.rollout.object_size import ObjectIdentity, format_left_out, object_identity
from scorer.rollout.snapshots.groups import SnapshotGroup, selected_resources
from scorer.rollout.snapshots.resources import is_envelope

MOST_GROUPS: Final = 4
"""How many roll-ups of an object are remembered: so many earlier confirmations of it still count."""


@dataclass(frozen=True, slots=True)
class ObjectSource:
    """Where an object of a snapshot comes from.

    Args:
        uid: Of the object on the hub. Empty: unknown.
        since: When its removal became pending. None: unset, it is selected.
        keys: Of an envelope: the entries whose removal is pending, and since when.
        groups: Digests of the roll-ups, and of the Namespace, that it was shown in, the latest first.
    """

    uid: str = ""
    since: datetime | None = None
    keys: Mapping[str, datetime] = field(default_factory=dict)
    groups: tuple[str, ...] = ()

    def encoded(self) -> Any:
        """Return the entry of the annotation."""
        if self.since is None and not self.keys:
            return self.uid
        keys = {key: format_time(since) for key, since in sorted(self.keys.items())}
        entry = {
            "uid": self.uid,
            "since": self.since and format_time(self.since),
            "keys": keys,
            "groups": list(self.groups),
        }
        return {name: value for name, value in entry.items() if value}

    @classmethod
    def decode(cls, entry: Any) -> "ObjectSource":
        """Read an entry of the annotation.

        Raises:
            ValueError, TypeError, AttributeError: Another client wrote it, and it cannot be read.
        """
        if isinstance(entry, str):
            return cls(entry)
        since = entry.get("since")
        keys = {str(key): parse_time(text) for key, text in (entry.get("keys") or {}).items()}
        groups = tuple(map(str, entry.get("groups") or ()))
        return cls(str(entry.get("uid") or ""), parse_time(since) if since else None, keys, groups)


@dataclass(frozen=True, slots=True)
class PlacedObject:
    """An object that a placement places, unwrapped.

    Args:
        content: The object.
        uid: Of the object on the hub, or of the envelope that wraps it. Empty: unknown.
        envelope: The envelope that wraps it. None: unset.
        key: Its entry in that envelope.
        since: When its removal became pending. None: unset, it is selected.
        groups: See `ObjectSource`.
    """

    content: JsonObject
    uid: str = ""
    envelope: ObjectIdentity | None = None
    key: str = ""
    since: datetime | None = None
    groups: tuple[str, ...] = ()


def sources_of(snapshot: JsonObject) -> list[ObjectSource]:
    """Return the source of each object of one resource snapshot. If the annotation does not fit it, all are blank."""
    count = len(selected_resources(snapshot))
    try:
        entries = orjson.loads(annotation(snapshot, SOURCES) or "[]")
        sources = [ObjectSource.decode(entry) for entry in entries]
    except (ValueError, TypeError, AttributeError):
        sources = []
    return sources if len(sources) == count else [ObjectSource()] * count


def placed_objects(group: SnapshotGroup) -> dict[ObjectIdentity, PlacedObject]:
    """Return what a snapshot group places, unwrapped, by identity."""
    contents = [content for document in group.documents for content in selected_resources(document)]
    sources = [source for document in group.documents for source in sources_of(document)]
    return unwrapped(contents, sources)


def unwrapped(contents: Sequence[JsonObject], sources: Iterable[ObjectSource]) -> dict[ObjectIdentity, PlacedObject]:
    """Return objects by identity, those in envelopes unwrapped."""
    found: dict[ObjectIdentity, PlacedObject] = {}
    for content, source in zip(contents, sources, strict=True):
        identity = object_identity(content)
        if not is_envelope(content):
            found[identity] = PlacedObject(content, source.uid, since=source.since, groups=source.groups)
            continue
        for key, wrapped in _entries(content):
            since = source.keys.get(key)
            found[object_identity(wrapped)] = PlacedObject(
                wrapped, source.uid, identity, key, since, source.groups if since else ()
            )
    return found


def _entries(envelope: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    data = envelope.get("data")
    for key, content in sorted(data.items() if isinstance(data, dict) else ()):
        if isinstance(content, dict):
            yield str(key), content


def placeable_group(group: SnapshotGroup, created: datetime | None) -> SnapshotGroup:
    """Return a snapshot group as a cluster gets it: without objects that were pending before its binding was created.

    Those count as left out: Works that hold them, as those of a binding that was lost, keep them.

    Args:
        group: A complete snapshot group.
        created: When the binding was created. None: unknown.
    """
    if created is None or not any("{" in annotation(document, SOURCES) for document in group.documents):
        return group  # nothing is pending: each entry is a uid
    absent: set[ObjectIdentity] = set()
    documents = []
    for document in group.documents:
        pairs = list(zip(selected_resources(document), sources_of(document), strict=True))
        later = [content for content, source in pairs if source.since is not None and source.since < created]
        absent.update(map(object_identity, later))
        contents = [content for content, _ in pairs if content not in later] if later else None
        documents.append(with_spec(document, selectedResources=contents) if contents is not None else document)
    if not absent:
        return group
    left_out = format_left_out((), group.left_out() | absent)
    master = with_metadata(documents[0], annotations={LEFT_OUT: left_out})
    return SnapshotGroup(group.index, master, tuple(documents[1:]))


def with_pending(
    selected: Sequence[JsonObject],
    sources: Mapping[ObjectIdentity, ObjectSource],
    pending: Mapping[ObjectIdentity, PlacedObject],
    earlier: Mapping[ObjectIdentity, JsonObject],
) -> tuple[list[JsonObject], dict[ObjectIdentity, ObjectSource]]:
    """Return the objects to place, in any order, and their sources: what is selected, and what is pending.

    A pending entry of an envelope stays in it. Of an envelope that is no longer selected, only those entries remain.

    Args:
        selected: The selected objects.
        sources: Of the selected objects.
        pending: The objects whose removal is pending, each with ``since``.
        earlier: The envelopes as they were placed last.
    """
    contents = {object_identity(content): content for content in selected}
    found = dict(sources)
    for identity, placed in sorted(pending.items()):
        if placed.envelope is None:
            contents[identity] = placed.content
            found[identity] = ObjectSource(placed.uid, placed.since, groups=placed.groups)
            continue
        envelope = contents.get(placed.envelope) or {**earlier[placed.envelope], "data": {}}
        key = _free_key(envelope["data"], placed.key)
        contents[placed.envelope] = {**envelope, "data": {**envelope["data"], key: placed.content}}
        source = found.get(placed.envelope) or ObjectSource(placed.uid)
        assert placed.since is not None
        found[placed.envelope] = replace(source, keys={**source.keys, key: placed.since}, groups=placed.groups)
    return list(contents.values()), found


def _free_key(data: Mapping[str, Any], key: str) -> str:
    number, free = 1, key
    while free in data:
        number, free = number + 1, f"{key}-{number}"
    return free
