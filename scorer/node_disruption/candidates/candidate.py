"""Candidate nodes: what blocks their disruption, its cost and its savings.

The reference reports only the first failing check. The checks have the same order here, but all failing ones are
reported, so that an operator sees every obstacle together.

Source: docs/specifications/nodepool-disruption.md 5.2 to 5.6, 6.1 and 6.2; Karpenter v1.15.0
``pkg/controllers/disruption/types.go`` and ``pkg/utils/disruption/disruption.go``.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from scorer.api.meta import format_time
from scorer.api.node_pool import read_duration_or_never
from scorer.node_budgets.blockers import Blocker, BlockReason, DisruptionClass, node_blockers, state_blockers
from scorer.node_budgets.nodes import PoolNode
from scorer.node_budgets.pool_view import PoolView
from scorer.node_disruption.candidates.refusals import DisruptionBlockReason, Refusal
from scorer.node_disruption.cluster.pod import Owner, Pod
from scorer.node_disruption.cluster.snapshot import ClusterNode, ClusterSnapshot, NodePoolState
from scorer.node_disruption.instance_types.catalog import InstanceType, InstanceTypeCatalog

_STATE: Final = frozenset(
    (
        BlockReason.RESERVED,
        BlockReason.NO_CLAIM,
        BlockReason.REBOOTING,
        BlockReason.DELETING,
        BlockReason.NOT_INITIALIZED,
    )
)
_POD_SOURCES: Final = ("Pod ", "PodDisruptionBudget ")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node of a pool, with the cost and savings of its disruption.

    Args:
        node: The node.
        pool: Pool. None: unknown, no NodePool has the name in its label.
        pods: All pods on it.
        instance_type: Instance type. None: not in the catalog.
        price: Price per hour. None: unknown.
        cost: Reschedule cost.
        blockers: Blockers of its disruption, in the order of the checks. If empty, the node is a candidate for every
            class of disruption.
    """

    node: ClusterNode
    pool: NodePoolState | None
    pods: tuple[Pod, ...] = ()
    instance_type: InstanceType | None = None
    price: float | None = None
    cost: float = 1.0
    blockers: tuple[Blocker, ...] = ()

    @property
    def name(self) -> str:
        """Name of the node."""
        return self.node.name

    @property
    def savings_ratio(self) -> float:
        """Savings per hour of its disruption, per unit of reschedule cost. An unknown price counts as 0."""
        return savings_ratio(self.price or 0.0, self.cost)

    @property
    def is_empty(self) -> bool:
        """Whether no reschedulable pod on it has a positive eviction cost."""
        return is_empty(self.cost)

    @property
    def reschedulable(self) -> tuple[Pod, ...]:
        """Pods that must be rescheduled if it is disrupted."""
        return tuple(pod for pod in self.pods if pod.reschedulable)

    def blockers_for(self, class_: DisruptionClass) -> tuple[Blocker, ...]:
        """Return the blockers of a disruption with *class_*.

        Pods and their PodDisruptionBudgets do not block an eventual disruption of a node whose drain has a time limit.
        """
        is_bounded = self.node.node is not None and self.node.node.grace_bounded
        if class_ is DisruptionClass.EVENTUAL and is_bounded:
            return tuple(blocker for blocker in self.blockers if not blocker.source.startswith(_POD_SOURCES))
        return self.blockers


