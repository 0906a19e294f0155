"""JSON Patch (RFC 6902): the difference between two documents, and applying it.

The difference uses ``add``, ``remove`` and ``replace`` only, sorted by path, and is as small as the copies
that differ: what two documents share is not looked at.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from scorer.api.field_path import json_pointer
from scorer.api.meta import JsonObject
from webhook.validation.reading import same_json

Patch: TypeAlias = tuple[JsonObject, ...]


class PatchError(ValueError):
    """A patch does not fit the document."""


def difference(old: JsonObject, new: JsonObject) -> Patch:
    """Return the operations that make *new* of *old*, parents before children, sorted by path.

    A member whose old value is null is added, not replaced: null is how absence looks on the wire.
    """
    return tuple(_changes(old, new, ()))


def _changes(old: Any, new: Any, path: tuple[str | int, ...]) -> Iterator[JsonObject]:
    if old is new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _member_changes(old, new, key, (*path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _changes(before, after, (*path, i))
    elif not same_json(old, new):
        yield {"op": "replace", "path": json_pointer(path), "value": new}


def _member_changes(
    old: Mapping[str, Any], new: Mapping[str, Any], key: str, path: tuple[str | int, ...]
) -> Iterator[JsonObject]:
    if key not in new:
        yield {"op": "remove", "path": json_pointer(path)}
    elif key not in old or (old[key] is None and new[key] is not None):
        yield {"op": "add", "path": json_pointer(path), "value": new[key]}
    else:
        yield from _changes(old[key], new[key], path)


def apply_patch(document: JsonObject, patch: Iterable[Mapping[str, Any]]) -> JsonObject:
    """Return *document* after *patch*; the document itself is not changed.

    Knows ``add``, ``remove`` and ``replace``.

    Raises:
        PatchError: An operation is unknown, or its path does not exist.
    """
    result: Any = document
    for operation in patch:
        result = _applied(result, _segments(operation.get("path")), operation)
    if not isinstance(result, dict):
        raise PatchError("the patch leaves no object")
    return result


def _segments(pointer: object) -> list[str]:
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise PatchError(f"{pointer!r} is not a JSON Pointer")
    return [segment.replace("~1", "/").replace("~0", "~") for segment in pointer.split("/")[1:]]


def _applied(value: Any, segments: list[str], operation: Mapping[str, Any]) -> Any:
    op = operation.get("op")
    if op not in {"add", "remove", "replace"}:
        raise PatchError(f"operation {op!r} is none of add, remove, replace")
    if not segments:
        if op == "remove":
            raise PatchError("the whole document cannot be removed")
        return operation["value"]
    head, *rest = segments
    if isinstance(value, dict):
        return _applied_to_object(value, head, rest, operation)
    if isinstance(value, list):
        return _applied_to_list(value, head, rest, operation)
    raise PatchError(f"path {operation['path']!r} does not exist")


def _applied_to_object(value: JsonObject, key: str, rest: list[str], operation: Mapping[str, Any]) -> JsonObject:
    if key not in value and (rest or operation["op"] != "add"):
        raise PatchError(f"path {operation['path']!r} does not exist")
    if rest:
        return {**value, key: _applied(value[key], rest, operation)}
    if operation["op"] == "remove":
        return {name: item for name, item in value.items() if name != key}
    return {**value, key: operation["value"]}


def _applied_to_list(value: list[Any], segment: str, rest: list[str], operation: Mapping[str, Any]) -> list[Any]:
    adds = operation["op"] == "add" and not rest
    if segment == "-" and adds:
        return [*value, operation["value"]]
    if not (segment.isascii() and segment.isdecimal()) or (segment != "0" and segment.startswith("0")):
        raise PatchError(f"{segment!r} is not a list position")
    if len(segment) > 9 or int(segment) >= len(value) + adds:
        raise PatchError(f"path {operation['path']!r} does not exist")
    position = int(segment)
    if rest:
        return [*value[:position], _applied(value[position], rest, operation), *value[position + 1 :]]
    if adds:
        return [*value[:position], operation["value"], *value[position:]]
    return [*value[:position], *([] if operation["op"] == "remove" else [operation["value"]]), *value[position + 1 :]]
