"""What the disruption budgets of a pool allow at one instant.

A pool may lose as many nodes for a reason as the strictest budget in force for that reason says, less those it
is losing already. A budget that cannot be understood holds back everything, for every reason: better a pool
that stands still than one that is drained by a typing error.

Source: nodepool-disruption.md 4.1 to 4.5; seed 002; Karpenter ``pkg/apis/v1/nodepool.go``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from scorer.api.duration import parse_budget_duration
from scorer.api.node_pool import Budget, DisruptionReason
from scorer.disruption.cron import Schedule, parse_schedule

UNLIMITED: Final = 2**31 - 1
"""Stands for "no limit"; also the largest number of nodes a budget may name."""

_NODES: Final = re.compile(r"(?:100|[0-9]{1,2})%|[0-9]+", re.ASCII)
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """The nodes of one pool that budgets look at (nodepool-disruption.md 4.1).

    Args:
        total: All of them, those below included.
        deleting: Marked for deletion, or rebooting.
        not_ready: Not ready, and not already counted as deleting.

    Raises:
        ValueError: A count is negative, or the parts exceed the whole.
    """

    total: int
    deleting: int = 0
    not_ready: int = 0

    def __post_init__(self) -> None:
        if min(self.total, self.deleting, self.not_ready) < 0 or self.deleting + self.not_ready > self.total:
            raise ValueError(
                f"total {self.total} does not hold deleting {self.deleting} and notReady {self.not_ready} besides it"
            )

    def disrupting(self, reason: str) -> int:
        """Return the nodes that use a budget up; nodes that are not ready do not hold back their own repair."""
        return self.deleting + (0 if reason == DisruptionReason.UNHEALTHY else self.not_ready)


@dataclass(frozen=True, slots=True)
class Window:
    """When a budget is in force: from each fire of *schedule* for *duration*, end excluded; always without one."""

    schedule: Schedule | None = None
    duration: timedelta = timedelta()

    def is_open(self, now: datetime) -> bool:
        """Say whether the budget is in force at *now*, which has a time zone.

        A schedule that does not fire again before the search gives up counts as always in force.
        """
        if self.schedule is None:
            return True
        checkpoint = now - self.duration if now - _EARLIEST > self.duration else _EARLIEST
        fire = self.schedule.next_after(checkpoint)
        return fire is None or fire <= now


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a pool's budgets allow for one reason at one instant.

    Args:
        limit: The strictest value; `UNLIMITED` when no budget in force applies, 0 when one is unusable.
        disrupting: Nodes being lost already.
        active: Positions of the budgets in force, whatever their reasons.
        binding: Positions of the budgets in force for the reason whose value is the limit.
        unusable: Positions and mistakes of the budgets that cannot be understood.
    """

    limit: int
    disrupting: int
    active: tuple[int, ...]
    binding: tuple[int, ...] = ()
    unusable: tuple[tuple[int, str], ...] = ()

    @property
    def remaining(self) -> int:
        """How many more nodes may go."""
        return max(0, self.limit - self.disrupting)


def budget_window(budget: Budget) -> Window:
    """Return when *budget* is in force.

    Raises:
        ValueError: The schedule or the duration cannot be understood, or a duration has no schedule.
    """
    if budget.schedule is None and budget.duration is None:
        return Window()
    if budget.schedule is None:
        raise ValueError("duration is given without schedule")
    duration = timedelta() if budget.duration is None else parse_budget_duration(budget.duration)
    return Window(parse_schedule(budget.schedule), duration)


def is_active(budget: Budget, now: datetime) -> bool:
    """Say whether *budget* is in force at *now*, whatever its reasons.

    Raises:
        ValueError: See `budget_window`.
    """
    return budget_window(budget).is_open(now)


def applies_to(budget: Budget, reason: str) -> bool:
    """Say whether *budget* is about *reason*; an empty list of reasons is about none."""
    return budget.reasons is None or reason in budget.reasons


def allowed_disruptions(budget: Budget, total: int) -> int:
    """Return how many of *total* nodes *budget* lets go while in force; a share is rounded up.

    Raises:
        ValueError: ``nodes`` is neither a number up to 2147483647 nor a percentage of 0% to 100%.
    """
    if not _NODES.fullmatch(budget.nodes):
        raise ValueError(f"nodes {budget.nodes[:64]!r} is neither a number nor a percentage of 0% to 100%")
    if budget.nodes.endswith("%"):
        return -(-int(budget.nodes[:-1]) * total // 100)
    digits = budget.nodes.lstrip("0") or "0"
    if len(digits) > len(str(UNLIMITED)) or int(digits) > UNLIMITED:
        raise ValueError(f"nodes {budget.nodes[:64]!r} is more than {UNLIMITED}")
    return int(digits)


def allowance(budgets: Sequence[Budget], counts: NodeCounts, reason: str, now: datetime) -> Allowance:
    """Return what *budgets* allow for *reason* at *now*, which has a time zone."""
    active: list[int] = []
    values: dict[int, int] = {}
    unusable: list[tuple[int, str]] = []
    for index, budget in enumerate(budgets):
        try:
            if not is_active(budget, now):
                continue
            active.append(index)
            value = allowed_disruptions(budget, counts.total)
        except ValueError as error:
            unusable.append((index, str(error)))
            continue
        if applies_to(budget, reason):
            values[index] = value
    limit = 0 if unusable else min(values.values(), default=UNLIMITED)
    return Allowance(
        limit=limit,
        disrupting=counts.disrupting(reason),
        active=tuple(active),
        binding=() if unusable else tuple(index for index, value in values.items() if value == limit),
        unusable=tuple(unusable),
    )
