"""``filter``: the eligible nodes for a pod.

Clusters are evaluated together, as columns of the fleet. Each node then only looks up the verdict on its cluster.
Messages contain no names, numbers or times, because kube-scheduler counts equal messages.

Source: docs/specifications/serving.md 2.5.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final

import numpy as np

from scorer.api.cluster.member_cluster import Taint as ClusterTaint
from scorer.api.placement.placement import PlacementType
from scorer.columns import BoolColumn
from scorer.eligibility import LEAVING
from scorer.extender.followed import FollowedPlacement
from scorer.extender.node import ExtenderNode
from scorer.extender.pod import ExtenderPod, ExtenderTaint, PlacementMode
from scorer.extender.protocol import ExtenderFilterResult
from scorer.extender.question import ExtenderRequest
from scorer.extender.surroundings import ExtenderContext, Rules
from scorer.plugins.cluster_eligibility import eligible
from scorer.plugins.namespace_affinity import NamespaceAffinity

NOT_SYNCED: Final = "harbormaster: caches not synced"


class Obstacle(Enum):
    """An obstacle between a pod and a node: the message, and whether evicting other pods could help."""

    NODE_REMOVED = ("node is being removed", False)
    CLUSTER_MISSING = ("member cluster not found", False)
    CLUSTER_LEAVING = ("member cluster is leaving the fleet", False)
    NOT_CONNECTED = ("member cluster is not connected", False)
    UPDATING = ("member cluster is being upgraded", False)
    PLACEMENT_MISSING = ("placement not found", False)
    TAINTED = ("member cluster has an untolerated taint", False)
    NOT_SELECTED = ("member cluster not selected by placement", False)
    NO_CAPACITY = ("member cluster lacks available capacity", True)
    NODE_DISRUPTED = ("node is being disrupted", False)
    POOL_DELETED = ("node pool is being deleted", False)
    NODE_ORDINARY = ("node is not part of a member cluster", False)
    NODE_UNKNOWN = ("node not known yet", True)

    def __init__(self, words: str, curable: bool) -> None:
        self.message = f"harbormaster: {words}"
        self.curable = curable


class Judge:
    """Evaluates nodes for one pod.

    Args:
        pod: The pod to schedule.
        context: State of the hub.
        rules: Settings of the extender.
    """

    def __init__(self, pod: ExtenderPod, context: ExtenderContext, rules: Rules) -> None:
        self._pod = pod
        self._around = context
        self._rules = rules

    def obstacles(self, nodes: Iterable[ExtenderNode | None]) -> list[Obstacle | None]:
        """Return the obstacle of each node, or None. A node that is None has no known object.

        An ordinary node has neither a cluster nor a pool. If the settings reject ordinary nodes, they are rejected for
        every pod that names a placement, even if the placement does not exist. Nodes of node pools are evaluated only
        by the rules of pools: if the placement excluded them, an autoscaler would create new ones forever (serving.md
        2.8).
        """
        clusters: list[Obstacle | None] = []
        ordinary = Obstacle.NODE_ORDINARY if self._rules.reject_ordinary and self._pod.placement else None
        unknown = ordinary or (Obstacle.NODE_UNKNOWN if self._rules.reject_unknown else None)
        obstacles: list[Obstacle | None] = []
        add, find_row = obstacles.append, self._around.rows.get
        for node in nodes:
            if node is None:
                add(unknown)
            elif node.removed:
                add(Obstacle.NODE_REMOVED)
            elif node.cluster:
                clusters = clusters or self._clusters()
                add(clusters[find_row(node.cluster, -1)])
            elif node.pool is None:
                add(unknown if node.name not in self._around.nodes else ordinary)
            else:
                add(self._pool_node(node))
        return obstacles

    def _pool_node(self, node: ExtenderNode) -> Obstacle | None:
        if node.disrupted and not all(map(self._pod.tolerates, node.disrupted)):
            return Obstacle.NODE_DISRUPTED
        return Obstacle.POOL_DELETED if node.pool in self._around.leaving_pools else None

    def _clusters(self) -> list[Obstacle | None]:
        """Evaluate every member cluster. The additional last entry is for clusters that do not exist."""
        checks = list(self._checks())
        verdicts = [None, *(obstacle for obstacle, _ in checks)]
        codes = np.select([failed for _, failed in checks], range(1, len(verdicts)), 0)
        return [*map(verdicts.__getitem__, codes.tolist()), Obstacle.CLUSTER_MISSING]

    def _checks(self) -> Iterator[tuple[Obstacle, BoolColumn]]:
        """Yield each check, in order, with the clusters that fail it."""
        context, fleet, pod = self._around, self._around.fleet, self._pod
        yield Obstacle.CLUSTER_LEAVING, fleet.eligibility.failed == LEAVING
        yield Obstacle.NOT_CONNECTED, ~eligible(fleet, context.now)
        if self._rules.filter_updating and context.updating:
            yield Obstacle.UPDATING, fleet.rows(context.updating)
        if not pod.placement:
            yield Obstacle.TAINTED, ~fleet.taints.holds(self._is_tolerated)
            return
        placement = context.followed(pod)
        if placement is None:
            yield Obstacle.PLACEMENT_MISSING, np.ones(len(fleet), dtype=np.bool_)
            return
        if placement.taints is not None:
            tolerates = placement.taints.filter(context.cycle())
            if tolerates is not None:
                yield Obstacle.TAINTED, ~tolerates
        if pod.mode is PlacementMode.DECISIONS:
            assert pod.follows is not None
            yield Obstacle.NOT_SELECTED, ~fleet.rows(context.selected(pod.follows))
        else:
            yield from self._policy(placement)

    def _is_tolerated(self, taints: tuple[ClusterTaint, ...]) -> bool:
        return all(self._pod.tolerates(ExtenderTaint(taint.key, taint.value, taint.effect)) for taint in taints)

    def _policy(self, placement: FollowedPlacement) -> Iterator[tuple[Obstacle, BoolColumn]]:
        """Yield the obstacles by the present policy, each with the clusters that have it.

        If a cluster has two obstacles, the one that evictions cannot remove is reported: evictions help only if free
        capacity is the only obstacle.
        """
        fleet, request = self._around.fleet, placement.request
        if request is None:
            yield Obstacle.NOT_SELECTED, np.ones(len(fleet), dtype=np.bool_)
            return
        cycle = self._around.cycle(request.namespace)
        if request.policy.placement_type is PlacementType.PICK_FIXED:
            yield Obstacle.NOT_SELECTED, ~fleet.rows(request.policy.cluster_names)
        mask = NamespaceAffinity().filter(cycle)
        if mask is not None:
            yield Obstacle.NOT_SELECTED, ~mask
        fits = request.profile.affinity.filter(cycle)
        if fits is None:
            return
        if placement.roomy is not None:
            would_fit = placement.roomy.filter(cycle)
            yield Obstacle.NO_CAPACITY, ~fits if would_fit is None else would_fit & ~fits
        yield Obstacle.NOT_SELECTED, ~fits


def filter_nodes(args: ExtenderRequest, context: ExtenderContext, rules: Rules) -> ExtenderFilterResult:
    """Return the response to ``filter``: an ``ExtenderFilterResult`` with names or with nodes, as in the request."""
    candidates = args.candidates
    if args.pod is None:
        return filter_error("extender: Pod must be set")
    if candidates is None:
        return filter_error("extender: Nodes or NodeNames must be set")
    node_names: list[str] = []
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    nodes = candidate_nodes(args, context)
    for name, obstacle in zip(candidates, Judge(args.pod, context, rules).obstacles(nodes), strict=True):
        if obstacle is None:
            node_names.append(name)
        else:
            (failed if obstacle.curable else unresolvable)[name] = obstacle.message
    documents = args.documents if args.names is None else None
    return {
        "Nodes": None if documents is None else {"metadata": {}, "items": [documents[name] for name in node_names]},
        "NodeNames": node_names if documents is None else None,
        "FailedNodes": failed,
        "FailedAndUnresolvableNodes": unresolvable,
        "Error": "",
    }


def candidate_nodes(args: ExtenderRequest, context: ExtenderContext) -> list[ExtenderNode | None]:
    """Return the candidate nodes: the object in the request, else the cached object, or None if neither exists.

    The object in the request takes precedence, because kube-scheduler's cache may be newer than ours.
    """
    cached_nodes, sent_nodes = context.nodes, args.nodes
    candidates = args.candidates or ()
    return (
        [sent_nodes.get(name) or cached_nodes.get(name) for name in candidates]
        if sent_nodes
        else [*map(cached_nodes.get, candidates)]
    )


def filter_error(message: str) -> ExtenderFilterResult:
    """Return the result that makes the scheduling attempt fail with *message*."""
    return {"Nodes": None, "NodeNames": [], "FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": message}
