"""A cluster at one instant, as the planning of disruption sees it.

Source: nodepool-disruption.md 3.1, 4.1, 5.3, 5.6, 10 and 15.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from scorer.api.node_pool import Budget, NodePool
from scorer.node_budgets.blockers import PodGuard
from scorer.node_budgets.nodes import PoolNode
from scorer.node_disruption.pod import Pod
from scorer.node_disruption.shape import Taint


@dataclass(frozen=True, slots=True)
class Claim:
    """A NodeClaim.

    Args:
        name: Its own.
        labels: Its own.
        annotations: Its own; the pair of hashes is there.
        created: When; None: not known.
        expire_after: How long it may live; None: for ever.
        termination_grace: How long its drain may take; None: without bound.
        initialized_since: When it became initialized; None: it is not.
        last_pod_event: When a pod last came or went; None: never, or not known.
        drifted_since: When it was first found drifted; None: it is not.
        drift_reason: Of that condition.
        consolidatable: Its condition ``Consolidatable`` is True.
        deletion: Its deletionTimestamp; None: it is not being deleted.
        terminates_at: When its drain ends whatever pods remain; None: not announced.
        conditions: Status of all conditions by type.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    created: datetime | None = None
    expire_after: timedelta | None = None
    termination_grace: timedelta | None = None
    initialized_since: datetime | None = None
    last_pod_event: datetime | None = None
    drifted_since: datetime | None = None
    drift_reason: str = ""
    consolidatable: bool = False
    deletion: datetime | None = None
    terminates_at: datetime | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node, of a pool or of none.

    Args:
        name: Its own.
        node: As budgets count it; None: it belongs to no pool.
        labels: Its own.
        annotations: Its own.
        taints: Its own, whatever their effect.
        unschedulable: It is cordoned.
        allocatable: What pods may take, by resource: cpu in thousandths, all else in whole units.
        capacity: What the instance has, likewise; limits of pools are about this.
        created: When; None: not known.
        instance_type: By its label, the present or the older one; empty: not known.
        zone: As *instance_type*.
        capacity_type: As *instance_type*.
        claim: Its NodeClaim; None: it has none.
    """

    name: str
    node: PoolNode | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Mapping[str, int] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    created: datetime | None = None
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    claim: Claim | None = None

    @property
    def pool(self) -> str:
        """Name of its pool; empty when it belongs to none."""
        return self.node.pool if self.node else ""

    @property
    def initialized(self) -> bool:
        """Whether it is ready for pods in every respect; a node of no pool always is."""
        return self.node is None or self.node.initialized


@dataclass(frozen=True, slots=True)
class Pool:
    """A NodePool.

    Args:
        name: Its own.
        model: All of it.
        budgets: Its disruption budgets.
        weight: Pools with a larger one are asked first for a new node.
        replicas: How many nodes a static pool has; None: it is not static.
        hash: Its annotation with the digest of its template; empty without.
        hash_version: How that was made; empty without.
        do_not_disrupt: Its template says that its nodes must not be disrupted.
        limits: What its nodes may have altogether, by resource: cpu in thousandths, all else in whole units.
        in_use: What they have, likewise.
        deleting: It is being deleted.
    """

    name: str
    model: NodePool
    budgets: tuple[Budget, ...] = ()
    weight: int = 0
    replicas: int | None = None
    hash: str = ""
    hash_version: str = ""
    do_not_disrupt: bool = False
    limits: Mapping[str, int] = field(default_factory=dict)
    in_use: Mapping[str, int] = field(default_factory=dict)
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster at one instant.

    Args:
        pools: By name.
        nodes: By name, in its order.
        pods: On each node that has some, by the name of the node; in the order of namespace and name.
        pending: Pods without a node.
        guards: PodDisruptionBudgets by namespace.
        daemons: One pod for every DaemonSet, as it would be on a new node.
        namespaces: Labels of the namespaces that are known.
        notes: What was odd, for people.
    """

    pools: Mapping[str, Pool] = field(default_factory=dict)
    nodes: Mapping[str, ClusterNode] = field(default_factory=dict)
    pods: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    pending: tuple[Pod, ...] = ()
    guards: Mapping[str, Sequence[PodGuard]] = field(default_factory=dict)
    daemons: tuple[Pod, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
