"""Options of long-running processes: the hub and the log format."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from scorer.shards import MOST_SHARDS
from webhook.cli.options.base import grouped

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class OwnHub:
    """The hub that a process runs over.

    Args:
        kubeconfig: The kubeconfig. None means the one of the settings.
        context: Context of the kubeconfig. None means its current one.
    """

    kubeconfig: Path | None
    context: str | None


def own_hub_options(command: _Command, *, default: str = "the first file of $KUBECONFIG") -> _Command:
    """Add the options that name the hub to a command, as an `OwnHub` named ``hub``.

    Args:
        command: The command.
        default: The kubeconfigs that the command reads outside a pod.
    """
    return grouped(
        "hub",
        OwnHub,
        click.option(
            "--kubeconfig",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help=f"Kubeconfig of the hub.  [default: in a pod its ServiceAccount, else {default}]",
        ),
        click.option("--context", metavar="NAME", help="Context of the kubeconfig.  [default: its current context]"),
    )(command)


log_format_option: Final = click.option(
    "--log-format", type=click.Choice(["json", "text"]), help="Log format.  [default: json]"
)
"""Overrides the setting of the same name, like every option that is passed to ``Settings.read``."""

shards_option: Final = click.option(
    "--shards",
    type=click.IntRange(1, MOST_SHARDS),
    metavar="N",
    help="Split the work among up to N active replicas. Must be the same in all replicas.  [default: 1]",
)
"""Overrides the setting of the same name, for every process that reconciles a hub."""
