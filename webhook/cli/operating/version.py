"""``harbormaster version``: the versions of this program, of the hub and of the processes on it, and of the agents."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import click

from scorer.api.kinds import KINDS, MEMBER_CLUSTER
from scorer.api.names import AGENT_VERSION
from scorer.api.unstructured.documents import label, name_of, namespace_of, text_at
from webhook.cli.errors import UserError, complain
from webhook.cli.hub.client import Client, HubRefusedError, ResourcePath
from webhook.cli.hub.connection import HubConnection
from webhook.cli.options.base import output_option, run
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.text.output import print_document, print_line
from webhook.runtime.distribution import installed_version

_WHAT: Final = {"server": "the components installed on the hub", "agents": "the members of the fleet"}
HELP = """Print the versions of this program, of the hub, and of the components on it.

The versions of `harbormaster serve` and of the loop are read from the labels that Helm sets on their Deployments, and
those of the agents from the status of the members. Without a hub, only the version of the client is printed.

\b
Examples:
  harbormaster version --client
  harbormaster version --context hub
  harbormaster version -o json

\b
Exit codes:
  0  printed, even if no hub is reachable
  1  a hub was named and is unreachable
"""


@click.command("version", help=HELP, short_help="Print the versions of the program, the hub and the agents.")
@click.option(
    "--client", "only_client", is_flag=True, help="Print only the version of this program, without contacting a hub."
)
@output_option()
@hub_options
def command(only_client: bool, output: str, hub: HubOptions) -> int:
    """Print the versions."""
    versions: dict[str, Any] = {"version": installed_version()}
    if not only_client and (connection := _hub(hub)) is not None:
        versions |= _versions_of(connection, with_name=bool(hub))
    if output != "table":
        print_document(versions, output)
        return 0
    click.echo(f"harbormaster {versions['version']}")
    for line in _lines(versions):
        print_line(line)
    return 0


def _hub(hub: HubOptions) -> HubConnection | None:
    """Return the hub that is named, else the default one, or None without a hub."""
    try:
        return hub.find()
    except UserError:
        if hub:
            raise
        return None


def _versions_of(connection: HubConnection, *, with_name: bool) -> dict[str, Any]:
    """Return the versions that the hub reports. Raises `UserError` if a hub that the user named does not respond."""
    try:
        return run(_ask(connection))
    except UserError as error:
        if with_name:
            raise
        complain(f"note: only the version of the client is available: {error.lines[0]}")
        return {}


async def _ask(connection: HubConnection) -> dict[str, Any]:
    from webhook.cli.hub.discovery import server_version

    async with Client(connection) as client:
        versions: dict[str, Any] = {"hub": await server_version(client)}
        for name, ask in (("server", _servers), ("agents", _agents)):
            try:
                versions[name] = await ask(client)
            except HubRefusedError as error:
                complain(f"note: {_WHAT[name]} could not be read: {error.message}")
        return versions


async def _servers(client: Client) -> list[dict[str, str]]:
    """Return the installed servers: the Deployments that Helm has labeled."""
    if client.simulated:  # `up` is the whole installation
        return []
    listing = await client.list(ResourcePath(KINDS["apps", "Deployment"]), "app.kubernetes.io/name=harbormaster")
    places = [
        (namespace_of(item), name_of(item), label(item, "app.kubernetes.io/version")) for item in listing["items"]
    ]
    return [
        {"namespace": space, "name": name, "version": number or "unknown"} for space, name, number in sorted(places)
    ]


async def _agents(client: Client) -> list[dict[str, Any]]:
    """Return the number of agents of each version, ``unknown`` for those that have not reported one."""
    listing = await client.list(ResourcePath(MEMBER_CLUSTER))
    count = Counter(
        text_at(item, "status", "properties", AGENT_VERSION, "value") or "unknown" for item in listing["items"]
    )
    return [{"version": number, "count": count[number]} for number in sorted(count)]


def _lines(versions: dict[str, Any]) -> Iterator[str]:
    if "hub" in versions:
        yield f"hub {versions['hub']}"
    for item in versions.get("server", ()):
        skew = _skew(item["version"], versions["version"])
        yield f"server {item['version']} ({item['namespace']}/{item['name']}){skew}"
    for item in versions.get("agents", ()):
        number = "1 member" if item["count"] == 1 else f"{item['count']} members"
        yield f"agents {item['version']} ({number}){_skew(item['version'], versions['version'])}"


def _skew(number: str, own: str) -> str:
    return "" if number in (own, "unknown") else f" is not {own}, the version of this program"
