"""The annotation ``harbormaster.dev/ignore-fields``: fields that the author of an object leaves to the member.

Its value is a list of JSON Pointers, separated by commas or white space, or a JSON array of them where a name contains
one of these: ``/spec/replicas`` or ``["/spec/replicas", "/data/a,b"]``. An object is created with its whole manifest.
After that the agent neither writes nor compares the fields.

An item of a list is named by its position in the manifest. If the items have distinct ports or names, the pointer
applies to the item with the same port or name on the member.

Source: docs/specifications/rollout.md 2.10; RFC 6901.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import orjson

from scorer.api.names import FLEET, IGNORE_FIELDS, OURS
from scorer.api.unstructured.documents import annotation
from scorer.api.unstructured.json_patch import PatchError, pointer_segments
from scorer.api.values.quoting import quote

MOST_POINTERS: Final = 64
LONGEST_TEXT: Final = 8192
"""Maximum length of an annotation, in characters."""

Pointer: TypeAlias = tuple[str, ...]
"""The segments of a JSON Pointer, unescaped."""

_WRITABLE_METADATA: Final = frozenset({"labels", "annotations"})


@dataclass(frozen=True, slots=True)
class IgnoredFields:
    """The value of the annotation.

    Args:
        fields: Fields in the given order. Empty if there is a mistake: a partial list would protect only some of the
            fields.
        mistakes: Error messages for the author.
    """

    fields: tuple[Pointer, ...] = ()
    mistakes: tuple[str, ...] = ()


def ignored_fields(document: Mapping[str, Any]) -> tuple[Pointer, ...]:
    """Return the fields that the author of an object leaves to the member, empty if the annotation has an error."""
    text = annotation(document, IGNORE_FIELDS)
    return parse_ignored_fields(text).fields if text else ()


def ignored_fields_mistakes(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the errors in the annotation of an object."""
    text = annotation(document, IGNORE_FIELDS)
    return parse_ignored_fields(text).mistakes if text else ()


def parse_ignored_fields(text: str) -> IgnoredFields:
    """Return the fields and the mistakes in the value of the annotation."""
    if len(text) > LONGEST_TEXT:
        return IgnoredFields(mistakes=(f"has {len(text)} characters, at most {LONGEST_TEXT} are allowed",))
    return _parse(text)


@lru_cache(maxsize=1024)
def _parse(text: str) -> IgnoredFields:
    if text.lstrip().startswith("["):
        try:
            pointers = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            return IgnoredFields(mistakes=(f"is not a JSON array: {error}",))
    else:
        pointers = text.replace(",", " ").split()
    if len(pointers) > MOST_POINTERS:
        return IgnoredFields(mistakes=(f"names {len(pointers)} fields, at most {MOST_POINTERS} are allowed",))
    mistakes = tuple(_mistakes(pointers))
    return IgnoredFields(
        () if mistakes else tuple(tuple(pointer_segments(pointer)) for pointer in dict.fromkeys(pointers)), mistakes
    )


def _mistakes(pointers: list[Any]) -> Iterator[str]:
    for pointer in pointers:
        if not isinstance(pointer, str):
            yield f"{quote(pointer)} is not a string"
        elif reason := _mistake(pointer):
            yield f"{quote(pointer)} {reason}"


def _mistake(pointer: str) -> str:
    try:
        segments = pointer_segments(pointer)
    except PatchError:
        return "is not a JSON Pointer"
    match segments:
        case ("apiVersion" | "kind", *_) | ("metadata", "name" | "namespace", *_):
            return "must not name the identity of the object"
        case ("status", *_):
            return "names the status, which is never applied"
        case ["metadata"] | ["metadata", "annotations"]:
            return "must name a field below it, because harbormaster writes to it as well"
        case ("metadata", "annotations", key, *_) if key.startswith((FLEET, OURS)):
            return "must not name an annotation of the fleet"
        case ("metadata", name, *_) if name not in _WRITABLE_METADATA:
            return "names a field that the member sets itself"
        case _ if segments[:1] in ([], [""]) or "-" in segments:
            return "names no field"
    return ""
