"""The context of one pass: candidates, budgets and relocations, shared by all methods.

Source: docs/specifications/nodepool-disruption.md 5.1 to 5.7.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from scorer.api.node_pool import ConsolidationPolicy
from scorer.node_budgets.blockers import Blocker, BlockReason, DisruptionClass
from scorer.node_budgets.nodes import PoolNode
from scorer.node_budgets.pool_view import PoolView
from scorer.node_disruption.candidates.budgets import Allowances
from scorer.node_disruption.candidates.candidate import Candidate, Circumstances, candidates, not_consolidatable
from scorer.node_disruption.candidates.refusals import DisruptionBlockReason, Held, Refusal
from scorer.node_disruption.candidates.reuse import reusable_candidates
from scorer.node_disruption.cluster.snapshot import ClusterSnapshot
from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog
from scorer.node_disruption.scheduling.relocation import Relocations

_GONE: Final = frozenset((BlockReason.NO_CLAIM, BlockReason.REBOOTING, BlockReason.DELETING))
"""Blockers of nodes that are already being removed or are not ours. Such nodes are not reported as held."""


@dataclass(frozen=True, slots=True)
class PlannerOptions:
    """Options of the operator for all pools.

    Args:
        spot_to_spot: Whether spot nodes may be replaced by cheaper spot nodes.
        graceful_expiration: Whether budgets and do-not-disrupt delay expiration (nodepool-disruption.md 10).
        template_do_not_disrupt: Whether do-not-disrupt in a pool's template also protects its existing nodes (13).
        multi_node_simulations: Maximum number of simulations of multi-node consolidation per pass. Afterwards the best
            result so far is used. Replaces the one-minute timeout of the reference, and exceeds the needs of a binary
            search over a hundred nodes.
        single_node_simulations: Maximum number of nodes that single-node consolidation simulates per pass. Replaces the
            three-minute timeout of the reference.
    """

    spot_to_spot: bool = False
    graceful_expiration: bool = False
    template_do_not_disrupt: bool = True
    multi_node_simulations: int = 16
    single_node_simulations: int = 2000


@dataclass(frozen=True, slots=True)
class Survey:
    """A cluster at one instant, with derived data about its nodes.

    Args:
        given: The cluster, the time, and the other inputs.
        settings: Options of the operator.
        nodes: Every node that belongs to a pool, by name.
        allowances: Remaining allowances of budgets.
        relocations: Planned relocations of pods.
        unseen: Pools that the previous single-node consolidation did not reach.
    """

    given: Circumstances
    settings: PlannerOptions
    nodes: Mapping[str, Candidate]
    allowances: Allowances
    relocations: Relocations
    unseen: frozenset[str] = frozenset()

    @property
    def cluster(self) -> ClusterSnapshot:
        """The cluster."""
        return self.given.cluster

    @property
    def catalog(self) -> InstanceTypeCatalog | None:
        """Instance types and prices. None: unknown."""
        return self.given.catalog

    @property
    def now(self) -> datetime:
        """Current time, timezone-aware."""
        return self.given.now

    @property
    def no_ready_pool(self) -> Refusal | None:
        """Refusal of all moves because no pool is Ready to create nodes. None if some pool is."""
        if any(pool.is_dynamic for pool in self.cluster.pools.values()):
            return None
        return Refusal(DisruptionBlockReason.NO_READY_POOL, "no NodePool is Ready to create nodes")

    def eligible(self, class_: DisruptionClass) -> list[Candidate]:
        """Return the nodes that are candidates for this class of disruption, by name."""
        return [node for node in self.nodes.values() if node.pool and not node.blockers_for(class_)]

    def underutilized(self) -> list[Candidate]:
        """Return the nodes that consolidation may consider, by name."""
        return [
            candidate
            for candidate in self.eligible(DisruptionClass.GRACEFUL)
            if self.not_underutilized(candidate) is None
        ]

    def not_empty(self, candidate: Candidate) -> Refusal | None:
        """Return why emptiness skips an empty node, or None."""
        assert candidate.pool is not None
        return not_consolidatable(candidate.node, candidate.pool, self.now)

    def not_underutilized(self, candidate: Candidate) -> Refusal | None:
        """Return why consolidation skips a node, or None.

        Source: docs/specifications/nodepool-disruption.md 5.3, 5.7 and 12.
        """
        node, pool = candidate.node, candidate.pool
        assert pool is not None
        if pool.replicas is not None:
            return Refusal(DisruptionBlockReason.DISABLED, f"NodePool {pool.name} is static")
        if candidate.is_empty:
            return self.not_empty(candidate) or Refusal(DisruptionBlockReason.DISABLED, "the node is empty")
        if self.catalog is None:
            return Refusal(DisruptionBlockReason.NO_CATALOG, "instance types and prices are unknown")
        if candidate.instance_type is None:
            return Refusal(DisruptionBlockReason.TYPE_UNKNOWN, f'instance type "{node.instance_type}" is unknown')
        if not node.capacity_type:
            return Refusal(DisruptionBlockReason.NO_CAPACITY_TYPE, "the node has no label karpenter.sh/capacity-type")
        if not node.zone:
            return Refusal(DisruptionBlockReason.NO_ZONE, "the node has no label topology.kubernetes.io/zone")
        refusal = not_consolidatable(node, pool, self.now)
        if refusal is not None and refusal.cause == DisruptionBlockReason.DISABLED:
            return refusal
        if pool.model.spec.disruption.consolidation_policy is ConsolidationPolicy.WHEN_EMPTY:
            return Refusal(
                DisruptionBlockReason.ONLY_WHEN_EMPTY,
                f"NodePool {pool.name} has policy WhenEmpty, and the node is not empty",
            )
        return refusal


def survey(
    cluster: ClusterSnapshot,
    catalog: InstanceTypeCatalog | None,
    now: datetime,
    settings: PlannerOptions,
    views: Mapping[str, PoolView],
    *,
    leaving_nodes: Collection[str] = (),
    unseen_pools: Collection[str] = (),
    previous: Survey | None = None,
) -> Survey:
    """Survey a cluster.

    Args:
        cluster: The cluster.
        catalog: Instance types and prices. None: unknown.
        now: Current time, timezone-aware.
        settings: Options of the operator.
        views: Pools by name, with reservations.
        leaving_nodes: Names of expired nodes that are being deleted, although their objects do not show it yet.
        unseen_pools: Pools that the previous single-node consolidation did not reach.
        previous: An earlier survey, whose still valid parts are reused. None: unset.
    """
    views = {name: view.with_held(_names_of_pool(leaving_nodes, cluster, name)) for name, view in views.items()}
    disrupting_nodes = {
        name for name, node in cluster.nodes.items() if node.node and (node.node.disrupting or node.node.instance_gone)
    }
    reserved_nodes = {name for view in views.values() for name in view.held_nodes}
    relocations = Relocations(
        cluster,
        catalog,
        now,
        disrupting=disrupting_nodes.union(leaving_nodes),
        closed=reserved_nodes.difference(leaving_nodes),
        previous=previous.relocations if previous else None,
    )
    circumstances = Circumstances(cluster, catalog, now, views, relocations.nominated, frozenset(leaving_nodes))
    nodes = candidates(
        circumstances, reusable_candidates(previous.given, previous.nodes, circumstances) if previous else None
    )
    return Survey(circumstances, settings, nodes, Allowances(views, now), relocations, frozenset(unseen_pools))


def pool_views(cluster: ClusterSnapshot, settings: PlannerOptions) -> dict[str, PoolView]:
    """Return the pools of a cluster as budgets count them, without reservations."""
    nodes: dict[str, dict[str, PoolNode]] = {name: {} for name in cluster.pools}
    for name, node in cluster.nodes.items():
        if node.node is not None and node.pool in nodes:
            nodes[node.pool][name] = node.node
    return {
        name: PoolView(
            name,
            pool.budgets,
            nodes[name],
            template_do_not_disrupt=pool.do_not_disrupt and settings.template_do_not_disrupt,
        )
        for name, pool in cluster.pools.items()
    }


def blocked_nodes(
    candidate: Candidate, reason: str, refusal: Refusal | None, blockers: Iterable[Blocker]
) -> list[Held]:
    """Return the holds of a node: one per blocker, plus one for a refusal by its pool.

    Empty for a node that is being removed anyway or is not ours.
    """
    all_blockers = tuple(blockers)
    if any(blocker.reason in _GONE for blocker in all_blockers):
        return []
    holds = [Held(candidate.name, reason, blocker.reason, blocker.message, blocker.until) for blocker in all_blockers]
    return [*holds, Held.of(candidate.name, reason, refusal)] if refusal else holds


def _names_of_pool(names: Iterable[str], cluster: ClusterSnapshot, pool: str) -> frozenset[str]:
    return frozenset(name for name in names if cluster.nodes[name].pool == pool)
