"""The inputs of the extender besides the request: its settings, and the hub at one instant."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from scorer.extender.followed import FollowedPlacement
from scorer.extender.node import ExtenderNode
from scorer.extender.pod import ExtenderPod, PlacementName
from scorer.fleet import Fleet
from scorer.framework.cycle import Cycle
from scorer.plugins.cluster_affinity import ClusterAffinityPlugin


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of the extender.

    Args:
        cluster_labels: Labels of a node that name the member cluster that it represents. The first one present counts.
        filter_updating: Reject nodes of a member that is being upgraded.
        reject_unknown: Reject nodes that are not in the cache, even if the request contains them, unless their labels
            name a cluster or a pool.
        reject_ordinary: For pods that name a placement, reject nodes that have neither a cluster nor a pool.
        max_score: The best score.
        default_preferences: Score clusters for pods that follow no placement.
        pool_preferences: Score the nodes of node pools.
        protect_undisturbed: Exclude a node from preemption if a victim is annotated not to be disrupted.
    """

    cluster_labels: tuple[str, ...]
    filter_updating: bool = True
    reject_unknown: bool = False
    reject_ordinary: bool = True
    max_score: int = 10
    default_preferences: ClusterAffinityPlugin = field(default_factory=ClusterAffinityPlugin)
    pool_preferences: ClusterAffinityPlugin = field(default_factory=ClusterAffinityPlugin)
    protect_undisturbed: bool = True


@dataclass(frozen=True, slots=True)
class ExtenderContext:
    """The hub at one instant.

    Args:
        now: The instant.
        fleet: All member clusters.
        rows: The row of each cluster in the fleet, by its name and by every alias that is not another cluster's name.
        nodes: The cached nodes, by name.
        updating: Names of the members that an upgrade run is working on.
        leaving_pools: Names of the node pools that are being deleted.
        placement: Returns a placement by name, or None if it does not exist.
        selected: Returns the names of the clusters that a placement has selected so far.
        pool_nodes: Returns all nodes of node pools as a fleet. The nodes passed to it replace cached nodes.
    """

    now: datetime
    fleet: Fleet
    rows: Mapping[str, int]
    nodes: Mapping[str, ExtenderNode]
    updating: Collection[str]
    leaving_pools: Collection[str]
    placement: Callable[[PlacementName], FollowedPlacement | None]
    selected: Callable[[PlacementName], Collection[str]]
    pool_nodes: Callable[[Collection[ExtenderNode]], Fleet]

    def followed(self, pod: ExtenderPod) -> FollowedPlacement | None:
        """Return the placement that a pod with the annotation follows, None if it does not exist."""
        name = pod.follows
        return None if name is None else self.placement(name)

    def cycle(self, namespace: str = "") -> Cycle:
        """Return the input of plugins for a placement that is on no cluster yet."""
        return empty_cycle(self.fleet, self.now, namespace)


def empty_cycle(fleet: Fleet, now: datetime, namespace: str = "") -> Cycle:
    """Return the cycle of a placement that is on no cluster."""
    nowhere = np.zeros(len(fleet), dtype=np.bool_)
    return Cycle(fleet, now, namespace, nowhere, nowhere)
