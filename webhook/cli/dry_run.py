"""``--dry-run`` as kubectl has it: ``client`` sends nothing, ``server`` has the hub check all and store nothing."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


class DryRun(StrEnum):
    """How far a change goes."""

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"

    @property
    def note(self) -> str:
        """What follows the outcome of a change."""
        return {DryRun.NONE: "", DryRun.CLIENT: " (dry run)", DryRun.SERVER: " (server dry run)"}[self]

    def __bool__(self) -> bool:
        """Whether nothing is changed."""
        return self is not DryRun.NONE


class DryRunCommand(click.Command):
    """A command whose ``--dry-run`` may stand alone: the word after it is never its value, as in kubectl."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments."""
        end = args.index("--") if "--" in args else len(args)
        written = [f"--dry-run={DryRun.SERVER}" if each == "--dry-run" else each for each in args[:end]]
        return super().parse_args(ctx, written + args[end:])


def dry_run_option(does: str) -> Callable[[_Command], _Command]:
    """Return the option; *does* is what a dry run does with the hub, such as ``store nothing``."""
    return click.option(
        "--dry-run",
        type=click.Choice([each.value for each in DryRun]),
        default=DryRun.NONE.value,
        callback=lambda _context, _parameter, value: DryRun(value),
        metavar="[=client|server]",
        help=f"Let the hub check everything and {does}; client: do not even send it.",
    )
