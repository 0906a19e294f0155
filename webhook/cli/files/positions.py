"""Positions of the fields of an object in its file: line and column.

A file is parsed a second time, into nodes with positions, but only if it has findings. Lines and columns count from 1.
Columns are counted in code points.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import yaml

from scorer.api.values.field_path import FieldPath
from webhook.cli.files.parsing import DocumentSource

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TextRange(NamedTuple):
    """Start and end of a text. The end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_BEGINNING: Final = TextRange(1, 1, 1, 1)


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a field in its file.

    Args:
        place: Range from its first character to its last.
        is_flow: Whether it is written in brackets or braces, as in JSON.
        is_json: Whether the whole document is JSON.
    """

    place: TextRange
    is_flow: bool
    is_json: bool


@dataclass(frozen=True, slots=True)
class Positions:
    """Positions of all fields in some texts.

    Args:
        texts: By the file of a `DocumentSource`.
    """

    texts: Mapping[str, str]
    _documents: dict[str, list[tuple[Any, bool]]] = field(default_factory=dict)

    def place(self, source: DocumentSource, path: FieldPath) -> TextRange:
        """Return the place of the key of *path*, or of the nearest parent that exists."""
        root, _ = self._root(source)
        nearest = root
        for part in path:
            key, value = _member(root, part)
            if value is None:
                break
            nearest, root = key if key is not None else value, value
        return _BEGINNING if nearest is None else _place(nearest)

    def value(self, source: DocumentSource, path: FieldPath) -> Value | None:
        """Return the value at *path*, or None if it is absent or if YAML aliases may share it with other fields."""
        node, is_json = self._root(source)
        if not is_json and _has_aliases(self.texts.get(source.file, "")):
            return None
        for part in path:
            _, node = _member(node, part)
        return None if node is None else Value(_place(node), bool(getattr(node, "flow_style", True)), is_json)

    def path(self, source: DocumentSource, text: str) -> FieldPath | None:
        """Return the path that prints as *text*, or None if the object has no such field."""
        node, _ = self._root(source)
        return next((path for path in _paths(node, FieldPath(), text) if str(path) == text), None)

    def _root(self, source: DocumentSource) -> tuple[Any, bool]:
        if source.file not in self._documents:
            self._documents[source.file] = list(_compose(source.file, self.texts.get(source.file, "")))
        documents = self._documents[source.file]
        if source.rendered_by or not 0 < source.number <= len(documents):
            return None, False
        node, is_json = documents[source.number - 1]
        if source.item is not None:
            node = _member(_member(node, "items")[1], source.item)[1]
        return node, is_json


def _compose(name: str, text: str) -> Iterator[tuple[Any, bool]]:
    """Yield the root of each document, and whether it is JSON, decided as `webhook.cli.files.parsing` does."""
    try:
        if name.endswith(".json") or text.lstrip().startswith("{"):
            yield from [(yaml.compose(part, Loader=_Loader), True) for part in _json_documents(text)]
            return
    except (ValueError, yaml.YAMLError):
        pass
    try:
        yield from [(node, False) for node in yaml.compose_all(text, Loader=_Loader)]
    except yaml.YAMLError:
        return


def _has_aliases(text: str) -> bool:
    try:
        return any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=_Loader))
    except yaml.YAMLError:
        return False


def _json_documents(text: str) -> Iterator[str]:
    """Yield each JSON value of *text*, with leading blanks that keep its lines and columns.

    Tabs and lone surrogates are allowed in JSON but not in YAML. They are replaced by text of equal length.
    """
    decoder = json.JSONDecoder()
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        _, end = decoder.raw_decode(text, position)
        line, column = text.count("\n", 0, position), position - text.rfind("\n", 0, position) - 1
        part = _SURROGATE.sub(r"\\u003f", text[position:end].replace("\t", " "))
        yield "\n" * line + " " * column + part
        position = end


def _member(node: Any, part: str | int) -> tuple[Any, Any]:
    """Return the key and value of a member, with key None in a list. Both are None if the member is absent."""
    if isinstance(node, yaml.MappingNode) and isinstance(part, str):
        return next(((key, value) for key, value in node.value if key.value == part), (None, None))
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return None, node.value[part]
    return None, None


def _paths(node: Any, at: FieldPath, path_text: str) -> Iterator[FieldPath]:
    """Yield the paths below *node* whose text is a prefix of *path_text*."""
    members: Iterable[tuple[str | int, Any]] = ()
    if isinstance(node, yaml.MappingNode):
        members = [(str(key.value), value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        members = enumerate(node.value)
    for part, value in members:
        path = at / part
        if path_text.startswith(str(path)):
            yield path
            yield from _paths(value, path, path_text)


def _place(node: Any) -> TextRange:
    last = node
    while not isinstance(last, yaml.ScalarNode) and not last.flow_style and last.value:
        last = last.value[-1][1] if isinstance(last, yaml.MappingNode) else last.value[-1]
    start, end = node.start_mark, last.end_mark
    return TextRange(start.line + 1, start.column + 1, end.line + 1, end.column + 1)
