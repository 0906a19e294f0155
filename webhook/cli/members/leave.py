"""``harbormaster leave``: remove a member from the fleet."""

from typing import TYPE_CHECKING

import click

from webhook.cli.errors import UserError, complain
from webhook.cli.hub.connection import HubConnection
from webhook.cli.members.join import wait_for
from webhook.cli.members.options import Sides, connected, read_settings, sides_options
from webhook.cli.operating.agent import check_cluster
from webhook.cli.options.base import run, tab

if TYPE_CHECKING:
    from webhook.processes.leave import Leave

HELP = """Let a member go, and remove what `harbormaster join` made for it.

First the MemberCluster is deleted, and the command waits until it is gone: the agent lets go of what was placed, which
stays in the cluster, and the loop removes the member from the hub. Only then the agent's Deployment (if join made it),
its rights, its login for the hub and its account there are removed, in this order. The definition of AppliedWorks stays
in the cluster, because what was placed would go with it.

When the time is up, the command says what it is waiting for; run it again to continue. Without --member-context, for a
cluster that cannot be reached any more, nothing is removed there, and the loop goes on after 15 minutes without the
agent.

\b
Examples:
  harbormaster leave berlin --context hub --member-context berlin --dry-run
  harbormaster leave berlin --context hub --member-context berlin
  harbormaster leave berlin --context hub

\b
Exit codes:
  0  nothing of the member is left on the hub, or there was nothing
  1  something is in the way, or the member is not gone when the time is up
"""


@click.command("leave", help=HELP, short_help="Let a member go.")
@click.argument("name", shell_complete=tab("clusters"))
@sides_options(member_required=False)
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@click.option(
    "--timeout",
    default=1200.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds to wait until the MemberCluster is gone.",
)
def command(name: str, sides: Sides, dry_run: bool, timeout: float) -> int:
    """Leave."""
    check_cluster("NAME", name)
    spaces = read_settings(sides.hub_namespace).namespace, read_settings(sides.namespace).namespace
    hub, member = sides.find_hub(), sides.find_member()
    return run(_connect(name, spaces, hub, member, dry_run=dry_run, seconds=timeout))


async def _connect(
    name: str,
    spaces: tuple[str, str],
    hub: HubConnection,
    member: HubConnection | None,
    *,
    dry_run: bool,
    seconds: float,
) -> int:
    from webhook.processes.leave import Leave, LeaveOptions
    from webhook.processes.sides import JoinError

    options = LeaveOptions(name, *spaces)
    async with connected("hub", hub) as on_hub:
        try:
            if member is None:
                return await _leave(Leave(on_hub, None, options, click.echo), name, dry_run=dry_run, seconds=seconds)
            async with connected("member", member) as in_member:
                leave = Leave(on_hub, in_member, options, click.echo)
                return await _leave(leave, name, dry_run=dry_run, seconds=seconds)
        except JoinError as error:
            raise UserError(str(error)) from error


async def _leave(leave: "Leave", name: str, *, dry_run: bool, seconds: float) -> int:
    await leave.check()
    was_registered = await leave.request_departure(dry_run=dry_run)
    if was_registered and not dry_run and (remainder := await wait_for(leave.waited_on, seconds)):
        raise UserError(f"{name} has not left after {seconds:g} s: {remainder}; run this again to continue")
    cleared = await leave.clear(dry_run=dry_run)
    if not was_registered and not cleared:
        click.echo(f"there is no member {name}, and nothing of one: nothing was changed")
        return 0
    for remark in await leave.follow_up():
        complain(remark)
    if not dry_run:
        click.echo(f"{name} has left")
    return 0
