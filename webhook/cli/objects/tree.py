"""``harbormaster tree``: a placement and everything below it, once or as it changes."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import click

from scorer.api.family import FAMILY_OF
from scorer.api.kinds import WORK, Kind
from scorer.api.names import IS_LATEST_SNAPSHOT, PARENT_PLACEMENT, PARENT_PLACEMENT_NAMESPACE
from scorer.api.unstructured.json_object import JsonObject, format_time
from scorer.api.values.quoting import printable
from scorer.rollout.views.tree import Sources, essentials, placement_tree
from webhook.cli.errors import UserError, complain
from webhook.cli.hub.client import Client, HubRefusedError, ResourcePath
from webhook.cli.hub.connection import HubConnection
from webhook.cli.hub.resource_arguments import ObjectReference, parse_reference
from webhook.cli.objects.tree_output import TreeChangeLog, TreeNode, make_nodes, plain_lines, rich_tree, with_urls
from webhook.cli.options.base import output_option, placement_namespace_option, run, tab
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.text.output import is_terminal, print_document, print_line

Draw = Callable[[JsonObject, str], None]
"""Draws a tree, with the reason why it may be stale."""

SECONDS_BETWEEN: Final = 0.25
"""Minimum time between two redraws on a terminal. It is longer for a large fleet, so that drawing takes at most a fifth
of the time."""
RETRY_SECONDS: Final = 2.0
_FORBIDDEN: Final = 403

HELP = """Show a placement as a tree of clusters, bindings, Works and objects.

PLACEMENT is NAME, crp/NAME or rp/NAMESPACE/NAME. With -n, NAME is a ResourcePlacement. The worst problems come first.
Healthy clusters and objects are counted in one line (--all shows each). With a kubeconfig, you need the right to get
the placement. The tree omits bindings, resource snapshots and Works that you may not list, and a message names their
kinds.

\b
Examples:
  harbormaster tree crp/payments
  harbormaster tree crp/payments -w               follow it until Ctrl-C or until it is deleted
  harbormaster tree crp/payments -w | tee log     as a log: one line per change, with the time
  harbormaster tree rp/team-a/web --all
  harbormaster tree crp/payments -o wide          with the URLs of the explanations of states and reasons
  harbormaster tree crp/payments --kubeconfig hub.kubeconfig -o json

\b
States of a cluster:  failed, applying, waiting, removing, removal pending (until it is confirmed),
                      reported (ReportDiff), available
States of an object:  failed, not yet (available), waiting (for the agent), differs, applied, same, available

\b
-o json, stable (yaml: the same, with -w one document per change):
  placement   ref kind namespace name generation type wanted picked state why resourceIndex conditions[]
              deleting finalizers[]
  summary     clusters, how many are in each state, outdated drifted differing
  clusters[]  cluster state detail healthy upToDate drifts diffs, works[] and binding: name namespace state
              resourceSnapshot resourceIndex policySnapshot rollout condition deleting finalizers[]
  works[]     name namespace generation reportedGeneration waitingForAgent envelope conditions[] deleting
              finalizers[] objects[]
  objects[]   ordinal group version kind namespace name state tracked reason message drifts[] diffs[] envelope
  missing[]   reason message: requested clusters that were not found
  unread[]    kinds that you may not list, as plural.group
  A condition is type status reason message current, an envelope type namespace name, a drift or diff its path.
  wanted is null for PickAll. resourceIndex, upToDate, reportedGeneration, rollout, condition, envelope and
  binding are null if absent.

\b
Exit codes:
  0  shown
  1  no such placement, or an unreachable hub
