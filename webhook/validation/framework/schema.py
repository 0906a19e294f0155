"""Checks of a value against the schema of a definition, with the messages of an API server.

Unknown fields must have been pruned. Not checked: CEL expressions, ``not``, ``oneOf``, ``allOf``, and formats other
than ``date-time``.

Source: Kubernetes apiextensions-apiserver ``pkg/apiserver/validation``; kube-openapi ``pkg/validation``.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from scorer.api.meta import JsonObject, dump_json, json_equal, read_instant
from scorer.api.unstructured.documents import dict_at
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import quote
from webhook.validation.framework.field import Cause, FieldError, duplicate, invalid, not_supported, too_many

_TYPES: Final[dict[type, str]] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


def schema_errors(value: Any, schema: JsonObject, at: FieldPath, *, patterns: bool) -> Iterator[FieldError]:
    """Yield every mistake of a value.

    Args:
        value: Any JSON value.
        schema: A structural schema. A part of it that is not a schema accepts any value.
        at: Path of the value.
        patterns: Whether to match texts with regular expressions. They must be ours: a user's may take exponential
            time.
    """
    if value is None and schema.get("nullable"):
        return
    if schema.get("x-kubernetes-int-or-string"):
        if _type_of(value) not in ("integer", "string"):
            yield _wrong_type(at, value, "integer,string")
        return
    expected = schema.get("type")
    if isinstance(expected, str) and not _has_type(value, expected):
        yield _wrong_type(at, value, expected)
        return
    options = schema.get("enum")
    if isinstance(options, list) and not any(json_equal(value, option) for option in options):
        yield not_supported(at, value, [option if isinstance(option, str) else str(option) for option in options])
        return
    match value:
        case str():
            yield from _text_errors(value, schema, at, patterns=patterns)
        case list():
            yield from _list_errors(value, schema, at, patterns=patterns)
        case dict():
            yield from _object_errors(value, schema, at, patterns=patterns)
        case int() | float() if not isinstance(value, bool):
            yield from _number_errors(value, schema, at)


def _text_errors(value: str, schema: JsonObject, at: FieldPath, *, patterns: bool) -> Iterator[FieldError]:
    least, most, pattern = _bound(schema, "minLength"), _bound(schema, "maxLength"), schema.get("pattern")
    if most is not None and len(value) > most:
        yield FieldError(at, Cause.TOO_LONG, f"may not be more than {most:g} bytes")
        return
    if least is not None and len(value) < least:
        yield invalid(at, value, f"{at} in body should be at least {least:g} chars long")
        return
    if patterns and isinstance(pattern, str) and not _compiled(pattern).search(value):
        yield invalid(at, value, f"{at} in body should match '{pattern}'")
    if schema.get("format") == "date-time" and read_instant(value) is None:
        yield invalid(at, value, f"{at} in body must be of type date-time: {quote(value)}")


def _number_errors(value: float, schema: JsonObject, at: FieldPath) -> Iterator[FieldError]:
    least, most = _bound(schema, "minimum"), _bound(schema, "maximum")
    if least is not None and value < least:
        yield invalid(at, value, f"{at} in body should be greater than or equal to {least:g}")
    if most is not None and value > most:
        yield invalid(at, value, f"{at} in body should be less than or equal to {most:g}")


def _list_errors(value: list[Any], schema: JsonObject, at: FieldPath, *, patterns: bool) -> Iterator[FieldError]:
    least, most = _bound(schema, "minItems"), _bound(schema, "maxItems")
    if most is not None and len(value) > most:
        yield too_many(at, len(value), int(most))
        return
    if least is not None and len(value) < least:
        yield invalid(at, len(value), f"{at} in body should have at least {least:g} items")
    items = dict_at(schema, "items")
    for index, item in enumerate(value):
        yield from schema_errors(item, items, at / index, patterns=patterns)
    yield from _repeated(value, schema, at)


def _repeated(value: list[Any], schema: JsonObject, at: FieldPath) -> Iterator[FieldError]:
    """Yield an error for each repeated item of a set, and for each item with repeated keys in a map-type list."""
    kind, keys = schema.get("x-kubernetes-list-type"), _words(schema, "x-kubernetes-list-map-keys")
    if kind not in ("map", "set"):
        return
    identities: set[bytes] = set()
    for index, item in enumerate(value):
        identity = {key: item.get(key) for key in keys} if kind == "map" and isinstance(item, dict) else item
        text = dump_json(identity)
        if text in identities:
            yield duplicate(at / index, identity)
        identities.add(text)


def _object_errors(value: JsonObject, schema: JsonObject, at: FieldPath, *, patterns: bool) -> Iterator[FieldError]:
    for name in _words(schema, "required"):
        if name not in value:
            yield FieldError(at / name, Cause.REQUIRED, "")
    properties, others = dict_at(schema, "properties"), schema.get("additionalProperties")
    for name, member in value.items():
        subschema = properties.get(name, others)
        if isinstance(subschema, dict):
            yield from schema_errors(member, subschema, at / name, patterns=patterns)


def _type_of(value: Any) -> str:
    return _TYPES.get(type(value), "object")


def _has_type(value: Any, expected: str) -> bool:
    actual = _type_of(value)
    if expected == "integer" and isinstance(value, float):
        return value.is_integer()
    return actual == expected or (expected, actual) == ("number", "integer")


def _wrong_type(at: FieldPath, value: Any, expected: str) -> FieldError:
    actual = quote(_type_of(value))
    return FieldError(at, Cause.TYPE_INVALID, f"{actual}: {at} in body must be of type {expected}: {actual}")


def _bound(schema: JsonObject, name: str) -> float | None:
    bound = schema.get(name)
    return bound if isinstance(bound, int | float) and not isinstance(bound, bool) else None


def _words(schema: JsonObject, name: str) -> Sequence[str]:
    words = schema.get(name)
    return [word for word in words if isinstance(word, str)] if isinstance(words, list) else []


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)
