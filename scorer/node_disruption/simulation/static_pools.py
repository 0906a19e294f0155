"""Static pools: exactly ``replicas`` nodes, regardless of pods.

A node is replaced as soon as its removal starts. Surplus nodes are deleted regardless of budgets and do-not-disrupt,
which only affect the order.

Source: docs/specifications/nodepool-disruption.md 2.7 and 7; Karpenter v1.15.0 ``pkg/controllers/static``.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from scorer.node_disruption.candidates.candidate import lifetime_remaining, reschedule_cost
from scorer.node_disruption.cluster.pod import Owner, Pod
from scorer.node_disruption.cluster.snapshot import ClusterNode, NodePoolState

_NODES: Final = "nodes"


def missing_nodes(pool: NodePoolState, nodes: Iterable[ClusterNode]) -> int:
    """Return how many nodes a static pool lacks, within its limit. 0: not static, not ready, or being deleted.

    Args:
        pool: The pool.
        nodes: Nodes of the pool.
    """
    if pool.replicas is None or pool.deleting or not pool.ready:
        return 0
    nodes_with_claim = [node for node in nodes if node.claim]
    missing = pool.replicas - len(_staying_nodes(nodes_with_claim))
    room = pool.limits[_NODES] - len(nodes_with_claim) if _NODES in pool.limits else missing
    return max(0, min(missing, room))


def should_have(pool: NodePoolState) -> str:
    """Return the desired number of nodes of a static pool as text."""
    return "1 node" if pool.replicas == 1 else f"{pool.replicas} nodes"


def surplus(
    pool: NodePoolState, nodes: Iterable[ClusterNode], pods: Mapping[str, Sequence[Pod]], now: datetime
) -> tuple[str, ...]:
    """Return the names of the surplus nodes of a static pool, in the order of removal.

    Nodes with only DaemonSet pods come first, those with a do-not-disrupt pod last. Within each group, nodes are sorted
    by reschedule cost, weighted by their remaining lifetime.

    Args:
        pool: The pool.
        nodes: Nodes of the pool.
        pods: Pods by node name.
        now: Current time, timezone-aware.
    """
    if pool.replicas is None or pool.deleting:
        return ()

    def turn(node: ClusterNode) -> tuple[bool, bool, float, str]:
        node_pods = [pod for pod in pods.get(node.name, ()) if not pod.finished]
        is_protected = any(pod.active and pod.held.is_protected(now) for pod in node_pods)
        is_used = is_protected or any(pod.owner is not Owner.DAEMON_SET for pod in node_pods)
        assert node.claim is not None
        remaining_time = lifetime_remaining(node.claim.created, node.claim.expire_after, now)
        return is_used, is_protected, reschedule_cost(node_pods) * remaining_time, node.name

    staying_nodes = sorted(_staying_nodes(node for node in nodes if node.claim), key=turn)
    return tuple(node.name for node in staying_nodes[: max(0, len(staying_nodes) - pool.replicas)])


def _staying_nodes(nodes: Iterable[ClusterNode]) -> list[ClusterNode]:
    return [
        node for node in nodes if node.node is not None and not node.node.disrupting and not node.node.instance_gone
    ]
