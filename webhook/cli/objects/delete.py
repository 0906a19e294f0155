"""``harbormaster delete``: objects of the running hub."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import click

from scorer.api.unstructured.documents import conditions_of, finalizers_of, text_at
from scorer.api.unstructured.json_object import JsonObject
from webhook.cli.errors import UserError, complain, report_error
from webhook.cli.files.documents import in_order_of_dependence, title_of
from webhook.cli.files.parsing import SourceDocument
from webhook.cli.hub.client import MISSING, Client, HubRefusedError, ResourcePath, find
from webhook.cli.hub.connection import HubConnection
from webhook.cli.hub.resource_arguments import parse_resources, suggestion
from webhook.cli.objects.options import DryRun, DryRunCommand, ObjectFiles, dry_run_option, file_options
from webhook.cli.options.base import grouped, hub_namespace_option, run, selecting_options, tab
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.options.times import Patience

HELP = """Delete objects.

Select objects by KIND/NAME or KIND NAME..., by labels (KIND -l), or by files that contain them (-f). When a placement
is deleted, the agents delete its objects from the clusters, unless its spec.strategy.deleteStrategy.propagationPolicy
is Abandon. The command waits until the objects are deleted. If the hub refuses a deletion because it must be confirmed
first, use `harbormaster confirm`.

\b
Examples:
  harbormaster delete crp/payments
  harbormaster delete crp payments web --no-wait
  harbormaster delete -f examples/fleet
  harbormaster delete crp -l team=shop --dry-run=server

\b
Exit codes:
  0  deleted (with --no-wait: the hub has accepted the deletion)
  1  no such object, refused, or timed out
"""

_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Manner:
    """Options of a deletion.

    Args:
        selector: Label selector, empty if the objects are named.
        everything: Whether to delete all objects of a kind.
        everywhere: Whether to select objects of all namespaces.
        ignore_not_found: Whether a missing object is ignored.
        wait: Whether to wait until the objects are deleted.
        timeout: Seconds to wait.
        dry_run: Kind of dry run.
    """

    selector: str
    everything: bool
    everywhere: bool
    ignore_not_found: bool
    wait: bool
    timeout: float
    dry_run: DryRun

    @property
    def waits(self) -> bool:
        """Whether the command waits for deletions."""
        return self.wait and not self.dry_run


@click.command("delete", cls=DryRunCommand, help=HELP, short_help="Delete objects.")
@click.argument("words", nargs=-1, metavar="[KIND/NAME | KIND NAME]...", shell_complete=tab("objects"))
@file_options
@hub_namespace_option
@grouped(
    "manner",
    Manner,
    *selecting_options,
    click.option("--ignore-not-found", is_flag=True, help="Treat a missing object as success."),
    click.option("--wait/--no-wait", default=True, help="Wait until the objects are deleted.  [default: wait]"),
    click.option("--timeout", default="60s", show_default=True, type=Patience(), help="Maximum time to wait."),
    dry_run_option("delete nothing"),
)
@hub_options
def command(words: Sequence[str], files: ObjectFiles, namespace: str | None, manner: Manner, hub: HubOptions) -> int:
    """Delete objects. Raises `click.UsageError`."""
    if bool(words) == bool(files):
        raise click.UsageError("specify what to delete: either KIND/NAME, or files with -f or -k")
    if manner.selector and manner.everything:
        raise click.UsageError("-l and --all cannot be used together")
    if files and (manner.selector or manner.everything or manner.everywhere):
        raise click.UsageError("-l, --all and -A cannot be used with files")
    documents = files.read()
    connection = hub.find()
    return run(_delete(connection, words, documents, namespace, manner))


async def _delete(
    connection: HubConnection,
    words: Sequence[str],
    documents: list[SourceDocument],
    namespace: str | None,
    manner: Manner,
) -> int:
    failed = False
    async with Client(connection) as client:
        if words:
            places = await _places(client, words, namespace, manner)
        else:
            from webhook.cli.hub.discovery import resolve_objects

            objects = in_order_of_dependence(await resolve_objects(client, documents, namespace))
            places = [ResourcePath(item.kind, item.namespace or None, item.name) for item in reversed(objects)]
        deletions: list[tuple[ResourcePath, str]] = []
        for place in places:
            try:
                if manner.dry_run is DryRun.CLIENT:
                    await client.get(place)
                    click.echo(f"{title_of(place.kind, place.name)} deleted{manner.dry_run.note}")
                    continue
                answer = await client.delete(place, dry_run=bool(manner.dry_run))
            except HubRefusedError as error:
                if error.code == MISSING and manner.ignore_not_found:
                    continue
                failed = True
                hint = await suggestion(client, place) if error.code == MISSING else ""
                for line in error.lines():
                    report_error(f"{line}{hint}")
                continue
            for warning in answer.warnings:
                complain(f"Warning: {warning}")
            click.echo(f"{title_of(place.kind, place.name)} deleted{manner.dry_run.note}")
            if answer.document.get("kind") != "Status":
                deletions.append((place, str(answer.document["metadata"]["uid"])))
        if manner.waits and not await _wait_for_deletion(client, deletions, manner.timeout):
            return 1
    return 1 if failed else 0


async def _places(client: Client, words: Sequence[str], namespace: str | None, manner: Manner) -> list[ResourcePath]:
    """Return the paths of the objects that the user names or selects. Raises `UserError`."""
    arguments = await parse_resources(words, client)
    selected = bool(manner.selector) or manner.everything
    if manner.everywhere and not selected:
        raise UserError("--all-namespaces cannot be used with object names")
    places: list[ResourcePath] = []
    for argument in arguments:
        place = argument.place(namespace, client.namespace, everywhere=manner.everywhere)
        if selected and argument.name:
            raise UserError("--selector and --all cannot be used with object names")
        if selected:
            places += await _selected(client, place, manner.selector)
        elif argument.name:
            places.append(place)
        else:
            raise UserError(
                f"{argument.kind.kind}: name the object: {argument.kind.kind.lower()}/NAME, -l LABELS or --all"
            )
    if selected and not places:
        complain("No resources found")
    return places


async def _selected(client: Client, place: ResourcePath, selector: str) -> list[ResourcePath]:
    listing = await client.list(place, selector)
    metadata_items = [item["metadata"] for item in listing.get("items") or ()]
    return [ResourcePath(place.kind, metadata.get("namespace"), metadata["name"]) for metadata in metadata_items]


def _why_held(namespace: JsonObject) -> str:
    """Return why a namespace is not deleted yet, from its conditions. A namespace has no finalizers itself."""
    reasons = [
        text_at(condition, "message") for condition in conditions_of(namespace) if condition.get("status") == "True"
    ]
    return " ".join(filter(None, reasons)) or "unknown (kube-controller-manager empties namespaces)"


async def _wait_for_deletion(client: Client, deletions: list[tuple[ResourcePath, str]], seconds: float) -> bool:
    """Wait until all objects are deleted. On timeout, report the first one that remains, and return False."""
    end = asyncio.get_running_loop().time() + seconds
    for place, uid in deletions:
        # By uid: another client may have created a new object of the same name, whose deletion this command does not
        # await.
        while (live := await find(client, place)) is not None and live["metadata"].get("uid") == uid:
            if asyncio.get_running_loop().time() >= end:
                reason = ", ".join(finalizers_of(live)) or _why_held(live)
                complain(
                    f"error: timed out after {seconds:g} s waiting for {title_of(place.kind, place.name)} to be "
                    f"deleted, held by: {reason}"
                )
                return False
            await asyncio.sleep(_POLL_SECONDS)
    return True
