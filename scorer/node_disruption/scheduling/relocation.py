"""Relocation of the pods of candidates.

As in Karpenter, pods on draining nodes are planned together with those of the candidates: a new node that only they
need counts. A launching node accepts them, but is too uncertain for other pods.

Pending pods are placed first and only once, and keep their places. New nodes for them do not count (DK-1 in
differences.md). A node that will receive a pending pod, or one from a draining node, is nominated and is not a
candidate.

Source: docs/specifications/nodepool-disruption.md 5.4, 5.6, 6.3 and 6.5; Karpenter v1.15.0
``pkg/controllers/disruption/helpers.go``.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from itertools import chain
from typing import Final

import numpy as np

from scorer.columns import FloatColumn, IntColumn
from scorer.node_disruption.candidates.candidate import Candidate, is_inside
from scorer.node_disruption.cluster.pod import Owner, Pod
from scorer.node_disruption.cluster.resources import total
from scorer.node_disruption.cluster.snapshot import ClusterSnapshot
from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog
from scorer.node_disruption.instance_types.new_domains import NewDomains
from scorer.node_disruption.instance_types.new_node import NewNode, templates, within_limits
from scorer.node_disruption.scheduling.node_filter import ClusterCapacity
from scorer.node_disruption.scheduling.node_load import queue_order
from scorer.node_disruption.scheduling.scheduler import NewNodes, Placed, plan_all

_NODES: Final = "nodes"
"""Limit of a pool on its number of nodes."""


@dataclass(frozen=True, slots=True)
class Relocation:
    """Planned relocation of the pods of nodes.

    Args:
        moves: Target node, old or new, by pod key.
        new_nodes: New nodes with their pods.
        left: Reason why a pod has no certain place, by its key.
        unplaced: The pods of *left* that fit on no node.
    """

    moves: Mapping[str, str] = field(default_factory=dict)
    new_nodes: tuple[NewNode, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    unplaced: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class Hopeless:
    """Result if pods require a new node, and no instance type with room for them is cheap enough.

    Args:
        pods: Number of pods that fit on no existing node. If each pod fits but not all of them together, their total
            number.
    """

    pods: int


@dataclass(frozen=True, slots=True)
class _Departure:
    """The pods of a draining node.

    Args:
        moved: Pods to reschedule, in `queue_order`.
        vacated: Pods that no longer count: *moved* and terminating ones. Static pods and others remain.
    """

    moved: tuple[Pod, ...]
    vacated: tuple[Pod, ...]


class _Merged(Mapping[str, str]):
    """Lazy view of several mappings. The first one that contains a key wins."""

    def __init__(self, parts: Sequence[Mapping[str, str]]) -> None:
        self._parts = parts
        self._keys = sorted(frozenset(chain.from_iterable(parts)))

    def __getitem__(self, key: str) -> str:
        for part in self._parts:
            if key in part:
                return part[key]
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class Relocations:
    """Plans relocations for one cluster at one instant.

    Args:
        cluster: Snapshot of the cluster.
        catalog: Instance types and prices of new nodes. None: unknown.
        now: Current time, timezone-aware.
        disrupting: Names of nodes that are already being removed.
        closed: Names of nodes that accept no more pods, for any reason.
        previous: Earlier relocations of the same cluster, whose still valid parts are reused. None: unset.
    """

    def __init__(
        self,
        cluster: ClusterSnapshot,
        catalog: InstanceTypeCatalog | None,
        now: datetime,
        *,
        disrupting: Collection[str] = (),
        closed: Collection[str] = (),
        previous: "Relocations | None" = None,
    ) -> None:
        self._cluster = replace(cluster, nodes={**cluster.launching, **cluster.nodes})
        self._catalog = catalog
        self._now = now
        self._going = frozenset(disrupting)
        self._closed = frozenset(closed)
        self._departures: dict[str, _Departure] = {}
        self._fitting: ClusterCapacity | None = previous._fitting if previous else None
        """Latest capacity of the cluster, for reuse."""

    @property
    def changes(self) -> Iterator[datetime | None]:
        """Times at which the set of pods to reschedule from draining nodes changes."""
        for name in self._going:
            for pod in self._cluster.pods.get(name, ()):
                yield pod.held.protected_until if pod.held.protected else None

    @cached_property
    def nominated(self) -> Mapping[str, str]:
        """Key of the first pod, pending or on a draining node, that an existing node will receive, by node name."""
        onto = dict(self._waiting_placement.onto)
        if self._leaving_pods:
            onto |= self._provision(self._free, self._leaving_pods).onto
        nominated: dict[str, str] = {}
        for key, name in sorted(onto.items()):
            nominated.setdefault(name, key)
        return nominated

    def relocate(
        self, candidates: Sequence[Candidate], *, is_consolidation: bool, max_price: float = math.inf
    ) -> Relocation | Hopeless:
        """Return the relocation of the pods of *candidates*, to existing or new nodes.

        Args:
            candidates: Nodes to be removed together.
            is_consolidation: Whether nodes within their consolidateAfter accept no pods.
            max_price: Exclusive upper bound for the price of one new node. Nothing is planned if no cheaper type has
                room for the pods.
        """
        names = [candidate.name for candidate in candidates]
        moving_pods = self._moved_from(names)
        free = (self._quiet if is_consolidation else self._free).drained(self._vacated_pods(names))
        is_worth = None if max_price == math.inf else partial(self._is_had, max_price)
        homeless = [pod for pod in moving_pods if not free.has_room(pod)] if is_worth else []
        if is_worth and homeless and not is_worth(total(pod.requests for pod in homeless)):
            return Hopeless(len(homeless))
        pods = queue_order((*moving_pods, *self._leaving_pods)) if self._leaving_pods else moving_pods
        placement = plan_all(free, pods, self._new_nodes(names), resting_pods=self._leaving_keys, is_worth=is_worth)
        return Hopeless(len(pods)) if placement.is_worthless else self._relocation(placement, moving_pods)

    def _relocation(self, placement: Placed, moving_pods: Iterable[Pod]) -> Relocation:
        onto = {**placement.onto, **{pod.key: node.name for node in placement.new_nodes for pod in node.pods}}
        moves = {pod.key: onto[pod.key] for pod in moving_pods if pod.key in onto}
        left = _Merged((self._unsure(placement), placement.left))
        return Relocation(moves, placement.new_nodes, left, tuple(placement.unplaced))

    def _new_nodes(self, names: Collection[str] = ()) -> NewNodes:
        """Return the nodes that pools could create if the named nodes were removed and not counted by limits."""
        removed_nodes = self._going.union(names)
        templates_within_limits = (
            self._within_limits(template, removed_nodes) for template in self._unlimited_templates
        )
        return NewNodes(
            tuple(template for template in templates_within_limits if template is not None), self._new_domains
        )

    @cached_property
    def _new_domains(self) -> NewDomains:
        return NewDomains(self._cluster.pools.values(), self._catalog.types if self._catalog else ())

    def _is_had(self, max_price: float, needs: Mapping[str, int]) -> bool:
        """Return whether a type below *max_price* has room for *needs*. Other requirements are not checked."""
        prices, amounts = self._offers
        possible = prices < max_price
        for key, need in needs.items():
            if need > 0:
                possible = possible & (amounts[key] >= need) if key in amounts else np.zeros_like(possible)
        return bool(possible.any())

    @cached_property
    def _unlimited_templates(self) -> tuple[NewNode, ...]:
        """Templates of pools if they had no nodes."""
        types = self._catalog.types if self._catalog else ()
        return templates(self._cluster, types, self._cluster.nodes.keys()) if types else ()

    @cached_property
    def _usage(self) -> Mapping[str, Mapping[str, int]]:
        """Usage of each limited pool, by pool and resource."""
        return {
            name: total(
                {**node.capacity, _NODES: 1}
                for node in self._cluster.nodes.values()
                if node.pool == name and node.name not in self._going
            )
            for name, pool in self._cluster.pools.items()
            if pool.limits
        }

    def _within_limits(self, template: NewNode, removed_nodes: frozenset[str]) -> NewNode | None:
        if not template.room:
            return template
        nodes = (self._cluster.nodes[name] for name in removed_nodes - self._going)
        freed_capacity = total({**node.capacity, _NODES: 1} for node in nodes if node.pool == template.pool)
        usage = self._usage[template.pool]
        room = {key: left - usage.get(key, 0) + freed_capacity.get(key, 0) for key, left in template.room.items()}
        limited_template = replace(template, room=room)
        is_wide = all(left >= self._largest[template.pool].get(key, 1) for key, left in room.items())
        return limited_template if is_wide else within_limits(limited_template, room)

    @cached_property
    def _largest(self) -> Mapping[str, Mapping[str, int]]:
        """Maximum amount of each resource among its types, by pool."""
        largest: dict[str, dict[str, int]] = {}
        for template in self._unlimited_templates:
            most = largest.setdefault(template.pool, {})
            for instance_type in template.types:
                for key, amount in instance_type.allocatable.items():
                    most[key] = max(amount, most.get(key, 0))
        return largest

    @cached_property
    def _offers(self) -> tuple[FloatColumn, Mapping[str, IntColumn]]:
        """The prices of all offers of pools, and their resources. Shapes (offers,)."""
        offers = [
            (instance_type, template.requirements)
            for template in self._unlimited_templates
            for instance_type in template.types
        ]
        prices = np.array([offer.cheapest(requirements) for offer, requirements in offers], dtype=np.float64)
        keys = {key for offer, _ in offers for key in offer.allocatable}
        amounts = {
            key: np.array([offer.allocatable.get(key, 0) for offer, _ in offers], dtype=np.int64) for key in keys
        }
        return prices, amounts

    @cached_property
    def _leaving_pods(self) -> Sequence[Pod]:
        """The pods of draining nodes, in `queue_order`."""
        return self._moved_from(sorted(self._going))

    @cached_property
    def _leaving_keys(self) -> frozenset[str]:
        return frozenset(pod.key for pod in self._leaving_pods)

    @cached_property
    def _staying_capacity(self) -> ClusterCapacity:
        """The capacity of the nodes that are not draining."""
        capacity = ClusterCapacity(self._cluster, closed=self._closed, previous=self._fitting)
        self._fitting = capacity
        return capacity.drained(self._vacated_pods(self._going))

    @cached_property
    def _waiting_placement(self) -> Placed:
        """Placement of pending pods."""
        pending = (pod for pod in self._cluster.pending if pod.owner not in (Owner.DAEMON_SET, Owner.NODE))
        return self._provision(self._staying_capacity, queue_order(pending))

    @cached_property
    def _free(self) -> ClusterCapacity:
        """The free capacity after pending pods have been placed on existing nodes."""
        return self._waiting_placement.after

    @cached_property
    def _quiet(self) -> ClusterCapacity:
        """Free capacity, with nodes within their consolidateAfter closed to moved pods."""
        return self._free.resting(self._inside).settled()

    def _provision(self, free: ClusterCapacity, pods: Sequence[Pod]) -> Placed:
        """Return where the provisioner places pods that must be placed in any case."""
        return plan_all(free, pods, self._new_nodes(), resting_pods={pod.key for pod in pods})

    @cached_property
    def _inside(self) -> frozenset[str]:
        pools = self._cluster.pools
        return frozenset(
            name for name, node in self._cluster.nodes.items() if is_inside(node, pools.get(node.pool), self._now)
        )

    def _moved_from(self, names: Sequence[str]) -> Sequence[Pod]:
        """Return the pods to reschedule when nodes drain, in `queue_order`."""
        queues = [self._departure(name).moved for name in names]
        return queues[0] if len(queues) == 1 else queue_order(chain.from_iterable(queues))

    def _vacated_pods(self, names: Iterable[str]) -> Mapping[str, Sequence[Pod]]:
        return {name: self._departure(name).vacated for name in names}

    def _departure(self, name: str) -> _Departure:
        if (departure := self._departures.get(name)) is None:
            pods = self._cluster.pods.get(name, ())
            moving_pods = tuple(pod for pod in queue_order(pods) if pod.reschedulable and not self._stays(pod))
            keys = {pod.key for pod in moving_pods}
            terminating_pods = (pod for pod in pods if pod.terminating_since is not None and pod.key not in keys)
            leaving_pods = (*moving_pods, *(pod for pod in terminating_pods if not pod.finished))
            departure = self._departures[name] = _Departure(moving_pods, leaving_pods)
        return departure

    def _stays(self, pod: Pod) -> bool:
        pod_hold, guards = pod.held, self._cluster.guards.get(pod.namespace, ())
        if pod_hold.active and pod_hold.is_protected(self._now):
            return True
        if not guards or not pod_hold.evictable:
            return False
        matching_guards = [guard for guard in guards if guard.guards(pod_hold.labels)]
        if len(matching_guards) != 1:
            return bool(matching_guards)
        return matching_guards[0].blocks_always and not (matching_guards[0].frees_unready and pod_hold.unready)

    def _unsure(self, placement: Placed) -> Mapping[str, str]:
        """Return the pods that would move to a node that is not initialized, and may never be.

        Pods of draining nodes may do so, because the node may have been created for them.
        """
        nodes = self._cluster.nodes
        return {
            key: f"would be scheduled to node {name}, which is not initialized yet"
            for key, name in placement.onto.items()
            if not nodes[name].initialized and key not in self._leaving_keys
        }
