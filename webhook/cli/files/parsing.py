"""Parses the text of a file into objects: YAML, JSON and lists of objects. The objects are not validated."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, NoReturn

from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import quote
from webhook.runtime.yaml import DEEPEST, YamlError, parse_yaml

_BEGINNING: Final = re.compile(r"\S")
_WHOLE: Final = FieldPath()


@dataclass(frozen=True, slots=True)
class DocumentSource:
    """Location of an object: file, number of the document, and index in a list.

    Args:
        file: The file as the user named it.
        number: Number of the document, counted from 1. 0 means the file as a whole.
        item: Index in a list. None if the object is not in a list.
        confidential: Whether messages must not repeat its content.
        rendered_by: The program that has rendered the object. Empty: the file itself contains the object.
        origin: Location of the source of a rendered object. None: unknown, or the object is not rendered.
    """

    file: str
    number: int = 1
    item: int | None = None
    confidential: bool = field(default=False, compare=False)
    rendered_by: str = ""
    origin: "DocumentSource | None" = field(default=None, compare=False)

    @property
    def written(self) -> "DocumentSource":
        """The location in a file to show to the user."""
        return self.origin or self

    def __str__(self) -> str:
        if not self.number:
            return self.file
        document = f"document {self.number}" + (f" of {self.rendered_by}" if self.rendered_by else "")
        place = f"{self.file}: {document}"
        return place if self.item is None else f"{place}, items[{self.item}]"


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """One object as read. It is a JSON object, but is not validated otherwise."""

    document: JsonObject
    source: DocumentSource


@dataclass(frozen=True, slots=True)
class FileMistake:
    """The reason why a file, or an object in it, cannot be used.

    Args:
        source: The file or the object.
        message: The reason.
        path: Field of the object.
        line: Line of the file, 1 if unknown.
        content: The readable part of the file, which is never shown.
    """

    source: DocumentSource
    message: str
    path: FieldPath = _WHOLE
    line: int = 1
    content: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return ": ".join(filter(None, (str(self.source), str(self.path), self.message)))


class UnreadableFileError(Exception):
    """A file or folder cannot be read. The message is a complete line."""

    def __init__(self, file: str, reason: str, line: int = 1, content: str = "") -> None:
        self.mistake = FileMistake(DocumentSource(file, 0), reason, line=line, content=content)
        super().__init__(str(self.mistake))


def objects_in(
    name: str, text: str, problems: list[FileMistake], *, confidential: bool = False
) -> list[SourceDocument]:
    """Return the objects in the text of a file.

    Args:
        name: Name of the file.
        text: Text of the file.
        problems: Receives an error for each value that is not an object. The error does not contain the value.
        confidential: Whether messages must not repeat any part of the text.

    Raises:
        UnreadableFileError: The text cannot be parsed.
    """
    return [
        member
        for source, value in values_in(name, text, confidential=confidential)
        for member in members_of(value, source, problems)
    ]


def values_in(name: str, text: str, *, confidential: bool = False) -> list[tuple[DocumentSource, Any]]:
    """Return the values in the text of a file, except empty documents. See `objects_in` for arguments and errors."""
    try:
        values = _values(name, text)
    except UnreadableFileError:
        if confidential:
            raise UnreadableFileError(name, "is neither YAML nor JSON") from None
        raise
    return [
        (DocumentSource(name, number, confidential=confidential), value)
        for number, value in enumerate(values, start=1)
        if value is not None
    ]


def _values(name: str, text: str) -> list[Any]:
    """Read the documents of one text. A text that starts like JSON may still be YAML. Raises `UnreadableFileError`."""
    is_json = name.endswith(".json")
    if is_json or text.lstrip().startswith("{"):
        try:
            return _json_values(text)
        except (ValueError, RecursionError) as error:
            if is_json:
                line = error.lineno if isinstance(error, json.JSONDecodeError) else 1
                raise UnreadableFileError(name, _json_trouble(error), line) from error
    try:
        return [parsed_document.value for parsed_document in parse_yaml(text)]
    except YamlError as error:
        raise UnreadableFileError(name, str(error), error.line) from error


def _json_values(text: str) -> list[Any]:
    decoder = json.JSONDecoder(object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
    values: list[Any] = []
    position = 0
    while (word := _BEGINNING.search(text, position)) is not None:
        value, position = decoder.raw_decode(text, word.start())
        _check_depth(value, 1)
        values.append(value)
    return values


def _without_duplicates(members: list[tuple[str, Any]]) -> JsonObject:
    document = dict(members)
    if len(document) < len(members):
        numbers = Counter(name for name, _ in members)
        twice = next(name for name, number in numbers.items() if number > 1)
        raise ValueError(f"{quote(twice)} is given twice in one object")
    return document


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a valid JSON number")


def _check_depth(value: Any, depth: int) -> None:
    if isinstance(value, dict | list):
        if depth > DEEPEST:
            raise ValueError(f"nested deeper than {DEEPEST} levels")
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, depth + 1)


def _json_trouble(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}: not JSON: {error.msg[:1].lower()}{error.msg[1:]} (column {error.colno})"
    return f"nested deeper than {DEEPEST} levels" if isinstance(error, RecursionError) else f"not JSON: {error}"


def members_of(value: Any, source: DocumentSource, problems: list[FileMistake]) -> Iterator[SourceDocument]:
    """Yield an object, or the items of a list such as ``List`` or ``PodList``.

    *problems* receives an error for each value that is not an object.
    """
    if not isinstance(value, dict):
        problems.append(FileMistake(source, f"is {type_name(value)}, expected an object"))
        return
    kind = value.get("kind")
    is_list = isinstance(kind, str) and kind.endswith("List") and "items" in value and "spec" not in value
    if not is_list:
        yield SourceDocument(value, source)
        return
    items = value["items"]
    if not isinstance(items, list):
        problems.append(FileMistake(source, f"is {type_name(items)}, expected a list", FieldPath.of("items")))
        return
    own_kind = {} if kind == "List" else {"apiVersion": value.get("apiVersion"), "kind": str(kind)[: -len("List")]}
    for position, item in enumerate(items):
        place = replace(source, item=position)
        if isinstance(item, dict):
            yield SourceDocument({**own_kind, **item}, place)
        else:
            problems.append(FileMistake(place, f"is {type_name(item)}, expected an object"))


def type_name(value: Any) -> str:
    """Return the type of a JSON value, for messages."""
    match value:
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case None:
            return "null"
        case _:
            return "an object"
