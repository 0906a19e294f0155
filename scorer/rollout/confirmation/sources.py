"""The source on the hub of each object in a resource snapshot, and the snapshot's objects whose removal is pending.

A snapshot holds the selected objects, and the last content of objects whose removal is pending. Its annotation has one
entry per object, in the order of the objects.

Source: docs/specifications/removal.md 6.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

import orjson

from scorer.api.meta import JsonObject, dump_json, format_time, parse_time
from scorer.api.names import LEFT_OUT, SOURCES
from scorer.api.unstructured.documents import annotation, dict_at, with_metadata, with_spec
from scorer.rollout.object_size import ObjectIdentity, format_left_out, object_identity
from scorer.rollout.snapshots.groups import SnapshotGroup, selected_resources
from scorer.rollout.snapshots.resources import is_envelope

_LONGEST_RECORD: Final = 128 * 1024
"""Maximum size of the record of one snapshot in bytes, half of the limit for all annotations of an object."""
MOST_GROUPS: Final = 4
"""Maximum number of roll-ups recorded per object. A confirmation of an older roll-up does not count."""


@dataclass(frozen=True, slots=True)
class ObjectSource:
    """Source of an object in a snapshot.

    Args:
        uid: Uid of the object on the hub. Empty: unknown.
        since: When its removal became pending. None if it is selected.
        keys: For an envelope, the keys whose removal is pending, with the time at which it became pending.
        groups: Digests of the roll-ups, and of the Namespace, that included it when shown to users, the latest first.
    """

    uid: str = ""
    since: datetime | None = None
    keys: Mapping[str, datetime] = field(default_factory=dict)
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlacedObject:
    """An object that a placement places, unwrapped.

    Args:
        content: The object.
        uid: Uid of the object on the hub, or of the envelope that wraps it. Empty: unknown.
        envelope: The envelope that wraps it. None: unset.
        key: Its entry in that envelope.
        since: When its removal became pending. None if it is selected.
        groups: See `ObjectSource`.
    """

    content: JsonObject
    uid: str = ""
    envelope: ObjectIdentity | None = None
    key: str = ""
    since: datetime | None = None
    groups: tuple[str, ...] = ()


def format_sources(sources: Mapping[ObjectIdentity, ObjectSource], contents: Sequence[JsonObject]) -> str:
    """Return the annotation of a snapshot about its objects, in order.

    An API server limits its size. A record that is too long keeps only the latest roll-up of each object. If it is
    still too long, it keeps none, and the pending keys of an envelope share the earliest time.
    """
    object_sources = [sources.get(object_identity(content), ObjectSource()) for content in contents]
    for reduction in _REDUCTIONS:
        entries = [
            _format_entry(reduction(source), content) for source, content in zip(object_sources, contents, strict=True)
        ]
        text = dump_json(entries).decode()
        if len(text) <= _LONGEST_RECORD:
            break
    return text


def sources_of(snapshot: JsonObject) -> list[ObjectSource]:
    """Return the source of each object of one resource snapshot, all empty if the annotation does not match it."""
    contents = selected_resources(snapshot)
    try:
        entries = orjson.loads(annotation(snapshot, SOURCES) or "[]")
        return [_parse_entry(entry, content) for entry, content in zip(entries, contents, strict=True)]
    except (ValueError, TypeError, AttributeError, LookupError):
        return [ObjectSource()] * len(contents)


def _latest_group(source: ObjectSource) -> ObjectSource:
    return replace(source, groups=source.groups[:1])


def _coarse_source(source: ObjectSource) -> ObjectSource:
    first = min(source.keys.values(), default=None)
    return replace(source, groups=(), keys=dict.fromkeys(source.keys, first) if first else {})


def _format_entry(source: ObjectSource, content: JsonObject) -> Any:
    """Return the entry of an object: its uid, or a JSON object while its removal, or that of a key, is pending.

    The pending keys of an envelope are encoded per time, as ranges of positions in the order of the keys.
    """
    if source.since is None and not source.keys:
        return source.uid
    position = {key: at for at, (key, _) in enumerate(_entries(content))}
    by_time: dict[str, list[int]] = defaultdict(list)
    for key in source.keys.keys() & position.keys():  # an envelope that is too large keeps its earlier content
        by_time[format_time(source.keys[key])].append(position[key])
    entry = {
        "uid": source.uid,
        "since": source.since and format_time(source.since),
        "keys": {since: _ranges(sorted(positions)) for since, positions in sorted(by_time.items())},
        "groups": " ".join(source.groups),
    }
    return {name: value for name, value in entry.items() if value}


def _parse_entry(entry: Any, content: JsonObject) -> ObjectSource:
    if isinstance(entry, str):
        return ObjectSource(entry)
    since, names = entry.get("since"), [key for key, _ in _entries(content)]
    keys = {
        names[at]: parse_time(time)
        for time, ranges in (entry.get("keys") or {}).items()
        for first, last in ((part.split("-")[0], part.split("-")[-1]) for part in ranges.split(","))
        for at in range(int(first), int(last) + 1)
    }
    groups = tuple(str(entry.get("groups") or "").split())
    return ObjectSource(str(entry.get("uid") or ""), parse_time(since) if since else None, keys, groups)


def _ranges(positions: Sequence[int]) -> str:
    """Return ascending positions as ``0-4,7``."""
    starts = [at for at in range(len(positions)) if at == 0 or positions[at] != positions[at - 1] + 1]
    runs = [positions[start:end] for start, end in zip(starts, [*starts[1:], len(positions)], strict=True)]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


_REDUCTIONS: Final[tuple[Callable[[ObjectSource], ObjectSource], ...]] = (
    lambda source: source,
    _latest_group,
    _coarse_source,
)


def placed_objects(group: SnapshotGroup) -> dict[ObjectIdentity, PlacedObject]:
    """Return the objects that a snapshot group places, unwrapped, by identity."""
    contents = [content for document in group.documents for content in selected_resources(document)]
    sources = [source for document in group.documents for source in sources_of(document)]
    return unwrapped_objects(contents, sources)


def unwrapped_objects(
    contents: Sequence[JsonObject], sources: Iterable[ObjectSource]
) -> dict[ObjectIdentity, PlacedObject]:
    """Return objects by identity, those in envelopes unwrapped."""
    placed_by_identity: dict[ObjectIdentity, PlacedObject] = {}
    for content, source in zip(contents, sources, strict=True):
        identity = object_identity(content)
        if not is_envelope(content):
            placed_by_identity[identity] = PlacedObject(content, source.uid, since=source.since, groups=source.groups)
            continue
        for key, wrapped in _entries(content):
            since = source.keys.get(key)
            placed_by_identity[object_identity(wrapped)] = PlacedObject(
                wrapped, source.uid, identity, key, since, source.groups if since else ()
            )
    return placed_by_identity


def _entries(envelope: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    data = envelope.get("data")
    for key, content in sorted(data.items() if isinstance(data, dict) else ()):
        if isinstance(content, dict):
            yield str(key), content


def has_pending(group: SnapshotGroup) -> bool:
    """Return whether a group holds objects whose removal is pending. Only their entries are JSON objects."""
    return any("{" in annotation(document, SOURCES) for document in group.documents)


def selected_objects(group: SnapshotGroup) -> Iterator[JsonObject]:
    """Yield the objects of a group that were selected, envelopes wrapped, without those whose removal is pending."""
    for document in group.documents:
        for content, source in zip(selected_resources(document), sources_of(document), strict=True):
            if source.keys:
                remaining = {key: value for key, value in dict_at(content, "data").items() if key not in source.keys}
                if remaining:
                    yield {**content, "data": remaining}
            elif source.since is None:
                yield content


def placeable_group(group: SnapshotGroup, created: datetime | None) -> SnapshotGroup:
    """Return a snapshot group as a cluster gets it: without objects that were pending before its binding was created.

    The omitted objects count as left out. Works that already hold them, such as those of a lost binding, keep them.
    Pending keys remain in an envelope that is still selected.

    Args:
        group: A complete snapshot group.
        created: When the binding was created. None: unknown.
    """
    if created is None or not has_pending(group):
        return group
    omitted: set[ObjectIdentity] = set()
    documents = []
    for document in group.documents:
        pairs = list(zip(selected_resources(document), sources_of(document), strict=True))
        pending = {object_identity(content) for content, source in pairs if source.since and source.since < created}
        omitted |= pending
        contents = [content for content, _ in pairs if object_identity(content) not in pending]
        documents.append(with_spec(document, selectedResources=contents) if pending else document)
    if not omitted:
        return group
    left_out = format_left_out((), group.left_out() | omitted)
    master = with_metadata(documents[0], annotations={LEFT_OUT: left_out})
    return SnapshotGroup(group.index, master, tuple(documents[1:]))


def with_pending(
    selected: Sequence[JsonObject],
    sources: Mapping[ObjectIdentity, ObjectSource],
    pending: Mapping[ObjectIdentity, PlacedObject],
    placed_envelopes: Mapping[ObjectIdentity, JsonObject],
) -> tuple[list[JsonObject], dict[ObjectIdentity, ObjectSource]]:
    """Return the objects to place, in any order, and their sources: the selected and the pending objects.

    A pending key of an envelope remains in it. An envelope that is no longer selected has only its pending keys.

    Args:
        selected: The selected objects.
        sources: Sources of the selected objects.
        pending: The objects whose removal is pending, each with ``since``.
        placed_envelopes: The envelopes as they were placed last.
    """
    contents = {object_identity(content): content for content in selected}
    all_sources = dict(sources)
    for identity, placed in sorted(pending.items()):
        if placed.envelope is None:
            contents[identity] = placed.content
            all_sources[identity] = ObjectSource(placed.uid, placed.since, groups=placed.groups)
            continue
        envelope = contents.get(placed.envelope) or {**placed_envelopes[placed.envelope], "data": {}}
        key = _free_key(envelope["data"], placed.key)
        contents[placed.envelope] = {**envelope, "data": {**envelope["data"], key: placed.content}}
        source = all_sources.get(placed.envelope) or ObjectSource(placed.uid)
        assert placed.since is not None
        all_sources[placed.envelope] = replace(source, keys={**source.keys, key: placed.since}, groups=placed.groups)
    return list(contents.values()), all_sources


def _free_key(data: Mapping[str, Any], key: str) -> str:
    number, free = 1, key
    while free in data:
        number, free = number + 1, f"{key}-{number}"
    return free
