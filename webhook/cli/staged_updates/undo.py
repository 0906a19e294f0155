"""``harbormaster undo``: roll back the changes of a staged update with another one."""

from typing import Final

import click

from scorer.api.unstructured.documents import name_of, text_at
from scorer.staged_update.undo import undo
from webhook.cli.hub.client import Client
from webhook.cli.options.base import not_empty, run, run_namespace_option, tab
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.staged_updates.run_client import Runs
from webhook.cli.staged_updates.runs_of_kind import as_user_error
from webhook.cli.staged_updates.wait import WaitOptions, wait_for, waiting_options

HELP: Final = """Take back what a staged update has changed.

Creates another run, with the same placement and strategy, that brings the clusters to the resource snapshot they had
before. It has the approvals and waits of the strategy as well. The run to take back has to be over or stopped. Policies
and overrides are not taken back, and a cluster that the placement was removed from does not get it again. Where newer
runs have changed the placement since, their changes would go as well: that is refused without --force.

\b
Examples:
  harbormaster undo spring
  harbormaster undo spring --wait --timeout 1h
  harbormaster undo web-7 -n team-a

\b
Exit codes:
  0  the run is created; with --wait: it has succeeded
  1  nothing to undo, no snapshot to go back to, newer runs, or no hub; with --wait also: the new run has failed
  2  with --wait: it goes on only when somebody acts; what it waits for is on standard output
  3  with --wait: the time is up
"""


@click.command("undo", help=HELP, short_help="Take back what a staged update has changed.")
@click.argument("name", metavar="RUN", callback=not_empty, shell_complete=tab("updates"))
@click.option("--force", is_flag=True, help="Although newer runs have changed the placement since.")
@run_namespace_option
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
        click.echo(f"{title} created: it takes back {name}, to resource snapshot {index}")
        return await wait_for(runs, name_of(document), wait_options, wait_options.finished, hub)
