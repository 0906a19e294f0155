"""``harbormaster describe``: human-readable details of objects: fields, conditions and Events."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from scorer.api.crd.table import cells, columns_of, format_age, last_seen
from scorer.api.kinds import group_kind
from scorer.api.unstructured.documents import conditions_of, dict_at, name_of, namespace_of, text_at
from scorer.api.unstructured.json_object import JsonObject, parse_time
from scorer.api.unstructured.secrets import SECRET, is_shown
from scorer.api.values.quoting import format_count
from webhook.cli.errors import UserError, complain, report_error
from webhook.cli.files.documents import DEFAULT_NAMESPACE
from webhook.cli.hub.client import Client, HubRefusedError, ResourcePath
from webhook.cli.hub.connection import HubConnection
from webhook.cli.hub.resource_arguments import EVENT, parse_resources, suggestion
from webhook.cli.options.base import hub_namespace_option, run, tab
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.text.output import print_line
from webhook.runtime.yaml import format_yaml

HELP = """Show the details of objects and their Events.

\b
Examples:
  harbormaster describe crp/payments
  harbormaster describe cluster bravelion busybee
  harbormaster describe crp -l team=shop

\b
Exit codes:
  0  shown
  1  no such object or kind, or an unreachable hub
"""
_HEADING: Final = ("apiVersion", "kind", "metadata", "status")
_COPY: Final = "/last-applied-configuration"
_GAP: Final = "  "
_WIDTH: Final = len("Annotations:") + 2


@click.command("describe", help=HELP, short_help="Show the details of objects and their Events.")
@click.argument("words", nargs=-1, required=True, metavar="KIND[/NAME] [NAME]...", shell_complete=tab("objects"))
@hub_namespace_option
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Describe objects in all namespaces.")
@click.option(
    "-l", "--selector", default="", metavar="LABELS", help="Show only objects with these labels: key=value, …"
)
@click.option(
    "--show-events/--no-events", "events", default=True, help="Include the Events of the objects.  [default: include]"
)
@hub_options
def command(
    words: Sequence[str], namespace: str | None, everywhere: bool, selector: str, events: bool, hub: HubOptions
) -> int:
    """Describe objects."""
    return run(_describe(hub.find(), words, namespace, selector, everywhere=everywhere, events=events))


async def _describe(
    connection: HubConnection,
    words: Sequence[str],
    namespace: str | None,
    selector: str,
    *,
    everywhere: bool,
    events: bool,
) -> int:
    async with Client(connection) as client:
        arguments = await parse_resources(words, client)
        if selector and any(argument.name for argument in arguments):
            raise UserError("--selector cannot be used with object names")
        if everywhere and any(argument.name and argument.kind.namespaced for argument in arguments):
            raise UserError("--all-namespaces cannot be used with object names")
        missing: list[str] = []
        first = True
        for argument in arguments:
            place = argument.place(namespace, client.namespace, everywhere=everywhere)
            try:
                objects = await _read(client, place, selector)
            except HubRefusedError as error:
                if error.code != 404 or not argument.name:
                    raise
                hint = await suggestion(client, place)
                missing += [line + hint for line in error.lines()]
                continue
            for document in objects:
                about = await _events(client, document) if events else []
                if not first:
                    click.echo("\n")
                first = False
                for line in description(document, about, datetime.now(UTC)):
                    print_line(line)
        if first and not missing:
            complain("No resources found")
        for line in missing:
            report_error(line)
        return 1 if missing else 0


async def _read(client: Client, place: ResourcePath, selector: str) -> list[JsonObject]:
    own = {"apiVersion": place.kind.api_version, "kind": place.kind.kind}
    if place.name:
        return [{**own, **await client.get(place)}]
    return [{**own, **item} for item in (await client.list(place, selector)).get("items") or ()]


async def _events(client: Client, document: JsonObject) -> list[JsonObject]:
    """Return the Events about an object, the latest last. Empty if the caller lacks the right to read them."""
    place = ResourcePath(EVENT, namespace_of(document) or DEFAULT_NAMESPACE)
    fields = "" if client.simulated else f"regarding.name={name_of(document)}"
    try:
        events = (await client.list(place, fields=fields)).get("items") or ()
    except HubRefusedError as error:
        complain(f"note: Events could not be read: {error.message}")
        return []
    kind, name, uid = document.get("kind"), name_of(document), text_at(document, "metadata", "uid")
    about = [event for event in events if dict_at(event, "regarding").get("kind") == kind]
    about = [event for event in about if text_at(event, "regarding", "name") == name]
    return sorted((event for event in about if text_at(event, "regarding", "uid") in ("", uid)), key=last_seen)


def description(document: JsonObject, events: Sequence[JsonObject], now: datetime) -> Iterator[str]:
    """Yield the lines about an object.

    Args:
        document: The object.
        events: Events about the object.
        now: Current time, for ages.
    """
    metadata = dict_at(document, "metadata")
    yield _line("Name", name_of(document))
    if namespace_of(document):
        yield _line("Namespace", namespace_of(document))
    yield from _map("Labels", dict_at(metadata, "labels"), "=")
    is_secret = group_kind(document) == SECRET
    annotations = _annotations(metadata)
    yield from _map("Annotations", _lengths(annotations) if is_secret else annotations, ": ")
    yield _line("API Version", text_at(document, "apiVersion"))
    yield _line("Kind", text_at(document, "kind"))
    created = text_at(metadata, "creationTimestamp")
    yield _line("Created", f"{created} ({_age(created, now)} ago)" if created else "<unknown>")
    if leaving := text_at(metadata, "deletionTimestamp"):
        finalizers = ", ".join(map(str, metadata.get("finalizers") or ())) or "nothing"
        yield _line("Deleted", f"{leaving} ({_age(leaving, now)} ago), held by {finalizers}")
    for name, value in document.items():
        if name not in _HEADING and value not in (None, {}, []):
            yield from _part(name, _lengths(value) if is_secret and not is_shown((name,)) else value)
    status = {name: value for name, value in dict_at(document, "status").items() if name != "conditions"}
    if status:
        yield from _part("status", status)
    yield from _conditions(conditions_of(document), now)
    yield from _about(events, now)


def _annotations(metadata: JsonObject) -> JsonObject:
    """Return annotations without copies of the object that clients stored on apply, which reveal a Secret's content."""
    annotations = dict_at(metadata, "annotations")
    return {key: value for key, value in annotations.items() if not key.endswith(_COPY)}


