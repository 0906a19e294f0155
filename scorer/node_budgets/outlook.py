"""What is allowed in a pool for every reason, and until when that stays so.

Whoever shows all pools again and again, as metrics and lists do, keeps what was found out about each until its budgets
or nodes change, or a window opens or closes.

Source: nodepool-disruption.md 4.2 to 4.4 and 14.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from scorer.api.node_pool import Budget, DisruptionReason
from scorer.node_budgets.budgets import FOREVER, Allowance, NodeCounts, PoolBudgets, Standing, understood
from scorer.node_budgets.opening import Opening, opening_of
from scorer.windows.windows import MINUTE, epoch_seconds

LONGEST_MINUTES: Final = 240
"""So long what was found out is taken for true at most; how far was searched moves on with the time of day."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """What is allowed for one reason.

    Args:
        reason: The reason.
        allowed: What may go now.
        opening: When one more node may go; None: now.
        never_opens: No instant within 400 days lets a single node go, even when none is going already. A pool without
            nodes is judged as if it had one.
    """

    reason: DisruptionReason
    allowed: Allowance
    opening: Opening | None
    never_opens: bool


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is allowed in a pool for every reason.

    Args:
        budgets: Of the pool.
        counts: Its nodes.
        minutes: In these, counted from the epoch, all of it is true.
        prospects: One per reason, in the order of `DisruptionReason`.
    """

    budgets: PoolBudgets
    counts: NodeCounts
    minutes: range
    prospects: tuple[Prospect, ...]

    def holds(self, budgets: Sequence[Budget], counts: NodeCounts, now: datetime) -> bool:
        """Say whether it is what `outlook` would find for these budgets and nodes at *now*, which has a time zone."""
        return (
            epoch_seconds(now) // 60 in self.minutes
            and self.counts == counts
            and (self.budgets is budgets or self.budgets == budgets)
        )


def outlook(budgets: Sequence[Budget], counts: NodeCounts, now: datetime) -> Outlook:
    """Find out what *budgets* allow at *now*, which has a time zone, and until when; *counts* staying as they are.

    Reasons for which the same budgets and nodes count are looked at once.
    """
    pool = understood(budgets)
    standing = pool.at(now)
    found: dict[tuple[object, ...], tuple[Allowance, Opening | None, bool]] = {}
    prospects = []
    for reason in DisruptionReason:
        same = (counts.disrupting(reason), *(reading.is_about(reason) for reading in pool.readings))
        if same not in found:
            found[same] = _prospect(standing, counts, reason)
        prospects.append(Prospect(reason, *found[same]))
    minute = epoch_seconds(now) // 60
    return Outlook(pool, counts, range(minute, minute + _steady_minutes(standing)), tuple(prospects))


def _prospect(standing: Standing, counts: NodeCounts, reason: str) -> tuple[Allowance, Opening | None, bool]:
    allowed = standing.allowance(counts, reason)
    if allowed.remaining:
        return allowed, None, False
    opening = opening_of(standing, counts, reason, 1)
    if opening.instant is not None or (counts.total and not allowed.disrupting):
        return allowed, opening, opening.instant is None
    undisturbed = NodeCounts(max(1, counts.total))
    return allowed, opening, opening_of(standing, undisturbed, reason, 1).instant is None


def _steady_minutes(standing: Standing) -> int:
    """Return for how many minutes, this one included, no budget comes into force or ceases to be, as far as is plain.

    Of 29 February, and of the ends of the calendar, nothing is foretold.
    """
    steady, start = LONGEST_MINUTES, standing.moment.start
    for reading, left in zip(standing.budgets.readings, standing.left, strict=True):
        if reading.window is None or left == FOREVER or reading.always is False or reading.schedule is None:
            continue
        if standing.is_odd or reading.is_odd:
            return 1
        if left:
            steady = min(steady, left)
        elif (fire := reading.schedule.next_after(start)) is not None:
            steady = min(steady, (fire - start) // MINUTE)
    return steady
