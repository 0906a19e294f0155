"""Answers of bounded size: lists, maps and texts are shortened until the document fits. The answer lists omissions."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import orjson

LARGEST_ANSWER: Final = 64 * 1024
"""Characters, some 16,000 tokens."""
_LIMITS: Final = ((1000, 8192), (300, 4096), (100, 2048), (30, 1024), (10, 512), (3, 256), (1, 64))
"""Items of a list or a map, and characters of a text, in the order of the attempts."""


def answer_text(answer: Any, notes: list[str], most: int = LARGEST_ANSWER) -> str:
    """Return an answer and its notes as JSON of at most *most* characters.

    Args:
        answer: Decoded JSON.
        notes: Remarks on the answer. At most 20 are kept.
        most: The limit.
    """
    remarks = [note[:1024] for note in notes[:20]]
    text = compact_json({"answer": answer, "notes": remarks})
    if len(text) <= most:
        return text
    for items, characters in _LIMITS:
        omissions: Counter[str] = Counter()
        shortened = _shortened(answer, "", items, characters, omissions)
        left_out = [*_statements(omissions)]
        text = compact_json({"answer": shortened, "notes": remarks, "leftOut": left_out})
        if len(text) <= most:
            return text
    reason = f"the answer has more than {most:,} characters, even when shortened: ask about fewer objects"
    return compact_json({"answer": None, "notes": remarks, "leftOut": [reason]})


def compact_json(value: Any) -> str:
    """Return JSON without spaces, with invisible characters and those that control a terminal escaped."""
    try:
        text = orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # lone surrogates, integers beyond 64 bits
        return json.dumps(value, separators=(",", ":"))
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def _shortened(value: Any, place: str, items: int, characters: int, omissions: Counter[str]) -> Any:
    """Return *value* with at most *items* items per list and map, and *characters* characters per text.

    The rest is counted in *omissions*, by place. Maps keep at least `_FEWEST_MEMBERS` members.
    """
    if isinstance(value, str) and len(value) > characters:
        omissions[f"{place} (characters)"] += len(value) - characters
        return value[:characters] + "…"
    if isinstance(value, list):
        if len(value) > items:
            omissions[place] += len(value) - items
        return [_shortened(item, f"{place}/*", items, characters, omissions) for item in value[:items]]
    if isinstance(value, dict):
        if len(value) > max(items, _FEWEST_MEMBERS):
            omissions[place] += len(value) - max(items, _FEWEST_MEMBERS)
        members = [*value.items()][: max(items, _FEWEST_MEMBERS)]
        return {key: _shortened(item, f"{place}/{key}", items, characters, omissions) for key, item in members}
    return value


_FEWEST_MEMBERS: Final = 50
"""A map keeps at least this many members. Objects of an answer have fewer, so only maps keyed by name are shortened."""


def _statements(omissions: Counter[str]) -> Iterator[str]:
    """Yield a note for each place with omissions, the largest first. ``*`` stands for every item of a list."""
    for place, count in omissions.most_common(20):
        path, _, unit = place.partition(" (")
        yield f"{path or '/'}: {count:,} {unit.rstrip(')') or 'items'} left out"
    if len(omissions) > 20:
        yield f"and at {len(omissions) - 20} more places"
