"""The values of a chart as ``values.yaml`` documents them, one by one.

A value has a comment that begins with ``# --``; what follows is its description. A line ``# @schema {…}`` in it adds to
its schema, or replaces the type that its default shows. A key without such a comment is a group of values.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from scorer.api.meta import JsonObject

_KEY: Final = re.compile(r"( *)([A-Za-z]\w*):( .*)?", re.ASCII)
_SCHEMA: Final = "@schema "


class UndocumentedError(ValueError):
    """A value has no description; the message names it."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value.

    Args:
        path: Its keys, from the top.
        default: What it is unless somebody sets it.
        description: What it means.
        facets: What its schema says besides the type.
    """

    path: tuple[str, ...]
    default: Any
    description: str
    facets: JsonObject = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The path as one sets it on the command line."""
        return ".".join(self.path)


def read_values(path: Path) -> list[Value]:
    """Return all values of a file, in its order.

    Raises:
        UndocumentedError: One has no description.
    """
    text = path.read_text(encoding="utf-8")
    documents = yaml.safe_load(text)
    values = list(_values(text, documents))
    told = {value.path for value in values}
    for leaf in _leaves(documents, ()):
        if not any(leaf[: len(each)] == each for each in told):
            raise UndocumentedError(f"{path.name}: {'.'.join(leaf)} has no comment that begins with `# --`")
    return values


def _values(text: str, documents: Any) -> Iterator[Value]:
    above: list[str] = []
    comment: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            comment.append(stripped.removeprefix("#").strip())
            continue
        found = _KEY.fullmatch(line)
        if found:
            depth = len(found[1]) // 2
            above[depth:] = [found[2]]
            if any(each.startswith("-- ") for each in comment):
                description, facets = _told(comment)
                yield Value(tuple(above), _at(documents, above), description, facets)
        comment = []


def _told(comment: list[str]) -> tuple[str, JsonObject]:
    start = next(place for place, each in enumerate(comment) if each.startswith("-- "))
    words: list[str] = []
    facets: JsonObject = {}
    for line in comment[start:]:
        if line.startswith(_SCHEMA):
            facets |= json.loads(line.removeprefix(_SCHEMA))
        else:
            words.append(line.removeprefix("-- "))
    return " ".join(words), facets


def _at(documents: Any, path: list[str]) -> Any:
    for key in path:
        documents = documents[key]
    return documents


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    else:
        yield path
