"""``harbormaster reject``: refuse an approval request of a staged update, which stops the update."""

from typing import Final

import click

from scorer.api.unstructured.documents import name_of
from scorer.api.values.quoting import printable
from scorer.staged_update.orders import open_approval, rejection_patch
from webhook.cli.approvals.request import RequestOptions, request_options
from webhook.cli.errors import UserError
from webhook.cli.hub.client import Client
from webhook.cli.options.base import run, run_namespace_option
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.staged_updates.runs_of_kind import as_user_error
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
@request_options
@click.option("--reason", required=True, metavar="TEXT", help="Why; kept on the run.")
@run_namespace_option
@hub_options
def command(options: RequestOptions, reason: str, namespace: str, hub: HubOptions) -> int:
    """Reject a request."""
    return run(_reject(hub, options, reason, namespace))


async def _reject(hub: HubOptions, options: RequestOptions, reason: str, namespace: str) -> int:
    async with Client(hub.find()) as client:
        if (gate_of_run := await options.gate(client, namespace)) is not None:
            gate, owner = gate_of_run
            await UpgradeRuns(client).answer(gate, reason, approve=False)
            click.echo(printable(f"{gate} rejected: run {owner} stops"))
            return 0
        runs, update, request = await options.update(client, namespace)
        with as_user_error():
            approval = open_approval(update.run, update.situation, stage=options.stage, request=request)
            patch = rejection_patch(approval.request, reason)
        owner = name_of(update.run)
        if approval.answered:
            stop = f"harbormaster run stop {owner}"
            raise UserError(f"{approval.request} is approved already; to stop run {owner}: {stop}")
        await runs.patch(update.run, patch)
    click.echo(printable(f"{approval.request} rejected: run {owner} stops"))
    return 0
