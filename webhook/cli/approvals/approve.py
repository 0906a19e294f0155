"""``harbormaster approve``: approve a paused staged update or upgrade run, so that it continues."""

from typing import Final

import click

from scorer.api.unstructured.documents import name_of
from scorer.staged_update.orders import RunOrderRefusedError, approved_request, open_approval
from webhook.actions.patches import approval_message
from webhook.cli.approvals.request import RequestOptions, request_options
from webhook.cli.hub.client import Client
from webhook.cli.options.base import run
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.staged_updates.run_client import RunView, approver
from webhook.cli.staged_updates.runs_of_kind import as_user_error
from webhook.cli.text.output import print_line
from webhook.cli.upgrades.run_client import UpgradeRuns

HELP: Final = """Approve a pending approval request or upgrade gate.

Name a run, an approval request or an upgrade gate. Only an open request or gate can be approved, not one that the run
has not reached yet. If an upgrade run waits for several approvals, name the gate, or its stage with --stage. To
open a timed gate early, name it. `harbormaster run status` and `harbormaster upgrade status` list pending approvals.

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
  0  approved now or earlier
  1  no such run, request or gate, no pending approval, or an unreachable hub
"""


@click.command("approve", help=HELP, short_help="Approve a pending approval request or upgrade gate.")
@request_options
@click.option("-m", "--message", default="", metavar="TEXT", help="Reason, recorded with the approval.")
@hub_options
def command(options: RequestOptions, message: str, namespace: str, hub: HubOptions) -> int:
    """Approve a request."""
    return run(_approve(hub, options, message, namespace))


async def _approve(hub: HubOptions, options: RequestOptions, message: str, namespace: str) -> int:
    text = approval_message(approver(), message)
    async with Client(hub.find()) as client:
        if (gate_of_run := await options.gate(client, namespace)) is not None:
            gate, owner = gate_of_run
            view = await UpgradeRuns(client).answer(gate, text, approve=True)
            confirmation = f"{gate} approved: run {owner} continues" if view else f"{gate} is already approved"
            print_line(confirmation)
            return 0
        runs, update, request = await options.update(client, namespace)
        request_opening = _open_request(update, options.stage, request)
        if not request_opening or not await runs.approve(request_opening, text):
            outcome = request_opening or approved_request(
                update.run, update.requests, stage=options.stage, request=request
            )
            print_line(f"{outcome} is already approved")
            return 0
    print_line(f"{request_opening} approved: run {name_of(update.run)} continues")
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
