"""One node pool at one instant: its nodes, its reservations, and when its budgets allow a disruption.

Source: docs/specifications/nodepool-disruption.md 4.1, 14.1 and 14.2.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from scorer.api.node_pool import Budget, DisruptionReason
from scorer.node_budgets.blockers import (
    Blocker,
    DisruptionClass,
    reserved_blocker,
    state_blockers,
    template_blocker,
)
from scorer.node_budgets.budgets import NodeCounts, parse_budgets
from scorer.node_budgets.nodes import PoolNode, count_nodes
from scorer.node_budgets.opening import Opening, opening_of
from scorer.node_budgets.wording import shortened
from scorer.reservations import Reservation, held_nodes, in_force

_MOST_ENDS: Final = 32
"""Maximum number of ends of reservations that the search for an opening tries: the first ones, and the last."""


@dataclass(frozen=True, slots=True)
class PoolView:
    """One pool at one instant.

    Args:
        name: Name of the NodePool.
        budgets: Disruption budgets, parsed as `scorer.node_budgets.budgets.BudgetSet`.
        nodes: All nodes with its label, by name, including those that do not count yet.
        held_nodes: Names of reserved nodes.
        held_count: Number of further nodes reserved by number only.
        reserved: The reservations with a known holder and end.
        template_do_not_disrupt: Whether the pool's template forbids disruption, and that applies to its existing nodes.
        blockers: Returns the blockers of a node, except for reservations and the template.
        counted: The counts without reservations, cached by the caller. None means that they are counted from *nodes*.
    """

    name: str
    budgets: tuple[Budget, ...]
    nodes: Mapping[str, PoolNode] = field(default_factory=dict)
    held_nodes: frozenset[str] = frozenset()
    held_count: int = 0
    reserved: tuple[Reservation, ...] = ()
    template_do_not_disrupt: bool = False
    blockers: Callable[[PoolNode, DisruptionClass, datetime], tuple[Blocker, ...]] = state_blockers
    counted: NodeCounts | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "budgets", parse_budgets(self.budgets))  # parsed once, not per question

    def counts(self, observed: NodeCounts | None = None) -> NodeCounts:
        """Count the nodes. A reserved node counts as deleting, although its deletion has not started.

        Args:
            observed: Counts made by the caller. Reserved nodes are added to them.
        """
        reserved_nodes = [
            node for name in self.held_nodes if (node := self.nodes.get(name)) and node.counts and not node.disrupting
        ]
        if observed is not None:
            return _with_deleting(observed, len(reserved_nodes) + self.held_count)
        node_counts = count_nodes(self.nodes.values()) if self.counted is None else self.counted
        not_ready = sum(not node.ready for node in reserved_nodes)
        node_counts = NodeCounts(
            node_counts.total, node_counts.deleting + len(reserved_nodes), node_counts.not_ready - not_ready
        )
        return _with_deleting(node_counts, self.held_count)

    def blockers_of(self, name: str, class_: DisruptionClass, now: datetime) -> tuple[Blocker, ...]:
        """Return all blockers of a node, except for budgets."""
        node = self.nodes[name]
        blockers = self.blockers(node, class_, now)
        if name in self.held_nodes and not node.disrupting:
            blockers = (self._reserved_blocker(name), *blockers)
        return (*blockers, template_blocker(self.name)) if self.template_do_not_disrupt else blockers

    def disrupting(self, reason: str) -> tuple[str, ...]:
        """Return the names of the nodes that count against the budgets for *reason*."""
        return tuple(
            name
            for name, node in self.nodes.items()
            if node.counts
            and (
                node.disrupting or name in self.held_nodes or (not node.ready and reason != DisruptionReason.UNHEALTHY)
            )
        )

    def with_held(self, nodes: Collection[str], count: int = 0) -> "PoolView":
        """Return the pool with more nodes reserved."""
        return replace(self, held_nodes=self.held_nodes | frozenset(nodes), held_count=self.held_count + count)

    def with_reservations(self, reservations: Iterable[Reservation]) -> "PoolView":
        """Return the pool with additional reservations, which must be in force."""
        more = tuple(reservations)
        return replace(self.with_held(*held_nodes(more)), reserved=(*self.reserved, *more))

    def counting(self) -> tuple[Reservation, ...]:
        """Return the reservations that count against a budget, sorted by their end.

        A node that is already in disruption is counted as such, so its reservation must not count again.
        """
        return tuple(
            sorted(
                (reservation for reservation in self.reserved if self._counts(reservation)),
                key=lambda reservation: reservation.expires,
            )
        )

    def opening(self, reason: str, requested: int, now: datetime, observed: NodeCounts | None = None) -> Opening:
        """Return when the budgets allow *requested* nodes to be disrupted, now or later.

        Each reservation is assumed to last until its end. Nothing else changes.
        """

        def opening(start: datetime) -> Opening:
            return opening_of(
                parse_budgets(self.budgets).at(start), self.as_of(start).counts(observed), reason, requested
            )

        earliest = opening(now)
        ends = sorted({reservation.expires for reservation in self.counting() if reservation.expires > now})
        for end in (*ends[: _MOST_ENDS - 1], *ends[_MOST_ENDS - 1 :][-1:]):
            if earliest.instant is not None and earliest.instant <= end:
                break
            later = opening(end)
            if later.instant is not None and (earliest.instant is None or later.instant < earliest.instant):
                earliest = replace(earliest, instant=later.instant, searched_until=None)
        return earliest

    def as_of(self, instant: datetime) -> "PoolView":
        """Return the pool without the reservations that will have ended by *instant*."""
        remaining = in_force(self.reserved, instant)
        if len(remaining) == len(self.reserved):
            return self
        names, count = held_nodes(reservation for reservation in self.reserved if reservation not in remaining)
        remaining_nodes = (self.held_nodes - names) | held_nodes(remaining)[0]
        return replace(self, held_nodes=remaining_nodes, held_count=self.held_count - count, reserved=remaining)

    def _counts(self, reservation: Reservation) -> bool:
        if isinstance(reservation.granted, int):
            return reservation.granted > 0
        return any(
            (node := self.nodes.get(name)) and node.counts and not node.disrupting for name in reservation.granted
        )

    def _reserved_blocker(self, name: str) -> Blocker:
        """Return the blocker of the longest reservation of a node."""
        reservations = [
            reservation
            for reservation in self.reserved
            if not isinstance(reservation.granted, int) and name in reservation.granted
        ]
        last = max(reservations, key=lambda reservation: reservation.expires, default=None)
        return reserved_blocker() if last is None else reserved_blocker(shortened(last.holder), last.expires)


def _with_deleting(counts: NodeCounts, more: int) -> NodeCounts:
    """Return *counts* with *more* nodes deleting.

    The total is kept by reducing the number of unready nodes if necessary.
    """
    deleting = min(counts.total, counts.deleting + more)
    return NodeCounts(counts.total, deleting, min(counts.not_ready, counts.total - deleting))
