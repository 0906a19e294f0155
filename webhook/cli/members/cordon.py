"""``harbormaster cordon``: mark a member unschedulable."""

from typing import Final

import click

from webhook.cli.hub.client import Client
from webhook.cli.members.evictions import cordon
from webhook.cli.options.base import not_empty, run, tab
from webhook.cli.options.hub import HubOptions, hub_options

HELP: Final = """Let a member get no new placements.

Puts the taint `cordon-key=cordon-value:NoSchedule` on it, as `kubectl fleet drain` does. What is placed there stays;
`harbormaster drain` removes it, `harbormaster uncordon` takes the taint off again.

\b
Examples:
  harbormaster cordon east

\b
Exit codes:
  0  tainted, or it was
  1  no such member, or no hub
"""


def cordon_command(name: str, help_text: str, short_help: str, *, cordoned: bool) -> click.Command:
    """Return the command that cordons or uncordons a member."""
    changed, unchanged = (
        ("gets no new placements", "got none already, and gets no new placements")
        if cordoned
        else ("gets placements", "was not cordoned, and gets placements")
    )

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


command = cordon_command("cordon", HELP, "Let a member get no new placements.", cordoned=True)
