"""Options that several commands have in common, and how a command's coroutine is run."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import click

from webhook.cli.failure import UserError
from webhook.cli.interrupts import end_in_order

_Result = TypeVar("_Result")
_Command = TypeVar("_Command", bound=Callable[..., Any])

file_option = click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="File, folder (recursively) or - for standard input: YAML or JSON. May be given several times.",
)
namespace_option = click.option(
    "-n", "--namespace", default=None, metavar="NS", help='Namespace; "default" when not given.'
)
hub_namespace_option = click.option(
    "-n",
    "--namespace",
    default=None,
    metavar="NS",
    help='Namespace; when not given that of the context of a kubeconfig, else "default".',
)
FORMATS: Final = ("table", "json", "yaml")


def output_option(*formats: str) -> Callable[[_Command], _Command]:
    """Return the option ``-o``; the first of *formats* is the default."""
    return click.option(
        "-o", "--output", type=click.Choice(formats or FORMATS), default=(formats or FORMATS)[0], show_default=True
    )


def run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a client command.

    Raises:
        UserError: The hub refuses a request, and the command has not said so itself.
    """
    from webhook.cli.client import RefusedError

    end_in_order()
    try:
        return asyncio.run(work)
    except RefusedError as error:
        raise UserError(error.lines()) from error
