"""The values of a Secret that may be shown: its identity and its type.

Its data is not the only place of its values: programs that apply objects keep copies of the whole object in
annotations, such as ``kapp.k14s.io/original``. So the annotations of an object that holds Secrets are hidden as well.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from scorer.api.kinds import group_kind
from scorer.api.unstructured.documents import dict_at
from scorer.api.unstructured.json_object import JsonObject

SECRET: Final = ("", "Secret")
HIDDEN: Final = "***"
_SECRETS: Final = frozenset({SECRET, ("", "SecretList")})
_SHOWN: Final = frozenset({"apiVersion", "kind", "type", "immutable"})
_SHOWN_METADATA: Final = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"}
)
"""Members of ``metadata`` that an override's patch cannot fill with a user's value."""


def is_shown(path: Sequence[str | int]) -> bool:
    """Return whether the value at *path* of a Secret may be shown."""
    if path[0] == "metadata":
        return len(path) > 1 and path[1] in _SHOWN_METADATA
    return path[0] in _SHOWN


def hidden(before: JsonObject, after: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Return two states of an object with the values of Secrets hidden, including those of Secrets within it.

    A Work, a snapshot and an envelope hold whole objects. A value that differs is marked as such on both sides.
    """
    return _hide(before, after), _hide(after, before, " (after)")


def _hide(value: Any, other: Any, note: str = " (before)") -> Any:
    """Return *value* with Secrets hidden, compared with *other*, the value at the same place on the other side."""
    if isinstance(value, list):
        items = other if isinstance(other, list) else []
        padded = [*items, *[None] * (len(value) - len(items))]
        return [_hide(item, other_item, note) for item, other_item in zip(value, padded, strict=False)]
    if not isinstance(value, Mapping):
        return value
    other_members = other if isinstance(other, Mapping) else {}
    if group_kind(value) in _SECRETS:
        return {name: _mask(item, other_members.get(name), (name,), note) for name, item in value.items()}
    masked = {name: _hide(item, other_members.get(name), note) for name, item in value.items()}
    metadata = masked.get("metadata")
    if not isinstance(metadata, Mapping) or not (holds_secret(value) or holds_secret(other_members)):
        return masked
    copies = _mask(
        metadata.get("annotations"), dict_at(other_members, "metadata", "annotations"), ("annotations",), note
    )
    return masked | {"metadata": {**metadata} | ({"annotations": copies} if copies is not None else {})}


def holds_secret(value: Any) -> bool:
    """Return whether a value is or contains a Secret."""
    if isinstance(value, list):
        return any(map(holds_secret, value))
    return isinstance(value, Mapping) and (group_kind(value) in _SECRETS or any(map(holds_secret, value.values())))


def _mask(value: Any, other: Any, path: tuple[str | int, ...], note: str) -> Any:
    if is_shown(path):
        return value
    if isinstance(value, Mapping):
        other_members = other if isinstance(other, Mapping) else {}
        return {name: _mask(item, other_members.get(name), (*path, name), note) for name, item in value.items()}
    if value is None or value in ("", []):
        return value
    return HIDDEN + (note if other is not None and other != value else "")
