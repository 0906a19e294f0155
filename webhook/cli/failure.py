"""What ends a command: mistakes of the user's making, told in one line each."""

from collections.abc import Iterable
from typing import IO, Any

import click

MOST_LINES = 20
"""Mistakes that are shown; the rest is counted."""


class UserError(click.ClickException):
    """Something the user can put right; exit code 1, no traceback.

    Args:
        lines: One mistake each, naming file, field and value as far as there are any.
    """

    exit_code = 1

    def __init__(self, lines: str | Iterable[str]) -> None:
        self.lines = (lines,) if isinstance(lines, str) else tuple(lines)
        super().__init__("\n".join(self.lines))

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the mistakes to standard error, each on its line."""
        for line in self.lines[:MOST_LINES]:
            complain(f"error: {line}", file)
        if len(self.lines) > MOST_LINES:
            complain(f"error: and {len(self.lines) - MOST_LINES} more", file)


def complain(line: str, file: IO[Any] | None = None) -> None:
    """Write one line to standard error; what could steer a terminal is replaced."""
    click.echo(
        "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line), file, err=True
    )
