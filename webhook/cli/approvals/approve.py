"""``harbormaster approve``: approve a paused staged update or upgrade run, so that it continues."""

from typing import Final

import click

from scorer.api.unstructured.documents import name_of
from scorer.api.values.quoting import printable
from scorer.staged_update.orders import RunOrderRefusedError, approved_request, open_approval
from webhook.cli.approvals.request import RequestOptions, request_options
from webhook.cli.hub.client import Client
from webhook.cli.options.base import run, run_namespace_option
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.staged_updates.run_client import RunView, approver
from webhook.cli.staged_updates.runs_of_kind import as_user_error
from webhook.cli.upgrades.run_client import UpgradeRuns

HELP: Final = """Approve what a staged update or an upgrade run waits for.

Name the staged update or the upgrade run, or else its approval request or its gate. The approval counts for the request
or gate that is open now: one that a run has not reached yet cannot be approved in advance. `harbormaster run status`
and `harbormaster upgrade status` show what is waited for. Of an upgrade run that waits for several approvals, name the
gate.

\b
Examples:
  harbormaster approve spring
  harbormaster approve spring --stage canary --message "error rate is flat"
  harbormaster approve spring-after-canary
  harbormaster approve web-7 -n team-a
  harbormaster approve kubernetes-1-31 --stage canary
  harbormaster approve kubernetes-1-31-canary-after-0-5f3a9c1e

\b
Exit codes:
  0  approved, or had been
  1  no such run, request or gate, it waits for no approval, or no hub
"""


@click.command("approve", help=HELP, short_help="Approve what a staged update or an upgrade run waits for.")
@request_options
@click.option("-m", "--message", default="", metavar="TEXT", help="Why; kept with the approval.")
@run_namespace_option
@hub_options
def command(options: RequestOptions, message: str, namespace: str, hub: HubOptions) -> int:
    """Approve a request."""
    return run(_approve(hub, options, message, namespace))


async def _approve(hub: HubOptions, options: RequestOptions, message: str, namespace: str) -> int:
    text = f"approved by {approver()}" + (f": {message}" if message else "")
    async with Client(hub.find()) as client:
        if (gate_of_run := await options.gate(client, namespace)) is not None:
            gate, owner = gate_of_run
            view = await UpgradeRuns(client).answer(gate, text, approve=True)
            confirmation = f"{gate} approved: run {owner} goes on" if view else f"{gate} was approved already"
            click.echo(printable(confirmation))
            return 0
        runs, update, request = await options.update(client, namespace)
        request_opening = _open_request(update, options.stage, request)
        if not request_opening or not await runs.approve(request_opening, text):
            outcome = request_opening or approved_request(
                update.run, update.requests, stage=options.stage, request=request
            )
            click.echo(printable(f"{outcome} was approved already"))
            return 0
    click.echo(printable(f"{request_opening} approved: run {name_of(update.run)} goes on"))
    return 0


def _open_request(update: RunView, stage: str, request: str) -> str:
    """Return the name of the request to approve, or an empty string if it is approved already."""
    with as_user_error():
        try:
            return open_approval(update.run, update.situation, stage=stage, request=request).request
        except RunOrderRefusedError:
            if approved_request(update.run, update.requests, stage=stage, request=request):
                return ""
            raise
