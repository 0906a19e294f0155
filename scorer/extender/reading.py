"""Decoded JSON as Go reads it: null counts as absent, and a wrong type is an error that names the field.

Source: docs/specifications/serving.md 2.1; Go ``encoding/json``.
"""

from typing import Any

from scorer.api.meta import JsonObject

_NOTHING: JsonObject = {}
_INT64 = 2**63


class MalformedArgsError(ValueError):
    """The request is not one that kube-scheduler would send. The message names the field and its value."""


def member(document: JsonObject, name: str) -> Any:
    """Return a field by its exact name, else by its name in any ASCII case, else None."""
    if name in document:
        return document[name]
    folded = name.lower()
    return next((value for key, value in document.items() if key.isascii() and key.lower() == folded), None)


def read_object(value: Any, path: str) -> JsonObject:
    """Read an object. Null counts as the empty object.

    Raises:
        MalformedArgsError: *value* has another type.
    """
    if isinstance(value, dict):
        return value
    if value is None:
        return _NOTHING
    raise wrong_type(value, path, "an object")


def read_list(value: Any, path: str) -> list[Any]:
    """Read a list. Null counts as the empty list.

    Raises:
        MalformedArgsError: *value* has another type.
    """
    if isinstance(value, list):
        return value
    if value is None:
        return []
    raise wrong_type(value, path, "a list")


def read_text(value: Any, path: str) -> str:
    """Read a string. Null counts as the empty string.

    Raises:
        MalformedArgsError: *value* has another type.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise wrong_type(value, path, "a string")


def read_texts(value: Any, path: str) -> dict[str, str]:
    """Read an object of strings, such as labels. Null counts as the empty string, or as the empty object.

    Raises:
        MalformedArgsError: *value*, or a value in it, has another type.
    """
    texts = read_object(value, path)
    if all(type(text) is str for text in texts.values()):
        return texts
    return {key: read_text(text, f"{path}[{key[:64]}]") for key, text in texts.items()}


def read_integer(value: Any, path: str) -> int:
    """Read a 64-bit integer. Null counts as 0.

    Raises:
        MalformedArgsError: *value* has another type or is out of range. A float is refused, even without a fraction.
    """
    if isinstance(value, int) and not isinstance(value, bool) and -_INT64 <= value < _INT64:
        return value
    if value is None:
        return 0
    raise wrong_type(value, path, "an integer of 64 bits")


def wrong_type(value: Any, path: str, expected: str) -> MalformedArgsError:
    """Return the error for a *value* at *path* that has another type than *expected*."""
    return MalformedArgsError(f"{path} must be {expected}, not {_quote(value)}")


def _quote(value: Any) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return ascii(value[:64])
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case _:
            return str(value)[:64]
