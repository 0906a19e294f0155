"""Kubernetes quantities, exact.

A quantity is a decimal number with an optional suffix (``1500m``, ``16Gi``, ``2E3``). Comparisons are exact, on nano
units. Scores need the very double that the reference computes from the text, because its last bit decides how an exact
half rounds.

Example: ``0.3`` and ``300m`` are equal, but their doubles, ``3 * 10**-1`` and ``300 * 10**-3``, differ in the last bit.
A comparison of doubles would reject a cluster with exactly the required amount.

Source: docs/specifications/scheduling.md 7; Kubernetes apimachinery ``pkg/api/resource``.
"""

import re
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import isinf
from typing import Any

NANO = 10**9

WIRE_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": (
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
        r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
    ),
    "x-kubernetes-int-or-string": True,
}
"""Schema of a quantity in CRDs. The pattern is laxer than `parse_quantity`."""

_SHAPE = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]+)?", re.ASCII)
_DECIMAL = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LARGEST_BINARY = 2**63 - 1
LONGEST_QUANTITY = 512
"""Maximum length of a quantity, in characters. The largest number in a double has 309 digits."""
LONGEST_REMEMBERED = 64
"""Longer quantities are not cached, so that a client cannot fill the memory with them."""
_LARGEST_POWER = 400
"""Above it the double overflows for every text of `LONGEST_QUANTITY`. See `_power`."""


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount, compared by its number regardless of its spelling.

    Args:
        nano: The exact amount in units of 10^-9, rounded away from zero to whole units.
        double: Value in the arithmetic of the reference: ``double(unscaled) * 10**scale``. Not compared.
        text: The quantity as written.
    """

    nano: int
    double: float = field(compare=False)
    text: str = field(compare=False)

    def __str__(self) -> str:
        return self.text

    @property
    def number(self) -> Fraction:
        """The exact amount."""
        return Fraction(self.nano, NANO)


def parse_quantity(text: str) -> Quantity:
    """Parse a quantity.

    Raises:
        ValueError: *text* is not a quantity, has more than `LONGEST_QUANTITY` characters, or its power overflows a
            double.
    """
    return _parse_cached(text) if len(text) <= LONGEST_REMEMBERED else _parse(text)


def _parse(text: str) -> Quantity:
    shape = _SHAPE.fullmatch(text) if len(text) <= LONGEST_QUANTITY else None
    if shape is None or not (shape[2] or shape[3]):
        raise ValueError(f"{text[:64]!r} is not a quantity")
    sign = -1 if shape[1] == "-" else 1
    whole, fraction, suffix = shape[2].lstrip("0") or "0", shape[3] or "", shape[4] or ""
    digits = int(whole + fraction)
    if suffix in _BINARY:
        nano, double = _binary(sign, whole, fraction, digits, _BINARY[suffix])
    else:
        nano, double = _decimal(sign, whole, fraction, digits, _power(suffix))
    if isinf(double):
        raise ValueError(f"{text[:64]!r} is larger than any quantity")
    return Quantity(nano, double, text)


_parse_cached = lru_cache(maxsize=65536)(_parse)


def read_quantity(value: object) -> Quantity | None:
    """Return the quantity in *value*, or None if it is not one."""
    try:
        return parse_quantity(value) if isinstance(value, str) else None
    except ValueError:
        return None


def format_quantity(nano: int) -> str:
    """Write an amount of 10^-9 units in canonical decimal form: ``1500m``, ``2``, ``3k``."""
    if nano == 0:
        return "0"
    power = -9
    while nano % 1000 == 0 and power < 18:
        nano //= 1000
        power += 3
    return f"{nano}{next(suffix for suffix, exponent in _DECIMAL.items() if exponent == power)}"


def format_binary_quantity(nano: int) -> str:
    """Write an amount of 10^-9 units in canonical binary form, ``1600Gi``, or in decimal form if that is not exact."""
    for suffix, exponent in reversed(_BINARY.items()):
        if nano and nano % (NANO << exponent) == 0:
            return f"{nano // (NANO << exponent)}{suffix}"
    return format_quantity(nano)


def _power(suffix: str) -> int:
    """Return the power of ten of a decimal suffix."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix]
    exponent = suffix[1:]
    if len(exponent.lstrip("+-").lstrip("0")) > 6:  # far out of range either way, and the number itself could be huge
        exponent = "-999999" if exponent.startswith("-") else "999999"
    return int(exponent)


def _decimal(sign: int, whole: str, fraction: str, digits: int, power: int) -> tuple[int, float]:
    if not digits:
        return 0, 0.0
    scale = power - len(fraction)
    if len(whole) + power > _LARGEST_POWER:
        return 0, float("inf")
    if len(whole) + len(fraction) <= 18 and scale >= -9:
        return sign * digits * 10 ** (scale + 9), _scale(sign * digits, scale)
    if scale >= -9:
        nano = sign * digits * 10 ** (scale + 9)
    elif -scale - 9 > len(whole) + len(fraction) + 1:
        nano = sign  # far below one unit, and rounding is away from zero
    else:
        nano = sign * -(-digits // 10 ** (-scale - 9))
    return nano, _scale(nano, -9)


def _binary(sign: int, whole: str, fraction: str, digits: int, power: int) -> tuple[int, float]:
    if not fraction and 15 - len(whole) - (3 * power) // 10 - 1 >= 0:
        return sign * digits * 2**power * NANO, float(sign * digits * 2**power)
    exact = -(-digits * 2**power * NANO // 10 ** len(fraction))
    nano = sign * min(exact, _LARGEST_BINARY * NANO)
    return nano, _scale(nano, -9)


def _scale(unscaled: int, scale: int) -> float:
    """Return ``double(unscaled) * 10**scale`` in the reference's order of operations.

    ``unscaled / 10**-scale`` would be closer to the exact amount, but it is not the reference's number. Example:
    ``0.3`` becomes ``3 * (1 / 10)``, which is 0.30000000000000004, where ``3 / 10`` is 0.3. With 0.1 and 0.5 as
    minimum and maximum and a weight of 5, that bit makes the score 3 instead of 2.

    Source: docs/specifications/scheduling.md 8, example E8.
    """
    try:
        return float(unscaled) * (10.0**scale if scale >= 0 else 1 / 10.0**-scale)
    except OverflowError:
        return float("inf")
