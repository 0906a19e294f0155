"""Errors of a command that the user can correct: one line each on standard error."""

from collections.abc import Iterable
from typing import IO, Any, Final

import click

from scorer.api.values.quoting import shortened

SERVER_ERROR: Final = "Error from server"
"""Prefix of errors that a hub returns, as in kubectl."""
MOST_LINES = 20
"""Maximum number of errors that are shown. The others are only counted."""


class UserError(click.ClickException):
    """An error that the user can correct, reported with exit code 1 and without a traceback.

    Args:
        lines: One error each, with file, field and value if it has them.
    """

    exit_code = 1

    def __init__(self, lines: str | Iterable[str]) -> None:
        self.lines = (lines,) if isinstance(lines, str) else tuple(lines)
        super().__init__("\n".join(self.lines))

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the errors to standard error, one per line."""
        for line in self.lines[:MOST_LINES]:
            report_error(line, file)
        if len(self.lines) > MOST_LINES:
            complain(f"error: and {len(self.lines) - MOST_LINES} more", file)


def report_error(line: str, file: IO[Any] | None = None) -> None:
    """Write an error to standard error, with the prefix ``error:`` unless it is one from the server."""
    complain(line if line.startswith(SERVER_ERROR) else f"error: {line}", file)


def complain(line: str, file: IO[Any] | None = None) -> None:
    """Write one line of bounded length to standard error, without control characters."""
    line = shortened(line)
    click.echo(
        "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line), file, err=True
    )