def _line(name: str, value: str) -> str:
    return f"{name}:".ljust(_WIDTH) + value


def _map(name: str, values: JsonObject, between: str) -> Iterator[str]:
    texts = [f"{key}{between}{' '.join(str(values[key]).split())}" for key in sorted(values)] or ["<none>"]
    yield _line(name, texts[0])
    yield from (" " * _WIDTH + text for text in texts[1:])


def _lengths(values: Any) -> Any:
    """Return the lengths of the values of a Secret in place of the values."""
    if isinstance(values, dict):
        return {key: format_count(len(str(value)), "character") for key, value in values.items()}
    return format_count(len(str(values)), "character")


def _part(name: str, value: Any) -> Iterator[str]:
    title = name[:1].upper() + name[1:]
    if not isinstance(value, dict | list):
        yield _line(title, str(value))
        return
    yield f"{title}:"
    yield from (_GAP + line for line in format_yaml(value).splitlines())


def _conditions(conditions: Sequence[JsonObject], now: datetime) -> Iterator[str]:
    if not conditions:
        return
    yield "Conditions:"
    rows = [["TYPE", "STATUS", "REASON", "AGE", "MESSAGE"]]
    for condition in conditions:
        words = [str(condition.get(name, "")) for name in ("type", "status", "reason")]
        rows.append(
            [*words, _age(str(condition.get("lastTransitionTime", "")), now), str(condition.get("message", ""))]
        )
    yield from _table(rows)


def _about(events: Sequence[JsonObject], now: datetime) -> Iterator[str]:
    if not events:
        yield _line("Events", "<none>")
        return
    yield "Events:"
    columns = [column for column in columns_of(EVENT, wide=False) if column.type != "object"]
    rows = [[column.name.upper() for column in columns]]
    yield from _table([*rows, *(cells(event, columns, now) for event in events)])


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        texts = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield (_GAP + (_GAP + " ").join(texts)).rstrip()


def _age(text: str, now: datetime) -> str:
    try:
        return format_age((now - parse_time(text)).total_seconds())
    except ValueError:
        return "<unknown>"
