"""TopologySpreadConstraints: spread the placement evenly over the values of a label.

The skew is that of the whole fleet after one more placement, not the distance of a domain from the minimum as in pod
scheduling. Clusters that do not report or are leaving form domains too.

Source: docs/specifications/scheduling.md 12; KubeFleet pkg/scheduler/framework/plugins/topologyspreadconstraints.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scorer.api.placement.placement import TopologySpreadConstraint, WhenUnsatisfiable
from scorer.columns import BoolColumn, IntColumn, RowColumn
from scorer.fleet import Fleet
from scorer.framework.cycle import Cycle
from scorer.framework.status import Category, FilterRejection

VIOLATION_POINTS = -1000
"""The points of a cluster that violates a ``ScheduleAnyway`` constraint, instead of its change of skew."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint of a policy. *index* is its position there."""

    index: int
    key: str
    max_skew: int
    hard: bool

    def verdict(self, counts: IntColumn) -> tuple[BoolColumn, IntColumn]:
        """Evaluate one more placement in each domain.

        Args:
            counts: Shape (domains,): clusters placed in each domain.

        Returns:
            Two columns of shape (domains + 1,): whether the constraint allows it (a soft one always does), and the
            points. The last entry is for clusters outside every domain: their code is -1, which indexes from the end.
        """
        skew, change = skew_change(counts)
        is_within = skew + change <= self.max_skew
        passes = np.ones(counts.size + 1, dtype=np.bool_)
        points = np.zeros(counts.size + 1, dtype=np.int64)
        if self.hard:
            passes[:-1], points[:-1] = is_within, -change
        else:
            points[:-1] = np.where(is_within, -change, VIOLATION_POINTS)
        return passes, points

    def admits(self, cycle: Cycle, row: int) -> bool:
        """Return whether the constraint allows one more placement on the cluster in *row*."""
        passes, _ = self.verdict(domain_counts(cycle.fleet, self.key, cycle.placed))
        return bool(passes[cycle.fleet.label(self.key).codes[row]])


def skew_change(counts: IntColumn) -> tuple[int, IntColumn]:
    """Return the current skew, and its change by one more placement in each domain.

    Args:
        counts: Shape (domains,).
    """
    if counts.size == 0:  # no cluster carries the label
        return 0, counts
    low, high = int(counts.min()), int(counts.max())
    at_low = counts == low
    change = (counts == high).astype(np.int64)
    if low != high and np.count_nonzero(at_low) == 1:
        change -= at_low
    return high - low, change


@dataclass(frozen=True, slots=True)
class TopologySpread:
    """The spread constraints of one policy: the hard ones first, then the soft ones, each in list order."""

    constraints: tuple[Constraint, ...] = ()

    name = "TopologySpreadConstraints"

    def filter(self, cycle: Cycle) -> BoolColumn | None:
        """Return the clusters where one more placement violates no hard constraint, or None without any of them."""
        mask: BoolColumn | None = None
        for constraint in self.constraints:
            if constraint.hard:
                passes, _ = constraint.verdict(domain_counts(cycle.fleet, constraint.key, cycle.placed))
                allowed = passes[cycle.fleet.label(constraint.key).codes]
                mask = allowed if mask is None else mask & allowed
        return mask

    def score(self, cycle: Cycle, rows: RowColumn) -> IntColumn | None:
        """Return the points of clusters, one for each unit of skew that they remove, or None without constraints."""
        total: IntColumn | None = None
        for constraint in self.constraints:
            _, points = constraint.verdict(domain_counts(cycle.fleet, constraint.key, cycle.placed))
            domain_points = points[cycle.fleet.label(constraint.key).codes[rows]]
            total = domain_points if total is None else total + domain_points
        return total

    def categories(self, cycle: Cycle, rejections: BoolColumn) -> dict[Category, int]:  # noqa: ARG002 - one category only
        """Count all as violations."""
        return {Category.TOPOLOGY_SPREAD_VIOLATED: int(np.count_nonzero(rejections))}

    def reject(self, cycle: Cycle, row: int) -> FilterRejection:
        """Return a rejection that names the first hard constraint that would be violated, with its numbers."""
        violations = [constraint for constraint in self.constraints if not constraint.admits(cycle, row)]
        constraint = violations[0]
        column = cycle.fleet.label(constraint.key)
        counts = domain_counts(cycle.fleet, constraint.key, cycle.placed)
        skew, change = skew_change(counts)
        code, low = int(column.codes[row]), int(counts.min())
        emptiest = min(column.values[domain] for domain in np.flatnonzero(counts == low).tolist())
        worse = skew + int(change[code])
        message = (
            f"one more in {constraint.key}={column.values[code]} ({counts[code]} placed) would raise the skew to "
            f"{worse}, above maxSkew {constraint.max_skew}. {constraint.key}={emptiest} has the fewest ({low})"
        )
        single = f"maxSkew {worse} for {constraint.key}" if len(violations) == 1 else ""
        return FilterRejection(self.name, Category.TOPOLOGY_SPREAD_VIOLATED, message, single)


def domain_counts(fleet: Fleet, key: str, placed: BoolColumn) -> IntColumn:
    """Return the number of *placed* clusters per value of a label, shape (domains,). Empty domains count 0."""
    column = fleet.label(key)
    inside = column.codes[placed]
    return np.bincount(inside[inside >= 0], minlength=len(column.values))


def read_constraints(constraints: Sequence[TopologySpreadConstraint]) -> TopologySpread:
    """Return the constraints of a policy in the order of their evaluation."""
    hard = WhenUnsatisfiable.DO_NOT_SCHEDULE
    ordered = [
        Constraint(index, entry.topology_key, entry.max_skew, entry.when_unsatisfiable is hard)
        for index, entry in enumerate(constraints)
    ]
    return TopologySpread(tuple(sorted(ordered, key=lambda constraint: not constraint.hard)))
