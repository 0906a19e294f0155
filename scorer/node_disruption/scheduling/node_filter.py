"""Node filter: which nodes can take a pod, by the rules of the scheduler's filter plugins.

Preferences play no part, nor do the scheduler's scores. The name of the node in a pod's spec says where the pod runs,
and is no wish: a pod that is moved would be tied to where it came from.

Source: nodepool-disruption.md 6.3; Kubernetes v1.36 ``pkg/scheduler/framework/plugins``.

Planning asks this in thousands of states that differ in a few nodes. `FeasibilityIndex` caches what they share.
`SimulatedCapacity` adds and removes nodes in place.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from scorer.columns import BoolColumn
from scorer.node_disruption.cluster.constraints import PodShape
from scorer.node_disruption.cluster.pod import Pod
from scorer.node_disruption.cluster.resources import PODS
from scorer.node_disruption.cluster.snapshot import ClusterNode, ClusterSnapshot
from scorer.node_disruption.scheduling.node_load import NOTHING, Load, loads, shapes_with_affinity
from scorer.node_disruption.scheduling.occupancy import Occupancy
from scorer.node_disruption.scheduling.pod_counts import PodCounts
from scorer.node_disruption.scheduling.static_filters import (
    CORDONED,
    NOT_SELECTED,
    TAINTED,
    VOLUME_ELSEWHERE,
    NodeRows,
)
from scorer.node_disruption.scheduling.topology import (
    ANTI_AFFINITY,
    KEPT_AWAY,
    NO_AFFINITY,
    Domains,
    Terms,
)

CLOSED: Final = "node(s) take no more pods"
NO_PORTS: Final = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY: Final = "Too many pods"


class ClusterCapacity:
    """The nodes of a cluster and what is free on them; pods can be put on and taken off.

    Args:
        cluster: At the start.
        without: Names of nodes that are gone, with their pods.
        closed: Names of nodes that keep their pods and take no more.
        before: Made of the same cluster at another time: what the pods of a node take is taken over when they are the
            same. None: there is none.
    """

    def __init__(
        self,
        cluster: ClusterSnapshot,
        *,
        without: Collection[str] = (),
        closed: Collection[str] = (),
        before: "ClusterCapacity | None" = None,
    ) -> None:
        self._rows = NodeRows([node for _, node in sorted(cluster.nodes.items())])
        self.names: tuple[str, ...] = tuple(node.name for node in self._rows.nodes)
        self._present = self._but(without)
        self._open = self._present & self._but(closed)
        self._loads: Mapping[str, Load] = loads(cluster, before._loads if before else {})
        others = shapes_with_affinity((*cluster.pending, *cluster.daemons))
        shapes = {id(shape): shape for shape in (*_asked(self._loads.values()), *others)}
        rows = [self._loads.get(name, NOTHING) for name in self.names]
        counts = PodCounts(rows, shapes.values(), cluster.namespaces)
        self._occupancy = Occupancy(self._rows.nodes, rows, counts)
        terms = {id(shape): (shape, Terms.of(shape, counts)) for shape in shapes.values()}
        self._domains = Domains(self._rows, self._present, self._occupancy, terms)
        self._choices: FeasibilityIndex | None = None

    def feasible(self, pod: Pod) -> BoolColumn:
        """Return which nodes could take *pod*.

        Returns:
            Shape (nodes,), in the order of `names`; False for nodes that are gone or closed.
        """
        mask = self._roomy(pod)
        for _, held in self._topology(pod):
            mask &= held
        return mask

    def first(self, pod: Pod) -> str | None:
        """Return the node that *pod* comes to: of those that could take it an initialized one, then the first by name.

        Returns:
            Its name; None when no node could take it.
        """
        if self._choices is not None:
            choice, changed = self._choices.of(pod), self._domains.changed
            rows = (row for row in choice.rows if row not in changed or self._takes(pod, row))
            row = self._first_allowed(pod, rows)
            if row is not None or choice.are_all:
                return row
        mask = self.feasible(pod)[: len(self._rows.real)]
        if not mask.any():
            return None
        best = mask & self.initialized
        return self.names[int((best if best.any() else mask).argmax())]

    def topology(self, pod: Pod) -> BoolColumn:
        """Return where pod affinity and topology spread allow *pod*, whatever else a node is like; as `feasible`."""
        mask: BoolColumn = self._present.copy()
        for _, held in self._topology(pod):
            mask &= held
        return mask

    def topology_keys(self, pod: Pod) -> frozenset[str]:
        """Return the labels of nodes by which pod affinity and topology spread decide about *pod*."""
        return self._domains.keys(pod)

    def spread_count(self, pod: Pod, key: str, value: str) -> int:
        """Return how many of the pods that *pod* is spread with are on nodes whose label *key* has *value*."""
        return self._domains.count(pod, key, value)

    def is_even(self, pod: Pod, row: int, expected: Mapping[str, Collection[str]]) -> bool:
        """Say whether *pod* on the node of a row is spread evenly, also over domains that new nodes could open.

        Args:
            pod: To be placed.
            row: As in `names`.
            expected: Values of labels that new nodes can have.
        """
        return self._domains.is_even(pod, row, expected)

    @property
    def size(self) -> int:
        """How many nodes there are, closed ones included."""
        return int(np.count_nonzero(self._present[: len(self._rows.real)]))

    @property
    def initialized(self) -> BoolColumn:
        """Which nodes are ready for pods in every respect; shape (nodes,), without imagined ones."""
        return self._rows.real.initialized

    def node(self, row: int) -> ClusterNode:
        """Return the node of a row."""
        return self._rows.nodes[row]

    def queue(self, node: str) -> Sequence[Pod]:
        """Return the pods of a node at the start that need a new place when it goes, as `load.queued`."""
        return self._loads.get(node, NOTHING).queue

    def place(self, pod: Pod, node: str) -> None:
        """Put *pod* on a node; whether it fits is not asked.

        Raises:
            KeyError: There is no such node.
        """
        self._change(pod, node, 1)

    def remove(self, pod: Pod, node: str) -> None:
        """Take *pod* off a node.

        Raises:
            KeyError: There is no such node.
        """
        self._change(pod, node, -1)

    def without(self, names: Collection[str], *, closed: Collection[str] = ()) -> "ClusterCapacity":
        """Return what is left when nodes go, with their pods; this one stays as it is.

        Args:
            names: Of the nodes that go.
            closed: Names of nodes that take no more pods.
        """
        capacity = ClusterCapacity.__new__(ClusterCapacity)
        capacity._rows, capacity.names, capacity._loads = self._rows, self.names, self._loads
        capacity._present = self._present & self._but(names) if names else self._present
        capacity._open = capacity._present & self._open & self._but(closed) if names or closed else self._open
        capacity._occupancy = self._occupancy.copy()
        changed = self._domains.changed.union(row for name in names if (row := self._rows.find(name)) is not None)
        capacity._domains = self._domains_of(capacity, self._domains.base, changed)
        capacity._choices = None if closed else self._choices
        return capacity

    def settled(self) -> "ClusterCapacity":
        """Return the same state as one from which many others are made: in these, pods find places sooner."""
        changed, unchanged = self.without(()), self.without(())
        unchanged._domains = self._domains_of(unchanged)
        changed._domains = self._domains_of(changed, unchanged._domains)
        changed._choices = FeasibilityIndex(unchanged._roomy, unchanged.initialized)
        return changed

    def _domains_of(
        self, state: "ClusterCapacity", base: Domains | None = None, changed: Iterable[int] = ()
    ) -> Domains:
        return Domains(state._rows, state._present, state._occupancy, self._domains.terms, base, changed)

    def with_imagined(self, nodes: Sequence[ClusterNode], added: int) -> "ClusterCapacity":
        """Return the state with nodes that are not there, after all others; `feasible` says no for them.

        Args:
            nodes: All imagined nodes; those that were there before may have got more labels.
            added: How many of them, at the end, are new.
        """
        capacity = ClusterCapacity.__new__(ClusterCapacity)
        capacity._rows, capacity._loads = NodeRows(nodes, self._rows.real), self._loads
        capacity.names = (*self.names, *(node.name for node in nodes[len(nodes) - added :]))
        capacity._present = np.concatenate([self._present, np.ones(added, dtype=np.bool_)])
        capacity._open = np.concatenate([self._open, np.zeros(added, dtype=np.bool_)])
        capacity._occupancy = self._occupancy.copy()
        capacity._occupancy.add_nodes(nodes[len(nodes) - added :])
        capacity._domains = self._domains_of(capacity, None, self._domains.changed)
        capacity._choices = self._choices
        return capacity

    def reasons(self, pod: Pod) -> Mapping[str, int]:
        """Return why nodes cannot take *pod*, in the words of the scheduler.

        Returns:
            How many nodes fail for each reason. A node counts for the first check that fails, in the order of the
            scheduler; for every resource of which it has too little. Sorted by reason.
        """
        counts: dict[str, int] = {}
        left: BoolColumn = self._present.copy()
        left[len(self._rows.real) :] = False
        for group in self._checks(pod):
            failing = [(reason, left & ~mask) for reason, mask in group]
            for reason, mask in failing:
                if number := int(np.count_nonzero(mask)):
                    counts[reason] = counts.get(reason, 0) + number
            for _, mask in failing:
                left &= ~mask
        return dict(sorted(counts.items()))

    def _checks(self, pod: Pod) -> Iterator[list[tuple[str, BoolColumn]]]:
        """Yield the checks in the order of the scheduler; those of one group are all reported."""
        rows, shape = self._rows, pod.shape
        yield [(CLOSED, self._open)]
        yield [(CORDONED, rows.uncordoned(shape))]
        yield [(TAINTED, rows.tolerated(shape))]
        yield [(NOT_SELECTED, rows.selected(shape))]
        for port in self._ports(pod):
            yield [port]
        yield list(self._resources(pod))
        yield [(VOLUME_ELSEWHERE, rows.reached(shape))]
        for check in self._topology(pod):
            yield [check]

    def _resources(self, pod: Pod) -> Iterator[tuple[str, BoolColumn]]:
        for resource, amount in pod.requests.items():
            if amount > 0:
                reason = TOO_MANY if resource == PODS else f"Insufficient {resource}"
                yield reason, self._occupancy.free(resource) >= amount

    def _ports(self, pod: Pod) -> Iterator[tuple[str, BoolColumn]]:
        for port in pod.shape.host_ports:
            yield NO_PORTS, self._occupancy.without_ports(port)

    def _topology(self, pod: Pod) -> Iterator[tuple[str, BoolColumn]]:
        domains = self._domains
        yield from domains.spread(pod)
        for reason, rule in (
            (NO_AFFINITY, domains.affine),
            (ANTI_AFFINITY, domains.apart),
            (KEPT_AWAY, domains.welcome),
        ):
            if (held := rule(pod)) is not None:
                yield reason, held

    def _change(self, pod: Pod, node: str, sign: int) -> None:
        if (row := self._rows.find(node)) is None:
            raise KeyError(node)
        self._domains.change(self._occupancy.change(pod, row, node, sign), row, sign)
        if sign < 0:  # a kind of pod may fit on the node now that did not
            self._choices = None

    def _roomy(self, pod: Pod) -> BoolColumn:
        """Return which nodes could take *pod* as far as that does not depend on pods of other nodes; as `feasible`."""
        mask: BoolColumn = self._open & self._rows.accepting(pod.shape)
        for _, held in (*self._resources(pod), *self._ports(pod)):
            mask &= held
        return mask

    def _first_allowed(self, pod: Pod, rows: Iterator[int]) -> str | None:
        """Return the first node of *rows* where affinity and spread allow *pod*."""
        row = next(rows, None)
        if row is None or not self._domains.matter(pod):
            return None if row is None else self.names[row]
        allowed = self.topology(pod)
        return next((self.names[each] for each in chain((row,), rows) if allowed[each]), None)

    def _takes(self, pod: Pod, row: int) -> bool:
        """Say whether a node that could take *pod* once still has room for it."""
        occupancy, ports = self._occupancy, pod.shape.host_ports
        return (
            bool(self._open[row])
            and all(occupancy.free(key)[row] >= amount for key, amount in pod.requests.items() if amount > 0)
            and all(occupancy.without_ports(port)[row] for port in ports)
        )

    def _but(self, names: Iterable[str]) -> BoolColumn:
        """Return all nodes but those of *names*; names that are not known make no difference."""
        mask = np.ones(len(self._rows), dtype=np.bool_)
        for name in names:
            if (row := self._rows.find(name)) is not None:
                mask[row] = False
        return mask


def _asked(several: Iterable[Load]) -> Iterator[PodShape]:
    for load in several:
        yield from load.asking


_MOST_ROWS: Final = 32
"""How many nodes are kept for a kind of pod: more than may differ in a state that asks."""


@dataclass(frozen=True, slots=True)
class FeasibleNodes:
    """Nodes that have room for a kind of pod.

    Args:
        rows: The first of them, in the order in which they are taken.
        are_all: There are no others.
    """

    rows: tuple[int, ...]
    are_all: bool


class FeasibilityIndex:
    """Which nodes have room for each kind of pod.

    Args:
        roomy: Returns which nodes have room for a pod, in a state that does not change any more.
        initialized: The nodes that come before others; shape (nodes,).
    """

    def __init__(self, roomy: Callable[[Pod], BoolColumn], initialized: BoolColumn) -> None:
        self._roomy = roomy
        self._initialized = initialized
        self._known: dict[int, tuple[PodShape, FeasibleNodes]] = {}

    def of(self, pod: Pod) -> FeasibleNodes:
        """Return the nodes that have room for *pod*."""
        if (cached := self._known.get(id(pod.shape))) is None:  # the shape is kept, so that its id stays its own
            cached = self._known[id(pod.shape)] = pod.shape, self._made(pod)
        return cached[1]

    def _made(self, pod: Pod) -> FeasibleNodes:
        mask = self._roomy(pod)[: len(self._initialized)]
        first, others = np.flatnonzero(mask & self._initialized), np.flatnonzero(mask & ~self._initialized)
        rows = (*first[:_MOST_ROWS].tolist(), *others[:_MOST_ROWS].tolist())
        return FeasibleNodes(rows[:_MOST_ROWS], len(first) + len(others) <= _MOST_ROWS)


class SimulatedCapacity(ClusterCapacity):
    """The nodes of a cluster and what is free on them, while nodes come and go."""

    def add(self, nodes: Sequence[ClusterNode]) -> None:
        """Take in nodes, without pods."""
        if not nodes:
            return
        more = np.ones(len(nodes), dtype=np.bool_)
        self._rows = NodeRows((*self._rows.nodes, *nodes))
        self.names = (*self.names, *(node.name for node in nodes))
        self._present = np.concatenate([self._present, more])
        self._open = np.concatenate([self._open, more])
        self._occupancy.add_nodes(nodes)
        self._domains = Domains(self._rows, self._present, self._occupancy, self._domains.terms)

    def lose(self, names: Collection[str]) -> None:
        """Forget nodes, with the pods that are on them."""
        remaining = self._but(names)
        self._present = self._present & remaining
        self._open = self._open & remaining
        self._domains = Domains(self._rows, self._present, self._occupancy, self._domains.terms)

    def place_pods(self, pods: Iterable[Pod], node: str) -> None:
        """Put pods on a node that is there; finished ones take nothing."""
        for pod in pods:
            if not pod.finished:
                self.place(pod, node)

    def remove_pods(self, pods: Iterable[Pod], node: str) -> None:
        """Take pods off a node that is there."""
        for pod in pods:
            if not pod.finished:
                self.remove(pod, node)
