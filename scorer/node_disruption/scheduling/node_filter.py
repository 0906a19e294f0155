"""Node filter: which nodes accept a pod, by the rules of the scheduler's filter plugins.

Preferences and scores are ignored: the stricter shapes of a pod represent its preferences. ``spec.nodeName`` is only
the present location. As a requirement, it would tie a moved pod to its old node.

Source: docs/specifications/nodepool-disruption.md 6.3; Kubernetes v1.36 ``pkg/scheduler/framework/plugins``.

Planning evaluates the filter in thousands of states that differ in a few nodes. `FeasibilityIndex` caches their common
part. `SimulatedCapacity` adds and removes nodes in place.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from scorer.columns import BoolColumn
from scorer.node_disruption.cluster.constraints import PodShape
from scorer.node_disruption.cluster.pod import Pod
from scorer.node_disruption.cluster.requirements import Allowed
from scorer.node_disruption.cluster.resources import PODS
from scorer.node_disruption.cluster.snapshot import ClusterNode, ClusterSnapshot
from scorer.node_disruption.instance_types.new_domains import NewDomains
from scorer.node_disruption.instance_types.new_node import NewNode
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
    PresentNodes,
    Terms,
)

CLOSED: Final = "node(s) accept no more pods"
NO_PORTS: Final = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY: Final = "Too many pods"


@dataclass(frozen=True, slots=True)
class NodeView:
    """Rules that decide which nodes could take a pod.

    Args:
        new: Domains that new nodes could open. The provisioner counts them when it spreads pods. Unset for the
            scheduler, which counts only the domains of existing nodes.
        moved: Whether the pod moves from a candidate. Nodes within their consolidateAfter do not take it.
    """

    new: NewDomains | None = None
    moved: bool = False


class ClusterCapacity:
    """Nodes of a cluster with their free resources. Pods can be placed and removed.

    Args:
        cluster: Initial state.
        without: Names of nodes that are removed with their pods.
        closed: Names of nodes that keep their pods but accept no more.
        previous: An earlier capacity of the same cluster, whose node loads are reused if their pods are unchanged.
            None: unset.
    """

    def __init__(
        self,
        cluster: ClusterSnapshot,
        *,
        without: Collection[str] = (),
        closed: Collection[str] = (),
        previous: "ClusterCapacity | None" = None,
    ) -> None:
        self._rows = NodeRows([node for _, node in sorted(cluster.nodes.items())])
        self.names: tuple[str, ...] = tuple(node.name for node in self._rows.nodes)
        present = self._but(without)
        self._nodes = PresentNodes(present, present)
        self._open = self._for_moved = present & self._but(closed)
        self._loads: Mapping[str, Load] = loads(cluster, previous._loads if previous else {})
        other_shapes = shapes_with_affinity((*cluster.pending, *cluster.daemons))
        shapes = {id(shape): shape for shape in (*_requested_shapes(self._loads.values()), *other_shapes)}
        rows = [self._loads.get(name, NOTHING) for name in self.names]
        counts = PodCounts(rows, shapes.values(), cluster.namespaces)
        for pod in cluster.pending:  # makes the counted terms independent of earlier calls
            counts.carried(pod.shape)
        self._occupancy = Occupancy(self._rows.nodes, rows, counts)
        terms = {id(shape): (shape, Terms.of(shape, counts)) for shape in shapes.values()}
        self._domains = Domains(self._rows, self._nodes, self._occupancy, terms)
        self._choices: FeasibilityIndex | None = None

    def feasible(self, pod: Pod, view: "NodeView" = NodeView()) -> BoolColumn:
        """Return which nodes accept *pod*.

        Args:
            pod: Pod to place.
            view: Rules that apply.

        Returns:
            Shape (nodes,), in the order of `names`. False for removed and closed nodes.
        """
        mask = self._roomy(pod, self._accepting_nodes(view))
        for _, allowed in self._topology(pod, view):
            mask &= allowed
        return mask

    def first(self, pod: Pod, view: "NodeView" = NodeView()) -> str | None:
        """Return the node for *pod* among those that accept it: initialized ones first, then by name.

        Returns:
            Its name, or None if no node accepts it.
        """
        if self._choices is not None and view.moved:
            choice, changed = self._choices.of(pod), self._domains.changed
            rows = (row for row in choice.rows if row not in changed or self._takes(pod, row))
            row = self._first_allowed(pod, rows, view)
            if row is not None or choice.are_all:
                return row
        mask = self.feasible(pod, view)
        if not mask.any():
            return None
        best = mask & self.initialized
        return self.names[int((best if best.any() else mask).argmax())]

    def has_room(self, pod: Pod) -> bool:
        """Return whether any node has room for *pod*, regardless of affinity and spread."""
        if self._choices is None:
            return bool(self._roomy(pod, self._for_moved).any())
        choice = self._choices.of(pod)
        return not choice.are_all or any(self._for_moved[row] for row in choice.rows)

    def topology(self, pod: Pod, view: "NodeView" = NodeView()) -> BoolColumn:
        """Return where pod affinity and topology spread allow *pod*, ignoring all other rules. Shape as `feasible`."""
        mask: BoolColumn = self._nodes.present.copy()
        for _, allowed in self._topology(pod, view):
            mask &= allowed
        return mask

    def choices(
        self, pod: Pod, node: NewNode, requirements: Mapping[str, Allowed], new: NewDomains
    ) -> Iterator[Mapping[str, Allowed]]:
        """Yield requirements on a new node under which affinity and spread allow *pod*. See `Domains.choices`."""
        return self._domains.choices(pod, node, requirements, new)

    def follow(self, pods: Iterable[Pod]) -> None:
        """Count pods on new nodes for the constraints of *pods* from now on. Call this before the first `record`."""
        self._domains.follow(pods)

    def record(self, pod: Pod, node: NewNode) -> None:
        """Count *pod* on a new node for the constraints of other pods."""
        self._domains.record(pod, node)

    @property
    def size(self) -> int:
        """Number of nodes, including closed ones."""
        return int(np.count_nonzero(self._nodes.present))

    @property
    def initialized(self) -> BoolColumn:
        """The initialized nodes, as a column in the order of `names`."""
        return self._rows.initialized

    def queue(self, node: str) -> Sequence[Pod]:
        """Return the initial pods of a node that must be rescheduled if it is removed, in `node_load.queue_order`."""
        return self._loads.get(node, NOTHING).queue

    def place(self, pod: Pod, node: str) -> None:
        """Place *pod* on a node without checking whether it fits.

        Raises:
            KeyError: The node does not exist.
        """
        self._change(pod, node, 1)

    def remove(self, pod: Pod, node: str) -> None:
        """Remove *pod* from a node.

        Raises:
            KeyError: The node does not exist.
        """
        self._change(pod, node, -1)

    def without(self, names: Collection[str], *, closed: Collection[str] = ()) -> "ClusterCapacity":
        """Return a copy without the named nodes and their pods.

        Args:
            names: Names of the nodes to remove.
            closed: Names of nodes that accept no more pods.
        """
        left = self._but(names)
        state = self._with_changes(PresentNodes(left, left), names) if names else self._with_changes()
        state._close(closed)
        return state

    def drained(self, pods: Mapping[str, Iterable[Pod]]) -> "ClusterCapacity":
        """Return a copy with draining nodes.

        A draining node accepts no pods and is not a domain by itself. Its remaining pods, such as static ones, still
        count for affinity and spread.

        Args:
            pods: Pods to evict, by node name.
        """
        state = self._with_changes(PresentNodes(self._but(pods), np.ones(len(self._rows), dtype=np.bool_)), pods)
        for name, leaving_pods in pods.items():
            if (row := self._rows.find(name)) is not None:
                for pod in leaving_pods:
                    state._domains.change(state._occupancy.discount(pod, row), row, -1)
        return state

    def resting(self, names: Collection[str]) -> "ClusterCapacity":
        """Return a copy whose named nodes accept no pods that move from candidates."""
        state = self._with_changes()
        state._for_moved = state._for_moved & self._but(names)
        state._choices = None
        return state

    def settled(self) -> "ClusterCapacity":
        """Return a copy of the same state that is optimized as the base of many others."""
        changed, unchanged = self._with_changes(), self._with_changes()
        unchanged._domains = self._domains_of(unchanged)
        changed._domains = self._domains_of(changed, unchanged._domains)
        changed._choices = FeasibilityIndex(
            lambda pod: unchanged._roomy(pod, unchanged._for_moved), unchanged.initialized
        )
        return changed

    def _with_changes(self, nodes: PresentNodes | None = None, names: Iterable[str] = ()) -> "ClusterCapacity":
        """Return a copy with *nodes* as present nodes, which differ in *names*."""
        state = ClusterCapacity.__new__(ClusterCapacity)
        state._rows, state.names, state._loads = self._rows, self.names, self._loads
        state._nodes, state._open, state._for_moved = self._nodes, self._open, self._for_moved
        if nodes is not None:
            state._nodes = self._nodes.without(nodes.present, nodes.counted)
            state._open, state._for_moved = self._open & nodes.present, self._for_moved & nodes.present
        state._occupancy = self._occupancy.copy()
        changed = self._domains.changed.union(row for name in names if (row := self._rows.find(name)) is not None)
        state._domains = self._domains_of(state, self._domains.base, changed)
        state._choices = self._choices
        return state

    def _close(self, names: Collection[str]) -> None:
        if names:
            left = self._but(names)
            self._open, self._for_moved, self._choices = self._open & left, self._for_moved & left, None

    def _domains_of(
        self, state: "ClusterCapacity", base: Domains | None = None, changed: Iterable[int] = ()
    ) -> Domains:
        return Domains(state._rows, state._nodes, state._occupancy, self._domains.terms, base, changed)

    def reasons(self, pod: Pod, view: "NodeView" = NodeView()) -> Mapping[str, int]:
        """Return why nodes do not accept *pod*, in the words of the scheduler.

        Returns:
            Number of nodes per reason, sorted by reason. A node counts for the first failing check in scheduler order,
            and within it for each insufficient resource.
        """
        counts: dict[str, int] = {}
        left: BoolColumn = self._nodes.present.copy()
        for group in self._checks(pod, view):
            failures = [(reason, left & ~mask) for reason, mask in group]
            for reason, mask in failures:
                if number := int(np.count_nonzero(mask)):
                    counts[reason] = counts.get(reason, 0) + number
            for _, mask in failures:
                left &= ~mask
        return dict(sorted(counts.items()))

    def _checks(self, pod: Pod, view: "NodeView") -> Iterator[list[tuple[str, BoolColumn]]]:
        """Yield the checks in scheduler order. All failures of one group are reported."""
        rows, shape = self._rows, pod.shape
        yield [(CLOSED, self._accepting_nodes(view))]
        yield [(CORDONED, rows.uncordoned(shape))]
        yield [(TAINTED, rows.tolerated(shape))]
        yield [(NOT_SELECTED, rows.selected(shape))]
        for port in self._ports(pod):
            yield [port]
        yield list(self._resources(pod))
        yield [(VOLUME_ELSEWHERE, rows.reached(shape))]
        for check in self._topology(pod, view):
            yield [check]

    def _accepting_nodes(self, view: "NodeView") -> BoolColumn:
        """Return the nodes that accept pods at all."""
        return self._for_moved if view.moved else self._open

    def _resources(self, pod: Pod) -> Iterator[tuple[str, BoolColumn]]:
        for resource, amount in pod.requests.items():
            if amount > 0:
                reason = TOO_MANY if resource == PODS else f"Insufficient {resource}"
                yield reason, self._occupancy.free(resource) >= amount

    def _ports(self, pod: Pod) -> Iterator[tuple[str, BoolColumn]]:
        for port in pod.shape.host_ports:
            yield NO_PORTS, self._occupancy.without_ports(port)

    def _topology(self, pod: Pod, view: "NodeView") -> Iterator[tuple[str, BoolColumn]]:
        domains = self._domains
        yield from domains.spread(pod, view.new)
        for reason, rule in (
            (NO_AFFINITY, domains.affine),
            (ANTI_AFFINITY, domains.apart),
            (KEPT_AWAY, domains.welcome),
        ):
            if (allowed := rule(pod)) is not None:
                yield reason, allowed

    def _change(self, pod: Pod, node: str, sign: int) -> None:
        if (row := self._rows.find(node)) is None:
            raise KeyError(node)
        self._domains.change(self._occupancy.change(pod, row, node, sign), row, sign)
        if sign < 0:  # the node may now fit kinds of pods that it did not before
            self._choices = None

    def _roomy(self, pod: Pod, accepting: BoolColumn) -> BoolColumn:
        """Return which nodes accept *pod* by all rules that do not depend on pods of other nodes.

        Shape as `feasible`.
        """
        mask: BoolColumn = accepting & self._rows.accepting(pod.shape)
        for _, allowed in (*self._resources(pod), *self._ports(pod)):
            mask &= allowed
        return mask

    def _first_allowed(self, pod: Pod, rows: Iterator[int], view: "NodeView") -> str | None:
        """Return the first node of *rows* where affinity and spread allow *pod*, or None."""
        row = next(rows, None)
        if row is None or not self._domains.matter(pod):
            return None if row is None else self.names[row]
        allowed_nodes = self.topology(pod, view)
        return next((self.names[node_row] for node_row in chain((row,), rows) if allowed_nodes[node_row]), None)

    def _takes(self, pod: Pod, row: int) -> bool:
        """Return whether a previously feasible node still has room for *pod*."""
        occupancy, ports = self._occupancy, pod.shape.host_ports
        return (
            bool(self._for_moved[row])
            and all(occupancy.free(key)[row] >= amount for key, amount in pod.requests.items() if amount > 0)
            and all(occupancy.without_ports(port)[row] for port in ports)
        )

    def _but(self, names: Iterable[str]) -> BoolColumn:
        """Return all nodes except for *names*. Unknown names are ignored."""
        mask = np.ones(len(self._rows), dtype=np.bool_)
        for name in names:
            if (row := self._rows.find(name)) is not None:
                mask[row] = False
        return mask


def _requested_shapes(node_loads: Iterable[Load]) -> Iterator[PodShape]:
    for load in node_loads:
        yield from load.asking


_MOST_ROWS: Final = 32
"""Maximum number of nodes cached per kind of pod. A derived state must differ in fewer nodes."""


@dataclass(frozen=True, slots=True)
class FeasibleNodes:
    """Nodes with room for a kind of pod.

    Args:
        rows: Rows of the first nodes by precedence, at most `_MOST_ROWS`.
        are_all: Whether *rows* contains every such node.
    """

    rows: tuple[int, ...]
    are_all: bool


class FeasibilityIndex:
    """Cache of the nodes with room for each kind of pod.

    Args:
        roomy: Returns the nodes with room for a pod in a state that no longer changes.
        initialized_nodes: Nodes that have precedence. Shape (nodes,).
    """

    def __init__(self, roomy: Callable[[Pod], BoolColumn], initialized_nodes: BoolColumn) -> None:
        self._roomy = roomy
        self._initialized = initialized_nodes
        self._cache: dict[int, tuple[PodShape, FeasibleNodes]] = {}

    def of(self, pod: Pod) -> FeasibleNodes:
        """Return the nodes that have room for *pod*."""
        if (nodes := self._cache.get(id(pod.shape))) is None:  # keeps the shape alive: its id is not reused
            nodes = self._cache[id(pod.shape)] = pod.shape, self._make(pod)
        return nodes[1]

    def _make(self, pod: Pod) -> FeasibleNodes:
        mask = self._roomy(pod)[: len(self._initialized)]
        first, uninitialized = np.flatnonzero(mask & self._initialized), np.flatnonzero(mask & ~self._initialized)
        rows = (*first[:_MOST_ROWS].tolist(), *uninitialized[:_MOST_ROWS].tolist())
        return FeasibleNodes(rows[:_MOST_ROWS], len(first) + len(uninitialized) <= _MOST_ROWS)


class SimulatedCapacity(ClusterCapacity):
    """A capacity whose nodes can be added and removed in place."""

    def add(self, nodes: Sequence[ClusterNode]) -> None:
        """Add nodes without pods."""
        if not nodes:
            return
        more = np.ones(len(nodes), dtype=np.bool_)
        self._rows = NodeRows((*self._rows.nodes, *nodes))
        self.names = (*self.names, *(node.name for node in nodes))
        self._nodes = PresentNodes(
            *(np.concatenate([mask, more]) for mask in (self._nodes.present, self._nodes.counted))
        )
        self._open = self._for_moved = np.concatenate([self._open, more])
        self._occupancy.add_nodes(nodes)
        self._domains = self._domains_of(self)

    def lose(self, names: Collection[str]) -> None:
        """Remove nodes with their pods."""
        remaining = self._but(names)
        self._nodes = self._nodes.without(remaining, remaining)
        self._open = self._for_moved = self._open & remaining
        self._domains = self._domains_of(self)

    def place_pods(self, pods: Iterable[Pod], node: str) -> None:
        """Place pods on an existing node. Finished ones use no resources."""
        for pod in pods:
            if not pod.finished:
                self.place(pod, node)

    def remove_pods(self, pods: Iterable[Pod], node: str) -> None:
        """Remove pods from an existing node."""
        for pod in pods:
            if not pod.finished:
                self.remove(pod, node)
