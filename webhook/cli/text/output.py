"""Answers on standard output: tables for users, JSON and YAML for programs.

On a terminal, tables are colored and wrapped (``NO_COLOR`` is honored). Otherwise, tables are plain columns for
``awk`` and ``grep``, and are never truncated.
"""

import json
import os
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
import orjson

from scorer.api.values.quoting import printable
from webhook.cli.text.links import URLS, kinds_of_columns, linked, links_are_shown, links_in, urls_in
from webhook.settings.variables import CommandVariables

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_GAP: Final = "   "
_NARROWEST: Final = 3
"""Minimum width of a plain column, as in kubectl, whose minimum is six including the gap."""
_UNESCAPED: Final = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Characters that `printable` replaces and JSON allows in a text."""
_STYLES: Final = {
    **dict.fromkeys(("True", "available", "allowed", "yes", "Picked", "Kept", "done"), "green"),
    **dict.fromkeys(("False", "failed", "invalid", "stalled", "refused", "no"), "red"),
    **dict.fromkeys(("rolling out", "empty", "removal pending", "short", "pending", "held", "Unknown"), "yellow"),
}


def is_terminal() -> bool:
    """Return whether standard output is a terminal that supports control sequences."""
    return sys.stdout.isatty() and not CommandVariables.read(os.environ).can_only_print


def print_table(
    headers: Sequence[str], rows: Iterable[Sequence[object]], *, colour: bool = True, whole: Collection[str] = ()
) -> None:
    """Print rows under headers: on a terminal wrapped to its width, or as plain columns if that is too narrow.

    Args:
        headers: One per column.
        rows: One cell per column.
        colour: Whether colors are allowed.
        whole: Headers of columns that are never wrapped, however long their cells are.
    """
    headers = [printable(header) for header in headers]
    texts = [[printable(str(cell)) for cell in row] for row in rows]
    if not is_terminal():
        print_plain(headers, texts)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(no_color=None if colour else True, highlight=False)
    widths = [max(len(cell) for cell in column) for column in zip(headers, *texts, strict=True)]
    prose = [
        position
        for position, (header, width) in enumerate(zip(headers, widths, strict=True))
        if width > _LONGEST_WORD and header not in whole
    ]
    width_sum = sum(widths[position] for position in range(len(headers)) if position not in prose)
    room = console.width - width_sum - len(_GAP) * len(headers)
    below = prose if prose and room < _NARROWEST_PROSE * len(prose) else []
    if width_sum + len(_GAP) * len(headers) > console.width:
        print_plain(headers, texts)  # no column is cut: the terminal wraps, as it does for kubectl
        return
    table = Table(box=None, pad_edge=False, padding=(0, len(_GAP), 0, 0), header_style="bold")
    for position, header in enumerate(headers):
        if position in prose:
            table.add_column(header, overflow="fold")
        else:
            table.add_column(header, no_wrap=True, min_width=widths[position])
    if below:
        _print_with_prose_below(console, headers, texts, widths, below)
        return
    for row in texts:
        styled = (Text(cell, _STYLES.get(cell, "")) for cell in row)
        table.add_row(*map(with_links, styled, kinds_of_columns(headers)))
    console.print(table)


def with_urls(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Return a table with one more column: the URLs of the paragraphs about the words of each row."""
    return [*headers, URLS], [[*row, urls_in(row, headers)] for row in rows]


def with_links(text: "Text", kind: str = "") -> "Text":
    """Add links to the words of *text* that the documents explain, if links are shown."""
    for link in links_in(text.plain, kind) if links_are_shown() else ():
        text.stylize(f"link {link.url}", link.start, link.end)
    return text


_LONGEST_WORD: Final = 32
"""Maximum width of a column that is never cut. A column with a longer cell holds prose, which may be wrapped."""
_NARROWEST_PROSE: Final = 24
_INDENT: Final = "    "


def _print_with_prose_below(
    console: "Console", headers: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], prose: list[int]
) -> None:
    """Print the short columns in one line, and below each row the texts that do not fit next to them."""
    from rich.padding import Padding
    from rich.text import Text

    short = [position for position in range(len(headers)) if position not in prose]
    kinds = kinds_of_columns(headers)

    def line(cells: Sequence[str], style: str = "") -> Text:
        parts = []
        for position in short:
            text = Text(cells[position], style or _STYLES.get(cells[position], ""))
            gap = " " * (widths[position] - len(cells[position])) + _GAP
            parts += [with_links(text, kinds[position]), Text(gap)]
        return Text.assemble(*parts)

    console.print(line(headers, "bold"), overflow="ignore", no_wrap=True)
    for row in rows:
        console.print(line(row), overflow="ignore", no_wrap=True)
        for position in prose:
            if row[position]:
                text = with_links(Text(f"{headers[position].lower()}: {row[position]}"))
                console.print(Padding(text, (0, 0, 0, len(_INDENT))))


def print_plain(
    headers: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int] | None = None
) -> list[int]:
    """Print plain columns, and return their widths to align later rows with the same headers."""
    lines = [[printable(cell) for cell in row] for row in ([headers, *rows] if headers else rows)]
    column_widths = [max((len(cell) for cell in column), default=0) for column in zip(*lines, strict=True)]
    column_widths = [max(width, _NARROWEST) for width in column_widths]
    column_widths = [max(pair) for pair in zip(column_widths, widths, strict=True)] if widths else column_widths
    kinds = kinds_of_columns(headers) or [""] * len(column_widths)
    for line in lines:
        cells = (
            linked(cell, kind) + " " * (width - len(cell))
            for cell, kind, width in zip(line, kinds, column_widths, strict=True)
        )
        click.echo(_GAP.join(cells).rstrip())
    return column_widths


def print_line(line: str) -> None:
    """Print a line of text: without control characters, and with links from its words if they are shown."""
    click.echo(linked(printable(line)))


def print_document(value: Any, output: str) -> None:
    """Print *value*, decoded JSON, as ``json`` or ``yaml``."""
    if output == "json":
        click.echo(format_json(value))
        return
    from webhook.runtime.yaml import format_yaml

    click.echo(format_yaml(value), nl=False)


def print_text(text: str) -> None:
    """Print a text as it is, but on a terminal without control characters."""
    if sys.stdout.isatty():
        text = "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))
    click.echo(text, nl=False)


def format_json(value: Any) -> str:
    """Return *value* as indented JSON.

    Control and bidirectional formatting characters are escaped, even where JSON does not require it.
    """
    try:
        text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
        return _UNESCAPED.sub(lambda letter: f"\\u{ord(letter[0]):04x}", text)
    except orjson.JSONEncodeError:  # lone surrogates, integers beyond 64 bits
        return json.dumps(value, indent=2)
