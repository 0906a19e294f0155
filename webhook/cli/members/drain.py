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
from webhook.cli.text.output import print_line

HELP: Final = """Evict all placements from a member.

Cordons the member, then evicts every ClusterResourcePlacement from it, within the disruption budget of the placement
and when no other disruption blocks the member. Refused evictions are retried. --dry-run makes the same checks once and
changes nothing.

Evicting a placement that selects a namespace deletes the namespace on the member with everything in it, including the
objects of namespaced placements.

The command reports why placements remain. Placements of type PickFixed and namespaced placements cannot be evicted:
remove the cluster from their policy, or change the policy. A placement that tolerates the taint cordon-key is not
evicted, because it would return.

\b
Examples:
  harbormaster drain east --dry-run
  harbormaster drain east
  harbormaster drain east --timeout 30m

\b
Exit codes:
  0  no placement remains (with --dry-run: shown)
  1  an error
  2  the remaining placements cannot be evicted: action required
  3  timed out while budgets or other disruptions blocked evictions
"""
_WOULD: Final = {RemovalPhase.GOING: "would be evicted", RemovalPhase.WAITS: "would wait"}


@click.command("drain", help=HELP, short_help="Evict all placements from a member.")
@click.argument("name", metavar="CLUSTER", callback=not_empty, shell_complete=tab("clusters"))
@click.option("--timeout", type=Duration(), help="Maximum time to wait, such as 30m.  [default: unlimited]")
@click.option(
    "--dry-run", is_flag=True, help="Show which placements would be evicted, wait or remain, without changing anything."
)
@hub_options
def command(name: str, timeout: timedelta | None, dry_run: bool, hub: HubOptions) -> int:
    """Drain a member."""
    return run(_drain(hub, name, timeout, dry_run=dry_run))


async def _drain(hub: HubOptions, name: str, within: timedelta | None, *, dry_run: bool) -> int:
    async with Client(hub.find()) as client:
        await read_member(client, name)
        drain = MemberDrain(client, name, print_line)
        if dry_run:
            for removal in await drain.expected():
                reason = "" if removal.standing is RemovalPhase.GOING else f": {removal.message}"
                print_line(f"{removal.placement}: {_WOULD.get(removal.standing, removal.standing)}{reason}")
            return DONE
        await cordon(client, name, cordoned=True)
        click.echo(f"{name} cordoned")
        remaining = await drain.run(None if within is None else within.total_seconds())
    if not remaining:
        click.echo(f"{name} drained")
        return DONE
    for removal in remaining:
        complain(printable(f"{removal.placement} {removal.standing}: {removal.message}"))
    return NEEDS_PERSON if all(removal.standing is RemovalPhase.STAYS for removal in remaining) else TIMED_OUT
