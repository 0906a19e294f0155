"""``harbormaster removals``: removals of content that wait for confirmation."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import click

from scorer.api.crd.table import format_age
from scorer.rollout.confirmation.member_contents import describe_contents
from scorer.rollout.views.removals import UnconfirmedRemoval
from webhook.cli.errors import UserError, complain
from webhook.cli.hub.client import FORBIDDEN, Client, HubRefusedError
from webhook.cli.options.base import output_option, run, tab
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.options.times import Duration
from webhook.cli.removals.effects import RecordedRemovals, all_recorded
from webhook.cli.text.output import print_document, print_table
from webhook.runtime.clock import utc_now

HELP: Final = """List removals of content from members that await confirmation.

The content remains on the members until the removal is confirmed (`harbormaster confirm PLACEMENT`). If the source is
restored, the removal is no longer pending. Orphaned content, which remained when its namespace was deleted, has no
digest: create its placement again, or delete the content on the members and then the annotation
`harbormaster.dev/orphaned-content` from their MemberClusters.

With -n, only that namespace is read, so rights in the namespace are enough. If you may not list the placements of all
namespaces, the default is the namespace of the context. Orphaned content and the counts on members need the right to
list MemberClusters. A message on standard error says what is missing.

\b
Examples:
  harbormaster removals
  harbormaster removals -n team-a
  harbormaster removals --older-than 7d
  harbormaster removals -o json

\b
-o json (yaml: the same):
  items[]     placement kind effect digest objects clusters[] clusterCount onMembers since ageSeconds, as
              returned by /v1/removals

\b
Exit codes:
  0  shown (even if nothing is pending or orphaned)
  1  an unreachable hub, or no right to list placements
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
@click.option(
    "-n",
    "--namespace",
    default="",
    metavar="NS",
    shell_complete=tab("namespaces"),
    help="Show only removals in this namespace.  [default: all namespaces that you may list, else that of the context]",
)
@output_option("table", "json", "yaml")
@hub_options
def command(older_than: timedelta, namespace: str, output: str, hub: HubOptions) -> int:
    """Show pending removals."""
    return run(_removals(hub, namespace, older_than, output))


async def _recorded(client: Client, namespace: str) -> RecordedRemovals:
    """Return the removals in *namespace*, or in all namespaces if it is empty.

    If the caller may not list all namespaces, return the removals in the context's namespace.

    Raises:
        UserError: The caller may not list the placements in the context's namespace, either.
    """
    try:
        return await all_recorded(client, namespace)
    except HubRefusedError as error:
        if error.code != FORBIDDEN or namespace:
            raise
        home = client.namespace
        try:
            recorded = await all_recorded(client, home)
        except HubRefusedError as home_error:
            if home_error.code != FORBIDDEN:
                raise
            raise UserError(f"{error.message}. With rights in one namespace only, name it: -n NAMESPACE") from error
        complain(f"note: only removals of namespace {home}: {error.message}")
        return recorded


async def _removals(hub: HubOptions, namespace: str, older_than: timedelta, output: str) -> int:
    async with Client(hub.find()) as client:
        recorded_removals, unread = await _recorded(client, namespace)
    if unread:
        missing = ", ".join(unread)
        complain(f"note: not including orphaned content and counts on members: you may not list {missing}")
    seconds = older_than.total_seconds()
    pending = [
        (each["placement"], removal)
        for each in recorded_removals
        for removal in each["removals"]
        if removal["ageSeconds"] is None or removal["ageSeconds"] >= seconds
    ]
    pending.sort(key=lambda pair: (pair[1]["since"] or "", pair[0], pair[1]["digest"]))
    if output == "table" and not pending:
        complain("No pending removals" + (f" in {namespace} namespace" if namespace else ""))
    elif output == "table":
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
