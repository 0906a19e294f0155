"""Remaining disruption allowance of each NodePool's budgets in one pass.

Source: docs/specifications/nodepool-disruption.md 4 and 14.3.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from scorer.node_budgets.budgets import Allowance, allowance
from scorer.node_budgets.pool_view import PoolView
from scorer.node_disruption.candidates.refusals import DisruptionBlockReason, Refusal


class Allowances:
    """Allowances of all pools at one instant.

    Args:
        views: Pools by name.
        now: Current time, timezone-aware.
    """

    def __init__(self, views: Mapping[str, PoolView], now: datetime) -> None:
        self._views = views
        self._now = now
        self._allowance_cache: dict[tuple[str, str], Allowance] = {}
        self._refusals: dict[tuple[str, str, int], Refusal] = {}

    def remaining(self, pool: str, reason: str) -> int:
        """Return how many more nodes of a pool may be disrupted for *reason*, 0 for an unknown pool."""
        return self._allowance(pool, reason).remaining if pool in self._views else 0

    def remaining_for(self, reason: str) -> "RemainingAllowance":
        """Return a counter of the remaining allowance for *reason*."""
        return RemainingAllowance(self, reason)

    def refusal(self, pool: str, reason: str, count: int) -> Refusal:
        """Return why at most *count* nodes of a pool may be disrupted, and when that changes without intervention."""
        key = pool, reason, count
        if (refusal := self._refusals.get(key)) is None:
            refusal = self._refusals[key] = self._refusal(pool, reason, count)
        return refusal

    def holds_at(self, now: datetime) -> bool:
        """Return whether every result returned so far would be the same at *now*."""
        later = Allowances(self._views, now)
        return all(
            later._allowance(*key).remaining == entry.remaining for key, entry in self._allowance_cache.items()
        ) and all(later.refusal(*key) == refusal for key, refusal in self._refusals.items())

    def _allowance(self, pool: str, reason: str) -> Allowance:
        key = pool, reason
        if (known_allowance := self._allowance_cache.get(key)) is None:
            view = self._views[pool]
            known_allowance = self._allowance_cache[key] = allowance(view.budgets, view.counts(), reason, self._now)
        return known_allowance

    def _refusal(self, pool: str, reason: str, count: int) -> Refusal:
        if pool not in self._views:
            return Refusal(DisruptionBlockReason.BUDGET, f"the budgets of NodePool {pool} are unknown")
        allowance = self._allowance(pool, reason)
        until = self._views[pool].opening(reason, count + 1, self._now).instant
        if allowance.unusable:
            index, mistake = allowance.unusable[0]
            return Refusal(
                DisruptionBlockReason.BUDGET, f"budget {index} of NodePool {pool} is invalid: {mistake}", until
            )
        message = f"{_budgets_text(allowance.binding)} of NodePool {pool} {_number(allowance.limit)} for {reason}"
        disruptions = [f"{allowance.disrupting} in progress or not ready"] if allowance.disrupting else []
        disruptions += [f"{count} used by this command"] if count else []
        return Refusal(DisruptionBlockReason.BUDGET, ", ".join((message, *disruptions)), until)


def _budgets_text(budgets: Sequence[int]) -> str:
    return f"budget {budgets[0]}" if len(budgets) == 1 else f"each of budgets {', '.join(map(str, budgets))}"


def _number(limit: int) -> str:
    return "allows 0 disruptions" if not limit else f"allows {limit} disruption{'s' if limit > 1 else ''}"


class RemainingAllowance:
    """Counter of the remaining allowance for one reason."""

    def __init__(self, allowances: Allowances, reason: str) -> None:
        self._allowances = allowances
        self._reason = reason
        self._taken: dict[str, int] = {}

    def consume(self, pool: str) -> Refusal | None:
        """Consume one disruption of a pool. Return the refusal, if any."""
        used = self._taken.get(pool, 0)
        if used >= self._allowances.remaining(pool, self._reason):
            return self._allowances.refusal(pool, self._reason, used)
        self._taken[pool] = used + 1
        return None
