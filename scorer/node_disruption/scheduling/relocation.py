"""Where the pods of nodes would go if the nodes went.

Pods that wait already, and those on nodes that are going, come first: they are given places once, before any candidate
is looked at, and keep those; a node to which one of them will come is nominated, and no candidate. The reference
reckons them in again with every simulation, where a new node that only they need counts as a replacement; here it does
not. It also mixes pods for nodes that are there with pods for new ones, where here the former all come first.

Source: nodepool-disruption.md 5.4, 5.6 and 6.3; Karpenter v1.15.0 ``pkg/controllers/disruption/helpers.go``.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import chain
from typing import Final

import numpy as np

from scorer.columns import FloatColumn, IntColumn
from scorer.node_disruption.candidates.candidate import Candidate, is_inside
from scorer.node_disruption.cluster.pod import Owner, Pod
from scorer.node_disruption.cluster.resources import total
from scorer.node_disruption.cluster.snapshot import ClusterSnapshot
from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog
from scorer.node_disruption.instance_types.new_node import NewNode, templates, within_limits
from scorer.node_disruption.scheduling.node_filter import ClusterCapacity
from scorer.node_disruption.scheduling.node_load import queued
from scorer.node_disruption.scheduling.scheduler import Placed, place_all

_NODES: Final = "nodes"
"""The limit of a pool on how many nodes it has."""


@dataclass(frozen=True, slots=True)
class Relocation:
    """Where the pods of nodes would go.

    Args:
        moves: Name of the node, old or new, by the key of the pod.
        new_nodes: That would be made, with their pods.
        left: Why a pod finds no place, by its key.
    """

    moves: Mapping[str, str] = field(default_factory=dict)
    new_nodes: tuple[NewNode, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hopeless:
    """Pods fit on no node that is there, and no type with room for them is cheap enough.

    Args:
        pods: How many.
    """

    pods: int


@dataclass(frozen=True, slots=True)
class _Settled:
    """What is free when the pods that need a place anyway have one.

    Args:
        fitting: What is free.
        onto: The pods that came to each node.
        unplaced: Why a pod of a node that is going finds no place, by its key.
    """

    fitting: ClusterCapacity
    onto: Mapping[str, tuple[Pod, ...]]
    unplaced: Mapping[str, str]


class _Merged(Mapping[str, str]):
    """Several mappings as one, by key; of those that have a key the first counts. What is not asked for is not made."""

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
    """Answers where pods would go, for one cluster at one instant.

    Args:
        cluster: At the instant.
        catalog: What new nodes can be; None: nobody knows.
        now: The instant, with a time zone.
        going: Names of nodes that are going already.
        closed: Names of nodes that take no more pods, for whatever reason.
        before: Of the same cluster at another time, from which is taken over what is still true; None: there is none.
    """

    def __init__(
        self,
        cluster: ClusterSnapshot,
        catalog: InstanceTypeCatalog | None,
        now: datetime,
        *,
        going: Collection[str] = (),
        closed: Collection[str] = (),
        before: "Relocations | None" = None,
    ) -> None:
        self._cluster = cluster
        self._catalog = catalog
        self._now = now
        self._going = frozenset(going)
        self._closed = frozenset(closed)
        self._fitting: ClusterCapacity | None = before._fitting if before else None
        """What was made last of the cluster."""

    @property
    def changes(self) -> Iterator[datetime | None]:
        """When the passing of time changes which pods of nodes that are going need a new place."""
        for name in self._going:
            for pod in self._cluster.pods.get(name, ()):
                yield pod.held.protected_until if pod.held.protected else None

    @cached_property
    def nominated(self) -> Mapping[str, str]:
        """Key of the first pod that will come to a node that is there, by the name of the node.

        It is pending, or on a node that is going.
        """
        return {name: pods[0].key for name, pods in self._settled.onto.items()} if self._waits else {}

    def relocate(
        self, candidates: Sequence[Candidate], *, consolidating: bool, below: float = math.inf
    ) -> Relocation | Hopeless:
        """Return where the pods of *candidates* go: to nodes that are there, and those that are left to new ones.

        Args:
            candidates: Nodes that go together.
            consolidating: Nodes that are within their consolidateAfter take no pods.
            below: New nodes are not tried when none that has room for what is left costs less than this.
        """
        settled = self._settled
        pods = self._queued(candidates)
        names = frozenset(candidate.name for candidate in candidates)
        free = self._quiet if consolidating else settled.fitting
        placed = place_all(free.without(names), pods, is_queued=True)
        moves, left, new_nodes = dict(placed.onto), placed.left, tuple[NewNode, ...]()
        unsure = self._unsure(placed)
        over = placed.unplaced
        if over and not settled.unplaced and not unsure and self._catalog is not None:
            if not self._is_had(below, total(pod.requests for pod in over)):
                return Hopeless(len(over))
            placed = place_all(placed.fitting, over, self.templates(names), is_queued=True)
            moves |= placed.onto
            moves |= {pod.key: node.name for node in placed.new_nodes for pod in node.pods}
            left, new_nodes, unsure = placed.left, placed.new_nodes, self._unsure(placed)
        return Relocation(moves, new_nodes, _Merged((unsure, left, settled.unplaced)))

    def templates(self, names: Collection[str] = ()) -> tuple[NewNode, ...]:
        """Return what pools could make when the nodes of these names go, which limits do not count then."""
        gone = self._going.union(names)
        templates_within_limits = (self._within_limits(template, gone) for template in self._unlimited)
        return tuple(template for template in templates_within_limits if template is not None)

    def _is_had(self, below: float, needs: Mapping[str, int]) -> bool:
        """Say whether some type that costs less than *below* has room for *needs*, whatever else is asked."""
        if below == math.inf:
            return True
        prices, has = self._offers
        possible = prices < below
        for key, need in needs.items():
            if need > 0:
                possible = possible & (has[key] >= need) if key in has else np.zeros_like(possible)
        return bool(possible.any())

    @cached_property
    def _unlimited(self) -> tuple[NewNode, ...]:
        """What pools could make if they had no nodes."""
        types = self._catalog.types if self._catalog else ()
        return templates(self._cluster, types, self._cluster.nodes.keys()) if types else ()

    @cached_property
    def _used(self) -> Mapping[str, Mapping[str, int]]:
        """What the nodes of each limited pool have, by pool and resource."""
        return {
            name: total(
                {**node.capacity, _NODES: 1}
                for node in self._cluster.nodes.values()
                if node.pool == name and node.name not in self._going
            )
            for name, pool in self._cluster.pools.items()
            if pool.limits
        }

    def _within_limits(self, template: NewNode, gone: frozenset[str]) -> NewNode | None:
        if not template.room:
            return template
        nodes = (self._cluster.nodes[name] for name in gone - self._going)
        freed = total({**node.capacity, _NODES: 1} for node in nodes if node.pool == template.pool)
        used = self._used[template.pool]
        room = {key: left - used.get(key, 0) + freed.get(key, 0) for key, left in template.room.items()}
        limited = replace(template, room=room)
        is_wide = all(left >= self._largest[template.pool].get(key, 1) for key, left in room.items())
        return limited if is_wide else within_limits(limited, room)

    @cached_property
    def _largest(self) -> Mapping[str, Mapping[str, int]]:
        """The most of each resource that a type has, by the pool that could make it."""
        largest: dict[str, dict[str, int]] = {}
        for template in self._unlimited:
            most = largest.setdefault(template.pool, {})
            for instance_type in template.types:
                for key, amount in instance_type.allocatable.items():
                    most[key] = max(amount, most.get(key, 0))
        return largest

    @cached_property
    def _offers(self) -> tuple[FloatColumn, Mapping[str, IntColumn]]:
        """Return the price of everything that pools could make, and what it has by resource; shapes (offers,)."""
        offers = [
            (instance_type, template.requirements) for template in self._unlimited for instance_type in template.types
        ]
        prices = np.array([offer.cheapest(requirements) for offer, requirements in offers], dtype=np.float64)
        keys = {key for offer, _ in offers for key in offer.allocatable}
        has = {key: np.array([offer.allocatable.get(key, 0) for offer, _ in offers], dtype=np.int64) for key in keys}
        return prices, has

    @cached_property
    def _waits(self) -> Sequence[Pod]:
        """The pods that need a place whatever is decided: pending ones, and those of nodes that are going."""
        leaving = (self._evicted(self._cluster.pods.get(name, ())) for name in sorted(self._going))
        pending = (pod for pod in self._cluster.pending if pod.owner not in (Owner.DAEMON_SET, Owner.NODE))
        return [*pending, *chain.from_iterable(leaving)]

    @cached_property
    def _settled(self) -> _Settled:
        fitting = ClusterCapacity(self._cluster, without=self._going, closed=self._closed, before=self._fitting)
        self._fitting = fitting
        pods = self._waits
        if not pods:
            return _Settled(fitting, {}, {})
        placed = place_all(fitting, pods, self.templates())
        by_key = {pod.key: pod for pod in pods}
        onto: dict[str, tuple[Pod, ...]] = {}
        for key, name in sorted(placed.onto.items()):
            onto[name] = (*onto.get(name, ()), by_key[key])
        pending = {pod.key for pod in self._cluster.pending}
        unplaced = {key: reason for key, reason in placed.left.items() if key not in pending}
        return _Settled(self._without_new(placed, fitting, onto), onto, unplaced if self._catalog else {})

    @staticmethod
    def _without_new(placed: Placed, fitting: ClusterCapacity, onto: Mapping[str, Sequence[Pod]]) -> ClusterCapacity:
        """Return what is free on the nodes that are there."""
        if not placed.new_nodes:
            return placed.after
        relocation = fitting.without(())
        for name, pods in onto.items():
            for pod in pods:
                relocation.place(pod, name)
        return relocation

    @cached_property
    def _quiet(self) -> ClusterCapacity:
        """What is free on nodes that take pods that are moved."""
        return self._settled.fitting.without((), closed=self._inside).settled()

    @cached_property
    def _inside(self) -> frozenset[str]:
        pools = self._cluster.pools
        return frozenset(
            name for name, node in self._cluster.nodes.items() if is_inside(node, pools.get(node.pool), self._now)
        )

    def _queued(self, candidates: Sequence[Candidate]) -> Sequence[Pod]:
        """Return the pods that need a new place when *candidates* go, in the order in which they get one."""
        fitting = self._settled.fitting
        queues = [[pod for pod in fitting.queue(candidate.name) if not self._stays(pod)] for candidate in candidates]
        return queues[0] if len(queues) == 1 else queued(chain.from_iterable(queues))

    def _evicted(self, pods: Iterable[Pod]) -> list[Pod]:
        """Return the pods that need a new place: those that will never be evicted do not."""
        return [pod for pod in pods if pod.reschedulable and not self._stays(pod)]

    def _stays(self, pod: Pod) -> bool:
        held, guards = pod.held, self._cluster.guards.get(pod.namespace, ())
        if held.active and held.is_protected(self._now):
            return True
        if not guards or not held.evictable:
            return False
        around = [guard for guard in guards if guard.guards(held.labels)]
        if len(around) != 1:
            return bool(around)
        return around[0].blocks_always and not (around[0].frees_unready and held.unready)

    def _unsure(self, placed: Placed) -> Mapping[str, str]:
        """Return the pods that would come to a node that is not initialized, which may never be."""
        nodes = self._cluster.nodes
        return {
            key: f"would go to node {name}, which is not initialized yet"
            for key, name in placed.onto.items()
            if not nodes[name].initialized
        }
