"""``harbormaster cordon``: a member gets no new placements."""

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


@click.command("cordon", help=HELP, short_help="Let a member get no new placements.")
@click.argument("name", metavar="CLUSTER", callback=not_empty, shell_complete=tab("clusters"))
@hub_options
def command(name: str, hub: HubOptions) -> int:
    """Cordon a member."""
    return run(_cordon(hub, name))


async def _cordon(hub: HubOptions, name: str) -> int:
    async with Client(hub.find()) as client:
        changed = await cordon(client, name, wanted=True)
    click.echo(f"{name} {'gets' if changed else 'got none already, and gets'} no new placements")
    return 0
