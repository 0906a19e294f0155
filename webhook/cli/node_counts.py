"""The options that say how many nodes a pool has, for files without nodes to count."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from webhook.cli.options import grouped

LARGEST_COUNT: Final = 2147483647

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class CountOptions:
    """What the user says about the nodes of a pool.

    Args:
        total: How many there are.
        deleting: How many of them are being deleted.
        not_ready: How many others are not ready.
    """

    total: int | None = None
    deleting: int | None = None
    not_ready: int | None = None

    def __bool__(self) -> bool:
        """Whether any is given."""
        return any(count is not None for count in (self.total, self.deleting, self.not_ready))

    def check_whole(self) -> None:
        """Raise `click.UsageError` when parts are given, and not the whole."""
        if self and self.total is None:
            raise click.UsageError("--deleting and --not-ready are parts of a whole: give --total as well")


def count_options(total: str, deleting: str, not_ready: str) -> Callable[[_Command], _Command]:
    """Return what gives a command these options, with their help texts; it gets them as ``counts``."""
    count = click.IntRange(0, LARGEST_COUNT)
    return grouped(
        "counts",
        CountOptions,
        click.option("--total", type=count, metavar="N", help=total),
        click.option("--deleting", type=count, metavar="N", help=deleting),
        click.option("--not-ready", type=count, metavar="N", help=not_ready),
    )
