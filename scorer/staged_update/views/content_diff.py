"""Content diff: the changes on a cluster that gets one resource snapshot in place of another.

Objects are compared field by field, those in envelopes too, each by itself. Nothing of a Secret is shown but that it
differs: neither values nor the names of its keys. That holds for one inside another object as well, as in a list, or in
a template that some controller makes Secrets of. What is shown is bounded; what is left out is counted.

Source: issue 16, item 5.
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
"""How many objects of one comparison are named."""
MOST_FIELDS: Final = 20
"""How many fields of one object are named."""
REDACTED: Final = "(redacted)"
_DEEPEST: Final = 64
"""Below this depth, two values are only compared as wholes."""
_SECRET: Final = ("", "Secret")
_SECRET_FIELDS: Final = ("data", "stringData")
_ABSENT: Final = object()


class ChangeKind(StrEnum):
    """What happens to an object."""

    ADDED = "Added"
    REMOVED = "Removed"
    CHANGED = "Changed"


class _ContentKey(NamedTuple):
    """Where an object stands: what identifies it, and the envelope that it is in."""

    group: str
    kind: str
    namespace: str
    name: str
    envelope: EnvelopeKey | None = None


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field that differs.

    Args:
        path: As kubectl writes it.
        before: Its value in short; empty: it is not there.
        after: Likewise.
    """

    path: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """One object that differs.

    Args:
        change: What happens to it.
        place: Which one it is.
        fields: Those that differ, in the order of their paths; none for an object that comes or goes.
        more: How many other fields differ.
    """

    change: ChangeKind
    place: _ContentKey
    fields: tuple[FieldChange, ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True)
class ContentDiff:
    """What differs between two contents.

    Args:
        objects: Those that differ: the ones that are added or changed in the order in which they are placed, then the
            ones that go.
        more: How many other objects differ.
    """

    objects: tuple[ObjectChange, ...] = ()
    more: int = 0

    def __bool__(self) -> bool:
        return bool(self.objects)


def content_diff(before: Iterable[JsonObject], after: Iterable[JsonObject]) -> ContentDiff:
    """Compare the objects of two resource snapshots."""
    old, new = dict(_opened(before)), dict(_opened(after))
    changes: list[ObjectChange] = []
    more = 0
    for change in _changes(old, new):
        if len(changes) < MOST_OBJECTS:
            changes.append(change)
        else:
            more += 1
    return ContentDiff(tuple(changes), more)


def _opened(
    objects: Iterable[JsonObject], envelope: EnvelopeKey | None = None
) -> Iterator[tuple[_ContentKey, JsonObject]]:
    """Yield objects with their places; for an envelope, the objects in it follow what else it says."""
    for content in objects:
        yield _place(content, envelope), _without_content(content) if is_envelope(content) else content
        if is_envelope(content):
            yield from _opened(_wrapped(content), EnvelopeKey.of(content))


def _wrapped(envelope: JsonObject) -> Iterator[JsonObject]:
    """Yield the objects in an envelope; an entry that is no object is never placed."""
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
        FieldChange(str(FieldPath.of(*path)), _shown(old), _shown(new))
        for path, old, new in _differences((), before, after)
    ]


def _shown(value: Any) -> str:
    if _is_nothing(value):
        return ""
    return REDACTED if _holds_secret(value) else quote(value)


def _holds_secret(value: Any, depth: int = 0) -> bool:
    """Say whether a Secret is part of a value; what is nested too deeply to be looked at may hold one."""
    if not isinstance(value, (Mapping, list)):
        return False
    if depth >= _DEEPEST or _is_secret(value):
        return True
    parts = value.values() if isinstance(value, Mapping) else value
    return any(_holds_secret(part, depth + 1) for part in parts)


def _is_secret(value: Any) -> bool:
    """Say whether a value is a Secret with content, and not only the name of one."""
    return isinstance(value, Mapping) and value.get("kind") == "Secret" and any(key in value for key in _SECRET_FIELDS)


def _is_nothing(value: Any) -> bool:
    return value is _ABSENT or value is None


_Path = tuple[str | int, ...]


def _differences(path: _Path, before: Any, after: Any) -> Iterator[tuple[_Path, Any, Any]]:
    """Yield the innermost fields that differ; null counts as absent."""
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
    """Compare two values as wholes; those that are nested too deeply for that count as different."""
    try:
        return bool(before == after)
    except RecursionError:
        return False
