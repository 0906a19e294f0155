"""``harbormaster drain``: evict all placements from a member, within the disruption budgets."""

from datetime import timedelta
from typing import Final

import click

from scorer.api.values.quoting import printable
from webhook.cli.errors import complain
from webhook.cli.hub.client import Client
from webhook.cli.members.evictions import MemberDrain, RemovalPhase, cordon, read_member
from webhook.cli.options.base import not_empty, run, tab
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.options.times import Duration
from webhook.cli.staged_updates.wait import DONE, NEEDS_PERSON, TIMED_OUT

HELP: Final = """Take everything that is placed on a member off it.

First it is cordoned, so that nothing new comes. Then every ClusterResourcePlacement there is evicted, within its
disruption budget and when no other disruption holds the member: what is refused now is asked for again. Shows what
stands in the way. Placements of type PickFixed, and those within a namespace, cannot be evicted: take the cluster off
their policy, or change it. One that tolerates the taint of the cordon, cordon-key, would come back: it stays. --dry-run
judges each placement in the same way, as things are now.

\b
Examples:
  harbormaster drain east --dry-run
  harbormaster drain east
  harbormaster drain east --timeout 30m

\b
Exit codes:
  0  nothing that is placed is left there; with --dry-run: shown
  1  an error
  2  what is left cannot be evicted: somebody has to act
  3  the time is up, and budgets or other disruptions still hold something there
"""
_WOULD: Final = {RemovalPhase.GOING: "would go", RemovalPhase.WAITS: "would wait"}


@click.command("drain", help=HELP, short_help="Take everything that is placed on a member off it.")
@click.argument("name", metavar="CLUSTER", callback=not_empty, shell_complete=tab("clusters"))
@click.option("--timeout", type=Duration(), help="At most this long, such as 30m.  [default: as long as it takes]")
@click.option("--dry-run", is_flag=True, help="Say what would go, wait and stay, and change nothing.")
@hub_options
def command(name: str, timeout: timedelta | None, dry_run: bool, hub: HubOptions) -> int:
    """Drain a member."""
    return run(_drain(hub, name, timeout, dry_run=dry_run))


async def _drain(hub: HubOptions, name: str, within: timedelta | None, *, dry_run: bool) -> int:
    async with Client(hub.find()) as client:
        await read_member(client, name)
        drain = MemberDrain(client, name, lambda line: click.echo(printable(line)))
        if dry_run:
            for removal in await drain.expected():
                reason = "" if removal.standing is RemovalPhase.GOING else f": {removal.message}"
                click.echo(printable(f"{removal.placement}: {_WOULD.get(removal.standing, removal.standing)}{reason}"))
            return DONE
        await cordon(client, name, cordoned=True)
        click.echo(f"{name} gets no new placements")
        remaining = await drain.run(None if within is None else within.total_seconds())
    if not remaining:
        click.echo(f"{name} is empty")
        return DONE
    for removal in remaining:
        complain(printable(f"{removal.placement} {removal.standing}: {removal.message}"))
    return NEEDS_PERSON if all(removal.standing is RemovalPhase.STAYS for removal in remaining) else TIMED_OUT
