"""What a drain of nodes would do, without doing it: which pods go where, which are held, which find no place.

It is the drain of a node that is disrupted: it waits for pods with do-not-disrupt, evicts those of DaemonSets as well,
and leaves those that tolerate its taint. The pods of all the nodes are placed together, on the nodes that remain; no
node is made for them. A pod that is held gets a place as well: it will need one once it may go.

Source: nodepool-disruption.md 5.4, 9 and 13.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from scorer.api.meta import JsonObject, format_time
from scorer.node_budgets.blockers import BlockReason
from scorer.node_budgets.nodes import DO_NOT_DISRUPT
from scorer.node_disruption.cluster.pod import Owner, Pod
from scorer.node_disruption.cluster.snapshot import ClusterSnapshot
from scorer.node_disruption.drain.eviction import DISRUPTED, EvictionLedger, is_healthy
from scorer.node_disruption.scheduling.node_filter import ClusterCapacity
from scorer.node_disruption.scheduling.scheduler import place_all

_DAEMON: Final = "a pod of a DaemonSet: it ends with the node"


class DrainOutcome(StrEnum):
    """What a drain does to a pod."""

    GOES = "goes"
    HELD = "held"
    STAYS = "stays"
    ENDS = "ends"


@dataclass(frozen=True, slots=True)
class DrainedPod:
    """A pod on a node that is to be drained.

    Args:
        pod: Its key.
        node: Where it runs.
        fate: What the drain does to it.
        onto: The node that would take it; empty: none would, or it needs none.
        why: Why it stays, ends or is held; empty when it goes.
        reason: What holds it, in one word; empty when nothing does.
        until: When that ends by itself; None: never, or that is not known.
        forced_after: How long after the deletion of the NodeClaim it is deleted all the same; None: never.
        nowhere: Why nodes do not take it, with how many of them; empty when one does.
    """

    pod: str
    node: str
    fate: DrainOutcome
    onto: str = ""
    why: str = ""
    reason: str = ""
    until: datetime | None = None
    forced_after: timedelta | None = None
    nowhere: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GuardedPods:
    """A PodDisruptionBudget around pods that are to go.

    Args:
        guard: Its namespace and name.
        allowed: How many of its pods may be evicted now.
        pods: Keys of the pods on the nodes.
    """

    guard: str
    allowed: int
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DrainPreview:
    """What a drain would do.

    Args:
        nodes: That would be drained.
        others: How many nodes remain that could take pods.
        pods: In the order of nodes and keys.
        guards: Around pods that are to go.
    """

    nodes: tuple[str, ...]
    others: int
    pods: tuple[DrainedPod, ...]
    guards: tuple[GuardedPods, ...]

    @property
    def is_clear(self) -> bool:
        """Whether all pods that have to go can go now, and have a place."""
        return all(pod.fate is not DrainOutcome.HELD and not pod.nowhere for pod in self.pods)


class UnknownNodesError(LookupError):
    """There are no nodes of these names."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        super().__init__(f"there is no node {', '.join(names)}")


def preview_drain(cluster: ClusterSnapshot, names: Collection[str], now: datetime) -> DrainPreview:
    """Return what a drain of nodes would do.

    Args:
        cluster: At *now*.
        names: Of the nodes.
        now: The instant, with a time zone.

    Raises:
        UnknownNodesError: Some are not there.
    """
    drained = tuple(dict.fromkeys(names))
    if unknown := tuple(name for name in drained if name not in cluster.nodes):
        raise UnknownNodesError(unknown)
    going = [name for name, node in cluster.nodes.items() if node.node is not None and node.node.disrupting]
    fitting = ClusterCapacity(cluster, without=drained, closed=going)
    pods = [(name, pod) for name in drained for pod in cluster.pods.get(name, ()) if not pod.finished]
    moving = [pod for _, pod in pods if _goes(pod) and pod.reschedulable]
    placed = place_all(fitting, moving)
    book = EvictionLedger(cluster.guards)
    found = []
    for name, pod in pods:
        claim = cluster.nodes[name].claim
        bound = None if claim is None else claim.termination_grace
        nowhere = dict(placed.after.reasons(pod)) if pod.key in placed.left else {}
        if pod.key in placed.left and not nowhere:
            nowhere = {"there is no other node": 1}
        found.append(_drained(pod, name, book, now, bound, placed.onto.get(pod.key, ""), nowhere))
    return DrainPreview(drained, fitting.size, tuple(found), tuple(_guards(cluster, book, [pod for _, pod in pods])))


