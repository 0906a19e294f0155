"""The nodes of a pool as budgets count them.

A node belongs to a pool by its label. It counts if it is initialized or rebooting, and has a NodeClaim whose instance
is not being terminated. The reference also counts the nodes of accepted commands, which it keeps in memory. A command
first taints its nodes, so this module reads the taint instead (nodepool-disruption.md 4.1, "held in memory").

Source: docs/specifications/nodepool-disruption.md 4.1; Karpenter v1.15.0 ``pkg/controllers/disruption/helpers.go`` and
``pkg/controllers/state/statenode.go``.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from scorer.api.conditions import TRUE
from scorer.api.node_pool import NODE_POOL_LABEL
from scorer.api.unstructured.documents import (
    annotation,
    conditions_of,
    dicts_at,
    is_deleting,
    label,
    name_of,
    spec_of,
    text_at,
)
from scorer.api.unstructured.json_object import JsonObject
from scorer.node_budgets.budgets import NodeCounts

INITIALIZED_LABEL: Final = "karpenter.sh/initialized"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
"""Annotation of a node, of a pod, and of a pool's template."""
DISRUPTED_TAINT: Final = "karpenter.sh/disrupted"
"""Key of the taint that an accepted command puts on its nodes, with the effect NoSchedule."""

_TRUE: Final = "true"


@dataclass(frozen=True, slots=True)
class PoolNode:
    """One node of a pool.

    Args:
        name: Name of the Node.
        pool: The NodePool in its label.
        claim: Name of its NodeClaim, or empty.
        deleting: Marked for deletion: claim or node is being deleted, the claim has the condition DisruptionReason, or
            a disruption command has tainted the node.
        ready: Whether the condition ``Ready`` is exactly True.
        rebooting: Whether a reboot is in progress.
        initialized: Whether it has the initialized label.
        instance_gone: Whether the claim reports that its instance is being terminated.
        do_not_disrupt: Whether the node's annotation is exactly ``"true"``.
        grace_bounded: Whether the claim has a terminationGracePeriod, so that no pod can block a drain indefinitely.
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
        """Whether budgets count the node at all."""
        return bool(self.claim) and not self.instance_gone and (self.initialized or self.rebooting)

    @property
    def disrupting(self) -> bool:
        """Whether the node is being disrupted, regardless of its readiness."""
        return self.deleting or self.rebooting


def read_pool_node(node: JsonObject, claim: JsonObject | None) -> PoolNode | None:
    """Parse a Node and its NodeClaim. Return None if the node has no pool label.

    A field of the wrong type counts as absent. A node counts as being deleted from its own deletionTimestamp on. The
    reference waits for the deletionTimestamp of the claim, which its node controller deletes immediately afterwards.
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


def is_of_another_instance(claim: JsonObject, instance: str) -> bool:
    """Return whether a claim names this node in its status but belongs to another instance.

    Node names can be reused, for example if they consist of addresses. The claim of a former instance can exist for a
    long time after the next instance has joined under that name. Instance ids are never reused.

    Args:
        claim: The claim.
        instance: The node's ``spec.providerID``, possibly empty.
    """
    own = text_at(claim, "status", "providerID")
    return bool(own and instance) and own != instance


def count_nodes(nodes: Iterable[PoolNode], reserved_names: Collection[str] = ()) -> NodeCounts:
    """Count the nodes of one pool, each once. A node that is both deleting and not ready counts as deleting.

    Args:
        nodes: Nodes of the pool.
        reserved_names: Names of reserved nodes, which count as deleting.
    """
    total = deleting = not_ready = 0
    for node in nodes:
        if not node.counts:
            continue
        total += 1
        if node.disrupting or node.name in reserved_names:
            deleting += 1
        elif not node.ready:
            not_ready += 1
    return NodeCounts(total, deleting, not_ready)


def _has_condition(document: JsonObject, kind: str) -> bool:
    return any(
        condition.get("type") == kind and condition.get("status") == TRUE for condition in conditions_of(document)
    )


def _is_tainted(node: JsonObject) -> bool:
    return any(
        taint.get("key") == DISRUPTED_TAINT and taint.get("effect") == "NoSchedule"
        for taint in dicts_at(node, "spec", "taints")
    )
