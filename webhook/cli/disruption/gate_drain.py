"""``harbormaster gate drain``: the effects of draining nodes, from files or from the cluster of a kubeconfig."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import click

from scorer.api.kinds import NAMESPACE, NODE, NODE_CLAIM, NODE_POOL, POD, POD_DISRUPTION_BUDGET, Kind
from scorer.api.unstructured.json_object import JsonObject, format_time
from scorer.api.values.duration import format_duration
from webhook.cli.disruption.cluster_dump import DAEMON_SET, DUMP_LINE, DUMPED
from webhook.cli.errors import UserError, complain
from webhook.cli.files.search import Files
from webhook.cli.hub.connection import HubConnection
from webhook.cli.options.base import file_option, output_option, run
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.options.times import Instant, in_zone, read_zone, zone_option
from webhook.cli.text.output import print_document, print_line, print_table

if TYPE_CHECKING:
    from scorer.node_disruption.drain.preview import DrainedPod, DrainPreview

SHORT: Final = "Show where a drain would move pods, and what blocks it."
HELP: Final = f"""{SHORT}

Nothing is drained. The command simulates a drain of all named nodes together, as Karpenter does it, without creating
new nodes. For each pod, the table shows the node that would take it, what blocks it and until when, or why no node
takes it. `kubectl drain` differs: it ignores do-not-disrupt, and never evicts pods of DaemonSets.

--kubeconfig and --context name the cluster of the nodes, not the hub. The command reads that cluster with your rights.
With -f, it reads a dump of the cluster instead:

\b
  {DUMP_LINE}

\b
Examples:
  harbormaster gate drain node-1 node-2 --context east
  harbormaster gate drain node-1 -f dump.yaml
  harbormaster gate drain node-1 -f dump.yaml -o json

\b
-o json (yaml: the same):
  nodes[] otherNodes clear notes[]
  pods[]                  pod node fate goesTo why reason until forcedAfterSeconds noPlace
  podDisruptionBudgets[]  name disruptionsAllowed pods[]

\b
Exit codes:
  0  no pod that has to move is blocked, and other nodes have room for all of them
  1  an error: no such node, an unusable file, or an unreachable cluster
  2  a pod is blocked, or no node takes it
