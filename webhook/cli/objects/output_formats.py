"""Formats of ``-o`` that kubectl has for objects: names, JSONPath, custom columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.quoting import printable
from webhook.cli.errors import UserError
from webhook.cli.text.jsonpath import JsonPathError, go_text, parse_path, parse_template
from webhook.cli.text.output import print_document, print_plain, print_text
from webhook.runtime.files import read_bounded

WORDS: Final = ("table", "wide", "json", "yaml", "name")
WITH_ARGUMENT: Final = ("jsonpath", "jsonpath-as-json", "jsonpath-file", "custom-columns", "custom-columns-file")
_METAVAR: Final = "table|wide|json|yaml|name|jsonpath=…|custom-columns=…"


@dataclass(frozen=True, slots=True)
class Format:
    """Output format of objects.

    Args:
        name: One of `WORDS`, ``jsonpath``, ``jsonpath-as-json`` or ``custom-columns``.
        argument: The template, or the columns.
    """

    name: str
    argument: str = ""

    @property
    def is_table(self) -> bool:
        """Whether the format prints rows with the columns of the kind."""
        return self.name in ("table", "wide")

    @property
    def is_document(self) -> bool:
        """Whether the format prints the objects as one document."""
        return self.name in ("json", "yaml", "jsonpath", "jsonpath-as-json")

    def show(self, document: JsonObject) -> None:
        """Print one document. Raises `UserError`."""
        if self.name in ("json", "yaml"):
            print_document(document, self.name)
            return
        try:
            if self.name == "jsonpath":
                print_text(parse_template(self.argument).write(document))
            else:
                print_document(parse_template(self.argument).find(document), "json")
        except JsonPathError as error:
            raise UserError(f"-o {self.name}: {printable(self.argument)[:128]}: {error}") from error

    def columns(self) -> "CustomColumns":
        """Return the columns that the user names. Raises `JsonPathError`."""
        return CustomColumns.parse(self.argument)


class FormatType(click.ParamType[Format]):
    """Parameter type of ``-o``."""

    name = "format"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:  # noqa: ARG002
        """Return the placeholder for the help."""
        return _METAVAR

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Return the formats that start with *incomplete*."""
        formats = (*WORDS, *(f"{word}=" for word in WITH_ARGUMENT))
        return [CompletionItem(name) for name in formats if name.startswith(incomplete)]

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Format:
        """Return the format, or fail with a list of the formats."""
        if isinstance(value, Format):
            return value
        word, equals, argument = str(value).partition("=")
        if word in WORDS and not equals:
            return Format(word)
        if word.startswith("go-template") or word == "templatefile":
            self.fail(f"{word} (Go templates) is not supported: use jsonpath=…", param, ctx)
        if word not in WITH_ARGUMENT:
            close = get_close_matches(word, (*WORDS, *WITH_ARGUMENT), n=1)
            hint = f". Did you mean {close[0]}?" if close else ""
            self.fail(f"{word[:64]!r} is not one of {_METAVAR.replace('|', ', ')}{hint}", param, ctx)
        if not argument:
            self.fail(f"{word} requires a value, as in {_EXAMPLES[word]}", param, ctx)
        if word.endswith("-file"):
            word, argument = word.removesuffix("-file"), _content(argument)
        format_ = Format(word, argument)
        try:
            if word == "custom-columns":
                format_.columns()
            else:
                parse_template(argument)
        except JsonPathError as error:
            self.fail(f"{word}: {printable(argument)[:128]}: {error}", param, ctx)
        return format_


_EXAMPLES: Final = {
    "jsonpath": "jsonpath='{.items[*].metadata.name}'",
    "jsonpath-as-json": "jsonpath-as-json='{.items[*].metadata.name}'",
    "jsonpath-file": "jsonpath-file=FILE",
    "custom-columns": "custom-columns=NAME:.metadata.name,TYPE:.spec.policy.placementType",
    "custom-columns-file": "custom-columns-file=FILE",
}


def format_option(command: Any) -> Any:
    """Add the option ``-o`` with all formats of objects to a command, as a `Format` named ``output``."""
    return click.option(
        "-o",
        "--output",
        type=FormatType(),
        default="table",
        help="Format.  [default: table]",
    )(command)


def _content(file: str) -> str:
    try:
        return read_bounded(Path(file)).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"-o: {file}: is not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise UserError(f"-o: {file}: {(error.strerror or str(error)).lower()}") from error


class CustomColumns:
    """Columns that the user names: ``NAME:.metadata.name,TYPE:.spec.policy.placementType``.

    Source: kubectl ``pkg/cmd/get/customcolumn.go``.
    """

    def __init__(self, headers: Sequence[str], paths: Sequence[Any]) -> None:
        self.headers = list(headers)
        self._paths = paths
        self._widths: list[int] | None = None

    @classmethod
    def parse(cls, text: str) -> "CustomColumns":
        """Parse columns. In a file, the first line has the headers and the second the paths.

        Raises:
            JsonPathError: The columns cannot be parsed.
        """
        lines = text.strip().splitlines()
        if len(lines) > 1:
            headers, paths = lines[0].split(), lines[1].split()
            if len(lines) > 2 or len(headers) != len(paths):
                raise JsonPathError("expected a line of headers and a line of as many paths")
            return cls(headers, [parse_path(path) for path in paths])
        columns = []
        for part in text.strip().split(","):
            header, colon, path = part.partition(":")
            if not colon or not header or not path:
                raise JsonPathError(f"{part[:64]!r}: expected <header>:<json-path-expr>")
            columns.append((header, parse_path(path)))
        return cls([header for header, _ in columns], [path for _, path in columns])

    def row(self, document: JsonObject) -> list[str]:
        """Return the cells of an object. Raises `UserError`."""
        cells = []
        for header, path in zip(self.headers, self._paths, strict=True):
            try:
                values = path.find([document])
            except JsonPathError as error:
                raise UserError(f"-o custom-columns: {header}: {error}") from error
            cells.append(printable(",".join(map(go_text, values))) if values else "<none>")
        return cells

    def show(self, documents: Sequence[JsonObject], *, headers: bool) -> None:
        """Print rows. With *headers*, the first rows are printed below a line of headers."""
        first = headers and self._widths is None
        self._widths = print_plain(
            self.headers if first else [], [self.row(document) for document in documents], self._widths
        )
