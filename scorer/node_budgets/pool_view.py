"""One node pool at one instant: its nodes, what is held of them, and when its budgets let some go.

Source: nodepool-disruption.md 4.1, 14.1 and 14.2.
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
from scorer.node_budgets.budgets import NodeCounts, understood
from scorer.node_budgets.nodes import PoolNode, count_nodes
from scorer.node_budgets.opening import Opening, opening_of
from scorer.node_budgets.wording import shortened
from scorer.reservations import Reservation, held_nodes, in_force

_MOST_ENDS: Final = 32
"""Ends of reservations that are looked at when it is asked when a pool opens: the first ones, and the last."""


@dataclass(frozen=True, slots=True)
class PoolView:
    """One pool at one instant.

    Args:
        name: Of the NodePool.
        budgets: Its disruption budgets; kept as `scorer.node_budgets.budgets.PoolBudgets`.
        nodes: All nodes with its label, by name, also those that do not count yet.
        held_nodes: Names of nodes that are promised to somebody.
        held_count: How many more are promised without names.
        reserved: The reservations among what is held, of which is known by whom and until when.
        template_do_not_disrupt: The pool's template forbids disruption, and that holds for nodes that are there.
        blockers: What keeps a node from being disrupted, but for what is held and the template.
        counted: The nodes counted, with nothing held, where somebody knows; None: nobody has counted them.
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
        object.__setattr__(self, "budgets", understood(self.budgets))  # else every question would read them anew

    def counts(self, observed: NodeCounts | None = None) -> NodeCounts:
        """Count the nodes; what is held and not yet being deleted counts as if it were.

        Args:
            observed: What somebody else has counted; nodes that are held count besides those.
        """
        held = [node for name in self.held_nodes if (node := self.nodes.get(name)) and node.counts and not node.going]
        if observed is not None:
            return _with_deleting(observed, len(held) + self.held_count)
        counted = count_nodes(self.nodes.values()) if self.counted is None else self.counted
        not_ready = sum(not node.ready for node in held)
        counted = NodeCounts(counted.total, counted.deleting + len(held), counted.not_ready - not_ready)
        return _with_deleting(counted, self.held_count)

    def blockers_of(self, name: str, class_: DisruptionClass, now: datetime) -> tuple[Blocker, ...]:
        """Return all that keeps one of the nodes from being disrupted, budgets apart."""
        node = self.nodes[name]
        found = self.blockers(node, class_, now)
        if name in self.held_nodes and not node.going:
            found = (self._reserved_blocker(name), *found)
        return (*found, template_blocker(self.name)) if self.template_do_not_disrupt else found

    def disrupting(self, reason: str) -> tuple[str, ...]:
        """Return the names of the nodes that use the budgets up for *reason*."""
        return tuple(
            name
            for name, node in self.nodes.items()
            if node.counts
            and (node.going or name in self.held_nodes or (not node.ready and reason != DisruptionReason.UNHEALTHY))
        )

    def with_held(self, nodes: Collection[str], count: int = 0) -> "PoolView":
        """Return the pool with more nodes held."""
        return replace(self, held_nodes=self.held_nodes | frozenset(nodes), held_count=self.held_count + count)

    def with_reservations(self, reservations: Iterable[Reservation]) -> "PoolView":
        """Return the pool with these reservations held as well; they are in force."""
        more = tuple(reservations)
        return replace(self.with_held(*held_nodes(more)), reserved=(*self.reserved, *more))

    def counting(self) -> tuple[Reservation, ...]:
        """Return the reservations that use a budget up, by their end: of a node that goes already it does itself."""
        return tuple(sorted((each for each in self.reserved if self._counts(each)), key=lambda each: each.expires))

    def opening(self, reason: str, wanted: int, now: datetime, observed: NodeCounts | None = None) -> Opening:
        """Return when the budgets let so many nodes go, now or later.

        What is reserved is let go of at its end at the latest; all else stays as it is now.
        """

        def opening(start: datetime) -> Opening:
            return opening_of(understood(self.budgets).at(start), self.as_of(start).counts(observed), reason, wanted)

        found = opening(now)
        ends = sorted({each.expires for each in self.counting() if each.expires > now})
        for end in (*ends[: _MOST_ENDS - 1], *ends[_MOST_ENDS - 1 :][-1:]):
            if found.instant is not None and found.instant <= end:
                break
            later = opening(end)
            if later.instant is not None and (found.instant is None or later.instant < found.instant):
                found = replace(found, instant=later.instant, searched_until=None)
        return found

    def as_of(self, instant: datetime) -> "PoolView":
        """Return the pool without the reservations that will have ended by *instant*."""
        left = in_force(self.reserved, instant)
        if len(left) == len(self.reserved):
            return self
        names, count = held_nodes(each for each in self.reserved if each not in left)
        kept = (self.held_nodes - names) | held_nodes(left)[0]
        return replace(self, held_nodes=kept, held_count=self.held_count - count, reserved=left)

    def _counts(self, reservation: Reservation) -> bool:
        if isinstance(reservation.granted, int):
            return reservation.granted > 0
        return any((node := self.nodes.get(name)) and node.counts and not node.going for name in reservation.granted)

    def _reserved_blocker(self, name: str) -> Blocker:
        """Return by whom a node is held the longest."""
        holding = [each for each in self.reserved if not isinstance(each.granted, int) and name in each.granted]
        last = max(holding, key=lambda each: each.expires, default=None)
        return reserved_blocker() if last is None else reserved_blocker(shortened(last.holder), last.expires)


def _with_deleting(counts: NodeCounts, more: int) -> NodeCounts:
    """Return *counts* with *more* nodes being deleted; when there are not as many others, those not ready are."""
    deleting = min(counts.total, counts.deleting + more)
    return NodeCounts(counts.total, deleting, min(counts.not_ready, counts.total - deleting))
