"""``harbormaster uncordon``: a member gets placements again."""

from typing import Final

import click

from webhook.cli.hub.client import Client
from webhook.cli.members.evictions import cordon
from webhook.cli.options.base import not_empty, run, tab
from webhook.cli.options.hub import HubOptions, hub_options

HELP: Final = """Let a member get placements again.

Takes off the taint that `harbormaster cordon` and `harbormaster drain` put on it; other taints stay.

\b
Examples:
  harbormaster uncordon east

\b
Exit codes:
  0  the taint is gone, or there was none
  1  no such member, or no hub
"""


@click.command("uncordon", help=HELP, short_help="Let a member get placements again.")
@click.argument("name", metavar="CLUSTER", callback=not_empty, shell_complete=tab("clusters"))
@hub_options
def command(name: str, hub: HubOptions) -> int:
    """Uncordon a member."""
    return run(_uncordon(hub, name))


async def _uncordon(hub: HubOptions, name: str) -> int:
    async with Client(hub.find()) as client:
        changed = await cordon(client, name, wanted=False)
    click.echo(f"{name} {'gets' if changed else 'was not cordoned, and gets'} placements")
    return 0
