"""The nodes of a pool as budgets count them.

A node belongs to a pool by its label, and counts once it has a NodeClaim and is initialized. What the reference also
keeps in memory, the nodes of a command it has accepted, shows in the API as the taint that such a command puts on the
node first; that is what is read here (nodepool-disruption.md 4.1, "held in memory").

Source: nodepool-disruption.md 4.1; Karpenter v1.15.0 ``pkg/controllers/disruption/helpers.go`` and
``pkg/controllers/state/statenode.go``.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from scorer.api.documents import annotation, conditions_of, dicts_at, is_deleting, label, name_of, spec_of
from scorer.api.meta import JsonObject
from scorer.api.node_pool import NODE_POOL_LABEL
from scorer.node_budgets.budgets import NodeCounts

INITIALIZED_LABEL: Final = "karpenter.sh/initialized"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
"""Annotation of a node, of a pod, and of a pool's template."""
DISRUPTED_TAINT: Final = "karpenter.sh/disrupted"
"""Key of the taint that an accepted command puts on its nodes, with the effect NoSchedule."""

_TRUE: Final = "true"
_CONDITION_TRUE: Final = "True"


@dataclass(frozen=True, slots=True)
class PoolNode:
    """One node of a pool.

    Args:
        name: Of the Node.
        pool: What its label names.
        claim: Name of its NodeClaim; empty when it has none.
        deleting: Marked for deletion: claim or node is being deleted, or a disruption command has tainted the node.
        ready: The condition ``Ready`` is exactly True.
        rebooting: A reboot is in progress.
        initialized: The label says so.
        instance_gone: The claim says that its instance is being terminated.
        do_not_disrupt: The node's annotation is exactly ``"true"``.
        grace_bounded: The claim has a terminationGracePeriod, so that no pod can hold a drain for ever.
    """

    name: str
    pool: str
    claim: str = ""
    deleting: bool = False
    ready: bool = True
    rebooting: bool = False
    initialized: bool = True
    instance_gone: bool = False
    do_not_disrupt: bool = False
    grace_bounded: bool = False

    @property
    def counts(self) -> bool:
        """Whether budgets look at the node at all."""
        return bool(self.claim) and not self.instance_gone and (self.initialized or self.rebooting)

    @property
    def going(self) -> bool:
        """Whether the node is being disrupted, whatever its readiness."""
        return self.deleting or self.rebooting


def read_pool_node(node: JsonObject, claim: JsonObject | None) -> PoolNode | None:
    """Read a Node and its NodeClaim; None when the node has no label of a pool. What has a wrong type counts as absent.

    A node that is being deleted counts as such from its own deletionTimestamp on; the reference waits for that of the
    claim, which its node controller deletes right after.
    """
    pool = label(node, NODE_POOL_LABEL)
    if not pool:
        return None
    claim = claim or {}
    return PoolNode(
        name=node["metadata"]["name"],
        pool=pool,
        claim=name_of(claim),
        deleting=(
            is_deleting(node) or is_deleting(claim) or _has_condition(claim, "DisruptionReason") or _is_tainted(node)
        ),
        ready=_has_condition(node, "Ready"),
        rebooting=_has_condition(claim, "Rebooting"),
        initialized=label(node, INITIALIZED_LABEL) == _TRUE,
        instance_gone=_has_condition(claim, "InstanceTerminating"),
        do_not_disrupt=annotation(node, DO_NOT_DISRUPT) == _TRUE,
        grace_bounded=spec_of(claim).get("terminationGracePeriod") is not None,
    )


def count_nodes(nodes: Iterable[PoolNode], held: Collection[str] = ()) -> NodeCounts:
    """Count the nodes of one pool; each once, what is both deleting and not ready as deleting.

    Args:
        nodes: Of the pool.
        held: Names of nodes that somebody has been promised; they count as deleting.
    """
    total = deleting = not_ready = 0
    for node in nodes:
        if not node.counts:
            continue
        total += 1
        if node.going or node.name in held:
            deleting += 1
        elif not node.ready:
            not_ready += 1
    return NodeCounts(total, deleting, not_ready)


def _has_condition(document: JsonObject, kind: str) -> bool:
    return any(
        condition.get("type") == kind and condition.get("status") == _CONDITION_TRUE
        for condition in conditions_of(document)
    )


def _is_tainted(node: JsonObject) -> bool:
    return any(
        taint.get("key") == DISRUPTED_TAINT and taint.get("effect") == "NoSchedule"
        for taint in dicts_at(node, "spec", "taints")
    )
