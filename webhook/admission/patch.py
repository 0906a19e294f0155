"""JSON Patch (RFC 6902): the difference between two documents. Applying one: `scorer.api.unstructured.json_patch`.

The difference uses ``add``, ``remove`` and ``replace`` only, sorted by path. Values that both documents share, as the
same object in memory, are skipped.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

from scorer.api.meta import JsonObject, json_equal
from scorer.api.unstructured.json_patch import PatchError, apply_patch
from scorer.api.values.answer import JsonValue
from scorer.api.values.field_path import json_pointer

__all__ = ["Patch", "PatchError", "apply_patch", "difference"]

_ABSENT: Final = object()


class PatchOperation(TypedDict):
    """One operation of a JSON Patch (RFC 6902)."""

    op: Literal["add", "remove", "replace"]
    path: str
    """JSON Pointer."""
    value: NotRequired[JsonValue]


Patch: TypeAlias = tuple[PatchOperation, ...]


def difference(old: JsonObject, new: JsonObject) -> Patch:
    """Return the operations that turn *old* into *new*, parents before children, sorted by path.

    A field whose old value is null is added, not replaced: on the wire, null means absent.
    """
    return tuple(_changes(old, new, ()))


def _changes(old: Any, new: Any, path: tuple[str | int, ...]) -> Iterator[PatchOperation]:
    if old is new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if old.get(key, _ABSENT) is not new.get(key, _ABSENT):
                yield from _member_changes(old, new, key, (*path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (before, after) in enumerate(zip(old, new, strict=True)):
            if before is not after:
                yield from _changes(before, after, (*path, i))
    elif not json_equal(old, new):
        yield {"op": "replace", "path": json_pointer(path), "value": new}


def _member_changes(
    old: Mapping[str, Any], new: Mapping[str, Any], key: str, path: tuple[str | int, ...]
) -> Iterator[PatchOperation]:
    if key not in new:
        yield {"op": "remove", "path": json_pointer(path)}
    elif key not in old or (old[key] is None and new[key] is not None):
        yield {"op": "add", "path": json_pointer(path), "value": new[key]}
    else:
        yield from _changes(old[key], new[key], path)
