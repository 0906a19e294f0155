"""Static pools: as many nodes as ``replicas`` says, whatever pods there are.

A node that goes is made up for as soon as it begins to go; those that are too many are deleted, and neither budgets nor
do-not-disrupt hold that: they only say which go first.

Source: nodepool-disruption.md 2.7 and 7; Karpenter v1.15.0 ``pkg/controllers/static``.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from scorer.node_disruption.candidates.candidate import lifetime_remaining, reschedule_cost
from scorer.node_disruption.cluster.pod import Owner, Pod
from scorer.node_disruption.cluster.snapshot import ClusterNode, NodePoolState

_NODES: Final = "nodes"


def lacking(pool: NodePoolState, nodes: Iterable[ClusterNode]) -> int:
    """Return how many nodes a static pool should get now, within its limit; 0 for other pools.

    Args:
        pool: The pool.
        nodes: Its own.
    """
    if pool.replicas is None or pool.deleting or not pool.ready:
        return 0
    claimed = [node for node in nodes if node.claim]
    missing = pool.replicas - len(_staying(claimed))
    room = pool.limits[_NODES] - len(claimed) if _NODES in pool.limits else missing
    return max(0, min(missing, room))


def should_have(pool: NodePoolState) -> str:
    """Say how many nodes a static pool should have."""
    return "1 node" if pool.replicas == 1 else f"{pool.replicas} nodes"


def surplus(
    pool: NodePoolState, nodes: Iterable[ClusterNode], pods: Mapping[str, Sequence[Pod]], now: datetime
) -> tuple[str, ...]:
    """Return the names of the nodes by which a static pool has too many, those first that go first.

    Nodes without pods come first, those with a pod that must not be disrupted last; then those that cost least to
    disrupt, the less of their life is left the less.

    Args:
        pool: The pool.
        nodes: Its own.
        pods: On nodes, by their names.
        now: The instant, with a time zone.
    """
    if pool.replicas is None or pool.deleting:
        return ()

    def turn(node: ClusterNode) -> tuple[bool, bool, float, str]:
        on_it = [pod for pod in pods.get(node.name, ()) if not pod.finished]
        is_protected = any(pod.active and pod.held.is_protected(now) for pod in on_it)
        is_used = is_protected or any(pod.owner is not Owner.DAEMON_SET for pod in on_it)
        assert node.claim is not None
        left = lifetime_remaining(node.claim.created, node.claim.expire_after, now)
        return is_used, is_protected, reschedule_cost(on_it) * left, node.name

    staying = sorted(_staying(node for node in nodes if node.claim), key=turn)
    return tuple(node.name for node in staying[: max(0, len(staying) - pool.replicas)])


def _staying(nodes: Iterable[ClusterNode]) -> list[ClusterNode]:
    return [
        node for node in nodes if node.node is not None and not node.node.disrupting and not node.node.instance_gone
    ]
