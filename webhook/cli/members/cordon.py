"""``harbormaster cordon``: mark a member unschedulable."""

from typing import Final

import click

from webhook.cli.hub.client import Client
from webhook.cli.members.evictions import cordon
from webhook.cli.options.base import not_empty, run, tab
from webhook.cli.options.hub import HubOptions, hub_options

HELP: Final = """Mark a member unschedulable.

Adds the taint `cordon-key=cordon-value:NoSchedule`, as `kubectl fleet drain` of KubeFleet does. Existing placements
remain: `harbormaster drain` evicts them. `harbormaster uncordon` removes the taint.

\b
Examples:
  harbormaster cordon east

\b
Exit codes:
  0  cordoned now or earlier
  1  no such member, or an unreachable hub
"""


def cordon_command(name: str, help_text: str, short_help: str, *, cordoned: bool) -> click.Command:
    """Return the command that cordons or uncordons a member."""
    changed, unchanged = ("cordoned", "already cordoned") if cordoned else ("uncordoned", "already uncordoned")

    async def set_taint(hub: HubOptions, member: str) -> int:
        async with Client(hub.find()) as client:
            is_changed = await cordon(client, member, cordoned=cordoned)
        click.echo(f"{member} {changed if is_changed else unchanged}")
        return 0

    @click.command(name, help=help_text, short_help=short_help)
    @click.argument("member", metavar="CLUSTER", callback=not_empty, shell_complete=tab("clusters"))
    @hub_options
    def command(member: str, hub: HubOptions) -> int:
        return run(set_taint(hub, member))

    return command


command = cordon_command("cordon", HELP, "Mark a member unschedulable.", cordoned=True)
