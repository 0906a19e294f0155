"""Objects as decoded JSON, and the instants in them.

Separate from `scorer.api.meta`, which re-exports all of this: a command that only passes objects on loads no models.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeAlias

import orjson

JsonObject: TypeAlias = dict[str, Any]
"""One decoded JSON object. Only the code that created it may change it."""


def dump_json(value: object) -> bytes:
    """Encode *value*. Lone surrogates, which JSON text can carry and UTF-8 cannot, become U+FFFD.

    An integer that 64 bits cannot hold becomes a float, which no integer field accepts.

    Raises:
        orjson.JSONEncodeError, RecursionError: Nested too deeply, or not JSON at all.
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return orjson.dumps(_plain(value))


_SURROGATE = re.compile("[\ud800-\udfff]")


def _plain(value: object) -> object:
    match value:
        case str():
            return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
        case Mapping():
            return {_plain(str(key)): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case int() if not -(2**63) <= value < 2**64:
            return float(max(min(value, 10**300), -(10**300)))
        case _:
            return value


def without_nulls(value: Any) -> Any:
    """Copy *value*, decoded JSON, without the members whose value is null. List items are kept."""
    if isinstance(value, dict):
        return {
            key: without_nulls(item) if isinstance(item, (dict, list)) else item
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [without_nulls(item) if isinstance(item, (dict, list)) else item for item in value]
    return value


def json_equal(left: object, right: object) -> bool:
    """Return whether two JSON values are equal. Unlike with ``==``, ``true``, ``1`` and ``1.0`` differ."""
    if left is right:
        return True
    return left == right and (_same_text(left, right) or _same_types(left, right))


def _same_text(left: object, right: object) -> bool:
    """Return whether two values have the same JSON text, which is fast to compute."""
    try:
        return orjson.dumps(left) == orjson.dumps(right)
    except orjson.JSONEncodeError:
        return False


def _same_types(left: object, right: object) -> bool:
    """Return whether two values that are equal by ``==`` have equal types throughout."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return all(_same_types(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return all(map(_same_types, left, right))
    return True


def parse_time(text: str) -> datetime:
    """Parse an RFC 3339 instant with an offset.

    Raises:
        ValueError: Not an instant, without an offset, or, in UTC, outside the years 1 to 9999.
    """
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} has no offset from UTC")
    try:
        return instant.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} lies outside the years 1 to 9999 in UTC") from error


def read_instant(text: object) -> datetime | None:
    """Parse a timestamp. None: unset or invalid."""
    try:
        return parse_time(text) if isinstance(text, str) else None
    except ValueError:
        return None


@lru_cache(maxsize=256)
def format_time(instant: datetime) -> str:
    """Write *instant* as Kubernetes does: UTC, whole seconds. Cached: a status repeats the same instant many times."""
    return instant.astimezone(UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"


def format_instant(instant: datetime | None) -> str | None:
    """Return an instant as text, or None."""
    return None if instant is None else format_time(instant)
