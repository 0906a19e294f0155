"""``harbormaster removals``: removals of content that wait for confirmation."""

from datetime import timedelta
from typing import Final

import click

from scorer.api.meta import format_time
from webhook.cli.hub.client import Client
from webhook.cli.options.base import output_option, run
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.options.times import Duration
from webhook.cli.removals.effects import PendingGroup, all_recorded
from webhook.cli.text.output import print_document, print_table
from webhook.runtime.clock import utc_now

HELP: Final = """Show removals of content from members that wait for confirmation.

The content remains on the members until `harbormaster confirm PLACEMENT`, or until the source is restored.

\b
Examples:
  harbormaster removals
  harbormaster removals --older-than 7d
  harbormaster removals -o json

\b
-o json (yaml: the same):
  items[]     placement digest effect since

\b
Exit codes:
  0  shown (also when nothing is pending)
  1  no hub
"""
HEADERS: Final = ("PLACEMENT", "SINCE", "DIGEST", "EFFECT")


class _Age(Duration):
    """A duration that may also be given in days."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Return the duration, or fail with a message that shows the value."""
        days = str(value).removesuffix("d")
        if days != value and days.isascii() and days.isdigit() and len(days) < 6:
            return timedelta(days=int(days))
        return super().convert(value, param, ctx)


@click.command("removals", help=HELP, short_help="Show removals of content that wait for confirmation.")
@click.option("--older-than", type=_Age(), default="0s", help="Only those that have waited longer, such as 7d.")
@output_option("table", "json", "yaml")
@hub_options
def command(older_than: timedelta, output: str, hub: HubOptions) -> int:
    """Show pending removals."""
    return run(_removals(hub, older_than, output))


async def _removals(hub: HubOptions, older_than: timedelta, output: str) -> int:
    async with Client(hub.find()) as client:
        groups = await all_recorded(client)
    latest = utc_now() - older_than
    groups = [group for group in groups if group.since is None or group.since <= latest]
    if output == "table":
        print_table(HEADERS, [(group.ref, _since(group), group.digest, group.effect) for group in groups])
    else:
        items = [
            {"placement": each.ref, "digest": each.digest, "effect": each.effect, "since": _since(each) or None}
            for each in groups
        ]
        print_document({"items": items}, output)
    return 0


def _since(group: PendingGroup) -> str:
    return format_time(group.since) if group.since else ""
