"""``harbormaster leave``: remove a member from the fleet."""

from typing import TYPE_CHECKING

import click

from webhook.cli.errors import UserError, complain
from webhook.cli.hub.connection import HubConnection
from webhook.cli.members.join import wait_for
from webhook.cli.members.options import Sides, connected, find_helm, read_settings, sides_options
from webhook.cli.operating.agent import check_cluster
from webhook.cli.options.base import is_agreed, run, tab
from webhook.cli.options.times import Patience

if TYPE_CHECKING:
    from webhook.processes.leave import Leave

HELP = """Remove a member from the fleet, and delete what `harbormaster join` created for it.

Deletes the MemberCluster and waits for its removal: the agent gives up ownership of the placed objects, which remain in
the cluster, and the loop removes the member from the hub. The command then deletes, in this order, the agent's
Deployment or Helm release (if join created it), its roles, its credentials for the hub and its account there.

The CustomResourceDefinition of AppliedWorks remains in the cluster, because deleting it would delete the placed
objects. The agent also remains if join did not create it, or if join used helm and helm is not installed now.

If the command times out, it reports what it was waiting for. Run it again to continue. For a cluster that is no longer
reachable, omit --member-context: nothing is removed there, and the loop stops waiting for the agent after 15 minutes by
default (HARBORMASTER_FORCE_DELETE_SECONDS).

Shows what would be removed, and asks for confirmation. In scripts, use --yes.

\b
Examples:
  harbormaster leave berlin --context hub --member-context berlin --dry-run
  harbormaster leave berlin --context hub --member-context berlin
  harbormaster leave berlin --context hub --yes

\b
Exit codes:
  0  the member was removed from the hub, or did not exist (with --dry-run: shown)
  1  an error, not confirmed, or timed out
"""


@click.command("leave", help=HELP, short_help="Remove a member from the fleet.")
@click.argument("name", shell_complete=tab("clusters"))
@sides_options(member_required=False)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, without removing anything.")
@click.option(
    "--timeout",
    default="20m",
    show_default=True,
    type=Patience(),
    help="Maximum time to wait for the MemberCluster to be deleted.",
)
def command(name: str, sides: Sides, timeout: float, *, yes: bool, dry_run: bool) -> int:
    """Remove a member from the fleet. Return the exit code."""
    check_cluster("NAME", name)
    spaces = read_settings(sides.hub_namespace).namespace, read_settings(sides.namespace).namespace
    hub, member = sides.find_hub(), sides.find_member()
    return run(_connect(name, spaces, hub, member, yes=yes, dry_run=dry_run, seconds=timeout))


async def _connect(
    name: str,
    spaces: tuple[str, str],
    hub: HubConnection,
    member: HubConnection | None,
    *,
    yes: bool,
    dry_run: bool,
    seconds: float,
) -> int:
    from webhook.processes.leave import Leave, LeaveOptions
    from webhook.processes.sides import JoinError

    options = LeaveOptions(name, *spaces)
    async with connected("hub", hub) as on_hub:
        try:
            if member is None:
                leave = Leave(on_hub, None, options, click.echo, None)
                return await _leave(leave, name, yes=yes, dry_run=dry_run, seconds=seconds)
            async with connected("member", member) as in_member:
                leave = Leave(on_hub, in_member, options, click.echo, find_helm(member, options.namespace))
                return await _leave(leave, name, yes=yes, dry_run=dry_run, seconds=seconds)
        except JoinError as error:
            raise UserError(str(error)) from error


async def _leave(leave: "Leave", name: str, *, yes: bool, dry_run: bool, seconds: float) -> int:
    await leave.check()
    if not yes and not dry_run:
        any_removed = [await leave.request_departure(dry_run=True), await leave.clear(dry_run=True)]
        if not any(any_removed):
            return _nothing_to_remove(name)
        if not is_agreed(f"Remove {name} from the fleet?", yes=False):
            return 1
    was_registered = await leave.request_departure(dry_run=dry_run)
    if was_registered and not dry_run and (remainder := await wait_for(leave.waited_on, seconds)):
        raise UserError(
            f"timed out after {seconds:g} s waiting for {name} to leave: {remainder}. Run the command again to continue"
        )
    cleared = await leave.clear(dry_run=dry_run)
    if not was_registered and not cleared:
        return _nothing_to_remove(name)
    for remark in await leave.follow_up(dry_run=dry_run):
        complain(remark)
    if not dry_run:
        click.echo(f"{name} has left")
    return 0


def _nothing_to_remove(name: str) -> int:
    click.echo(f"member {name} not found, and nothing of it remains: no changes made")
    return 0
