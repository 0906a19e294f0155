"""What a schema knows about a field besides its meaning, in words: the default, and how large it may be.

Docstrings of the models say what a field means and what its absence does. The numbers come from the schema itself, so
that no description can contradict it.
"""

from collections.abc import Iterator
from typing import Any, Final

import orjson

from scorer.api.meta import JsonObject

_OF_THE_TYPE: Final = frozenset(bound for bits in (32, 64) for bound in (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
"""Bounds that say no more than the type does."""


def add_facts(schema: JsonObject) -> None:
    """Complete the descriptions of all fields of *schema*, at every depth."""
    for field in schema.get("properties", {}).values():
        if "description" in field:
            field["description"] = " ".join((field["description"], *facts(field)))
        add_facts(field)
    for below in ("items", "additionalProperties"):
        if below in schema:
            add_facts(schema[below])


def facts(field: JsonObject) -> Iterator[str]:
    """Yield what the schema of a field says, a sentence each, such as ``Default: 60`` and ``1 to 600``."""
    if field.get("default", {}) != {}:  # the fields below an empty object have their own defaults
        yield f"Default: {_as_text(field['default'])}."
    yield from _bounds(field, "minimum", "maximum", "")
    yield from _bounds(field, "minLength", "maxLength", " characters")
    yield from _bounds(field, "minItems", "maxItems", " items")
    yield from _bounds(field, "minProperties", "maxProperties", " entries")


def _bounds(field: JsonObject, lower: str, upper: str, unit: str) -> Iterator[str]:
    low, high = (None if field.get(bound) in _OF_THE_TYPE else field.get(bound) for bound in (lower, upper))
    if high is not None:
        yield f"{low} to {high}{unit}." if low is not None else f"At most {high}{unit}."
    elif low is not None:
        yield f"At least {low}{unit if low != 1 else unit.removesuffix('s')}."


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
