"""What the disruption budgets of a pool allow at one instant.

For each reason a pool may lose as many nodes as the strictest budget in force for that reason allows, less those it is
already losing. A budget that is invalid blocks every disruption, for every reason: a pool that stands still is better
than one that a typing error drains. Schedules are UTC (`scorer.windows.cron`).

Source: nodepool-disruption.md 4.1 to 4.5; seed 002; Karpenter ``pkg/apis/v1/nodepool.go``.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import MINYEAR, datetime, timedelta
from functools import lru_cache
from typing import Final, Self

from scorer.api.node_pool import LONGEST_NODES, Budget, DisruptionReason
from scorer.api.values.duration import parse_budget_duration
from scorer.windows.cron import MINUTE, CronMinute, CronSchedule, parse_schedule
from scorer.windows.windows import LAST_YEARS, BudgetWindow

UNLIMITED: Final = 2**31 - 1
"""Stands for "no limit"; also the largest number of nodes a budget may name."""

FOREVER: Final = 2**63
"""Stands for the minutes of a window that never ends."""

_LONGEST_CACHED: Final = 256
_NODES: Final = re.compile(r"(?:100|[0-9]{1,2})%|[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """The nodes of one pool that budgets count (nodepool-disruption.md 4.1).

    Args:
        total: All of them, including those below.
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
        """Return how many nodes count against a budget; unready nodes do not, for their own repair."""
        return self.deleting + (0 if reason == DisruptionReason.UNHEALTHY else self.not_ready)


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a pool's budgets allow for one reason at one instant.

    Args:
        limit: The strictest value; `UNLIMITED` when no budget in force applies, 0 when one is unusable.
        disrupting: Nodes that the pool is already losing.
        active: Positions of the budgets in force, whatever their reasons.
        binding: Positions of the budgets in force for the reason whose value is the limit.
        unusable: Positions and mistakes of the invalid budgets.
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


def budget_window(budget: Budget) -> BudgetWindow:
    """Return when *budget* is in force.

    Raises:
        ValueError: The schedule or the duration is invalid, or a duration has no schedule.
    """
    if len(budget.schedule or "") + len(budget.duration or "") > _LONGEST_CACHED:
        return _read_window(budget.schedule, budget.duration)
    return _cached_window(budget.schedule, budget.duration)


def _read_window(schedule: str | None, duration: str | None) -> BudgetWindow:
    if schedule is None and duration is None:
        return BudgetWindow()
    if schedule is None:
        raise ValueError("duration is given without schedule")
    return BudgetWindow(parse_schedule(schedule), timedelta() if duration is None else parse_budget_duration(duration))


_cached_window = lru_cache(maxsize=65536)(_read_window)
"""Enough for a thousand pools of fifty budgets each."""


def is_active(budget: Budget, now: datetime) -> bool:
    """Say whether *budget* is in force at *now*, whatever its reasons.

    Raises:
        ValueError: See `budget_window`.
    """
    return budget_window(budget).is_open(now)


def applies_to(budget: Budget, reason: str) -> bool:
    """Say whether *budget* applies to *reason*; with an empty list of reasons it applies to none."""
    return budget.reasons is None or reason in budget.reasons


