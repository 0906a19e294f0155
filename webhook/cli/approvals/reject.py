"""``harbormaster reject``: refuse an approval request or an upgrade gate, which stops the run."""

from typing import Final

import click

from scorer.api.unstructured.documents import name_of
from scorer.staged_update.orders import open_approval, rejection_patch
from webhook.cli.approvals.request import RequestOptions, request_options
from webhook.cli.errors import UserError
from webhook.cli.hub.client import Client
from webhook.cli.options.base import run
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.staged_updates.output import command_line
from webhook.cli.staged_updates.runs_of_kind import as_user_error
from webhook.cli.text.output import print_line
from webhook.cli.upgrades.run_client import UpgradeRuns

HELP: Final = """Reject a pending approval request or upgrade gate, and stop the run.

Name a run, an approval request or an upgrade gate. Changes already made remain: `harbormaster undo RUN` rolls back a
staged update. To request the approval again, use `harbormaster run resume RUN` for a staged update, and `harbormaster
upgrade start RUN` for an upgrade run.

\b
Examples:
  harbormaster reject spring --reason "error rate has doubled"
  harbormaster reject spring-after-canary --reason "wait for the fix"
  harbormaster reject kubernetes-1-31 --reason "nodes do not come back"
  harbormaster reject kubernetes-1-31-canary-after-0-5f3a9c1e --reason "nodes do not come back"

\b
Exit codes:
  0  rejected: the run stops
  1  no such run, request or gate, no pending approval, or an unreachable hub
"""


@click.command("reject", help=HELP, short_help="Reject a pending approval request or upgrade gate, and stop the run.")
@request_options
@click.option("--reason", required=True, metavar="TEXT", help="Reason, recorded on the run or the gate.")
@hub_options
def command(options: RequestOptions, reason: str, namespace: str, hub: HubOptions) -> int:
    """Reject a request."""
    return run(_reject(hub, options, reason, namespace))


async def _reject(hub: HubOptions, options: RequestOptions, reason: str, namespace: str) -> int:
    async with Client(hub.find()) as client:
        if (gate_of_run := await options.gate(client, namespace)) is not None:
            gate, owner = gate_of_run
            await UpgradeRuns(client).answer(gate, reason, approve=False)
            print_line(f"{gate} rejected: run {owner} stops")
            return 0
        runs, update, request = await options.update(client, namespace)
        with as_user_error():
            approval = open_approval(update.run, update.situation, stage=options.stage, request=request)
            patch = rejection_patch(approval.request, reason)
        owner = name_of(update.run)
        if approval.answered:
            words = ["run", "stop", owner, *(["-n", namespace] if namespace else [])]
            stop = command_line(words, hub)
            raise UserError(f"{approval.request} is already approved. To stop run {owner}: {stop}")
        await runs.patch(update.run, patch)
    print_line(f"{approval.request} rejected: run {owner} stops")
    return 0
