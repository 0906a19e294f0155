"""``harbormaster approve``: a person lets a staged update, or an upgrade run, go on."""

from typing import Final

import click

from scorer.api.unstructured.documents import name_of
from scorer.api.values.quoting import printable
from scorer.staged_update.orders import RunOrderRefusedError, approved_already, open_approval
from webhook.cli.approvals.upgrade_gates import resolve_gate
from webhook.cli.hub.client import Client
from webhook.cli.options.base import not_empty, run, run_namespace_option, tab
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.staged_updates.run_client import Runs, RunView, approver, as_user_error
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
@click.argument("name", metavar="RUN|REQUEST|GATE", callback=not_empty, shell_complete=tab("answerable"))
@click.option(
    "--stage",
    default="",
    callback=not_empty,
    metavar="STAGE",
    help="The stage that is meant.  [default: whichever waits]",
)
@click.option("-m", "--message", default="", metavar="TEXT", help="Why; kept with the approval.")
@run_namespace_option
@hub_options
def command(name: str, stage: str, message: str, namespace: str, hub: HubOptions) -> int:
    """Approve a request."""
    return run(_approve(hub, name, stage, message, namespace))


async def _approve(hub: HubOptions, name: str, stage: str, message: str, namespace: str) -> int:
    text = f"approved by {approver()}" + (f": {message}" if message else "")
    async with Client(hub.find()) as client:
        if not namespace and (meant := await resolve_gate(client, name, stage)) is not None:
            gate, owner = meant
            answered = await UpgradeRuns(client).answer(gate, text, approve=True)
            confirmation = f"{gate} approved: run {owner} goes on" if answered else f"{gate} was approved already"
            click.echo(printable(confirmation))
            return 0
        runs = Runs(client, namespace)
        found, request = await runs.named(name, stage)
        wanted = _wanted(found, stage, request)
        if not wanted or not await runs.approve(wanted, text):
            done = wanted or approved_already(found.run, found.requests, stage=stage, request=request)
            click.echo(printable(f"{done} was approved already"))
            return 0
    click.echo(printable(f"{wanted} approved: run {name_of(found.run)} goes on"))
    return 0


def _wanted(found: RunView, stage: str, request: str) -> str:
    """Return the name of the request to approve; empty: the one that is meant is approved already."""
    with as_user_error():
        try:
            return open_approval(found.run, found.situation, stage=stage, request=request).request
        except RunOrderRefusedError:
            if approved_already(found.run, found.requests, stage=stage, request=request):
                return ""
            raise