def sorted_by_savings(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return *candidates* with the highest savings ratio first, equal ones by name."""
    return sorted(candidates, key=lambda candidate: (-candidate.savings_ratio, candidate.name))


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Inputs of the candidate checks besides the node itself.

    Args:
        cluster: Snapshot of the cluster.
        catalog: Instance types and prices. None: unknown.
        now: Current time, timezone-aware.
        views: Pools as budgets count them, by name.
        nominated: Key of a pod, pending or on a draining node, that the node will receive, by node name.
        leaving: Names of expired nodes that are being deleted, although their objects do not show it yet.
    """

    cluster: ClusterSnapshot
    catalog: InstanceTypeCatalog | None
    now: datetime
    views: Mapping[str, PoolView] = field(default_factory=dict)
    nominated: Mapping[str, str] = field(default_factory=dict)
    leaving: Collection[str] = ()


def candidates(circumstances: Circumstances, reusable: Mapping[str, Candidate] | None = None) -> dict[str, Candidate]:
    """Return every node that belongs to a pool, by name, with all blockers.

    Args:
        circumstances: Inputs of the checks.
        reusable: Still valid candidates of an earlier pass. See `scorer.node_disruption.candidates.reuse`.
    """
    valid = reusable or {}
    return {
        name: valid.get(name) or _candidate(node, circumstances)
        for name, node in circumstances.cluster.nodes.items()
        if node.node is not None
    }


def _candidate(node: ClusterNode, circumstances: Circumstances) -> Candidate:
    pods = circumstances.cluster.pods.get(node.name, ())
    catalog, pool = circumstances.catalog, circumstances.cluster.pools.get(node.pool)
    return Candidate(
        node=node,
        pool=pool,
        pods=pods,
        instance_type=catalog.by_name.get(node.instance_type) if catalog else None,
        price=catalog.price_in(pool, node) if catalog else None,
        cost=reschedule_cost(pods),
        blockers=tuple(_blockers(node, pods, circumstances)),
    )


def _blockers(node: ClusterNode, pods: Iterable[Pod], circumstances: Circumstances) -> list[Blocker]:
    """Return the blockers of a node, in the order of nodepool-disruption.md 5.3."""
    assert node.node is not None
    if node.name in circumstances.leaving:
        return [Blocker(BlockReason.DELETING, "the node has expired and is being deleted", source="NodeClaim")]
    blockers = _all_blockers(node.node, pods, circumstances)
    state = [blocker for blocker in blockers if blocker.reason in _STATE]
    if any(blocker.reason != BlockReason.RESERVED for blocker in state):
        return state
    other_blockers = [blocker for blocker in blockers if blocker.reason not in _STATE]
    own = [blocker for blocker in other_blockers if not blocker.source.startswith(_POD_SOURCES)]
    return [
        *state,
        *_nomination(node.name, circumstances.nominated),
        *own,
        *_pool_blockers(node.pool, circumstances),
        *(blocker for blocker in other_blockers if blocker not in own),
    ]


def _all_blockers(node: PoolNode, pods: Iterable[Pod], circumstances: Circumstances) -> tuple[Blocker, ...]:
    blockers = node_blockers(
        node, DisruptionClass.GRACEFUL, circumstances.now, (pod.held for pod in pods), circumstances.cluster.guards
    )
    view = circumstances.views.get(node.pool)
    if view is None or node.name not in view.nodes:
        return blockers
    other_blockers = view.blockers_of(node.name, DisruptionClass.GRACEFUL, circumstances.now)
    own = state_blockers(node, DisruptionClass.GRACEFUL, circumstances.now)
    return (*(blocker for blocker in other_blockers if blocker not in own), *blockers)


def _nomination(name: str, nominated: Mapping[str, str]) -> list[Blocker]:
    if (pod := nominated.get(name)) is None:
        return []
    return [Blocker(DisruptionBlockReason.NOMINATED, f"pod {pod} is nominated for the node")]


def _pool_blockers(pool: str, circumstances: Circumstances) -> list[Blocker]:
    if pool not in circumstances.cluster.pools:
        return [Blocker(DisruptionBlockReason.POOL_UNKNOWN, f"there is no NodePool {pool}", source="NodePool")]
    if circumstances.catalog is not None and not circumstances.catalog.types:
        message = f"instance types of NodePool {pool} are unknown"
        return [Blocker(DisruptionBlockReason.NO_INSTANCE_TYPES, message, source="NodePool")]
    return []


def consolidate_after(pool: NodePoolState) -> timedelta | None:
    """Return the consolidateAfter of a pool. None: disabled, its nodes are never consolidated.

    An unreadable value counts as ``Never``, so that a pool with a typo keeps its nodes.
    """
    return read_duration_or_never(pool.model.spec.disruption.consolidate_after)


def quiet_until(node: ClusterNode, pool: NodePoolState) -> datetime | None:
    """Return the end of a node's consolidateAfter. None: unlimited or unknown.

    Source: docs/specifications/nodepool-disruption.md 5.6.
    """
    delay, start = consolidate_after(pool), _quiet_since(node)
    if delay is None or start is None:
        return None
    try:
        return start + delay
    except OverflowError:  # after the year 9999
        return None


def _quiet_since(node: ClusterNode) -> datetime | None:
    return (node.claim.last_pod_event or node.claim.initialized_since) if node.claim else None


def not_consolidatable(node: ClusterNode, pool: NodePoolState, now: datetime) -> Refusal | None:
    """Return why a node must not be consolidated at *now* regardless of its pods, or None if it may be.

    If neither the last pod event nor the initialization of the node is known, its condition ``Consolidatable`` decides,
    unless consolidateAfter is 0.
    """
    delay = consolidate_after(pool)
    if delay is None:
        return Refusal(DisruptionBlockReason.DISABLED, f"NodePool {pool.name} has consolidateAfter Never")
    until = quiet_until(node, pool)
    if until is None:
        unknown = _quiet_since(node) is None
        if unknown and (not delay or (node.claim is not None and node.claim.consolidatable)):
            return None
        return Refusal(
            DisruptionBlockReason.NOT_YET,
            f"NodePool {pool.name} waits {pool.model.spec.disruption.consolidate_after} after the last change of pods",
        )
    if now >= until:
        return None
    wait = pool.model.spec.disruption.consolidate_after
    message = f"NodePool {pool.name} waits {wait} after the last change of pods, until {format_time(until)}"
    return Refusal(DisruptionBlockReason.NOT_YET, message, until)


def is_inside(node: ClusterNode, pool: NodePoolState | None, now: datetime) -> bool:
    """Return whether a node is within its consolidateAfter, and therefore does not accept moved pods.

    Always False for nodes that are not initialized, for pools that are not dynamic, such as static ones, and for a
    consolidateAfter of 0 or ``Never``.
    """
    if pool is None or not pool.is_dynamic or not consolidate_after(pool):
        return False
    if node.claim is None or node.claim.initialized_since is None:
        return False
    until = quiet_until(node, pool)
    return until is not None and now < until


BASE_COST: Final = 1.0
"""Disruption cost of a node without pods."""
_DELETION_COST_SHARE: Final = 2.0**27
_PRIORITY_SHARE: Final = 2.0**25
_LARGEST: Final = 10.0


def eviction_cost(pod: Pod) -> float:
    """Return the eviction cost of *pod*: 1 for most pods, -10 to 10 depending on its deletion cost and priority."""
    cost = 1.0 + pod.deletion_cost / _DELETION_COST_SHARE + (pod.priority or 0) / _PRIORITY_SHARE
    return max(-_LARGEST, min(_LARGEST, cost))


def reschedule_cost(pods: Iterable[Pod]) -> float:
    """Return the total eviction cost of the reschedulable *pods*, plus `BASE_COST`. A negative cost counts as 0."""
    return BASE_COST + sum(max(0.0, eviction_cost(pod)) for pod in pods if pod.reschedulable)


def occupancy_cost(pods: Iterable[Pod]) -> float:
    """Return the contribution of a non-candidate node to the totals of its pool, including static and terminating pods.

    Finished pods and pods of DaemonSets do not count.

    Source: docs/specifications/nodepool-disruption.md 6.4.
    """
    running_pods = (pod for pod in pods if not pod.finished and pod.owner is not Owner.DAEMON_SET)
    return BASE_COST + sum(max(0.0, eviction_cost(pod)) for pod in running_pods)


def is_empty(cost: float) -> bool:
    """Return whether a node with this reschedule cost counts as empty (nodepool-disruption.md 5.5)."""
    return cost <= BASE_COST


def lifetime_remaining(creation_time: datetime | None, expire_after: timedelta | None, now: datetime) -> float:
    """Return the remaining fraction of a claim's lifetime, 1 if it never expires or its age is unknown."""
    if expire_after is None or creation_time is None:
        return 1.0
    if not expire_after:
        return 0.0
    return max(0.0, min(1.0, (expire_after - (now - creation_time)) / expire_after))


def disruption_cost(pods: Iterable[Pod], remaining: float) -> float:
    """Return the eviction cost of all pods of a node, multiplied by the *remaining* fraction of its lifetime."""
    return sum(map(eviction_cost, pods)) * remaining


def savings_ratio(price: float, cost: float) -> float:
    """Return the savings per hour of disrupting a node, per unit of its reschedule cost."""
    return price / cost
