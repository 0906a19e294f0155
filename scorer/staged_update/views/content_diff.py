"""Content diff: the changes on a cluster when one resource snapshot replaces another.

Objects are compared field by field, including each object in an envelope. For a Secret, only the differing top-level
members are listed, such as ``data``, without keys or values. A Secret nested in another object, such as a list or the
template of a custom resource, is redacted as a whole. Output is bounded, and omitted entries are counted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from scorer.api.kinds import group_kind
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dict_at, name_of, namespace_of
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import quote
from scorer.rollout.envelopes import EnvelopeKey
from scorer.rollout.snapshots.resources import is_envelope

MOST_OBJECTS: Final = 100
"""Maximum number of objects of one comparison that are listed."""
MOST_FIELDS: Final = 20
"""Maximum number of fields of one object that are listed."""
REDACTED: Final = "(redacted)"
_DEEPEST: Final = 64
"""Depth beyond which two values are only compared as wholes."""
_SECRET: Final = ("", "Secret")
_SECRET_FIELDS: Final = ("data", "stringData")
_ABSENT: Final = object()


class ChangeKind(StrEnum):
    """Kind of change of an object."""

    ADDED = "Added"
    REMOVED = "Removed"
    CHANGED = "Changed"


class _ContentKey(NamedTuple):
    """Identity of an object, and the envelope that contains it."""

    group: str
    kind: str
    namespace: str
    name: str
    envelope: EnvelopeKey | None = None


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field that differs.

    Args:
        path: Path in kubectl notation.
        before: Abbreviated value, empty if missing.
        after: Likewise.
    """

    path: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """One object that differs.

    Args:
        change: Kind of change.
        place: Identity of the object.
        fields: Differing fields by path, empty for an added or removed object.
        more: Number of further differing fields.
    """

    change: ChangeKind
    place: _ContentKey
    fields: tuple[FieldChange, ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True)
class ContentDiff:
    """Differences between two contents.

    Args:
        objects: Differing objects: added and changed ones in the order of the new content, then removed ones.
        more: Number of further differing objects.
    """

    objects: tuple[ObjectChange, ...] = ()
    more: int = 0

    def __bool__(self) -> bool:
        return bool(self.objects)


def content_diff(before: Iterable[JsonObject], after: Iterable[JsonObject]) -> ContentDiff:
    """Compare the objects of two resource snapshots."""
    old, new = dict(_open_envelope(before)), dict(_open_envelope(after))
    changes: list[ObjectChange] = []
    more = 0
    for change in _changes(old, new):
        if len(changes) < MOST_OBJECTS:
            changes.append(change)
        else:
            more += 1
    return ContentDiff(tuple(changes), more)


def _open_envelope(
    objects: Iterable[JsonObject], envelope: EnvelopeKey | None = None
) -> Iterator[tuple[_ContentKey, JsonObject]]:
    """Yield objects with their identities. An envelope is followed by the objects in it."""
    for content in objects:
        yield _place(content, envelope), _without_content(content) if is_envelope(content) else content
        if is_envelope(content):
            yield from _open_envelope(_wrapped_objects(content), EnvelopeKey.of(content))


def _wrapped_objects(envelope: JsonObject) -> Iterator[JsonObject]:
    """Yield the objects in an envelope. Entries that are not objects are never placed."""
    for _, content in sorted(dict_at(envelope, "data").items()):
        if isinstance(content, dict):
            yield content


def _without_content(envelope: JsonObject) -> JsonObject:
    return {key: value for key, value in envelope.items() if key != "data"}


def _place(content: JsonObject, envelope: EnvelopeKey | None) -> _ContentKey:
    return _ContentKey(*group_kind(content), namespace_of(content), name_of(content), envelope)


def _changes(old: Mapping[_ContentKey, JsonObject], new: Mapping[_ContentKey, JsonObject]) -> Iterator[ObjectChange]:
    for place, content in new.items():
        if place not in old:
            yield ObjectChange(ChangeKind.ADDED, place)
        elif fields := _fields(place, old[place], content):
            yield ObjectChange(
                ChangeKind.CHANGED, place, tuple(fields[:MOST_FIELDS]), max(0, len(fields) - MOST_FIELDS)
            )
    for place in old:
        if place not in new:
            yield ObjectChange(ChangeKind.REMOVED, place)


def _fields(place: _ContentKey, before: JsonObject, after: JsonObject) -> Sequence[FieldChange]:
    if (place.group, place.kind) == _SECRET:
        names = sorted({path[0] for path, _, _ in _differences((), before, after)})
        return [FieldChange(str(FieldPath.of(name)), REDACTED, REDACTED) for name in names]
    return [
        FieldChange(str(FieldPath.of(*path)), _format_value(old), _format_value(new))
        for path, old, new in _differences((), before, after)
    ]


def _format_value(value: Any) -> str:
    if _is_nothing(value):
        return ""
    return REDACTED if _holds_secret(value) else quote(value)


def _holds_secret(value: Any, depth: int = 0) -> bool:
    """Return whether a value contains a Secret. Values nested too deeply to inspect count as containing one."""
    if not isinstance(value, (Mapping, list)):
        return False
    if depth >= _DEEPEST or _is_secret(value):
        return True
    parts = value.values() if isinstance(value, Mapping) else value
    return any(_holds_secret(part, depth + 1) for part in parts)


def _is_secret(value: Any) -> bool:
    """Return whether a value is a Secret with content, and not only a reference to one."""
    return isinstance(value, Mapping) and value.get("kind") == "Secret" and any(key in value for key in _SECRET_FIELDS)


def _is_nothing(value: Any) -> bool:
    return value is _ABSENT or value is None


_Path = tuple[str | int, ...]


def _differences(path: _Path, before: Any, after: Any) -> Iterator[tuple[_Path, Any, Any]]:
    """Yield the innermost fields that differ. Null counts as absent."""
    deep = len(path) >= _DEEPEST
    if path and (_is_secret(before) or _is_secret(after)):
        if not _is_equal(before, after):
            yield path, before, after
    elif isinstance(before, Mapping) and isinstance(after, Mapping) and not deep:
        for name in sorted({*before, *after}):
            yield from _differences((*path, name), before.get(name, _ABSENT), after.get(name, _ABSENT))
    elif isinstance(before, list) and isinstance(after, list) and not deep:
        for index in range(max(len(before), len(after))):
            old, new = (part[index] if index < len(part) else _ABSENT for part in (before, after))
            yield from _differences((*path, index), old, new)
    elif _is_nothing(before) and _is_nothing(after):
        return
    elif isinstance(before, bool) != isinstance(after, bool) or not _is_equal(before, after):
        yield path, before, after


def _is_equal(before: Any, after: Any) -> bool:
    """Compare two values as wholes. Values nested too deeply for that count as different."""
    try:
        return bool(before == after)
    except RecursionError:
        return False
