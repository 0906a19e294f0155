"""``harbormaster undo``: roll back the changes of a staged update with another one."""

from typing import Final

import click

from scorer.api.unstructured.documents import name_of, text_at
from scorer.staged_update.undo import undo
from webhook.cli.hub.client import Client
from webhook.cli.options.base import run, run_argument
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.staged_updates.run_client import Runs
from webhook.cli.staged_updates.runs_of_kind import as_user_error
from webhook.cli.staged_updates.wait import WaitOptions, wait_for, waiting_options

HELP: Final = """Roll back a staged update.

Creates another run, with the same placement and strategy, that returns the clusters to their previous resource
snapshot. The new run has the same approvals and waits. The run to roll back must be finished or stopped. Policies and
overrides are not rolled back, and a cluster that the placement was removed from does not get it again.

If newer runs have changed the placement since, their changes would be rolled back too. This is refused without --force.

\b
Examples:
  harbormaster undo spring
  harbormaster undo spring --wait --timeout 1h
  harbormaster undo web-7 -n team-a

\b
Exit codes:
  0  the run was created (with --wait: succeeded)
  1  nothing to undo, no previous snapshot, newer runs, or an unreachable hub (with --wait also: the new run failed)
  2  with --wait: action required, standard output shows what the run waits for
  3  with --wait: timed out
"""


@click.command("undo", help=HELP, short_help="Roll back a staged update.")
@run_argument()
@click.option("--force", is_flag=True, help="Roll back even if newer runs have changed the placement.")
@waiting_options
@hub_options
def command(name: str, namespace: str, wait_options: WaitOptions, hub: HubOptions, *, force: bool) -> int:
    """Undo a run."""
    wait_options.check()
    return run(_undo(hub, name, namespace, wait_options, force=force))


async def _undo(hub: HubOptions, name: str, namespace: str, wait_options: WaitOptions, *, force: bool) -> int:
    async with Client(hub.find()) as client:
        runs = Runs(client, namespace)
        view = await runs.get(name)
        retained_snapshots = await runs.retained(text_at(view.run, "spec", "placementName"))
        with as_user_error():
            document = undo(view.run, view.situation, await runs.all(), retained_snapshots, force=force)
        title = await runs.create(document)
        index = document["spec"]["resourceSnapshotIndex"]
        click.echo(f"{title} created: it rolls back {name} to resource snapshot {index}")
        return await wait_for(runs, name_of(document), wait_options, wait_options.finished, hub)
