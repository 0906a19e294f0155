"""Options of the gate and of budgets: nodes, counts, the instant, and the reservation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

import click

from scorer.api.unstructured.json_object import JsonObject
from webhook.cli.files.search import Files
from webhook.cli.options.base import grouped

_seconds = click.IntRange(10, 3600)

LARGEST_COUNT: Final = 2147483647

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class CountOptions:
    """Node counts of a pool, as given by the user.

    Args:
        total: All nodes.
        deleting: Nodes that are being deleted.
        not_ready: Other nodes that are not ready.
    """

    total: int | None = None
    deleting: int | None = None
    not_ready: int | None = None

    def __bool__(self) -> bool:
        """Whether any count is given."""
        return any(count is not None for count in (self.total, self.deleting, self.not_ready))

    def check_whole(self) -> None:
        """Raise `click.UsageError` if parts are given without the total."""
        if self and self.total is None:
            raise click.UsageError("--deleting and --not-ready require --total")


def count_options(total: str, deleting_help: str, not_ready: str) -> Callable[[_Command], _Command]:
    """Return a decorator that adds these options with their help texts to a command, as argument ``counts``."""
    count = click.IntRange(0, LARGEST_COUNT)
    return grouped(
        "counts",
        CountOptions,
        click.option("--total", type=count, metavar="N", help=total),
        click.option("--deleting", type=count, metavar="N", help=deleting_help),
        click.option("--not-ready", type=count, metavar="N", help=not_ready),
    )


@dataclass(frozen=True, slots=True)
class _DisruptionOptions:
    """Nodes to disrupt, and the reason.

    Args:
        pool: NodePool of the nodes.
        nodes: Names of nodes, preferred ones first. If empty, any *count* of them.
        reason: One of `REASONS`.
        count: Number of nodes. None if *nodes* are named.
        class_: ``graceful`` or ``eventual``.
        up_to: Accept fewer nodes.
    """

    pool: str
    nodes: Sequence[str]
    reason: str
    count: int | None
    class_: str
    up_to: bool

    def question(self) -> JsonObject:
        """Return the options as the request body of the gate."""
        question: JsonObject = {"pool": self.pool, "reason": self.reason, "class": self.class_}
        question["mode"] = "upTo" if self.up_to else "all"
        return question | ({"nodes": list(self.nodes)} if self.nodes else {"count": self.count})


@dataclass(frozen=True, slots=True)
class _InstantOptions:
    """Instant that a question is about, and the reader's time zone.

    Args:
        now: The instant. None means the current time.
        zone: Name of a time zone. None means the one of this machine.
    """

    now: datetime | None
    zone: str | None


@dataclass(frozen=True, slots=True)
class _ReservationOptions:
    """Options of a reservation. Both are given, or neither.

    Args:
        seconds: Duration.
        holder: The caller that disrupts.
    """

    seconds: int | None
    holder: str | None

    def check(self, files: Files | None = None) -> None:
        """Raise `click.UsageError` if only one of the two is given, or a reservation is requested with *files*."""
        if files and self.seconds is not None:
            raise click.UsageError("--reserve cannot be used with -f: only a running hub has reservations")
        if (self.seconds is None) != (self.holder is None):
            raise click.UsageError("--reserve and --holder must be given together")


def reservation_options(command: _Command) -> _Command:
    """Add the options of a `_ReservationOptions` to a command, as argument ``reservation``."""
    return grouped(
        "reservation",
        _ReservationOptions,
        click.option(
            "--reserve",
            "seconds",
            type=_seconds,
            metavar="SECONDS",
            help="Reserve the permission for this many seconds. Requires --holder.",
        ),
        click.option(
            "--holder", metavar="NAME", help="Holder of the reservation, shown to other callers. Requires --reserve."
        ),
    )(command)
