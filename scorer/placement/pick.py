"""Choosing among candidates: by rank, or one at a time while the spread changes.

Rank: topology score, affinity score, tie bonus, name, each descending (scheduling.md 13).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scorer.columns import BoolColumn, IntColumn, RowColumn
from scorer.fleet import Fleet
from scorer.plugins.topology_spread import VIOLATION_POINTS, Constraint, domain_counts


@dataclass(frozen=True, slots=True)
class Ranks:
    """The sort keys of some candidates.

    Args:
        rows: Shape (candidates,), ascending.
        topology: Points of the spread constraints. If None, 0 each.
        affinity: Points of the preferences. If None, 0 each.
        bonus: Whether the cluster holds an obsolete binding. If None, no cluster does.
    """

    rows: RowColumn
    topology: IntColumn | None
    affinity: IntColumn | None
    bonus: BoolColumn | None

    def best(self, count: int) -> RowColumn:
        """Return the positions of the best *count* candidates, in rank order.

        Among many candidates, one pass finds the weakest key that is still picked. Only keys at or above it are sorted.
        """
        size = self.rows.size
        key = self._key()
        if key is None:
            return np.arange(size)[::-1][:count]
        if size <= _FEW or count >= size:
            return np.argsort(_narrow(key), kind="stable")[::-1][:count]
        if count == 0:
            return np.arange(0)
        weakest = np.partition(key, size - count)[size - count]
        best_rows = np.flatnonzero(key >= weakest)
        return best_rows[np.argsort(_narrow(key[best_rows]), kind="stable")[::-1][:count]]

    def _key(self) -> IntColumn | None:
        """Fold topology, affinity and bonus into one integer per row. Return None without rows or keys.

        The position breaks ties, larger name first.

        Example: with affinities from 10 to 14 the span is 5, so topology 2 and affinity 11 give 2 * 5 + (11 - 10) = 11.
        One more point of topology always outweighs every affinity, as in a comparison of tuples, but only one array has
        to be sorted.
        """
        if self.rows.size == 0:
            return None
        key = self.topology
        if key is None:
            key = self.affinity
        elif self.affinity is not None:
            low = int(self.affinity.min())
            span = int(self.affinity.max()) - low + 1
            key = key * span + (self.affinity - low)
        if self.bonus is not None:
            key = self.bonus.astype(np.int64) if key is None else key * 2 + self.bonus
        return key


_FEW = 4096
"""Up to this many candidates, all are sorted: finding the weakest pick first would not pay."""


@dataclass(frozen=True, slots=True)
class SpreadPick:
    """One pick under spread constraints: position among the candidates, and the topology score of its batch."""

    position: int
    topology: int


def pick_spread(
    fleet: Fleet, constraints: Sequence[Constraint], ranks: Ranks, placed: BoolColumn, count: int
) -> tuple[list[SpreadPick], bool]:
    """Pick one cluster per batch, up to *count*, and evaluate the spread again before each pick.

    Candidates in the same domains form a group. They differ only by affinity and name, which do not change between
    batches. The verdict of a constraint on a domain depends only on the domain's count. Groups are therefore kept in
    one heap per combination of counts, and a batch evaluates only the combinations, which are few.

    Example: 1,000 clusters in 3 zones with 4, 4 and 5 placements form 3 groups in 2 heaps, (4,) and (5,). A batch
    evaluates two combinations instead of 1,000 candidates. A pick in the first zone moves only its group, into the heap
    (5,).

    Args:
        fleet: All member clusters.
        constraints: At least one.
        ranks: The candidates. Their topology scores are not used.
        placed: The taken clusters.
        count: Number of clusters to pick.

    Returns:
        The picks in order, and whether a batch found no candidate.
    """
    groups = _Groups(fleet, constraints, ranks, placed)
    sticky = [] if ranks.bonus is None else np.flatnonzero(ranks.bonus).tolist()
    picks: list[SpreadPick] = []
    while len(picks) < count:
        best = groups.best(sticky if not picks else ())
        if best is None:
            return picks, True
        picks.append(best)
        groups.take(best.position)
    return picks, False


_Counts: TypeAlias = tuple[int, ...]
"""Placements in the domain of a group, per constraint. -1: outside every domain."""


class _Tally:
    """The clusters placed in each domain of one constraint, and the extremes."""

    def __init__(self, counts: IntColumn) -> None:
        self.counts = counts.tolist()
        self.domains_with = Counter(self.counts)
        self.low, self.high = min(self.counts, default=0), max(self.counts, default=0)

    def add(self, domain: int) -> None:
        """Place one more in *domain*."""
        old_count = self.counts[domain]
        self.counts[domain] = old_count + 1
        self.domains_with[old_count] -= 1
        self.domains_with[old_count + 1] += 1
        self.high = max(self.high, old_count + 1)
        # No search for the new minimum: the domain that left the old one last is now one above it.
        if not self.domains_with[self.low]:
            self.low += 1

    def change(self, count: int) -> int:
        """Return the change of the skew by one more placement in a domain of *count*.

        The scalar form of `skew_change`.
        """
        if count == self.high:
            return 1
        return -1 if count == self.low and self.domains_with[count] == 1 else 0


class _Groups:
    """Candidates grouped by their domains, each group sorted by affinity and name, the best last."""

    def __init__(self, fleet: Fleet, constraints: Sequence[Constraint], ranks: Ranks, placed: BoolColumn) -> None:
        self.constraints = constraints
        size = ranks.rows.size
        affinity = np.zeros(size, dtype=np.int64) if ranks.affinity is None else ranks.affinity
        self.tallies = [_Tally(domain_counts(fleet, constraint.key, placed)) for constraint in constraints]
        combined_codes, most = np.zeros(size, dtype=np.int64), 1
        for constraint, tally in zip(constraints, self.tallies, strict=True):
            domains = len(tally.counts) + 1
            if most * domains > 2**62:  # renumber the groups so far: there are at most as many as candidates
                combined_codes, most = _renumber(combined_codes, most), size
            combined_codes, most = (
                combined_codes * domains + fleet.label(constraint.key).codes[ranks.rows] + 1,
                most * domains,
            )
        group_of_candidate = _renumber(combined_codes, most)
        sizes = np.bincount(group_of_candidate)
        by_affinity = np.argsort(_narrow(affinity), kind="stable")
        rank = np.empty_like(by_affinity)
        rank[by_affinity] = np.arange(size)
        order = by_affinity[np.argsort(_narrow(group_of_candidate[by_affinity]), kind="stable")]
        self.affinity: list[int] = affinity.tolist()
        self.of_candidate: list[int] = group_of_candidate.tolist()
        self.rank: list[int] = rank.tolist()
        self.order: list[int] = order.tolist()
        self.end: list[int] = np.cumsum(sizes).tolist()
        self.start = [0, *self.end[:-1]]
        self.gone: set[int] = set()
        examples = ranks.rows[order[self.start[: sizes.size]]]
        codes = (fleet.label(constraint.key).codes[examples].tolist() for constraint in constraints)
        self.domains: list[tuple[int, ...]] = list(zip(*codes, strict=True))
        self.counts: list[_Counts] = [()] * len(self.domains)
        self.head: list[int | None] = [None] * len(self.domains)
        self.standing: list[dict[int, list[int]]] = [{} for _ in constraints]
        self.heaps: dict[_Counts, list[tuple[int, int]]] = {}
        for group, group_domains in enumerate(self.domains):
            for groups_by_domain, domain in zip(self.standing, group_domains, strict=True):
                groups_by_domain.setdefault(domain, []).append(group)
            self._enter(group)

    def _enter(self, group: int) -> None:
        """Put *group* into the heap of its counts.

        Its entries in other heaps are not removed but are stale from now on. `best` drops them when they reach the top.
        Removing an entry from the middle of a heap would be linear in its size, and each pick moves whole domains.

        Example: a group moves from heap (4,) to heap (5,). Counts only grow, so it never returns to (4,). Its old entry
        there fails `_stands` by its counts. A group outside every domain stays in heap (-1,) after a pick. Its old
        entry fails by the rank, which is that of the picked candidate.
        """
        end, start = self.end[group], self.start[group]
        while end > start and self.order[end - 1] in self.gone:
            end -= 1
        self.end[group] = end
        self.counts[group] = counts = tuple(
            [
                -1 if domain < 0 else tally.counts[domain]
                for tally, domain in zip(self.tallies, self.domains[group], strict=True)
            ]
        )
        self.head[group] = head = self.order[end - 1] if end > start else None
        if head is not None:
            heappush(self.heaps.setdefault(counts, []), (-self.rank[head], group))

    def best(self, sticky: Sequence[int]) -> SpreadPick | None:
        """Return the best candidate of this batch, None if the constraints admit no candidate.

        *sticky* are the candidates with the tie bonus. Each beats the others with equal scores.
        """
        best_group: tuple[int, int] | None = None
        for counts, heap in self.heaps.items():
            if not heap or (points := self._points(counts)) is None:
                continue
            while heap and not self._stands(heap[0], counts):
                heappop(heap)
            if heap and (best_group is None or (points, -heap[0][0]) > best_group):
                best_group, group = (points, -heap[0][0]), heap[0][1]
        if best_group is None:
            return None
        head = self.head[group]
        assert head is not None
        score = best_group[0], self.affinity[head]
        # The tie bonus ranks below both scores, so it only decides among equals. It is not part of the heaps' order
        # because it counts in the first batch only: all heaps would have to be sorted again for the second one.
        rivals = (
            rival
            for rival in sticky
            if (self._points(self.counts[self.of_candidate[rival]]), self.affinity[rival]) == score
        )
        return SpreadPick(max(rivals, default=head), best_group[0])

    def _stands(self, entry: tuple[int, int], counts: _Counts) -> bool:
        head = self.head[entry[1]]
        return head is not None and self.rank[head] == -entry[0] and self.counts[entry[1]] == counts

    def _points(self, counts: _Counts) -> int | None:
        """Return the topology score of a group with *counts*, None if it would violate a hard constraint."""
        points = 0
        for constraint, tally, count in zip(self.constraints, self.tallies, counts, strict=True):
            if count < 0:
                continue
            change = tally.change(count)
            if tally.high - tally.low + change <= constraint.max_skew:
                points -= change
            elif constraint.hard:
                return None
            else:
                points += VIOLATION_POINTS
        return points

    def take(self, position: int) -> None:
        """Place the candidate at *position*: increment the counts of its domains, and move their groups."""
        self.gone.add(position)
        group = self.of_candidate[position]
        changed = {group}
        for tally, groups_by_domain, domain in zip(self.tallies, self.standing, self.domains[group], strict=True):
            if domain >= 0:
                tally.add(domain)
                changed.update(groups_by_domain[domain])
        for other_group in changed:
            self._enter(other_group)


def _renumber(values: IntColumn, most: int) -> IntColumn:
    """Number the distinct *values*, all below *most*, in ascending order, and return the number of each."""
    if most > 2**16:
        return np.unique(values, return_inverse=True)[1]
    present = np.bincount(values, minlength=1) > 0
    return (np.cumsum(present) - 1)[values]


def _narrow(values: IntColumn) -> NDArray[np.int16] | IntColumn:
    """Return *values* in 16 bits if they fit: NumPy's stable sort of those is a radix sort, in linear time."""
    if values.size and int(values.min()) >= -(2**15) and int(values.max()) < 2**15:
        return values.astype(np.int16)
    return values
