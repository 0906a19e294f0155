"""``harbormaster get``: objects of the running hub, as tables or in full."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from scorer.api.crd import Column
from scorer.api.meta import JsonObject
from scorer.api.printer_columns import EVENT, cells, columns_of, last_seen
from webhook.cli.client import Client, Place, RefusedError
from webhook.cli.connection import Connection
from webhook.cli.documents import title_of
from webhook.cli.failure import UserError, complain
from webhook.cli.hub_options import HubOptions, hub_options
from webhook.cli.kind_words import Wanted, parse_wanted
from webhook.cli.options import grouped, hub_namespace_option, output_option, run
from webhook.cli.output import print_document, print_plain, print_table

HELP = """Show objects.

KIND is a kind, its plural or its short name: crp, rp, memberclusters, work, nodepools, deploy, ns, … A comma joins
several kinds. The table has the columns of the kind's CustomResourceDefinition; -o wide shows more of them.

\b
Examples:
  harbormaster get crp
  harbormaster get cluster/bravelion -o yaml
  harbormaster get work -A
  harbormaster get crp payments web -o json
  harbormaster get crp -w                  and every change, until Ctrl-C
  harbormaster get events                  of everything without a namespace; the latest come last

\b
Exit codes:
  0  shown (also when there is nothing to show)
  1  no such object or kind, or no hub
