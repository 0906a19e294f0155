"""``harbormaster get``: objects of the running hub, as tables or in full."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import click

from scorer.api.crd.table import has_columns, last_seen
from scorer.api.unstructured.json_object import JsonObject
from webhook.cli.errors import UserError, complain, report_error
from webhook.cli.files.documents import title_of
from webhook.cli.files.parsing import SourceDocument
from webhook.cli.hub.client import Client, HubRefusedError, ResourcePath
from webhook.cli.hub.connection import HubConnection
from webhook.cli.hub.resource_arguments import EVENT, ResourceArgument, parse_resources, suggestion
from webhook.cli.objects.options import ObjectFiles, file_options
from webhook.cli.objects.output_formats import CustomColumns, Format, format_option
from webhook.cli.objects.table import ObjectTable, Served, Style, sort_objects
from webhook.cli.options.base import grouped, hub_namespace_option, run, tab
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.options.times import Patience
from webhook.cli.text.output import print_plain, print_table

HELP = """Show objects.

KIND is a kind, its plural or its short name: crp, rp, memberclusters, work, nodepools, deploy, ns, … Separate several
kinds with commas. `all` stands for the same kinds as in kubectl, `fleet` for all kinds of harbormaster. The table has
the columns of the kind's CustomResourceDefinition, or those of the API server. -o wide shows more columns, and for
harbormaster's kinds the URLs that explain states and reasons.

\b
Formats (-o):
  table, wide, json, yaml, name
  jsonpath='{range .items[*]}{.metadata.name}{"\\n"}{end}'     kubectl's dialect, also jsonpath-file=FILE
  jsonpath-as-json='{.items[*].metadata.name}'                 the values, as JSON
  custom-columns=NAME:.metadata.name,TYPE:.spec.policy.placementType     also custom-columns-file=FILE

\b
Examples:
  harbormaster get crp
  harbormaster get cluster/bravelion -o yaml
  harbormaster get work -A --sort-by .metadata.creationTimestamp
  harbormaster get crp payments web -o json
  harbormaster get crp -l team=shop --show-labels
  harbormaster get crp -w                  follow every change until Ctrl-C
  harbormaster get crp -w --timeout 30s    follow every change for 30 s
  harbormaster get events -n default       Events of cluster-scoped objects, latest last

\b
Exit codes:
  0  shown (even if nothing matches)
  1  no such object or kind, or an unreachable hub
