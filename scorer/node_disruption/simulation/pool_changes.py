"""Effects of a write of a NodePool or of its node class on existing nodes, from NodeClaims alone.

This is the quick form of a simulation, for admission. It ignores pods, PodDisruptionBudgets and prices, so its times
are the earliest possible ones.

Source: docs/specifications/nodepool-disruption.md 3, 4, 10 and 13.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.node_pool import Budget, ConsolidationPolicy, DisruptionReason, NodePool
from scorer.api.unstructured.documents import conditions_of, labels_of, name_of, text_at
from scorer.api.values.duration import NEVER
from scorer.node_budgets.budgets import UNLIMITED, NodeCounts
from scorer.node_budgets.calendar import calendar
from scorer.node_disruption.cluster.requirements import merged
from scorer.node_disruption.cluster.requirements_drift import drift_from
from scorer.node_disruption.cluster.template_hash import template_digest
from scorer.node_disruption.simulation.timeline import SimulationAssumptions

DAY: Final = timedelta(days=1)
FORECAST: Final = timedelta(days=14)
"""Longest forecast of the end of a drift."""
_ASSUMED: Final = SimulationAssumptions()
REPLACEMENT: Final = _ASSUMED.launch + _ASSUMED.shortest_drain
"""Minimum time to replace one node with another."""


@dataclass(frozen=True, slots=True)
class DriftForecast:
    """Drift that a write causes.

    Args:
        nodes: Names of the nodes that newly drift, sorted.
        total: Number of the pool's nodes.
        in_a_day: Maximum number of nodes that the budgets allow to be replaced within a day. None: unlimited.
        done: Earliest time at which all of them are replaced. None: unknown, or not within `FORECAST`.
    """

    nodes: tuple[str, ...] = ()
    total: int = 0
    in_a_day: int | None = None
    done: datetime | None = None

    @property
    def exceeds_day(self) -> bool:
        """Whether more nodes drift than the budgets allow in a day."""
        return self.in_a_day is not None and len(self.nodes) > self.in_a_day


def node_names(claims: Iterable[JsonObject]) -> tuple[str, ...]:
    """Return the sorted node names of *claims*. A claim without a node is listed under its own name."""
    return tuple(sorted(text_at(claim, "status", "nodeName") or name_of(claim) for claim in claims))


def drift_by_template(old: NodePool, new: NodePool, claims: Sequence[JsonObject], now: datetime) -> DriftForecast:
    """Return the drift that an update of a pool causes. *claims* are those of the pool that are not being deleted."""
    is_static = template_digest(old) != template_digest(new)
    before, after = (sorted(merged(pool.spec.template.spec.requirements).items()) for pool in (old, new))
    drifted = [
        claim
        for claim in claims
        if not is_drifted(claim)
        and drift_from(before, labels_of(claim)) is None
        and (is_static or drift_from(after, labels_of(claim)) is not None)
    ]
    return forecast(drifted, len(claims), new.spec.disruption.budgets, now)


def forecast(drifted: Sequence[JsonObject], total: int, budgets: Sequence[Budget], now: datetime) -> DriftForecast:
    """Return the forecast of replacing the nodes of *drifted* claims within *budgets*."""
    if not drifted:
        return DriftForecast(total=total)
    in_a_day, done = _pace(len(drifted), total, budgets, now)
    return DriftForecast(node_names(drifted), total, in_a_day, done)


def consolidates(pool: NodePool) -> bool:
    """Return whether nodes with pods may be consolidated."""
    disruption = pool.spec.disruption
    return disruption.consolidate_after != NEVER and disruption.consolidation_policy != ConsolidationPolicy.WHEN_EMPTY


def is_drifted(claim: JsonObject) -> bool:
    """Return whether the provisioner has marked a claim as drifted: it is replaced regardless of the write."""
    return any(
        (condition.get("type"), condition.get("status")) == ("Drifted", "True") for condition in conditions_of(claim)
    )


def _pace(count: int, total: int, budgets: Sequence[Budget], now: datetime) -> tuple[int | None, datetime | None]:
    """Return the number of nodes that can be replaced in the next day, and the time when *count* nodes are replaced.

    A number of None means unlimited. A time of None means later than `FORECAST` from now.
    """
    calendars = calendar(budgets, NodeCounts(total), now, now + FORECAST).reasons
    spans = next(each.spans for each in calendars if each.reason is DisruptionReason.DRIFTED)
    in_a_day: int | None = 0
    replaced, done = 0, None
    for start, end, limit, _ in spans:
        if limit == 0:
            continue
        if limit == UNLIMITED:
            limit = count  # all of them concurrently
            in_a_day = None if start < now + DAY else in_a_day
        rounds = -((start - end) // REPLACEMENT)
        if done is None and replaced + rounds * limit >= count:
            done = start + -((replaced - count) // limit) * REPLACEMENT
        replaced += rounds * limit
        if in_a_day is not None and start < now + DAY:
            in_a_day += -((start - min(end, now + DAY)) // REPLACEMENT) * limit
    return in_a_day, done
