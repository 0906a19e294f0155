"""``harbormaster removals``: removals of content that wait for confirmation."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import click

from scorer.api.crd.table import format_age
from scorer.rollout.confirmation.member_contents import describe_contents
from scorer.rollout.views.removals import UnconfirmedRemoval
from webhook.cli.hub.client import Client
from webhook.cli.options.base import output_option, run
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.options.times import Duration
from webhook.cli.removals.effects import all_recorded
from webhook.cli.text.output import print_document, print_table
from webhook.runtime.clock import utc_now

HELP: Final = """List removals of content from members that await confirmation.

The content remains on the members until the removal is confirmed (`harbormaster confirm PLACEMENT`). If the source is
restored, no removal is pending anymore. Orphaned
content, which remained when its namespace was deleted, has no digest: create its placement again, or delete the content
on the members and then the annotation `harbormaster.dev/orphaned-content` from their MemberClusters.

\b
Examples:
  harbormaster removals
  harbormaster removals --older-than 7d
  harbormaster removals -o json

\b
-o json (yaml: the same):
  items[]     placement kind effect digest objects clusters[] clusterCount onMembers since ageSeconds, as
              /v1/removals has them

\b
Exit codes:
  0  shown (even if nothing is pending or orphaned)
  1  an unreachable hub
"""
HEADERS: Final = ("PLACEMENT", "AGE", "DIGEST", "OBJECTS", "CLUSTERS", "EFFECT", "ON MEMBERS")


class _Age(Duration):
    """A duration that may also be given in days."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Return the duration, or fail with a message that shows the value."""
        days = str(value).removesuffix("d")
        if days != value and days.isascii() and days.isdigit() and len(days) < 6:
            return timedelta(days=int(days))
        return super().convert(value, param, ctx)


@click.command("removals", help=HELP, short_help="List removals of content that await confirmation.")
@click.option(
    "--older-than",
    type=_Age(),
    default="0s",
    help="Show only removals that have been pending for at least this long, such as 7d, or for an unknown time.",
)
@output_option("table", "json", "yaml")
@hub_options
def command(older_than: timedelta, output: str, hub: HubOptions) -> int:
    """Show pending removals."""
    return run(_removals(hub, older_than, output))


async def _removals(hub: HubOptions, older_than: timedelta, output: str) -> int:
    async with Client(hub.find()) as client:
        recorded_removals = await all_recorded(client)
    seconds = older_than.total_seconds()
    pending = [
        (each["placement"], removal)
        for each in recorded_removals
        for removal in each["removals"]
        if removal["ageSeconds"] is None or removal["ageSeconds"] >= seconds
    ]
    pending.sort(key=lambda pair: (pair[1]["since"] or "", pair[0], pair[1]["digest"]))
    if output == "table":
        print_table(HEADERS, [_row(placement, removal) for placement, removal in pending])
    else:
        print_document({"items": [{"placement": placement, **removal} for placement, removal in pending]}, output)
    return 0


def _row(placement: str, removal: UnconfirmedRemoval) -> Sequence[object]:
    age = "unknown" if removal["ageSeconds"] is None else format_age(removal["ageSeconds"])
    on_members = describe_contents(removal["onMembers"], utc_now())
    return (
        placement,
        age,
        removal["digest"] or "none",
        removal["objects"],
        removal["clusterCount"],
        removal["effect"],
        on_members,
    )