"""


@dataclass(frozen=True, slots=True)
class _ViewOptions:
    """Options of ``get``.

    Args:
        namespace: The namespace. None means the default one of the connection.
        everywhere: Show objects of all namespaces.
        selector: Label selector, empty for all objects.
        fields: Field selector, empty for all objects.
        watch: Keep running and show every change.
        seconds: Duration of the watch. None: unlimited.
        ignore_not_found: Whether a missing object is ignored.
        sort_by: Sort key as a path. If empty, the order of the hub.
        no_headers: Whether tables have no headers.
        label_columns: Labels with a column each.
        show_labels: Whether tables have a column with all labels.
    """

    namespace: str | None
    everywhere: bool
    selector: str
    fields: str
    watch: bool
    seconds: float | None
    ignore_not_found: bool
    sort_by: str
    no_headers: bool
    label_columns: Sequence[str]
    show_labels: bool

    def style(self, output: Format, *, kind: bool = False, everywhere: bool = False) -> Style:
        """Return the style of tables."""
        labels = [label for column in self.label_columns for label in column.split(",") if label]
        everywhere = everywhere or self.everywhere
        return Style(output.name == "wide", everywhere, labels, self.show_labels, not self.no_headers, kind)

    def check(self, arguments: Sequence[ResourceArgument]) -> None:
        """Raise `UserError` if options and arguments do not fit together."""
        if any(argument.name for argument in arguments):
            for option, value in (("--selector", self.selector), ("--field-selector", self.fields)):
                if value:
                    raise UserError(f"{option} cannot be used with object names")
        if self.everywhere and any(argument.name and argument.kind.namespaced for argument in arguments):
            raise UserError("--all-namespaces cannot be used with object names")
        if self.watch and len(arguments) > 1:
            raise UserError("--watch takes one kind or one object")
        if self.seconds is not None and not self.watch:
            raise UserError("--timeout requires --watch")
        if self.watch and self.sort_by:
            raise UserError("--sort-by cannot be used with --watch")


@click.command("get", help=HELP, short_help="Show objects.")
@click.argument("words", nargs=-1, metavar="KIND[/NAME] [NAME]...", shell_complete=tab("objects"))
@file_options
@format_option
@grouped(
    "view",
    _ViewOptions,
    hub_namespace_option,
    click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="List objects in all namespaces."),
    click.option(
        "-l",
        "--selector",
        default="",
        metavar="LABELS",
        help="Show only objects with these labels: key=value, key!=value, …",
    ),
    click.option(
        "--field-selector",
        "fields",
        default="",
        metavar="FIELDS",
        help="Show only objects with these fields: metadata.name=…, …",
    ),
    click.option("-w", "--watch", is_flag=True, help="Keep running and show every change."),
    click.option(
        "--timeout", "seconds", type=Patience(), metavar="DURATION", help="With -w: stop after this time, such as 30s."
    ),
    click.option("--ignore-not-found", is_flag=True, help="Treat a missing object as success."),
    click.option("--sort-by", default="", metavar="PATH", help="Sort by a field, such as .metadata.creationTimestamp."),
    click.option("--no-headers", is_flag=True, help="Omit the table headers."),
    click.option(
        "-L", "--label-columns", multiple=True, metavar="LABEL", help="Show a column for this label. Repeatable."
    ),
    click.option("--show-labels", is_flag=True, help="Show a column with all labels."),
)
@hub_options
def command(words: Sequence[str], files: ObjectFiles, output: Format, view: _ViewOptions, hub: HubOptions) -> int:
    """Show objects. Raises `click.UsageError`."""
    if bool(words) == bool(files):
        raise click.UsageError("specify what to show: either KIND or KIND/NAME, or files with -f or -k")
    documents = files.read()
    connection = hub.find()
    return run(_get(connection, words, documents, output, view))


async def _get(
    connection: HubConnection,
    words: Sequence[str],
    documents: Sequence[SourceDocument],
    output: Format,
    view: _ViewOptions,
) -> int:
    async with Client(connection) as client:
        arguments = (
            await parse_resources(words, client) if words else await _of_files(client, documents, view.namespace)
        )
        view.check(arguments)
        try:
            if view.watch:
                with suppress(TimeoutError):
                    async with asyncio.timeout(view.seconds):
                        await _Watch(client, arguments[0], output, view).run()
                return 0
            return await _show(client, arguments, output, view)
        except HubRefusedError as error:
            raise UserError(error.lines()) from error


async def _of_files(
    client: Client, documents: Sequence[SourceDocument], namespace: str | None
) -> list[ResourceArgument]:
    from webhook.cli.hub.discovery import resolve_objects

    objects = await resolve_objects(client, documents, namespace)
    return [ResourceArgument(item.kind, item.name, namespace=item.namespace) for item in objects]


def _place(argument: ResourceArgument, client: Client, view: _ViewOptions) -> ResourcePath:
    return argument.place(view.namespace, client.namespace, everywhere=view.everywhere)


@dataclass(frozen=True, slots=True)
class _Group:
    """Objects that are shown in one table.

    Args:
        wanted: Kind of the objects.
        items: Objects as the hub sends them.
        served: The API server's table of them, if that is shown.
    """

    wanted: ResourceArgument
    items: list[JsonObject]
    served: Served | None = None


async def _show(client: Client, arguments: list[ResourceArgument], output: Format, view: _ViewOptions) -> int:
    missing: list[str] = []
    groups: list[_Group] = []
    for argument in arguments:
        try:
            group = await _read(client, argument, output, view)
        except HubRefusedError as error:
            if error.code != 404 or not argument.name:
                raise
            if not view.ignore_not_found:
                hint = await suggestion(client, _place(argument, client, view))
                missing += [line + hint for line in error.lines()]
            continue
        last = groups[-1] if groups else None
        if last is not None and last.wanted.kind == argument.kind and last.wanted.name and last.served is None:
            last.items.extend(group.items)
        else:
            groups.append(group)
    if view.sort_by:
        groups = _sorted(groups, view.sort_by, whole=not output.is_table)
    _print(groups, output, view, client, single=len(arguments) == 1 and bool(arguments[0].name))
    for line in missing:
        report_error(line)
    return 1 if missing else 0


async def _read(client: Client, argument: ResourceArgument, output: Format, view: _ViewOptions) -> _Group:
    place = _place(argument, client, view)
    if output.is_table and not client.simulated and not has_columns(argument.kind):
        served, items = Served.read(await client.table(place, view.selector, view.fields))
        return _Group(argument, items, served)
    if argument.name:
        return _Group(argument, [await client.get(place)])
    items = _items(await client.list(place, view.selector, view.fields))
    return _Group(argument, sorted(items, key=last_seen) if argument.kind == EVENT else items)


def _items(listing: JsonObject) -> list[JsonObject]:
    kind = {"apiVersion": listing.get("apiVersion"), "kind": str(listing.get("kind", "")).removesuffix("List")}
    return [{**kind, **item} for item in listing.get("items") or ()]


def _sorted(groups: list[_Group], path: str, *, whole: bool) -> list[_Group]:
    """Return the sorted groups. If *whole*, merge them into one group, because the output is one list."""
    if whole and groups:
        items = [item for group in groups for item in group.items]
        return [_Group(groups[0].wanted, sort_objects(items, path))]
    return [_Group(group.wanted, sort_objects(group.items, path), group.served) for group in groups]


def _print(groups: list[_Group], output: Format, view: _ViewOptions, client: Client, *, single: bool) -> None:
    items = [item for group in groups for item in group.items]
    if output.is_document:
        if items or not single:
            listing = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items}
            output.show(items[0] if single else listing)
        return
    if output.name == "name":
        for group in groups:
            for item in group.items:
                click.echo(title_of(group.wanted.kind, item["metadata"]["name"]))
        return
    if output.name == "custom-columns":
        output.columns().show(items, headers=not view.no_headers)
        return
    groups_with_items = [group for group in groups if group.items]
    several = len({group.wanted.kind for group in groups}) > 1
    everywhere = len({group.wanted.namespace for group in groups}) > 1
    for position, group in enumerate(groups_with_items):
        if position:
            click.echo()
        style = view.style(output, kind=several, everywhere=everywhere)
        table = ObjectTable(group.wanted, style, group.served)
        rows = [table.row(item) for item in group.items]
        if style.headers:
            print_table(table.headers, rows)
        else:
            print_plain([], rows)
    if not items and not single and groups and not view.ignore_not_found:
        place = _place(groups[0].wanted, client, view)
        complain("No resources found" + (f" in {place.namespace} namespace" if place.namespace else ""))


class _Watch:
    """Shows objects, then every change of them."""

    def __init__(self, client: Client, argument: ResourceArgument, output: Format, view: _ViewOptions) -> None:
        self._client = client
        self._argument = argument
        self._output = output
        self._view = view
        place = _place(argument, client, view)
        self._place = ResourcePath(place.kind, place.namespace)
        self._fields = f"metadata.name={argument.name}" if argument.name else view.fields
        self._table = ObjectTable(argument, view.style(output))
        self._columns: CustomColumns | None = output.columns() if output.name == "custom-columns" else None
        self._widths: list[int] = []

    async def run(self) -> None:
        """Print changes until interrupted. A watch that ends, or whose version is too old, is restarted."""
        # By resourceVersion: after a watch ends, the list is read again, and most of its objects were shown already.
        printed_versions: dict[tuple[str, str], str] = {}
        while True:
            listing = await self._client.list(self._place, self._view.selector, self._fields)
            for item in _items(listing):
                self._show(item, printed_versions)
            since = str(listing["metadata"]["resourceVersion"])
            async for event in self._client.watch(self._place, since, self._view.selector, self._fields):
                if event.type == "ERROR":
                    break
                if event.type != "BOOKMARK":
                    self._show(event.document, printed_versions)
            await asyncio.sleep(1)

    def _show(self, item: JsonObject, printed_versions: dict[tuple[str, str], str]) -> None:
        metadata = item["metadata"]
        key, version = (metadata.get("namespace", ""), metadata["name"]), metadata["resourceVersion"]
        if printed_versions.get(key) == version:
            return
        printed_versions[key] = version
        if self._output.is_document:
            if self._output.name == "yaml":
                click.echo("---")
            self._output.show(item)
        elif self._output.name == "name":
            click.echo(title_of(self._argument.kind, metadata["name"]))
        elif self._columns is not None:
            self._columns.show([item], headers=not self._view.no_headers)
        else:
            headers = [] if self._widths or self._view.no_headers else self._table.headers
            widths = self._widths or [max(len(header), 12) for header in self._table.headers]
            self._widths = print_plain(headers, [self._table.row(item)], widths)
