"""Applying a JSON Patch (RFC 6902), as the mutating webhook returns and overrides contain it.

Source: RFC 6902 and 6901; docs/specifications/rollout.md 6.4.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from scorer.api.unstructured.json_object import JsonObject

_BROKEN_ESCAPE = re.compile(r"~(?![01])")


class PatchError(ValueError):
    """A patch cannot be applied to the document.

    Args:
        message: Reason.
        position: Index of the failing operation, from 0.
    """

    def __init__(self, message: str, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


def apply_patch(document: JsonObject, patch: Iterable[Mapping[str, Any]]) -> JsonObject:
    """Return *document* with *patch* applied. The document itself does not change.

    Supports ``add``, ``remove`` and ``replace``. Either all operations are applied or none.

    Raises:
        PatchError: An operation is unknown or has no value, its path is malformed or does not exist, or the result is
            not an object.
    """
    result: Any = document
    position = -1
    for position, operation in enumerate(patch):
        try:
            result = _apply(result, pointer_segments(operation.get("path")), operation)
        except PatchError as error:
            error.position = position
            raise
    if not isinstance(result, dict):
        raise PatchError("the patch leaves no object", position)
    return result


def pointer_segments(pointer: object) -> list[str]:
    """Return the segments of a JSON Pointer, unescaped.

    Raises:
        PatchError: *pointer* is not a JSON Pointer.
    """
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")) or _BROKEN_ESCAPE.search(pointer):
        raise PatchError(f"{pointer!r} is not a JSON Pointer")
    return [segment.replace("~1", "/").replace("~0", "~") for segment in pointer.split("/")[1:]]


def _apply(value: Any, segments: list[str], operation: Mapping[str, Any]) -> Any:
    op = operation.get("op")
    if op not in {"add", "remove", "replace"}:
        raise PatchError(f"operation {op!r} must be add, remove or replace")
    if op != "remove" and "value" not in operation:
        raise PatchError(f"operation {op!r} must have a value")
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
        return {**value, key: _apply(value[key], rest, operation)}
    if operation["op"] == "remove":
        return {name: item for name, item in value.items() if name != key}
    return {**value, key: operation["value"]}


def _applied_to_list(value: list[Any], segment: str, rest: list[str], operation: Mapping[str, Any]) -> list[Any]:
    adds = operation["op"] == "add" and not rest
    if segment == "-" and adds:
        return [*value, operation["value"]]
    if not (segment.isascii() and segment.isdecimal()) or (segment != "0" and segment.startswith("0")):
        raise PatchError(f"{segment!r} is not a list position")
    if len(segment) > 9 or int(segment) >= len(value) + adds:  # Python refuses to parse integers of many digits
        raise PatchError(f"path {operation['path']!r} does not exist")
    position = int(segment)
    if rest:
        return [*value[:position], _apply(value[position], rest, operation), *value[position + 1 :]]
    if adds:
        return [*value[:position], operation["value"], *value[position:]]
    return [*value[:position], *([] if operation["op"] == "remove" else [operation["value"]]), *value[position + 1 :]]
