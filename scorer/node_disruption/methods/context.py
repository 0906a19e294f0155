"""The context of one pass: candidates, budgets and relocations, shared by all methods.

Source: nodepool-disruption.md 5.1 to 5.7.
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
from scorer.node_disruption.candidates.reuse import recalled
from scorer.node_disruption.cluster.snapshot import ClusterSnapshot
from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog
from scorer.node_disruption.scheduling.relocation import Relocations

_GONE: Final = frozenset((BlockReason.NO_CLAIM, BlockReason.REBOOTING, BlockReason.DELETING))
"""Nodes with these blockers are on their way out, or not ours: nothing keeps them."""


@dataclass(frozen=True, slots=True)
class PlannerOptions:
    """What an operator chooses for all pools.

    Args:
        spot_to_spot: Spot nodes may be replaced by cheaper spot nodes.
        graceful_expiration: Budgets and do-not-disrupt hold back expiration (nodepool-disruption.md 10).
        template_do_not_disrupt: A pool whose template says do-not-disrupt keeps the nodes that it has, too (13).
        multi_node_simulations: How often multi-node consolidation may try; then the best found so far is used. It
            stands for the minute that the reference allows, and is more than a search among a hundred nodes needs.
        single_node_simulations: How many nodes single-node consolidation may try; then it gives up for this pass. It
            stands for the three minutes of the reference.
    """

    spot_to_spot: bool = False
    graceful_expiration: bool = False
    template_do_not_disrupt: bool = True
    multi_node_simulations: int = 16
    single_node_simulations: int = 2000


@dataclass(frozen=True, slots=True)
class Survey:
    """A cluster at one instant, with the figures of its nodes.

    Args:
        given: The cluster and the instant, with what else decides.
        settings: Of the operator.
        nodes: Every node that belongs to a pool, by name.
        allowances: What budgets allow.
        relocations: Where pods would go.
        unseen: Pools that single-node consolidation did not come to last time.
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
        """Instance types and prices; None: not available."""
        return self.given.catalog

    @property
    def now(self) -> datetime:
        """The instant, with a time zone."""
        return self.given.now

    @property
    def no_ready_pool(self) -> Refusal | None:
        """Why no pods are moved, if no pool is Ready to make nodes for them."""
        if any(pool.is_dynamic for pool in self.cluster.pools.values()):
            return None
        return Refusal(DisruptionBlockReason.NO_READY_POOL, "no NodePool is Ready to make nodes for pods")

    def eligible(self, class_: DisruptionClass) -> list[Candidate]:
        """Return the nodes that a disruption of this class may take, by name."""
        return [node for node in self.nodes.values() if node.pool and not node.blockers_for(class_)]

    def underutilized(self) -> list[Candidate]:
        """Return the nodes that consolidation may look at, by name."""
        return [
            candidate
            for candidate in self.eligible(DisruptionClass.GRACEFUL)
            if self.not_underutilized(candidate) is None
        ]

    def not_empty(self, candidate: Candidate) -> Refusal | None:
        """Return why emptiness does not take a node that is empty; None: it does."""
        assert candidate.pool is not None
        return not_consolidatable(candidate.node, candidate.pool, self.now)

    def not_underutilized(self, candidate: Candidate) -> Refusal | None:
        """Return why consolidation does not look at a node; None: it does.

        Source: nodepool-disruption.md 5.3, 5.7 and 12.
        """
        node, pool = candidate.node, candidate.pool
        assert pool is not None
        if pool.replicas is not None:
            return Refusal(DisruptionBlockReason.DISABLED, f"NodePool {pool.name} is static")
        if candidate.is_empty:
            return self.not_empty(candidate) or Refusal(DisruptionBlockReason.DISABLED, "the node is empty")
        if self.catalog is None:
            return Refusal(DisruptionBlockReason.NO_CATALOG, "no instance types and prices are known")
        if candidate.instance_type is None:
            return Refusal(DisruptionBlockReason.TYPE_UNKNOWN, f'instance type "{node.instance_type}" is not known')
        if not node.capacity_type:
            return Refusal(DisruptionBlockReason.NO_CAPACITY_TYPE, "the node has no label karpenter.sh/capacity-type")
        if not node.zone:
            return Refusal(DisruptionBlockReason.NO_ZONE, "the node has no label topology.kubernetes.io/zone")
        why_not = not_consolidatable(node, pool, self.now)
        if why_not is not None and why_not.cause == DisruptionBlockReason.DISABLED:
            return why_not
        if pool.model.spec.disruption.consolidation_policy is ConsolidationPolicy.WHEN_EMPTY:
            return Refusal(
                DisruptionBlockReason.ONLY_WHEN_EMPTY,
                f"NodePool {pool.name} has policy WhenEmpty, and the node is not empty",
            )
        return why_not


def survey(
    cluster: ClusterSnapshot,
    catalog: InstanceTypeCatalog | None,
    now: datetime,
    settings: PlannerOptions,
    views: Mapping[str, PoolView],
    *,
    leaving: Collection[str] = (),
    unseen: Collection[str] = (),
    before: Survey | None = None,
) -> Survey:
    """Look at a cluster.

    Args:
        cluster: At the instant.
        catalog: Instance types and prices; None: not available.
        now: The instant, with a time zone.
        settings: Of the operator.
        views: The pools by name, with what is reserved.
        leaving: Names of nodes that have begun to go, though that does not show yet.
        unseen: Pools that single-node consolidation did not come to last time.
        before: A look at it at another time, from which is taken over what is still true; None: there is none.
    """
    views = {name: view.with_held(_of_pool(leaving, cluster, name)) for name, view in views.items()}
    going = {
        name for name, node in cluster.nodes.items() if node.node and (node.node.disrupting or node.node.instance_gone)
    }
    reserved = {name for view in views.values() for name in view.held_nodes}
    relocations = Relocations(
        cluster,
        catalog,
        now,
        going=going.union(leaving),
        closed=reserved.difference(leaving),
        before=before.relocations if before else None,
    )
    given = Circumstances(cluster, catalog, now, views, relocations.nominated, frozenset(leaving))
    found = candidates(given, recalled(before.given, before.nodes, given) if before else None)
    return Survey(given, settings, found, Allowances(views, now), relocations, frozenset(unseen))


def pool_views(cluster: ClusterSnapshot, settings: PlannerOptions) -> dict[str, PoolView]:
    """Return the pools of a cluster as budgets see them, without anything that is reserved."""
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
    candidate: Candidate, wanted: str, refusal: Refusal | None, blockers: Iterable[Blocker]
) -> list[Held]:
    """Return why a node stays: for each of its blockers, and for what its pool's rules refuse.

    A node that is going anyway, or is not ours, does not stay.
    """
    listed = tuple(blockers)
    if any(each.reason in _GONE for each in listed):
        return []
    found = [Held(candidate.name, wanted, each.reason, each.message, each.until) for each in listed]
    return [*found, Held.of(candidate.name, wanted, refusal)] if refusal else found


def _of_pool(names: Iterable[str], cluster: ClusterSnapshot, pool: str) -> frozenset[str]:
    return frozenset(name for name in names if cluster.nodes[name].pool == pool)
