"""Scores that another program computes: an annotation of a MemberCluster that is a property until it expires.

``scores.harbormaster.dev/latency: '{"value": "42", "validUntil": "2026-11-21T12:00:00Z"}'`` is the property
``scores.harbormaster.dev/latency`` with the value 42 until noon, and absent after that. Without ``validUntil`` it does
not expire. An unreadable annotation is an unreadable property, like an unreadable value of ``status.properties``.

Source: Open Cluster Management, AddOnPlacementScore (``status.scores``, ``status.validUntil``).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final

import orjson

from scorer.api.names import SCORE_PREFIX
from scorer.api.unstructured.json_object import parse_time
from scorer.api.values.quantity import parse_quantity

LONGEST: Final = 1024
"""Maximum length of an annotation that is parsed, in characters. No score needs more."""

_RFC_3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)


@dataclass(frozen=True, slots=True)
class ExternalScore:
    """One score.

    Args:
        value: A quantity, as written.
        valid_until: The last instant at which it is valid. None: unlimited.
    """

    value: str
    valid_until: datetime | None = None


def parse_score(text: str) -> ExternalScore:
    """Parse the value of an annotation.

    Raises:
        ValueError: *text* is not a score. The message has the reason.
    """
    score = _parse_bounded(text)
    if isinstance(score, str):
        raise ValueError(score)  # noqa: TRY004 - the content of the argument is wrong, not its type
    return score


def read_score(annotations: Mapping[str, str], name: str) -> ExternalScore | None:
    """Return the score *name* of a cluster, or None if it is missing or unreadable."""
    text = annotations.get(name)
    score = None if text is None else _parse_bounded(text)
    return score if isinstance(score, ExternalScore) else None


def score_names(annotations: Mapping[str, str]) -> list[str]:
    """Return the names of a cluster's scores, readable or not, in order."""
    return sorted(key for key in annotations if key.startswith(SCORE_PREFIX))


def _parse_bounded(text: str) -> ExternalScore | str:
    """Return the score, or why the text is not one."""
    if len(text) > LONGEST:  # before the cache, so that long texts cannot fill it
        return f"has {len(text)} characters, must have at most {LONGEST}"
    return _parse(text)


@lru_cache(maxsize=65536)
def _parse(text: str) -> ExternalScore | str:
    """Parse a text of bounded length.

    Cached, because every scheduling run parses the same annotations, valid or not.
    """
    try:
        document = orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return 'is not JSON such as {"value": "42"}'
    if not isinstance(document, dict):
        return "is not a JSON object"
    unknown = sorted(document.keys() - {"value", "validUntil"})
    if unknown:
        return f"has the unknown field {unknown[0][:64]!r}"
    value, until = document.get("value"), document.get("validUntil")
    if not isinstance(value, str):
        return '"value" must be a quantity in quotes'
    try:
        parse_quantity(value)
    except ValueError as reason:
        return f"value: {reason}"
    if until is None:
        return ExternalScore(value)
    if not isinstance(until, str) or not _RFC_3339.fullmatch(until):
        return f"validUntil: {str(until)[:64]!r} is not an RFC 3339 instant"
    try:
        return ExternalScore(value, parse_time(until.upper()))
    except (ValueError, OverflowError):
        return f"validUntil: {until[:64]!r} is not an RFC 3339 instant"
