"""``harbormaster plan``: what the placements in files would get, decided here and now without a hub."""

from collections.abc import Sequence
from datetime import UTC, datetime

import click

from scorer.api.meta import JsonObject
from scorer.placement.plan_document import changes_anything, plan_document
from webhook.cli.documents import load
from webhook.cli.failure import complain
from webhook.cli.instants import now_option
from webhook.cli.offline_hub import make_hub
from webhook.cli.options import file_option, output_option
from webhook.cli.output import print_document, print_table

HELP = """Show what the files' placements would get, without a hub.

Reads MemberClusters, placements, and existing bindings and policy snapshots if there are any, and runs the same engine
as the controller. Other objects are accepted and left aside. Members that have never reported are taken as
`harbormaster up` would play them; a dump of a real hub is judged at the moment it was taken.

\b
Examples:
  harbormaster plan -f examples/fleet
  harbormaster plan -f fleet.yaml -f placement.yaml -o json
  kubectl get memberclusters,crp,crb,csps -o yaml | harbormaster plan -f -

\b
Exit codes:
  0  nothing would change
  1  an error: file, document and field are on standard error
  2  a placement would get or lose a cluster
"""

CHANGES = 2


@click.command("plan", help=HELP, short_help="Show what the files' placements would get, without a hub.")
@file_option
@output_option()
@now_option
def command(files: Sequence[str], output: str, now: datetime | None) -> int:
    """Plan files."""
    if not files:
        raise click.UsageError("say what to plan: -f FILE")
    hub = make_hub(load(files), now=now, clock=datetime.now(UTC))
    for warning in hub.warnings:
        complain(f"Warning: {warning}")
    plan = plan_document(hub.placements, hub.fleet, hub.bindings, hub.snapshots, hub.now)
    if output != "table":
        print_document(plan, output)
    elif plan["placements"]:
        headers = ["PLACEMENT", "TYPE", "WANTED", "PICKED", "CLUSTERS", "WHY"]
        print_table(headers, [_row(entry) for entry in plan["placements"]])
    else:
        complain("No placements in these files")
    return CHANGES if changes_anything(plan) else 0


def _row(entry: JsonObject) -> list[str]:
    """Return one placement; ``+`` marks what it would get, ``-`` what it would lose."""
    prefix = f"rp/{entry['namespace']}" if entry["namespace"] else "crp"
    new = [f"+{pick['cluster']}" for pick in entry["picked"] if pick["new"]]
    kept = [pick["cluster"] for pick in entry["picked"] if not pick["new"]]
    dropped = [f"-{each['cluster']}" for each in entry["dropped"]]
    wanted = "all" if entry["wanted"] is None else str(entry["wanted"])
    why = "" if entry["satisfied"] else entry["message"]
    clusters = " ".join((*new, *kept, *dropped))
    return [f"{prefix}/{entry['name']}", entry["type"], wanted, str(len(entry["picked"])), clusters, why]
