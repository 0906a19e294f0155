"""The simulated cluster: nodes launch, drain and terminate, and evicted pods are rescheduled.

The module does not know why a node is disrupted. It reports created and removed nodes to its caller.

Source: docs/specifications/nodepool-disruption.md 5.6, 7.1, 9, 10 and 15.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import Final

from scorer.node_budgets.nodes import DISRUPTED_TAINT
from scorer.node_disruption.cluster.pod import Pod
from scorer.node_disruption.cluster.snapshot import ClusterNode, ClusterSnapshot, NodePoolState
from scorer.node_disruption.drain.eviction import DISRUPTED, DrainBlocker, EvictionLedger
from scorer.node_disruption.drain.step import drain_deadline
from scorer.node_disruption.instance_types.catalog import InstanceType, InstanceTypeCatalog
from scorer.node_disruption.instance_types.new_domains import NewDomains
from scorer.node_disruption.instance_types.new_node import NewNode, beyond_limits, pool_template, templates
from scorer.node_disruption.methods.consolidation import by_price
from scorer.node_disruption.methods.expiration import expirations
from scorer.node_disruption.scheduling.node_filter import SimulatedCapacity
from scorer.node_disruption.scheduling.scheduler import NewNodes, place_all
from scorer.node_disruption.simulation.drain import NodeDrain
from scorer.node_disruption.simulation.launches import daemons_on, initialize_node, launch_node, launched_like
from scorer.node_disruption.simulation.static_pools import missing_nodes, should_have, surplus
from scorer.node_disruption.simulation.timeline import Launch, NodeRemoval, PendingPod, SimulationAssumptions

_EVER: Final = datetime.max.replace(tzinfo=UTC)
_MOST_ROUNDS: Final = 1_000
"""Maximum number of rounds of eviction and immediate placement per instant. Exceeding it would be a bug."""


@dataclass(slots=True)
class _Homeless:
    """An evicted or pending pod that waits for placement.

    Args:
        pod: The original pod.
        since: Time of its eviction.
        free_at: Time at which the evicted pod has terminated.
        cause: Name of its former node, empty for an initially pending pod.
        why: Reason why the last attempt did not place it, empty before the first.
    """

    pod: Pod
    since: datetime
    free_at: datetime
    cause: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class NodeProvisioning:
    """A node that is created for unplaced pods or for a static pool with too few nodes.

    Args:
        launch: The node.
        causes: Names of the former nodes of those pods, or of the nodes removed from the pool. Empty for initially
            pending pods, or for a pool that had too few nodes.
        why: Human-readable reason, empty for unplaced pods.
    """

    launch: Launch
    causes: frozenset[str] = field(default_factory=frozenset)
    why: str = ""


class Clockwork:
    """A cluster that changes with time.

    Args:
        cluster: Initial state.
        types: Instance types of new nodes.
        catalog: Catalog with prices. None: unknown.
        assumptions: Durations and bounds.
        now: Start time.
    """

    def __init__(
        self,
        cluster: ClusterSnapshot,
        types: Sequence[InstanceType],
        catalog: InstanceTypeCatalog | None,
        assumptions: SimulationAssumptions,
        now: datetime,
    ) -> None:
        self._base = cluster
        self._types = tuple(types)
        self._catalog = catalog
        self._assumptions = assumptions
        self.nodes: dict[str, ClusterNode] = dict(cluster.nodes)
        self.pods: dict[str, tuple[Pod, ...]] = {name: pod for name, pod in cluster.pods.items() if name in self.nodes}
        self.removals: list[NodeRemoval] = []
        self.launches: list[Launch] = []
        self.made: list[NodeProvisioning] = []
        """Nodes created for pods or static pools. The reader clears this list."""
        self._ledger = EvictionLedger(cluster.guards)
        self._drains: dict[str, NodeDrain] = {}
        self._ready: dict[str, datetime] = {}
        self._arrivals: dict[str, datetime] = {}
        self._homeless: dict[str, _Homeless] = {
            pod.key: _Homeless(pod, now, now) for pod in cluster.pending if pod.reschedulable
        }
        for homeless in self._homeless.values():
            self._ledger.leave(homeless.pod)
        self._look_for_places = bool(self._homeless)
        self._made_up: set[str] = set()  # nodes of static pools that have been replaced
        self._static = [pool for _, pool in sorted(cluster.pools.items()) if pool.replicas is not None]
        self._room: SimulatedCapacity | None = None  # created on first use
        self._unknown: list[str] = []  # nodes that are not in _room yet
        self._templates: tuple[NewNode, ...] | None = None
        self._new_domains = NewDomains(cluster.pools.values(), self._types)
        self._ages = [(expiration.at, expiration.node) for expiration in expirations(cluster)]
        self._numbers: dict[str, int] = {}
        for name, node in cluster.nodes.items():
            if (
                node.node is not None
                and node.claim is not None
                and not node.node.initialized
                and not node.node.disrupting
            ):
                self._ready[name] = now + assumptions.launch

    def cluster(self) -> ClusterSnapshot:
        """Return the present snapshot."""
        return replace(
            self._base,
            nodes=dict(sorted(self.nodes.items())),
            launching={},  # the time at which they join is unknown
            pods=dict(self.pods),
            pending=tuple(pod.pod for _, pod in sorted(self._homeless.items())),
            guards=self._ledger.guards(),
        )

    def mark(self, name: str) -> None:
        """Mark a node as being disrupted, so that it accepts no more pods."""
        node = self.nodes[name]
        assert node.node is not None
        taints = (
            node.taints if any(taint.key == DISRUPTED_TAINT for taint in node.taints) else (*node.taints, DISRUPTED)
        )
        self.nodes[name] = replace(node, node=replace(node.node, deleting=True), taints=taints)

    def drain(self, name: str, now: datetime) -> None:
        """Start the drain of a node, unless it has started or the node no longer exists."""
        if name in self._drains or name not in self.nodes:
            return
        self.mark(name)
        node = self.nodes[name]
        deadline = None
        if node.claim is not None:
            deletion_time = node.claim.deletion or now
            deadline = drain_deadline(deletion_time, node.claim.termination_grace, node.claim.terminates_at)
            claim = replace(node.claim, deletion=deletion_time, terminates_at=deadline)
            self.nodes[name] = replace(node, claim=claim)
        self._ready.pop(name, None)
        self._drains[name] = NodeDrain(self.pods.get(name, ()), now, deadline)

    def launch(self, new_node: NewNode, like: str, now: datetime) -> str | None:
        """Launch a planned node.

        Args:
            new_node: The planned node.
            like: Name of the node that it replaces, which is copied if the options of the planned node are unknown.
            now: Current time.

        Returns:
            Its name, or None if no option remains or its pool does not exist.
        """
        pool = self._base.pools.get(new_node.pool)
        if pool is None:
            return None
        name = self._new_name(new_node.pool)
        node = launch_node(new_node, name, pool, now)
        if node is None and like in self.nodes:
            node = launched_like(self.nodes[like], new_node, name, pool, now)
        if node is None:
            return None
        ready = now + self._assumptions.launch
        self.nodes[name] = node
        self.pods[name] = tuple(daemons_on(node, self._base, ready))
        self._ready[name] = ready
        self._unknown += [name] if self._room is not None else []
        if node.claim is not None and node.claim.expire_after is not None:
            heappush(self._ages, (now + node.claim.expire_after, name))
        price = self.price(name)
        self.launches.append(
            Launch(now, ready, pool.name, name, node.instance_type, node.zone, node.capacity_type, price)
        )
        return name

    def price(self, name: str) -> float | None:
        """Return the price of a node per hour. None: unknown."""
        node = self.nodes[name]
        if self._catalog is None:
            return None
        return self._catalog.price_in(self._base.pools.get(node.pool), node)

    def is_ready(self, name: str) -> bool:
        """Return whether a launched node is initialized."""
        return name not in self._ready

    def is_draining(self, name: str) -> bool:
        """Return whether a node is being drained."""
        return name in self._drains

    def advance(self, now: datetime) -> None:
        """Apply everything due at *now*: nodes become ready, and pods start. See `settle`."""
        for name, at in sorted(self._ready.items()):
            if at <= now:
                del self._ready[name]
                node = initialize_node(self.nodes[name], at)
                self.nodes[name] = node
                if any(not pod.finished for pod in self.pods.get(name, ()) if pod.reschedulable):
                    self._touch(name, at)
        for key in [key for key, at in self._arrivals.items() if at <= now]:
            del self._arrivals[key]
            self._ledger.record_restart(key)

    def settle(self, now: datetime) -> None:
        """Evict and place pods and remove drained nodes until nothing changes."""
        for _ in range(_MOST_ROUNDS):
            changed = False
            for name, drain in sorted(self._drains.items()):
                changed |= self._evict(name, drain, now)
                if drain.is_over(now, self._assumptions.shortest_drain):
                    self._remove(name, now)
                    changed = True
            if self._look_for_places:
                self._place(now)
                changed = True
            if not changed:
                return

    def surplus(self, now: datetime) -> Iterator[tuple[NodePoolState, tuple[str, ...]]]:
        """Yield the static pools with surplus nodes, and the names of the nodes to remove."""
        for pool in self._static:
            if names := surplus(pool, self._of(pool.name), self.pods, now):
                yield pool, names

    def make_up(self, now: datetime) -> None:
        """Launch the missing nodes of static pools."""
        for pool in self._static:
            nodes = self._of(pool.name)
            disrupting = sorted(node.name for node in nodes if node.node is not None and node.node.disrupting)
            new = [name for name in disrupting if name not in self._made_up]
            for index in range(missing_nodes(pool, nodes)):
                cause = new[index] if index < len(new) else ""
                like = cause or min((node.name for node in nodes), default="")
                template = pool_template(pool, self._catalog.types if self._catalog else ())
                new_node = by_price(replace(template, name=f"{pool.name}/more-{index + 1}"))
                if self.launch(new_node, like, now) is not None:
                    reason = f"NodePool {pool.name} should have {should_have(pool)}"
                    self.made.append(NodeProvisioning(self.launches[-1], frozenset((cause,) if cause else ()), reason))
                    self._made_up.add(cause)

    def _of(self, pool: str) -> list[ClusterNode]:
        return [node for node in self.nodes.values() if node.pool == pool]

    def expired(self, now: datetime) -> list[str]:
        """Return the nodes that have expired by *now* and are not being removed. Each is returned once."""
        expired_nodes = []
        while self._ages and self._ages[0][0] <= now:
            _, name = heappop(self._ages)
            node = self.nodes.get(name)
            if node is not None and node.claim is not None and node.claim.deletion is None:
                expired_nodes.append(name)
        return expired_nodes

    def next_age(self) -> datetime | None:
        """Return when the next node expires, or None."""
        return self._ages[0][0] if self._ages else None

    def holds(self, now: datetime) -> Iterator[tuple[str, DrainBlocker]]:
        """Yield the holds of draining nodes, with the node names."""
        for name, drain in sorted(self._drains.items()):
            for hold in drain.holds(now, self._ledger):
                yield name, hold

    def next_at(self, now: datetime) -> datetime | None:
        """Return when something changes without intervention, or None."""
        times = [*self._ready.values(), *self._arrivals.values()]
        drains = (drain.next_at(now, self._assumptions.shortest_drain) for drain in self._drains.values())
        times += [at for at in drains if at is not None]
        return min((at for at in times if at > now), default=None)

    def waiting(self) -> tuple[PendingPod, ...]:
        """Return the unplaced pods."""
        return tuple(PendingPod(key, pod.since, pod.why) for key, pod in sorted(self._homeless.items()))

    def _evict(self, name: str, drain: NodeDrain, now: datetime) -> bool:
        evicted_pods = drain.evict(now, self._ledger)
        if not evicted_pods:
            return False
        keys = {pod.key for pod in evicted_pods}
        self._capacity(name).remove_pods(evicted_pods, name)
        self.pods[name] = tuple(pod for pod in self.pods[name] if pod.key not in keys)
        for pod in evicted_pods:
            self._uproot(pod, now, drain.end_of(pod.key) or now, name)
        return True

    def _uproot(self, pod: Pod, now: datetime, free_at: datetime, cause: str) -> None:
        if pod.reschedulable:
            self._homeless[pod.key] = _Homeless(pod, now, free_at, cause)
            self._look_for_places = True
        else:
            self._ledger.record_restart(pod.key)

    def _remove(self, name: str, now: datetime) -> None:
        del self._drains[name]
        self._capacity(name).lose((name,))
        node = self.nodes.pop(name)
        for pod in self.pods.pop(name, ()):
            if pod.reschedulable:
                self._ledger.leave(pod)
            self._uproot(pod, now, now, name)
        self.removals.append(NodeRemoval(now, node.pool, name))
        self._look_for_places |= bool(self._homeless)  # the pool may be below its limits again

    def _place(self, now: datetime) -> None:
        """Place waiting pods on existing or new nodes."""
        self._look_for_places = False
        if not self._homeless:
            return
        disrupting = [name for name, node in self.nodes.items() if node.node is not None and node.node.disrupting]
        capacity = self._capacity().without((), closed=disrupting)
        pods = [pod.pod for pod in self._homeless.values()]
        placement = place_all(capacity, pods, NewNodes(self._new_nodes(disrupting), self._new_domains))
        self._look_for_places = bool(placement.left and placement.new_nodes)  # retry once its zone is known
        for key, reason in placement.left.items():
            self._homeless[key].why = reason
        for key, name in sorted(placement.onto.items()):
            self._come(key, name, now)
        for new in placement.new_nodes:
            causes = frozenset(self._homeless[pod.key].cause for pod in new.pods) - {""}
            node = self.launch(new, min(causes, default=""), now)
            if node is None:
                continue
            self.made.append(NodeProvisioning(self.launches[-1], causes))
            for pod in new.pods:
                self._come(pod.key, node, now)

    def _capacity(self, name: str = "") -> SimulatedCapacity:
        """Return the free capacity. It certainly includes the node *name*, or every node if *name* is empty."""
        if self._room is None:
            self._room = SimulatedCapacity(self.cluster())
        if self._unknown and (not name or name in self._unknown):
            self._room.add(
                [
                    initialize_node(self.nodes[node_name], self._ready.get(node_name, _EVER))
                    for node_name in self._unknown
                ]
            )
            for node_name in self._unknown:
                self._room.place_pods(self.pods[node_name], node_name)
            self._unknown.clear()
        return self._room

    def _new_nodes(self, disrupting: Sequence[str]) -> tuple[NewNode, ...]:
        """Return the templates of pools. They are cached if no pool has limits."""
        if self._templates is None or any(pool.limits for pool in self._base.pools.values()):
            cluster = self.cluster()
            exhausted_pools = beyond_limits(cluster)
            new_nodes = templates(cluster, self._types, disrupting)
            self._templates = tuple(template for template in new_nodes if template.pool not in exhausted_pools)
        return self._templates

    def _come(self, key: str, name: str, now: datetime) -> None:
        """Move a waiting pod to a node."""
        homeless = self._homeless.pop(key)
        runs_at = max(now, homeless.free_at, self._ready.get(name, now))
        pod = homeless.pod
        hold = replace(
            pod.held, active=True, evictable=not pod.shape.tolerates(DISRUPTED), unready=False, started=runs_at
        )
        placed_pod = replace(pod, node=name, taken={}, created=now, terminating_since=None, phase="Running", held=hold)
        self._capacity(name).place_pods((placed_pod,), name)
        self.pods[name] = (*self.pods.get(name, ()), placed_pod)
        self._touch(name, now)
        if runs_at > now:
            self._arrivals[key] = runs_at
        else:
            self._ledger.record_restart(key)

    def _touch(self, name: str, now: datetime) -> None:
        """Record a pod event on a node (nodepool-disruption.md 5.6)."""
        node = self.nodes[name]
        if node.claim is not None:
            self.nodes[name] = replace(node, claim=replace(node.claim, last_pod_event=now))

    def _new_name(self, pool: str) -> str:
        while True:
            number = self._numbers[pool] = self._numbers.get(pool, 0) + 1
            name = f"{pool}-new-{number}"
            if name not in self.nodes:
                return name
