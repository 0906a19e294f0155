"""Price lists in files, reloaded on changes. A file is CSV according to its name, otherwise YAML or JSON.

Source: docs/specifications/scheduling.md 18; docs/specifications/nodepool-disruption.md 5.1;
docs/specifications/serving.md 8.
"""

import asyncio
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar

import yaml

from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.field_path import FieldPath
from scorer.prices import InvalidPricesError, PriceMistake, csv_lines, csv_rows, first_mistakes
from webhook.runtime.files import read_bounded

LARGEST_BYTES: Final = 32 * 1024 * 1024
"""Size limit in bytes. A cloud provider has several thousand offerings of about a thousand instance types."""

VALUES_PER_CHARACTER: Final = 4
"""Limit of values per character. A file without aliases has fewer values than characters."""

_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NUMBERS: Final = {
    "tag:yaml.org,2002:int": r"[-+]?(0|[1-9][0-9]*)",
    "tag:yaml.org,2002:float": r"[-+]?([0-9]+\.[0-9]*|\.?[0-9]+)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
}
_log = logging.getLogger(__name__)

T = TypeVar("T")


class _Loader(_SafeLoader):  # type: ignore[misc] # the C extension has no types
    """Reads numbers as YAML 1.2: ``1:30`` is not 90, ``010`` is not 8, and ``1e-1`` is a number."""

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _NUMBERS]
        for first, resolvers in _SafeLoader.yaml_implicit_resolvers.items()
    }


for _tag, _pattern in _NUMBERS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(f"(?:{_pattern})$"), list("-+.0123456789"))


class PriceFileError(ValueError):
    """An unusable price list.

    Args:
        path: The file.
        mistakes: Errors, each with line, field and value.
    """

    def __init__(self, path: Path, mistakes: Sequence[str]) -> None:
        super().__init__(f"{path}: {'; '.join(first_mistakes(mistakes))}")
        self.lines = tuple(f"{path}: {mistake}" for mistake in mistakes)
        """A line for each error, with the file."""


def load_prices(path: Path, reader: Callable[[Any], T]) -> T:
    """Read a price list.

    Args:
        path: The file.
        reader: Parses the decoded file. May raise `InvalidPricesError`.

    Raises:
        PriceFileError: The file is unusable.
    """
    try:
        text = read_bounded(path, LARGEST_BYTES).decode("utf-8-sig")
        source = _Csv(text) if path.suffix.lower() == ".csv" else _Yaml(text)
    except OSError as error:
        raise PriceFileError(path, [(error.strerror or str(error)).lower()]) from error
    except UnicodeDecodeError as error:
        raise PriceFileError(path, [f"is not UTF-8 text: byte {error.start}"]) from error
    except InvalidPricesError as error:
        raise PriceFileError(path, [str(mistake) for mistake in error.mistakes]) from error
    try:
        return reader(source.document)
    except InvalidPricesError as error:
        raise PriceFileError(path, [source.located(mistake) for mistake in error.mistakes]) from error


class _Csv:
    """The rows of a CSV file, with the last line of each row."""

    def __init__(self, text: str) -> None:
        self.document: Any = csv_rows(text)
        self._text = text

    def located(self, mistake: PriceMistake) -> str:
        """Return an error with its line and column."""
        if not mistake.field:
            return mistake.message
        row, *column = mistake.field.parts
        lines = csv_lines(self._text)
        assert isinstance(row, int)
        return f"line {lines[row]}: {PriceMistake(FieldPath.of(*column), mistake.message)}"