"""


@dataclass(frozen=True, slots=True)
class View:
    """Which objects of a kind are shown, and for how long.

    Args:
        namespace: None: the default one of the connection.
        everywhere: In all namespaces.
        selector: Label selector; empty: all.
        watch: Keep running and show every change.
    """

    namespace: str | None
    everywhere: bool
    selector: str
    watch: bool


@click.command("get", help=HELP, short_help="Show objects.")
@click.argument("words", nargs=-1, required=True, metavar="KIND[/NAME] [NAME]...")
@output_option("table", "wide", "json", "yaml", "name")
@grouped(
    "view",
    View,
    hub_namespace_option,
    click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="In all namespaces."),
    click.option(
        "-l", "--selector", default="", metavar="LABELS", help="Only with these labels: key=value, key!=value, …"
    ),
    click.option("-w", "--watch", is_flag=True, help="Keep running and show every change."),
)
@hub_options
def command(words: Sequence[str], output: str, view: View, hub: HubOptions) -> int:
    """Show objects."""
    connection = hub.find()
    return run(_get(connection, words, output, view))


async def _get(connection: Connection, words: Sequence[str], output: str, view: View) -> int:
    async with Client(connection) as client:
        namespace, selector = None if view.everywhere else view.namespace or client.namespace, view.selector
        wanted = await parse_wanted(words, client)
        if selector and any(each.name for each in wanted):
            raise UserError("--selector: objects are named, so there is nothing to select")
        if namespace is None and any(each.name and each.kind.namespaced for each in wanted):
            raise UserError("--all-namespaces: an object is named by its namespace and its name")
        try:
            if view.watch:
                if len(wanted) > 1:
                    raise UserError("--watch: one kind, or one object, at a time")
                await _Watch(client, wanted[0], output, namespace, selector).run()
                return 0
            return await _show(client, wanted, output, namespace, selector)
        except RefusedError as error:
            raise UserError(error.lines()) from error


def _space(wanted: Wanted, namespace: str | None) -> str | None:
    return namespace if wanted.kind.namespaced else None


async def _show(client: Client, wanted: list[Wanted], output: str, namespace: str | None, selector: str) -> int:
    missing: list[str] = []
    groups: list[tuple[Wanted, list[JsonObject]]] = []
    for each in wanted:
        place = Place(each.kind, _space(each, namespace), each.name)
        if not each.name:
            items = _items(await client.list(place, selector))
            groups.append((each, sorted(items, key=last_seen) if each.kind == EVENT else items))
            continue
        try:
            found = await client.get(place)
        except RefusedError as error:
            if error.code != 404:
                raise
            missing += error.lines()
            continue
        if groups and groups[-1][0].kind == each.kind and groups[-1][0].name:
            groups[-1][1].append(found)
        else:
            groups.append((each, [found]))
    _print(groups, output, namespace, single=len(wanted) == 1 and bool(wanted[0].name))
    for line in missing:
        complain(f"error: {line}")
    return 1 if missing else 0


def _items(listing: JsonObject) -> list[JsonObject]:
    kind = {"apiVersion": listing.get("apiVersion"), "kind": str(listing.get("kind", "")).removesuffix("List")}
    return [{**kind, **item} for item in listing.get("items") or ()]


def _print(groups: list[tuple[Wanted, list[JsonObject]]], output: str, namespace: str | None, *, single: bool) -> None:
    items = [item for _, found in groups for item in found]
    if output in ("json", "yaml"):
        if items or not single:
            listing = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}
            print_document(items[0] if single else listing, output)
        return
    if output == "name":
        for wanted, found in groups:
            for item in found:
                click.echo(title_of(wanted.kind, item["metadata"]["name"]))
        return
    shown = [(wanted, found) for wanted, found in groups if found]
    for position, (wanted, found) in enumerate(shown):
        if position:
            click.echo()
        table = _Table(wanted, output, namespace, prefixed=len(shown) > 1)
        print_table(table.headers, [table.row(item) for item in found])
    if not items and not single and groups:
        where = "" if namespace is None or not groups[0][0].kind.namespaced else f" in {namespace} namespace"
        complain(f"No resources found{where}")


class _Table:
    """Headers and rows of one kind."""

    def __init__(self, wanted: Wanted, output: str, namespace: str | None, *, prefixed: bool = False) -> None:
        self._kind = wanted.kind
        self._prefixed = prefixed
        self._spaced = wanted.kind.namespaced and namespace is None
        self._columns: tuple[Column, ...] = columns_of(wanted.kind, wide=output == "wide", definition=wanted.definition)

    @property
    def headers(self) -> list[str]:
        """Column names as kubectl writes them."""
        names = [*(() if self._kind == EVENT else ("Name",)), *(column.name for column in self._columns)]
        return [name.upper() for name in (["Namespace", *names] if self._spaced else names)]

    def row(self, item: JsonObject) -> list[str]:
        """Return what is shown of one object."""
        metadata: dict[str, Any] = item["metadata"]
        name = title_of(self._kind, metadata["name"]) if self._prefixed else metadata["name"]
        row = [*(() if self._kind == EVENT else (name,)), *cells(item, self._columns, datetime.now(UTC))]
        return [metadata.get("namespace", ""), *row] if self._spaced else row


class _Watch:
    """Shows objects and then every change of them."""

    def __init__(self, client: Client, wanted: Wanted, output: str, namespace: str | None, selector: str) -> None:
        self._client = client
        self._wanted = wanted
        self._output = output
        self._selector = selector
        self._namespace = namespace
        self._place = Place(wanted.kind, _space(wanted, namespace))
        self._table = _Table(wanted, output, namespace)
        self._widths: list[int] = []

    async def run(self) -> None:
        """Show until the process is interrupted; a watch that ends, or whose version is too old, is started again."""
        # By resourceVersion: after a watch ends, the list is read again, and most of its objects were shown already.
        shown: dict[tuple[str, str], str] = {}
        while True:
            listing = await self._client.list(self._place, self._selector)
            for item in _items(listing):
                self._show(item, shown)
            since = str(listing["metadata"]["resourceVersion"])
            async for event in self._client.watch(self._place, since, self._selector):
                if event.type == "ERROR":
                    break
                if event.type != "BOOKMARK":
                    self._show(event.document, shown)
            await asyncio.sleep(1)

    def _show(self, item: JsonObject, shown: dict[tuple[str, str], str]) -> None:
        metadata = item["metadata"]
        if self._wanted.name and metadata["name"] != self._wanted.name:
            return
        key, version = (metadata.get("namespace", ""), metadata["name"]), metadata["resourceVersion"]
        if shown.get(key) == version:
            return
        shown[key] = version
        if self._output in ("json", "yaml"):
            if self._output == "yaml":
                click.echo("---")
            print_document(item, self._output)
        elif self._output == "name":
            click.echo(title_of(self._wanted.kind, metadata["name"]))
        else:
            headers = [] if self._widths else self._table.headers
            row = self._table.row(item)
            widths = self._widths or [max(len(header), 12) for header in headers]
            self._widths = print_plain(headers, [row], widths)