def preview_document(preview: DrainPreview) -> JsonObject:
    """Return a preview as JSON."""
    return {
        "nodes": list(preview.nodes),
        "otherNodes": preview.others,
        "clear": preview.is_clear,
        "pods": [
            {
                "pod": pod.pod,
                "node": pod.node,
                "fate": pod.fate.value,
                "goesTo": pod.onto or None,
                "why": pod.why or None,
                "reason": str(pod.reason) or None,
                "until": None if pod.until is None else format_time(pod.until),
                "forcedAfterSeconds": None if pod.forced_after is None else pod.forced_after.total_seconds(),
                "noPlace": dict(pod.nowhere) or None,
            }
            for pod in preview.pods
        ],
        "podDisruptionBudgets": [
            {"name": guard.guard, "disruptionsAllowed": guard.allowed, "pods": list(guard.pods)}
            for guard in preview.guards
        ],
    }


def _goes(pod: Pod) -> bool:
    return pod.owner not in (Owner.DAEMON_SET, Owner.NODE)


def _is_evicted(pod: Pod) -> bool:
    return pod.active and pod.owner is not Owner.NODE and not pod.shape.tolerates(DISRUPTED)


def _drained(
    pod: Pod,
    node: str,
    book: EvictionLedger,
    now: datetime,
    bound: timedelta | None,
    onto: str,
    nowhere: Mapping[str, int],
) -> DrainedPod:
    if pod.owner is Owner.NODE:
        return DrainedPod(pod.key, node, DrainOutcome.STAYS, why="a mirror pod: it ends with the node")
    if pod.shape.tolerates(DISRUPTED):
        said = _DAEMON if pod.owner is Owner.DAEMON_SET else f"tolerates {DISRUPTED.key}: it ends with the node"
        return DrainedPod(pod.key, node, DrainOutcome.STAYS, onto, said, nowhere=nowhere)
    if pod.terminating_since is not None:
        return DrainedPod(pod.key, node, DrainOutcome.ENDS, onto, "is being deleted", nowhere=nowhere)
    forced = None if bound is None else max(timedelta(), bound - pod.grace)
    if pod.held.is_protected(now):
        end = pod.held.protected_until
        said = f"has the annotation {DO_NOT_DISRUPT}" + (f" until {format_time(end)}" if end is not None else "")
        return DrainedPod(
            pod.key, node, DrainOutcome.HELD, onto, said, BlockReason.DO_NOT_DISRUPT, end, forced, nowhere
        )
    if (refusal := book.refusal(pod)) is not None:
        reason, message = refusal
        said = message.removesuffix(f": pod {pod.key}")
        return DrainedPod(pod.key, node, DrainOutcome.HELD, onto, said, reason, None, forced, nowhere)
    if pod.owner is Owner.DAEMON_SET:
        return DrainedPod(pod.key, node, DrainOutcome.STAYS, why=_DAEMON)
    return DrainedPod(pod.key, node, DrainOutcome.GOES, onto, nowhere=nowhere)


def _guards(cluster: ClusterSnapshot, book: EvictionLedger, pods: list[Pod]) -> Iterator[GuardedPods]:
    around: dict[str, list[str]] = {}
    for pod in pods:
        if _is_evicted(pod) and (is_healthy(pod) or book.refusal(pod) is not None):
            for guard in book.guards_of(pod):
                around.setdefault(f"{guard.namespace}/{guard.name}", []).append(pod.key)
    allowed = {
        f"{guard.namespace}/{guard.name}": guard.disruptions_allowed
        for guards in cluster.guards.values()
        for guard in guards
    }
    for name, keys in sorted(around.items()):
        yield GuardedPods(name, allowed[name], tuple(keys))