class _Yaml:
    """A YAML or JSON document, and the nodes with its lines.

    JSON is parsed without nodes, which saves seconds for a large file.
    """

    def __init__(self, text: str) -> None:
        self._root: yaml.Node | None = None
        try:
            self.document: Any = json.loads(text, object_pairs_hook=_unique)
        except (ValueError, RecursionError):
            self.document = self._parsed(text)
        if isinstance(self.document, str):
            raise _invalid("must be a price list in YAML or JSON. The name of a CSV file must end in .csv")

    def _parsed(self, text: str) -> Any:
        loader = _Loader(text)
        try:
            self._root = loader.get_single_node()
            twice = [] if self._root is None else list(_repeated(self._root, VALUES_PER_CHARACTER * len(text)))
            if twice:
                raise InvalidPricesError([PriceMistake(FieldPath(), self.located(mistake)) for mistake in twice])
            return None if self._root is None else loader.construct_document(self._root)
        except yaml.MarkedYAMLError as error:
            line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
            raise _invalid(f"is neither YAML nor JSON: {line}{error.problem or error.context}") from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            if isinstance(error, InvalidPricesError):
                raise
            raise _invalid(f"is neither YAML nor JSON: {' '.join(str(error).split())[:200]}") from error
        finally:
            loader.dispose()

    def located(self, mistake: PriceMistake) -> str:
        """Return an error with its line. For JSON, the line is unknown and omitted."""
        return str(mistake) if self._root is None else f"line {_line(self._root, mistake.field)}: {mistake}"


def _unique(pairs: list[tuple[str, Any]]) -> JsonObject:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name must not be listed twice")  # the YAML parser then reports it with its line
    return members


def _invalid(message: str) -> InvalidPricesError:
    return InvalidPricesError([PriceMistake(FieldPath(), message)])


def _repeated(root: yaml.Node, most: int) -> Iterator[PriceMistake]:
    """Yield the repeated keys of an object.

    Raises:
        InvalidPricesError: There are more than *most* values, with expanded aliases.
    """
    ahead, count = [(root, FieldPath())], 0
    while ahead:
        node, at = ahead.pop()
        count += 1
        if count > most:
            raise _invalid("its aliases repeat too much")
        if isinstance(node, yaml.SequenceNode):
            ahead += [(item, at / index) for index, item in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            names = [str(key.value) for key, _ in node.value]
            repeated = (name for name, number in Counter(names).items() if number > 1 and name != "<<")
            yield from (PriceMistake(at / name, "is listed twice") for name in repeated)
            ahead += [(value, at / name) for name, (_, value) in zip(names, node.value, strict=True)]


def _line(node: yaml.Node, path: FieldPath) -> int:
    """Return the line of the field at *path*, or of its closest existing parent."""
    for part in path.parts:
        below = None
        if isinstance(node, yaml.MappingNode):
            below = next((value for key, value in reversed(node.value) if key.value == part), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            below = node.value[part]
        if below is None:
            break
        node = below
    return int(node.start_mark.line) + 1


class PriceFile(Generic[T]):
    """The price list in a file, or the last valid one while the file is invalid.

    Args:
        path: The file.
        reader: See `load_prices`.
    """

    def __init__(self, path: Path, reader: Callable[[Any], T]) -> None:
        self._path = path
        self._load = reader
        self._mark: tuple[int, ...] = ()
        self._prices: T | None = None
        self.problem = ""
        """Why the current content of the file is not used, empty if it is."""

    async def open(self) -> None:
        """Read the file for the first time. Raises `PriceFileError`."""
        await asyncio.to_thread(self._read)

    async def current(self) -> T | None:
        """Return the prices, the same object while the file is unchanged, or None before the first valid read."""
        try:
            await asyncio.to_thread(self._read)
        except PriceFileError as error:
            if str(error) != self.problem:
                _log.warning("price list not reloaded", extra={"error": str(error)})
            self.problem = str(error)
        return self._prices

    def _read(self) -> None:
        try:
            stat = self._path.stat()
        except OSError as error:
            self._mark = ()
            raise PriceFileError(self._path, [(error.strerror or str(error)).lower()]) from error
        mark = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if mark == self._mark:
            return
        self._mark = mark  # taken before the read: a file that is replaced during the read is read again next time
        try:
            self._prices = load_prices(self._path, self._load)
        except PriceFileError as error:
            if isinstance(error.__cause__, OSError):  # it may become readable without a change
                self._mark = ()
            raise
        self.problem = ""
