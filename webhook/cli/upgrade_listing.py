"""All upgrade runs of a hub in a terminal: how far each is, and what it waits for."""

from datetime import datetime
from typing import Final

import click

from scorer.api.meta import JsonObject, parse_time
from webhook.cli.client import Client
from webhook.cli.hub_options import HubOptions
from webhook.cli.output import print_document, print_table
from webhook.cli.upgrade_output import upgrade_document
from webhook.cli.upgrade_runs import UpgradeRuns
from webhook.settings.clock import utc_now

HEADERS: Final = ("RUN", "STATE", "STAGE", "UPGRADE", "DONE", "OVER", "WAITS FOR")
_MOST_WAITS: Final = 3
"""How many things that a run waits for are named."""


async def list_upgrades(hub: HubOptions, output: str) -> int:
    """Print all upgrade runs, those that are not over first."""
    async with Client(hub.find()) as client:
        found = await UpgradeRuns(client).all()
    found.sort(key=lambda each: (each.situation.is_over, each.read.metadata.name))
    documents = [upgrade_document(each, hub) for each in found]
    if output != "table":
        print_document({"items": [{key: each[key] for key in ("run", "waits", "plan")} for each in documents]}, output)
    elif documents:
        print_table(HEADERS, [_row(each, utc_now()) for each in documents])
    else:
        click.echo("there are no upgrade runs", err=True)
    return 0


def _row(document: JsonObject, now: datetime) -> tuple[str, ...]:
    about, counts = document["run"], document["run"]["counts"]
    version = f" to {about['kubernetesVersion']}" if about["kubernetesVersion"] else ""
    waits = "; ".join(wait["message"] for wait in document["waits"][:_MOST_WAITS]) or about["message"]
    return (
        about["name"],
        about["phase"],
        about["stage"] or "-",
        f"{about['type']}{version}",
        f"{counts['completed']} of {counts['total']}",
        about["completionTime"] or _expected(document, now),
        waits,
    )


def _expected(document: JsonObject, now: datetime) -> str:
    """Return when a run that goes on is expected to be over."""
    eta = (document["plan"] or {}).get("eta")
    if not eta or document["run"]["phase"] not in ("Running", "Pending"):
        return "-"
    return f"~{eta}" if parse_time(eta) >= now else "overdue"
