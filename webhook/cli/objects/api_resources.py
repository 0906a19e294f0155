"""``harbormaster api-resources``: the kinds that a hub serves."""

from dataclasses import dataclass

import click

from webhook.cli.hub.client import Client
from webhook.cli.hub.connection import HubConnection
from webhook.cli.hub.discovery import ApiResource, discover
from webhook.cli.options.base import grouped, output_option, run
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.text.output import print_document, print_plain, print_table

HELP = """List the kinds that a hub serves, with the names that commands accept.

\b
Examples:
  harbormaster api-resources
  harbormaster api-resources --api-group upgrade.harbormaster.dev -o wide
  harbormaster api-resources --namespaced=false -o name

\b
Exit codes:
  0  shown
  1  an unreachable hub
"""


@dataclass(frozen=True, slots=True)
class _ResourceFilter:
    """Selection of kinds.

    Args:
        group: API group. None means all groups.
        namespaced: Only namespaced kinds, or only cluster-scoped ones. None means both.
        headers: Whether a table has headers.
    """

    group: str | None
    namespaced: bool | None
    headers: bool

    def has(self, resource: ApiResource) -> bool:
        """Return whether a kind is selected."""
        kind = resource.kind
        return self.group in (None, kind.group) and self.namespaced in (None, kind.namespaced)


@click.command("api-resources", help=HELP, short_help="List the kinds that a hub serves.")
@grouped(
    "choice",
    _ResourceFilter,
    click.option("--api-group", "group", metavar="GROUP", help="Show only kinds of this API group."),
    click.option(
        "--namespaced",
        type=bool,
        metavar="true|false",
        help="Show only namespaced (true) or only cluster-scoped (false) kinds.",
    ),
    click.option("--no-headers", "headers", flag_value=False, default=True, help="Omit the table headers."),
)
@output_option("table", "wide", "name", "json", "yaml")
@hub_options
def command(choice: _ResourceFilter, output: str, hub: HubOptions) -> int:
    """Show the kinds."""
    resources = [resource for resource in run(_discover(hub.find())) if choice.has(resource)]
    if output == "name":
        for resource in resources:
            click.echo(resource.kind.resource)
    elif output in ("json", "yaml"):
        print_document([_document(resource) for resource in resources], output)
    else:
        headers = ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]
        headers += ["VERBS", "CATEGORIES"] if output == "wide" else []
        rows = [_row(resource)[: len(headers)] for resource in resources]
        if choice.headers:
            print_table(headers, rows)
        else:
            print_plain([], rows)
    return 0


async def _discover(connection: HubConnection) -> list[ApiResource]:
    async with Client(connection) as client:
        return await discover(client)


def _row(resource: ApiResource) -> list[str]:
    kind = resource.kind
    words = [",".join(resource.short_names), resource.version, str(kind.namespaced).lower(), kind.kind]
    return [kind.plural, *words, ",".join(resource.verbs), ",".join(resource.categories)]


def _document(resource: ApiResource) -> dict[str, object]:
    kind = resource.kind
    return {
        "name": kind.plural,
        "shortNames": list(resource.short_names),
        "apiVersion": resource.version,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(resource.verbs),
        "categories": list(resource.categories),
    }
