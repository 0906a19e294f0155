"""JSON as a Go program writes it, so that digests and sizes agree with those of API servers and KubeFleet.

``encoding/json`` sorts the keys of maps, escapes ``<``, ``>``, ``&``, U+2028 and U+2029, and has its own form for
floats: 1.0 is ``1``, 1e21 is ``1e+21`` and -0.0 is ``-0``. Kubernetes reads a number without fraction and exponent as
an integer if it fits 64 bits, and as a float otherwise.

Most documents have no float. They are encoded as they are, which takes a fraction of the time of a copy.

Source: docs/specifications/rollout.md 3.2. Go encoding/json, floatEncoder and appendString, and sigs.k8s.io/json,
convertNumber.
"""

from collections.abc import Iterable
from math import isfinite
from typing import Any, Final, cast

import orjson

from scorer.api.unstructured.json_object import dump_json

_ESCAPES: Final = tuple((sign, b"\\u%04x" % ord(sign)) for sign in (b"<", b">", b"&"))
_SEPARATORS: Final = (("\u2028".encode(), b"\\u2028"), ("\u2029".encode(), b"\\u2029"))
_INTEGERS: Final = range(-(2**63), 2**63)
_SMALLEST_PLAIN: Final = 1e-6
_FIRST_WITH_EXPONENT: Final = 1e21


def go_json(value: object) -> bytes:
    """Encode decoded JSON as Go does, with sorted keys. Lone surrogates become U+FFFD, as when Go decodes them.

    Raises:
        orjson.JSONEncodeError, RecursionError: Nested too deeply, or not JSON at all.
    """
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        value = orjson.loads(dump_json(value))
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    if _has_float([value]):
        text = orjson.dumps(_with_numbers_of_go(value), option=orjson.OPT_SORT_KEYS)
    for sign, escape in _ESCAPES if text.isascii() else _ESCAPES + _SEPARATORS:
        text = text.replace(sign, escape)
    return text


def _has_float(items: Iterable[object]) -> bool:
    """Return whether decoded JSON has a number that Kubernetes reads as a float. Runs for every selected object."""
    for item in items:
        kind = type(item)
        if kind is dict or kind is list:
            if _has_float(item.values() if isinstance(item, dict) else cast("list[object]", item)):
                return True
        elif kind is float or (kind is int and item not in _INTEGERS):
            return True
    return False


def _with_numbers_of_go(value: Any) -> Any:
    """Copy *value* with the encoded form in place of each float, and of each integer that Go reads as a float."""
    match value:
        case dict():
            return {key: _with_numbers_of_go(item) for key, item in value.items()}
        case list():
            return [_with_numbers_of_go(item) for item in value]
        case float() if isfinite(value):
            return orjson.Fragment(_format_float(value))
        case int() if value not in _INTEGERS:
            return orjson.Fragment(_format_float(float(value)))
        case _:
            return value


def _format_float(value: float) -> str:
    """Return the shortest digits that read back as *value*: with an exponent below 1e-6 and from 1e21 on."""
    shortest = repr(value)
    if value and not _SMALLEST_PLAIN <= abs(value) < _FIRST_WITH_EXPONENT:
        return shortest.replace("e-0", "e-")
    mantissa, _, exponent = shortest.partition("e")
    sign, digits = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    whole, _, fraction = digits.partition(".")
    return sign + _shift_point(whole, fraction.rstrip("0"), int(exponent or 0))


def _shift_point(whole: str, fraction: str, exponent: int) -> str:
    """Write out ``whole.fraction`` times a power of ten without an exponent."""
    if exponent < 0:
        return f"0.{'0' * (-exponent - len(whole))}{whole}{fraction}"
    whole, fraction = whole + fraction[:exponent].ljust(exponent, "0"), fraction[exponent:]
    return f"{whole}.{fraction}" if fraction else whole
