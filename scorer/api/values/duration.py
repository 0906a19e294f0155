"""Grammars of durations: wait times, NodePool durations, budget durations, and those of Go programs.

All are sums of ``number unit`` groups:

* wait time of a staged update: ``1h30m``, ``1.5h``, with units s, m, h (placement-api.md 2.5);
* a NodePool's ``expireAfter`` and ``consolidateAfter`` (D1) and ``terminationGracePeriod`` (D2): integer groups in any
order, D1 also ``Never`` (nodepool-disruption.md 2.2);
* a budget's ``duration`` (B): hours then minutes;
* Go (``time.ParseDuration``): a sign, fractions, units from ns to h (nodepool-disruption.md 5.4 and 8.1).
"""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Final

LONGEST_NANOSECONDS = 2**63 - 1
LONGEST_DURATION = 256
"""Maximum length of a duration, in characters. A longer text is not parsed, because its numbers could be of any
size."""
NEVER = "Never"

_WAIT = re.compile(r"(?:(?:0|[1-9][0-9]*)(?:\.[0-9]+)?[smh])+", re.ASCII)
_SUM = re.compile(r"(?:[0-9]+[smh])+", re.ASCII)
_BUDGET = re.compile(r"(?:[0-9]+[hm]|[0-9]+h[0-9]+m)(?:0s)?", re.ASCII)
_GROUP = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smh])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def parse_wait_time(text: str) -> timedelta:
    """Parse the wait time of a stage task, such as ``1h30m`` or ``0s``.

    Raises:
        ValueError: Not of the grammar, or longer than 64 bits of nanoseconds.
    """
    return _parse(text, _WAIT, "hours, minutes and seconds such as 1h30m")


def parse_sum(text: str) -> timedelta:
    """Parse a duration of whole seconds, minutes and hours in any order (patterns D1 without ``Never``, and D2).

    Raises:
        ValueError: Not of the grammar, or longer than 64 bits of nanoseconds.
    """
    return _parse(text, _SUM, "whole hours, minutes and seconds such as 1h30m5s")


def parse_budget_duration(text: str) -> timedelta:
    """Parse the duration of a disruption budget: hours, then minutes (pattern B).

    Raises:
        ValueError: Not of the grammar, or longer than 64 bits of nanoseconds.
    """
    return _parse(text, _BUDGET, "hours and minutes such as 8h or 1h30m")


def format_duration(duration: timedelta) -> str:
    """Format *duration* for messages: ``2h``, ``1h 12m``, ``41s``, ``3d``. Its two largest units, without zeros."""
    seconds = int(duration.total_seconds())
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
        elif parts:
            break
    return sign + (" ".join(parts[:2]) or "0s")


def _parse(text: str, grammar: re.Pattern[str], notation: str) -> timedelta:
    if len(text) > LONGEST_DURATION or not grammar.fullmatch(text):
        raise ValueError(f"{text[:64]!r} is not a duration of {notation}")
    seconds = sum((Decimal(number) * _SECONDS[unit] for number, unit in _GROUP.findall(text)), Decimal())
    if seconds * 10**9 > LONGEST_NANOSECONDS:
        raise ValueError(f"{text[:64]!r} is longer than 2562047h")
    return timedelta(microseconds=int(seconds * 10**6))


_LONGEST_TEXT: Final = 256
_LARGEST: Final = 2**63 - 1
_GRAMMAR: Final = re.compile(r"[+-]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_GO_GROUP: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
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
    """Parse a duration. Return nanoseconds as a signed 64-bit integer.

    Raises:
        ValueError: Not of the grammar, or too long.
    """
    if len(text) > _LONGEST_TEXT or not _GRAMMAR.fullmatch(text):
        raise ValueError(f"{text[:64]!r} is not a duration such as 1h30m")
    is_negative = text.startswith("-")
    nanoseconds = sum(_nanoseconds(*group) for group in _GO_GROUP.findall(text))
    if nanoseconds > _LARGEST + is_negative:
        raise ValueError(f"{text[:64]!r} is longer than 2562047h")
    return -nanoseconds if is_negative else nanoseconds


def _nanoseconds(whole: str, fraction: str, unit: str) -> int:
    """Return one group in nanoseconds. The fraction is computed in doubles, as in Go."""
    digits = fraction[:18]  # Go, too, ignores the digits that 64 bits cannot hold
    part = int(float(int(digits)) * (_NANOSECONDS[unit] / 10.0 ** len(digits))) if digits else 0
    return int(whole or "0") * _NANOSECONDS[unit] + part
