"""Dry run of a drain: where pods would be rescheduled, which are held, and which do not fit.

As in the drain of a disrupted node, pods with do-not-disrupt hold the drain, DaemonSet pods are evicted as well, and
pods that tolerate the taint are ignored. The pods of all drained nodes are placed together on the remaining nodes,
without creating a node. Held pods are placed as well, because they need a place later.

Source: docs/specifications/nodepool-disruption.md 5.4, 9 and 13.
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

_DAEMON: Final = "a pod of a DaemonSet: it is deleted with the node"


class DrainOutcome(StrEnum):
    """Outcome of a drain for a pod."""

    GOES = "goes"
    HELD = "held"
    STAYS = "stays"
    ENDS = "ends"


@dataclass(frozen=True, slots=True)
class DrainedPod:
    """A pod on a node to be drained.

    Args:
        pod: Key of the pod.
        node: Node.
        fate: Outcome of the drain.
        onto: The node that would accept it, empty if none fits or none is needed.
        why: Reason why it is held, ignored or terminated, otherwise empty.
        reason: Machine-readable cause of the hold, otherwise empty.
        until: Time at which the hold ends without intervention. None: unknown.
        forced_after: Delay between deletion of the NodeClaim and forced deletion of the pod. None: unlimited.
        nowhere: Reasons why nodes do not accept it, with the number of nodes. Empty if one does.
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
    """A PodDisruptionBudget of pods to be evicted.

    Args:
        guard: Namespace and name.
        allowed: Evictions allowed now.
        pods: Keys of the pods on the drained nodes.
    """

    guard: str
    allowed: int
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DrainPreview:
    """Result of a drain's dry run.

    Args:
        nodes: Nodes that would be drained.
        others: Number of remaining nodes that could accept pods.
        pods: Pods sorted by node and key.
        guards: PodDisruptionBudgets of the pods to be evicted.
    """

    nodes: tuple[str, ...]
    others: int
    pods: tuple[DrainedPod, ...]
    guards: tuple[GuardedPods, ...]

    @property
    def is_clear(self) -> bool:
        """Whether all pods to be evicted can be evicted now and fit elsewhere."""
        return all(pod.fate is not DrainOutcome.HELD and not pod.nowhere for pod in self.pods)


class UnknownNodesError(LookupError):
    """Some named nodes do not exist."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        super().__init__(f"there is no node {', '.join(names)}")


def preview_drain(cluster: ClusterSnapshot, names: Collection[str], now: datetime) -> DrainPreview:
    """Return the dry run of a drain.

    Args:
        cluster: Snapshot at *now*.
        names: Names of the nodes.
        now: Current time, timezone-aware.

    Raises:
        UnknownNodesError: Some nodes do not exist.
    """
    drained = tuple(dict.fromkeys(names))
    if unknown := tuple(name for name in drained if name not in cluster.nodes):
        raise UnknownNodesError(unknown)
    disrupted_nodes = [name for name, node in cluster.nodes.items() if node.node is not None and node.node.disrupting]
    capacity = ClusterCapacity(cluster, without=drained, closed=disrupted_nodes)
    pods = [(name, pod) for name in drained for pod in cluster.pods.get(name, ()) if not pod.finished]
    moving_pods = [pod for _, pod in pods if _goes(pod) and pod.reschedulable]
    placement = place_all(capacity, moving_pods)
    ledger = EvictionLedger(cluster.guards)
    drained_pods = []
    for name, pod in pods:
        claim = cluster.nodes[name].claim
        grace = None if claim is None else claim.termination_grace
        nowhere = dict(placement.after.reasons(pod)) if pod.key in placement.left else {}
        if pod.key in placement.left and not nowhere:
            nowhere = {"there is no other node": 1}
        drained_pods.append(_drained_pod(pod, name, ledger, now, grace, placement.onto.get(pod.key, ""), nowhere))
    return DrainPreview(
        drained, capacity.size, tuple(drained_pods), tuple(_guards(cluster, ledger, [pod for _, pod in pods]))
    )


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


def _drained_pod(
    pod: Pod,
    node: str,
    ledger: EvictionLedger,
    now: datetime,
    grace: timedelta | None,
    onto: str,
    nowhere: Mapping[str, int],
) -> DrainedPod:
    if pod.owner is Owner.NODE:
        return DrainedPod(pod.key, node, DrainOutcome.STAYS, why="a mirror pod: it is deleted with the node")
    if pod.shape.tolerates(DISRUPTED):
        stay_reason = (
            _DAEMON if pod.owner is Owner.DAEMON_SET else (f"tolerates {DISRUPTED.key}: it is deleted with the node")
        )
        return DrainedPod(pod.key, node, DrainOutcome.STAYS, onto, stay_reason, nowhere=nowhere)
    if pod.terminating_since is not None:
        return DrainedPod(pod.key, node, DrainOutcome.ENDS, onto, "is being deleted", nowhere=nowhere)
    forced_after = None if grace is None else max(timedelta(), grace - pod.grace)
    if pod.held.is_protected(now):
        end = pod.held.protected_until
        until = f" until {format_time(end)}" if end is not None else ""
        stay_reason = f"is protected by the annotation {DO_NOT_DISRUPT}{until}"
        return DrainedPod(
            pod.key, node, DrainOutcome.HELD, onto, stay_reason, BlockReason.DO_NOT_DISRUPT, end, forced_after, nowhere
        )
    if (refusal := ledger.refusal(pod)) is not None:
        reason, message = refusal
        stay_reason = message.removesuffix(f": pod {pod.key}")
        return DrainedPod(pod.key, node, DrainOutcome.HELD, onto, stay_reason, reason, None, forced_after, nowhere)
    if pod.owner is Owner.DAEMON_SET:
        return DrainedPod(pod.key, node, DrainOutcome.STAYS, why=_DAEMON)
    return DrainedPod(pod.key, node, DrainOutcome.GOES, onto, nowhere=nowhere)


def _guards(cluster: ClusterSnapshot, ledger: EvictionLedger, pods: list[Pod]) -> Iterator[GuardedPods]:
    keys_by_guard: dict[str, list[str]] = {}
    for pod in pods:
        if _is_evicted(pod) and (is_healthy(pod) or ledger.refusal(pod) is not None):
            for guard in ledger.guards_of(pod):
                keys_by_guard.setdefault(f"{guard.namespace}/{guard.name}", []).append(pod.key)
    allowances = {
        f"{guard.namespace}/{guard.name}": guard.disruptions_allowed
        for guards in cluster.guards.values()
        for guard in guards
    }
    for name, keys in sorted(keys_by_guard.items()):
        yield GuardedPods(name, allowances[name], tuple(keys))
