"""Outlook of a pool: the allowance of its budgets for every reason, and how long it is valid.

Metrics and lists show all pools repeatedly. They cache the outlook of each pool until its budgets or nodes change, or a
window opens or closes.

Source: docs/specifications/nodepool-disruption.md 4.2 to 4.4 and 14.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from scorer.api.node_pool import Budget, DisruptionReason
from scorer.node_budgets.budgets import FOREVER, ActiveBudgets, Allowance, BudgetSet, NodeCounts, parse_budgets
from scorer.node_budgets.opening import Opening, opening_of
from scorer.windows.cron import MINUTE
from scorer.windows.fires import next_fire
from scorer.windows.windows import epoch_seconds

LONGEST_MINUTES: Final = 240
"""Maximum validity of an outlook. It is limited because the end of its search for an opening advances with time."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """Allowance of the budgets for one reason.

    Args:
        reason: The reason.
        allowed: The present allowance.
        opening: Time at which one more node may be disrupted. None means now.
        never_opens: Whether no node may be disrupted at any time within 400 days, even if none is in disruption by
            then. A pool without nodes is treated as if it had one.
    """

    reason: DisruptionReason
    allowed: Allowance
    opening: Opening | None
    never_opens: bool


@dataclass(frozen=True, slots=True)
class Outlook:
    """Allowance of a pool's budgets for every reason.

    Args:
        budgets: Budgets of the pool.
        counts: Nodes.
        minutes: Validity as a range of minutes since the epoch.
        prospects: One per reason, in the order of `DisruptionReason`.
    """

    budgets: BudgetSet
    counts: NodeCounts
    minutes: range
    prospects: tuple[Prospect, ...]

    def holds(self, budgets: Sequence[Budget], counts: NodeCounts, now: datetime) -> bool:
        """Return whether `outlook` would return an equal outlook for these budgets and nodes at *now*."""
        return (
            epoch_seconds(now) // 60 in self.minutes
            and self.counts == counts
            and (self.budgets is budgets or self.budgets == budgets)
        )


def outlook(budgets: Sequence[Budget], counts: NodeCounts, now: datetime) -> Outlook:
    """Return the outlook of *budgets* at *now*, which is timezone-aware, with constant *counts*.

    Reasons with the same applicable budgets and nodes are computed once.
    """
    pool = parse_budgets(budgets)
    active_budgets = pool.at(now)
    distinct: dict[tuple[object, ...], tuple[Allowance, Opening | None, bool]] = {}
    prospects = []
    for reason in DisruptionReason:
        key = (counts.disrupting(reason), *(reading.is_about(reason) for reading in pool.readings))
        if key not in distinct:
            distinct[key] = _prospect(active_budgets, counts, reason)
        prospects.append(Prospect(reason, *distinct[key]))
    minute = epoch_seconds(now) // 60
    return Outlook(pool, counts, range(minute, minute + _steady_minutes(active_budgets)), tuple(prospects))


def _prospect(active_budgets: ActiveBudgets, counts: NodeCounts, reason: str) -> tuple[Allowance, Opening | None, bool]:
    allowed = active_budgets.allowance(counts, reason)
    if allowed.remaining:
        return allowed, None, False
    opening = opening_of(active_budgets, counts, reason, 1)
    if opening.instant is not None or (counts.total and not allowed.disrupting):
        return allowed, opening, opening.instant is None
    idle_counts = NodeCounts(max(1, counts.total))
    return allowed, opening, opening_of(active_budgets, idle_counts, reason, 1).instant is None


def _steady_minutes(active_budgets: ActiveBudgets) -> int:
    """Return the minimum number of minutes, including this one, until a budget becomes active or inactive.

    It is 1, only this minute, with schedules of 29 February and near the minimum and maximum date.
    """
    steady, start = LONGEST_MINUTES, active_budgets.moment.start
    for reading, left in zip(active_budgets.budgets.readings, active_budgets.left, strict=True):
        if reading.window is None or left == FOREVER or reading.always is False or reading.schedule is None:
            continue
        if active_budgets.is_odd or reading.is_odd:
            return 1
        if left:
            steady = min(steady, left)
        elif (fire := next_fire(reading.schedule, start)) is not None:
            steady = min(steady, (fire - start) // MINUTE)
    return steady
