"""Choosing among candidates: by rank, or one at a time while the spread changes.

Rank: topology score, affinity score, tie bonus, name, each descending (scheduling.md 13).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scorer.columns import BoolColumn, IntColumn, RowColumn
from scorer.fleet import Fleet
from scorer.plugins.topology_spread import Constraint, domain_counts

_LOWEST = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Ranks:
    """The sort keys of some candidates.

    Args:
        rows: Shape (candidates,), ascending.
        topology: Points of the spread constraints.
        affinity: Points of the preferences.
        bonus: Where a cluster holds an obsolete binding.
    """

    rows: RowColumn
    topology: IntColumn
    affinity: IntColumn
    bonus: BoolColumn

    def best(self, count: int | None = None) -> NDArray[np.intp]:
        """Return the positions of the best *count* candidates, all of them by default, in rank order.

        One pass finds the weakest key that still gets in; only the keys above it are sorted.
        """
        key = self._key()
        chosen = np.arange(key.size)
        if count is not None and count < key.size:
            if count == 0:
                return chosen[:0]
            weakest = np.partition(key, key.size - count)[key.size - count]
            above, tied = np.flatnonzero(key > weakest), np.flatnonzero(key == weakest)
            chosen = np.concatenate([above, tied[tied.size - (count - above.size) :]])
            chosen.sort()
        return chosen[np.argsort(key[chosen], kind="stable")][::-1]

    def _key(self) -> IntColumn:
        """Fold topology, affinity and bonus into one integer; the position breaks ties, larger name first."""
        if self.affinity.size == 0:
            return self.affinity
        low = int(self.affinity.min())
        span = int(self.affinity.max()) - low + 1
        return (self.topology * span + (self.affinity - low)) * 2 + self.bonus


@dataclass(frozen=True, slots=True)
class SpreadPick:
    """One pick under spread constraints: position among the candidates, and the topology score of its batch."""

    position: int
    topology: int


def pick_spread(
    fleet: Fleet, constraints: Sequence[Constraint], ranks: Ranks, placed: BoolColumn, count: int
) -> tuple[list[SpreadPick], bool]:
    """Pick one cluster per batch, up to *count*, counting domains anew before each.

    Clusters that stand in the same domains differ only by affinity and name, which do not change between
    batches; so candidates are sorted once per such group, and a batch only judges the groups.

    Args:
        fleet: All member clusters.
        constraints: At least one.
        ranks: The candidates; their topology scores are not looked at.
        placed: The taken clusters.
        count: How many are needed.

    Returns:
        The picks in order, and whether a batch found no candidate.
    """
    codes = [fleet.label(constraint.key).codes[ranks.rows] for constraint in constraints]
    counts = [domain_counts(fleet, constraint.key, placed) for constraint in constraints]
    groups = _Groups.of(codes, [count.size for count in counts], ranks.affinity)
    picks: list[SpreadPick] = []
    while len(picks) < count:
        allowed, points = groups.judge(constraints, counts)
        if not allowed.any():
            return picks, True
        sticky = np.flatnonzero(ranks.bonus) if not picks else ()
        position = groups.take(allowed, points, ranks, sticky)
        picks.append(SpreadPick(position, int(points[groups.of_candidate[position]])))
        for column, domain in zip(codes, counts, strict=True):
            if column[position] >= 0:
                domain[column[position]] += 1
    return picks, False


@dataclass(slots=True)
class _Groups:
    """Candidates by the domains they stand in; each group sorted by affinity and name, the best last.

    Args:
        of_candidate: Shape (candidates,): the group of each.
        domains: Per constraint, shape (groups,): the domain of the group, the last entry of a verdict for none.
        order: Positions of candidates, group by group.
        end: Shape (groups,): where in *order* the best remaining candidate of a group stands, plus one.
        start: Shape (groups,): where the group begins.
        rank: Shape (candidates,): place among all candidates by affinity and name.
    """

    of_candidate: NDArray[np.intp]
    domains: list[NDArray[np.intp]]
    order: NDArray[np.intp]
    start: NDArray[np.intp]
    end: NDArray[np.intp]
    rank: NDArray[np.intp]
    gone: set[int]

    @classmethod
    def of(cls, codes: Sequence[NDArray[np.int32]], sizes: Sequence[int], affinity: IntColumn) -> "_Groups":
        """Group candidates by their *codes*, one column per constraint, -1 outside the domains."""
        combined = np.zeros(affinity.size, dtype=np.int64)
        for column, size in zip(codes, sizes, strict=True):
            combined = combined * (size + 1) + np.where(column < 0, size, column)
        values, of_candidate = np.unique(combined, return_inverse=True)
        domains = []
        for size in reversed(sizes):
            values, domain = np.divmod(values, size + 1)
            domains.insert(0, domain.astype(np.intp))
        by_affinity = np.argsort(_narrow(affinity), kind="stable")
        rank = np.empty_like(by_affinity)
        rank[by_affinity] = np.arange(by_affinity.size)
        order = by_affinity[np.argsort(_narrow(of_candidate[by_affinity]), kind="stable")]
        end = np.cumsum(np.bincount(of_candidate, minlength=values.size))
        start = np.concatenate([[0], end[:-1]]).astype(np.intp) if end.size else end
        return cls(of_candidate, domains, order, start, end.astype(np.intp), rank, set())

    def judge(self, constraints: Sequence[Constraint], counts: Sequence[IntColumn]) -> tuple[BoolColumn, IntColumn]:
        """Return which groups may take one more, and the topology score of each."""
        allowed: BoolColumn = self.end > self.start
        points = np.zeros(self.end.size, dtype=np.int64)
        for constraint, count, domain in zip(constraints, counts, self.domains, strict=True):
            passes, earned = constraint.verdict(count)
            allowed &= passes[domain]
            points += earned[domain]
        return allowed, points

    def take(self, allowed: BoolColumn, points: IntColumn, ranks: Ranks, sticky: Sequence[int] | RowColumn) -> int:
        """Remove the best candidate of the allowed groups and return its position.

        *sticky* are the candidates with the tie bonus: each beats the others of equal scores.
        """
        heads = self.order[np.maximum(self.end, 1) - 1]
        key = np.where(allowed, points * self.rank.size + self.rank[heads], _LOWEST)
        best = int(heads[int(np.argmax(key))])
        score = points[self.of_candidate[best]], ranks.affinity[best]
        rivals = [
            int(rival)
            for rival in sticky
            if allowed[self.of_candidate[rival]] and (points[self.of_candidate[rival]], ranks.affinity[rival]) == score
        ]
        best = max(rivals, default=best)
        self.gone.add(best)
        group = self.of_candidate[best]
        while self.end[group] > self.start[group] and int(self.order[self.end[group] - 1]) in self.gone:
            self.end[group] -= 1
        return best


def _narrow(values: IntColumn) -> NDArray[np.int16] | IntColumn:
    """Return *values* in 16 bits where they fit: those are sorted in linear time."""
    if values.size and int(values.min()) >= -(2**15) and int(values.max()) < 2**15:
        return values.astype(np.int16)
    return values