def allowed_disruptions(budget: Budget, total: int) -> int:
    """Return how many of *total* nodes *budget* allows to go while it is in force; a percentage is rounded up.

    Raises:
        ValueError: ``nodes`` is neither a number up to 2147483647 nor a percentage of 0% to 100%.
    """
    number = _number(budget.nodes)
    return -(-number * total // 100) if budget.nodes.endswith("%") else number


def _number(nodes: str) -> int:
    """Return the number of nodes, or the percentage; raises like `allowed_disruptions`."""
    if len(nodes) > LONGEST_NODES or not _NODES.fullmatch(nodes):
        raise ValueError(f"nodes {nodes[:64]!r} is neither a number nor a percentage of 0% to 100%")
    if nodes.endswith("%"):
        return int(nodes[:-1])
    digits = nodes.lstrip("0") or "0"
    if len(digits) > len(str(UNLIMITED)) or int(digits) > UNLIMITED:
        raise ValueError(f"nodes {nodes[:64]!r} is more than {UNLIMITED}")
    return int(digits)


def allowance(budgets: Sequence[Budget], counts: NodeCounts, reason: str, now: datetime) -> Allowance:
    """Return what *budgets* allow for *reason* at *now*, which has a time zone."""
    return understood(budgets).at(now).allowance(counts, reason)


class BudgetSet(tuple[Budget, ...]):
    """The budgets of a pool, parsed once for all questions about it.

    Code that keeps a pool keeps its budgets in this form: parsing fifty of them takes longer than an answer.
    """

    readings: "tuple[ParsedBudget, ...]"
    """Each budget as parsed, in the same order."""
    mistakes: tuple[tuple[int, str], ...]
    """Positions and mistakes of the invalid budgets, in force or not."""

    def __new__(cls, budgets: Iterable[Budget] = ()) -> Self:
        """Read *budgets*."""
        budget_set = super().__new__(cls, budgets)
        budget_set.readings = tuple(map(_read, budget_set))
        budget_set.mistakes = tuple(
            (index, reading.mistake) for index, reading in enumerate(budget_set.readings) if reading.mistake
        )
        return budget_set

    def at(self, now: datetime) -> "ActiveBudgets":
        """Return which budgets are in force at *now*, which has a time zone.

        Raises:
            ValueError: *now* has no time zone.
        """
        moment = CronMinute.of(now)
        is_odd = moment.start >= LAST_YEARS or moment.start.year == MINYEAR
        left = tuple(
            [
                reading.minutes_left(moment)
                if reading.window is None or not (is_odd or reading.is_odd)
                else int(reading.window.is_open(now))
                for reading in self.readings
            ]
        )
        active = tuple(index for index, minutes in enumerate(left) if minutes)
        return ActiveBudgets(self, now, moment, is_odd, left, active)


def understood(budgets: Iterable[Budget]) -> BudgetSet:
    """Return *budgets* parsed; a `BudgetSet` is returned as it is."""
    return budgets if isinstance(budgets, BudgetSet) else BudgetSet(budgets)


@dataclass(frozen=True, slots=True, eq=False)
class ActiveBudgets:
    """Which of a pool's budgets are in force at one instant.

    Args:
        budgets: Of the pool.
        now: The instant, with a time zone.
        moment: The minute that contains it.
        is_odd: Whether it is near one of the ends of the calendar, where windows may begin or end within a minute.
        left: For each budget, how many minutes from the start of that minute it is in force, at least; 0: it is not in
            force, or it is invalid.
        active: Positions of the budgets in force.
    """

    budgets: BudgetSet
    now: datetime
    moment: CronMinute
    is_odd: bool
    left: tuple[int, ...]
    active: tuple[int, ...]

    def allowance(self, counts: NodeCounts, reason: str) -> Allowance:
        """Return what the budgets allow for *reason*."""
        readings = self.budgets.readings
        disrupting = counts.disrupting(reason)
        if self.budgets.mistakes:
            unusable = tuple(
                (index, mistake)
                for index, mistake in self.budgets.mistakes
                if self.left[index] or readings[index].window is None
            )
            if unusable:
                return Allowance(0, disrupting, self.active, unusable=unusable)
        limit, binding = UNLIMITED, list[int]()
        for index in self.active:
            if readings[index].is_about(reason):
                value = readings[index].allowed(counts.total)
                if value < limit:
                    limit, binding = value, [index]
                elif value == limit:
                    binding.append(index)
        return Allowance(limit, disrupting, self.active, tuple(binding))


@dataclass(frozen=True, slots=True, eq=False)
class ParsedBudget:
    """A budget as parsed.

    Args:
        window: When it is in force; None when its schedule or duration is invalid.
        schedule: When its windows begin.
        minutes: How long its windows are.
        always: Whether it is in force at every instant, or at none; None when that depends.
        is_odd: Whether it has silences in addition to its windows (see `scorer.windows.windows.BudgetWindow.silences`).
        number: The number of nodes, or the percentage.
        is_share: Whether *number* is a percentage.
        reasons: The reasons it applies to; None: every reason.
        mistake: Why it is invalid; empty when it is not.
    """

    window: BudgetWindow | None
    schedule: CronSchedule | None
    minutes: int
    always: bool | None
    is_odd: bool
    number: int
    is_share: bool
    reasons: tuple[str, ...] | None
    mistake: str

    def minutes_left(self, moment: CronMinute) -> int:
        """Return for how many minutes at least, from the start of this one, it is in force; 0: it is not.

        Valid only from the year 2 until `LAST_YEARS`, and when it is not `is_odd`: elsewhere windows do not consist of
        whole minutes.
        """
        if self.schedule is None or self.always is not None:
            return FOREVER if self.always else 0
        since = self.schedule.minutes_since_fire(moment, self.minutes)
        return self.minutes - since if since is not None and since < self.minutes else 0

    def is_about(self, reason: str) -> bool:
        """Return the same as `applies_to`."""
        return self.reasons is None or reason in self.reasons

    def allowed(self, total: int) -> int:
        """Return how many of *total* nodes it allows to go while it is in force; a percentage is rounded up."""
        return -(-self.number * total // 100) if self.is_share else self.number


def _read(budget: Budget) -> ParsedBudget:
    window, number, mistake = None, 0, ""
    try:
        window = budget_window(budget)
        number = _number(budget.nodes)
    except ValueError as error:
        mistake = str(error)
    schedule = None if window is None else window.schedule
    return ParsedBudget(
        window=window,
        schedule=schedule,
        minutes=0 if window is None else window.duration // MINUTE,
        always=None if window is None else True if window.never_closes else window.is_constant,
        is_odd=schedule is not None and schedule.leap_days_only,
        number=number,
        is_share=budget.nodes.endswith("%"),
        reasons=budget.reasons,
        mistake=mistake,
    )
