"""The approval that ``approve`` and ``reject`` answer: of a staged update, or of an upgrade run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from webhook.cli.approvals.upgrade_gates import resolve_gate
from webhook.cli.hub.client import Client
from webhook.cli.options.base import grouped, not_empty, run_argument, tab
from webhook.cli.staged_updates.run_client import Runs, RunView

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """The request or gate that a user answers.

    Args:
        name: Name of a run, an approval request or a gate.
        stage: Stage, empty if unset.
    """

    name: str
    stage: str

    async def gate(self, client: Client, namespace: str) -> tuple[str, str] | None:
        """Return the gate and its upgrade run, or None for a staged update. Raises `UserError`."""
        return None if namespace else await resolve_gate(client, self.name, self.stage)

    async def update(self, client: Client, namespace: str) -> tuple[Runs, RunView, str]:
        """Return the staged updates, the one named by the user, and its approval request if that is named.

        Raises:
            UserError: The name belongs to no run and no approval request, or to both.
        """
        runs = Runs(client, namespace)
        return runs, *await runs.named(self.name, self.stage)


def request_options(command: _Command) -> _Command:
    """Give a command the options of `RequestOptions` as ``options``, and ``namespace``."""
    with_stage = grouped(
        "options",
        RequestOptions,
        click.option(
            "--stage",
            default="",
            callback=not_empty,
            metavar="STAGE",
            shell_complete=tab("waiting_stages"),
            help="Stage of the approval.  [default: the waiting stage]",
        ),
    )
    return run_argument("answerable")(with_stage(command))
