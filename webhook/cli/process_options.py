"""The options that name the hub of a long-running process."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from webhook.cli.options import grouped

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class OwnHub:
    """The hub that a process runs over.

    Args:
        kubeconfig: None: the one that the settings find.
        context: Of the kubeconfig; None: its current one.
    """

    kubeconfig: Path | None
    context: str | None


def own_hub_options(command: _Command) -> _Command:
    """Give a command the options that name its hub; it gets them as one `OwnHub` named ``hub``."""
    return grouped(
        "hub",
        OwnHub,
        click.option(
            "--kubeconfig",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Kubeconfig of the hub.  [default: $KUBECONFIG, or in a pod its ServiceAccount]",
        ),
        click.option("--context", metavar="NAME", help="Context of the kubeconfig.  [default: its current context]"),
    )(command)