"""
HEADERS: Final = ("POD", "NODE", "MOVES TO", "REASON", "UNTIL")
HELD: Final = 2
_NEEDED: Final = (NODE, POD)
_FORBIDDEN: Final = 403
_MISSING: Final = 404
_FATES: Final = {
    "goes": ("can move", "can move"),
    "held": ("is blocked", "are blocked"),
    "stays": ("remains until the node is deleted", "remain until the node is deleted"),
    "ends": ("is already terminating", "are already terminating"),
    "without": ("fits no other node", "fit no other node"),
}
"""Fate of a pod, for one pod and for several."""
_WITHOUT: Final = {
    NODE_POOL: "nodes belong to no pool",
    NODE_CLAIM: "terminationGracePeriod is unknown",
    POD_DISRUPTION_BUDGET: "PodDisruptionBudgets are not considered",
    NAMESPACE: "namespace selectors match only by name",
    DAEMON_SET: "",
}


@click.command("drain", help=HELP, short_help=SHORT)
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@file_option
@click.option("--now", type=Instant(), help="Time of the drain.  [default: now, or with -f the time of the dump]")
@zone_option
@output_option("table", "json", "yaml")
@hub_options
def command(
    nodes: Sequence[str], files: Files, now: datetime | None, zone: str | None, output: str, hub: HubOptions
) -> int:
    """Show what a drain would do. Raises `UserError`."""
    from scorer.node_disruption.cluster.reader import read_cluster
    from scorer.node_disruption.drain.preview import UnknownNodesError, preview_document, preview_drain

    display_zone, present = read_zone(zone), datetime.now(UTC).replace(microsecond=0)
    if files:
        hub.refuse_with_files()
        documents, notes, dump_time = _of_files(files, present)
    else:
        documents, notes = run(_of_cluster(hub.find()))
        dump_time = None
    instant = now or dump_time or present
    cluster = read_cluster(documents, instant)
    notes = [*notes, *cluster.notes]
    try:
        preview = preview_drain(cluster, nodes, instant)
    except UnknownNodesError as error:
        node_names = ", ".join([*cluster.nodes][:20]) or "none"
        raise UserError(f"{error}. Nodes of the cluster: {node_names}") from error
    for note in notes:
        complain(f"note: {note}")
    if output == "table":
        _print(preview, display_zone)
    else:
        print_document({**preview_document(preview), "notes": notes}, output)
    return 0 if preview.is_clear else HELD


def _of_files(files: Files, now: datetime) -> tuple[Sequence[JsonObject], list[str], datetime | None]:
    from webhook.cli.disruption.cluster_dump import read_dump

    dump = read_dump(files, now, pools_needed=False)
    return dump.documents, list(dump.notes), dump.made


async def _of_cluster(connection: HubConnection) -> tuple[Sequence[JsonObject], list[str]]:
    """Return the objects that a drain depends on, and notes about kinds that cannot be read.

    Raises:
        UserError: A required kind cannot be read.
    """
    from webhook.cli.hub.client import Client, HubRefusedError, ResourcePath

    documents: list[JsonObject] = []
    notes: list[str] = []
    async with Client(connection) as client:
        for kind in DUMPED:
            try:
                listing = await client.list(ResourcePath(kind))
            except HubRefusedError as error:
                if kind in _NEEDED or error.code not in (_FORBIDDEN, _MISSING):
                    raise UserError(f"{kind.plural}: {error.message}") from error
                notes += _not_read(kind, error.code)
                continue
            own = {"apiVersion": kind.api_version, "kind": kind.kind}
            documents += ({**own, **item} for item in listing["items"] if isinstance(item, dict))
    return documents, notes


def _not_read(kind: Kind, code: int) -> Iterator[str]:
    reason = "you may not list them" if code == _FORBIDDEN else "the server does not serve them"
    consequence = _WITHOUT.get(kind, "volumes do not restrict pods to a zone or node")
    if code == _FORBIDDEN or kind not in (NODE_POOL, NODE_CLAIM):
        yield f"{kind.plural}: {reason}" + (f"; {consequence}" if consequence else "")


def _print(preview: "DrainPreview", zone: ZoneInfo) -> None:
    if preview.pods:
        print_table(HEADERS, [_row(pod, zone) for pod in preview.pods])
        click.echo()
    for line in _sentences(preview):
        print_line(line)


def _row(pod: "DrainedPod", zone: ZoneInfo) -> tuple[str, ...]:
    nowhere = ", ".join(f"{number} {reason}" for reason, number in pod.nowhere.items())
    onto = pod.onto or (f"no node: {nowhere}" if nowhere else "-")
    return pod.pod, pod.node, onto, pod.why or "-", _until(pod, zone)


def _until(pod: "DrainedPod", zone: ZoneInfo) -> str:
    parts = []
    if pod.until is not None:
        local_time = in_zone(pod.until, zone)
        parts.append(f"{local_time:%a %Y-%m-%d %H:%M %Z}" if local_time.utcoffset() else format_time(pod.until))
    if pod.forced_after is not None:
        parts.append(f"{format_duration(pod.forced_after)} after its NodeClaim is deleted")
    return " or ".join(parts) or "-"


def _sentences(preview: "DrainPreview") -> Iterator[str]:
    numbers = Counter(str(pod.fate) for pod in preview.pods)
    numbers["without"] = sum(bool(pod.nowhere) for pod in preview.pods)
    others = "1 other node" if preview.others == 1 else f"{preview.others} other nodes"
    yield f"{', '.join(preview.nodes)}: {_listed(numbers)}; {others}."
    for guard in preview.guards:
        if guard.allowed < len(guard.pods):
            pods = f"{len(guard.pods)} pods" if len(guard.pods) > 1 else "1 pod"
            allowed = "none of them" if not guard.allowed else f"{guard.allowed} at a time"
            yield f"PodDisruptionBudget {guard.guard} covers {pods} there and allows the eviction of {allowed}."


def _listed(numbers: Mapping[str, int]) -> str:
    counts = ((numbers[word], *forms) for word, forms in _FATES.items() if numbers[word])
    return (
        ", ".join(f"{number} {singular if number == 1 else several}" for number, singular, several in counts)
        or "no pods"
    )