"""


@click.command("tree", help=HELP, short_help="Show a placement with its clusters, bindings, Works and objects.")
@click.argument("placement", nargs=-1, required=True, metavar="PLACEMENT", shell_complete=tab("placements"))
@click.option("-w", "--watch", is_flag=True, help="Keep running and show every change.")
@click.option("-a", "--all", "everything", is_flag=True, help="Show every cluster and every object on its own line.")
@output_option("text", "wide", "json", "yaml")
@placement_namespace_option
@hub_options
def command(
    placement: Sequence[str],
    watch: bool,
    everything: bool,
    output: str,
    namespace: str | None,
    hub: HubOptions,
) -> int:
    """Show a placement."""
    connection = hub.find()
    branches = Branches.of(parse_reference(placement, namespace, default=connection.namespace))
    show = _Show(output, everything=everything)
    if not watch:
        show.once(run(_read(connection, branches)))
        return 0
    with suppress(KeyboardInterrupt):
        run(_follow(connection, branches, show))
    return 0


@dataclass(frozen=True, slots=True)
class Branch:
    """Collection of documents of one kind.

    Args:
        place: The collection.
        selector: Label selector.
        fields: Field selector.
    """

    place: ResourcePath
    selector: str = ""
    fields: str = ""


@dataclass(frozen=True, slots=True)
class Branches:
    """The collections with everything about one placement.

    Args:
        ref: Its reference.
        placement: The placement itself.
        parts: The placement as a collection of one, its bindings, Works and latest resource snapshots.
    """

    ref: str
    placement: ResourcePath
    parts: tuple[Branch, Branch, Branch, Branch]

    @classmethod
    def of(cls, ref: ObjectReference) -> "Branches":
        """Return the collections of a placement."""
        kind, namespace, name = ref
        family, space = FAMILY_OF[kind.kind], namespace or None
        ours = f"{PARENT_PLACEMENT}={name}"
        home = f"{PARENT_PLACEMENT_NAMESPACE}={namespace}" if namespace else f"!{PARENT_PLACEMENT_NAMESPACE}"
        parts = (
            Branch(ResourcePath(kind, space), fields=f"metadata.name={name}"),
            Branch(ResourcePath(family.binding, space), ours),
            Branch(ResourcePath(WORK), f"{ours},{home}"),
            Branch(ResourcePath(family.resource_snapshot, space), f"{ours},{IS_LATEST_SNAPSHOT}=true"),
        )
        return cls(str(ref), ResourcePath(kind, space, name), parts)


@asynccontextmanager
async def _open(hub: HubConnection, branches: Branches) -> AsyncIterator[tuple[Client, JsonObject]]:
    """Connect to the hub and read the placement.

    Raises:
        UserError: The placement does not exist, or the hub does not serve our kinds or refuses the request.
    """
    async with Client(hub) as reader:
        try:
            yield reader, await reader.get(branches.placement)
        except HubRefusedError as error:
            if error.code != 404:
                raise UserError(error.lines()) from error
            kind = branches.placement.kind
            if branches.placement.name in error.message:
                raise UserError(f"there is no placement {branches.ref}") from error
            message = f"the hub does not serve {kind.plural}: apply the output of `harbormaster crds` there"
            raise UserError(message) from error


async def _read(hub: HubConnection, branches: Branches) -> JsonObject:
    """Return the current tree."""
    async with _open(hub, branches) as (reader, placement):
        lists = await asyncio.gather(*(_allowed_items(reader, part) for part in branches.parts[1:]))
    unread = [part for part, items in zip(branches.parts[1:], lists, strict=True) if items is None]
    bindings, works, snapshots = (items or [] for items in lists)
    return _tree(Sources(placement, bindings, works, snapshots), unread)


def _tree(sources: Sources, unread: Iterable[Branch]) -> JsonObject:
    return {**placement_tree(sources), "unread": sorted(branch.place.kind.resource for branch in unread)}


async def _allowed_items(reader: Client, branch: Branch) -> list[JsonObject] | None:
    """Return the documents of a branch, or None if the user may not list them."""
    try:
        return (await _items(reader, branch))[0]
    except HubRefusedError as error:
        if error.code != _FORBIDDEN:
            raise
        return None


async def _items(reader: Client, branch: Branch) -> tuple[list[JsonObject], str]:
    """Return the relevant parts of the documents of a branch, and the resource version to watch from."""
    listing = await reader.list(branch.place, branch.selector, branch.fields)
    items = [_document(branch.place.kind, item) for item in listing.get("items") or ()]
    return items, str(listing["metadata"]["resourceVersion"])


def _document(kind: Kind, item: JsonObject) -> JsonObject:
    """Return the relevant parts of an item, with the type that a list may omit."""
    item = {"apiVersion": kind.api_version, "kind": kind.kind, **item}
    return item if kind.kind.endswith("Placement") or kind.kind.endswith("Binding") else essentials(kind, item)


class Follower:
    """Mirrors the documents of a placement from the hub.

    Attributes:
        changed: Set on every change.
        trouble: Reason why the hub cannot be watched now, empty if it can.
        unread: Branches that the user may not list.

    Args:
        reader: The hub.
        branches: The collections to watch.
    """

    def __init__(self, reader: Client, branches: Branches) -> None:
        self._reader = reader
        self._branches = branches
        self._objects: dict[Branch, dict[str, JsonObject]] = {}
        self.changed = asyncio.Event()
        self.trouble = ""
        self.unread: set[Branch] = set()

    async def run(self) -> None:
        """Watch until cancelled. Failed reads are retried."""
        async with asyncio.TaskGroup() as tasks:
            for branch in self._branches.parts:
                tasks.create_task(self._keep(branch))

    @property
    def complete(self) -> bool:
        """Whether every branch has been listed at least once, or is forbidden to the user."""
        return len(self._objects) == len(self._branches.parts)

    def tree(self) -> JsonObject | None:
        """Return the current tree, or None if the placement was deleted."""
        placements, bindings, works, snapshots = (
            tuple(self._objects.get(part, {}).values()) for part in self._branches.parts
        )
        return _tree(Sources(placements[0], bindings, works, snapshots), self.unread) if placements else None

    async def _keep(self, branch: Branch) -> None:
        while True:
            try:
                await self._watch(branch)
                pause = SECONDS_BETWEEN  # back off from a hub that ends every watch immediately
            except (HubRefusedError, UserError) as error:
                pause = RETRY_SECONDS
                if getattr(error, "code", 0) == _FORBIDDEN and branch is not self._branches.parts[0]:
                    self._objects.setdefault(branch, {})
                    self.unread.add(branch)
                else:
                    self.trouble = error.message
                self.changed.set()
            await asyncio.sleep(pause)

    async def _watch(self, branch: Branch) -> None:
        """List the branch, then watch it until the watch ends."""
        items, since = await _items(self._reader, branch)
        items_by_name = self._objects[branch] = {_name(item): item for item in items}
        self.trouble = ""
        self.unread.discard(branch)
        self.changed.set()
        async for event in self._reader.watch(branch.place, since, branch.selector, branch.fields):
            if event.type == "ERROR":
                return
            if event.type == "BOOKMARK":
                continue
            if event.type == "DELETED":
                items_by_name.pop(_name(event.document), None)
            else:
                items_by_name[_name(event.document)] = _document(branch.place.kind, event.document)
            self.changed.set()


def _name(document: JsonObject) -> str:
    return f"{document['metadata'].get('namespace', '')}/{document['metadata']['name']}"


async def _follow(hub: HubConnection, branches: Branches, show: "_Show") -> None:
    """Show every change until the placement is deleted. Raises `UserError` if it cannot be read at first."""
    async with _open(hub, branches) as (reader, _):
        follower = Follower(reader, branches)
        task = asyncio.create_task(follower.run())
        task.add_done_callback(lambda _: follower.changed.set())
        try:
            with show.live() as draw:
                elapsed = 0.0
                while not task.done():
                    await follower.changed.wait()
                    await asyncio.sleep(max(SECONDS_BETWEEN, 4 * elapsed))  # coalesce related changes
                    follower.changed.clear()
                    start = time.monotonic()
                    if follower.complete:
                        tree = follower.tree()
                        if tree is None:
                            break
                        draw(tree, follower.trouble)
                    elif follower.trouble:
                        raise UserError(follower.trouble)  # not readable so far, for example for lack of permission
                    elapsed = time.monotonic() - start
                else:
                    task.result()
        finally:
            task.cancel()
            await asyncio.wait([task])
    complain(f"{branches.ref} deleted")


class _Show:
    """Prints trees in the requested format.

    Args:
        output: ``text``, ``wide``, ``json`` or ``yaml``.
        everything: Show every cluster and object on its own line.
    """

    def __init__(self, output: str, *, everything: bool) -> None:
        self._output = output
        self._everything = everything
        self._is_text = output in ("text", "wide")

    def _nodes(self, tree: JsonObject) -> TreeNode:
        nodes = make_nodes(tree, everything=self._everything)
        return with_urls(nodes) if self._output == "wide" else nodes

    def once(self, tree: JsonObject) -> None:
        """Print one tree, and on standard error the kinds that it omits."""
        for line in _omissions(tree):
            complain(line)
        if not self._is_text:
            print_document(tree, self._output)
        elif is_terminal():
            from rich.console import Console

            Console(highlight=False).print(rich_tree(self._nodes(tree)))
        else:
            self._echo(plain_lines(self._nodes(tree), ascii_only=not _has_lines()))

    @contextmanager
    def live(self) -> Iterator[Draw]:
        """Yield a function that redraws the tree in place, or prints its changes."""
        draw = self._documents if not self._is_text else self._changes()
        if not self._is_text or not is_terminal():
            yield _only_news(draw)
            return
        from rich.console import Console, Group
        from rich.live import Live
        from rich.text import Text

        with Live(console=Console(highlight=False), auto_refresh=False) as live:

            def redraw(tree: JsonObject, trouble: str) -> None:
                below = [Text(line, style="yellow") for line in _omissions(tree)]
                below += [Text(_lost(trouble), style="red")] if trouble else []
                live.update(Group(rich_tree(self._nodes(tree)), *below), refresh=True)

            yield _only_news(redraw)

    def _documents(self, tree: JsonObject, trouble: str) -> None:
        if trouble:
            complain(_lost(trouble))
            return
        if self._output == "yaml":
            click.echo("---")
        print_document(tree, self._output)
        sys.stdout.flush()

    def _changes(self) -> Draw:
        """Return a function that prints the tree once, then a line with the time for each change."""
        changes = TreeChangeLog()
        first = True

        def draw(tree: JsonObject, trouble: str) -> None:
            nonlocal first
            lines = changes.lines(tree, everything=self._everything)
            if first:
                self.once(tree)
                first = False
                return
            now = format_time(datetime.now(UTC))
            self._echo(f"{now}  {line}" for line in (*lines, *([_lost(trouble)] if trouble else [])))

        return draw

    def _echo(self, lines: Iterable[str]) -> None:
        for line in lines:
            print_line(line)
        sys.stdout.flush()


def _only_news(draw: Draw) -> Draw:
    """Return a function that calls *draw* only if its arguments have changed since the last call."""
    previous: tuple[JsonObject, str] | None = None

    def once(tree: JsonObject, trouble: str) -> None:
        nonlocal previous
        if (tree, trouble) != previous:
            previous = tree, trouble
            draw(tree, trouble)

    return once


def _omissions(tree: JsonObject) -> list[str]:
    return [f"the tree omits {kind}: you may not list them" for kind in tree["unread"]]


def _lost(trouble: str) -> str:
    return f"watch failed: {printable(trouble)}. Retrying"


def _has_lines() -> bool:
    """Return whether standard output supports box-drawing characters."""
    try:
        "│├└─…".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
