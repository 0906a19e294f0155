"""``harbormaster reject``: a person refuses what a staged update asks for, and the update stops."""

from typing import Final

import click

from scorer.api.unstructured.documents import name_of
from scorer.api.values.quoting import printable
from scorer.staged_update.orders import open_approval, rejection_patch
from webhook.cli.approvals.upgrade_gates import resolve_gate
from webhook.cli.errors import UserError
from webhook.cli.hub.client import Client
from webhook.cli.options.base import not_empty, run, run_namespace_option, tab
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.staged_updates.run_client import Runs, as_user_error
from webhook.cli.upgrades.run_client import UpgradeRuns

HELP: Final = """Reject what a staged update or an upgrade run asks for: it stops.

Name the staged update or the upgrade run, or else its approval request or its gate. What has been changed stays so:
`harbormaster undo RUN` takes a staged update back. `harbormaster run resume RUN` lets the run ask again, as
`harbormaster upgrade start RUN` does for an upgrade run. The reason is kept.

\b
Examples:
  harbormaster reject spring --reason "error rate has doubled"
  harbormaster reject spring-after-canary --reason "wait for the fix"
  harbormaster reject kubernetes-1-31 --reason "nodes do not come back"
  harbormaster reject kubernetes-1-31-canary-after-0-5f3a9c1e --reason "nodes do not come back"

\b
Exit codes:
  0  rejected: the run stops
  1  no such run, request or gate, it waits for no approval, or no hub
"""


@click.command("reject", help=HELP, short_help="Reject what a run asks for: it stops.")
@click.argument("name", metavar="RUN|REQUEST|GATE", callback=not_empty, shell_complete=tab("answerable"))
@click.option(
    "--stage",
    default="",
    callback=not_empty,
    metavar="STAGE",
    help="The stage that is meant.  [default: whichever waits]",
)
@click.option("--reason", required=True, metavar="TEXT", help="Why; kept on the run.")
@run_namespace_option
@hub_options
def command(name: str, stage: str, reason: str, namespace: str, hub: HubOptions) -> int:
    """Reject a request."""
    return run(_reject(hub, name, stage, reason, namespace))


async def _reject(hub: HubOptions, name: str, stage: str, reason: str, namespace: str) -> int:
    async with Client(hub.find()) as client:
        if not namespace and (meant := await resolve_gate(client, name, stage)) is not None:
            gate, owner = meant
            await UpgradeRuns(client).answer(gate, reason, approve=False)
            click.echo(printable(f"{gate} rejected: run {owner} stops"))
            return 0
        runs = Runs(client, namespace)
        found, request = await runs.named(name, stage)
        with as_user_error():
            wait = open_approval(found.run, found.situation, stage=stage, request=request)
            patch = rejection_patch(wait.request, reason)
        if wait.answered:
            owner = name_of(found.run)
            raise UserError(f"{wait.request} is approved already; to stop run {owner}: harbormaster run stop {owner}")
        await runs.patch(found.run, patch)
    click.echo(printable(f"{wait.request} rejected: run {name_of(found.run)} stops"))
    return 0
