"""Durations as Go programs write and read them: ``1h30m``, ``1.5h``, ``300ms``, optionally with a sign.

Source: Go, ``time.ParseDuration``; nodepool-disruption.md 5.4 and 8.1.
"""

import re
from typing import Final

_LONGEST_TEXT: Final = 256
_LARGEST: Final = 2**63 - 1
_GRAMMAR: Final = re.compile(r"[+-]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_GROUP: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_NANOSECONDS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}


def parse_go_duration(text: str) -> int:
    """Read a duration; returns nanoseconds as a signed 64-bit integer.

    Raises:
        ValueError: Not of the grammar, or too long.
    """
    if len(text) > _LONGEST_TEXT or not _GRAMMAR.fullmatch(text):
        raise ValueError(f"{text[:64]!r} is not a duration such as 1h30m")
    is_negative = text.startswith("-")
    nanoseconds = sum(_nanoseconds(*group) for group in _GROUP.findall(text))
    if nanoseconds > _LARGEST + is_negative:
        raise ValueError(f"{text[:64]!r} is longer than 2562047h")
    return -nanoseconds if is_negative else nanoseconds


def _nanoseconds(whole: str, fraction: str, unit: str) -> int:
    """Return one group; the fraction is computed in doubles, as Go does."""
    digits = fraction[:18]  # Go, too, ignores the digits that 64 bits cannot hold
    part = int(float(int(digits)) * (_NANOSECONDS[unit] / 10.0 ** len(digits))) if digits else 0
    return int(whole or "0") * _NANOSECONDS[unit] + part
