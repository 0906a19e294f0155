"""Allowance of a pool's disruption budgets at one instant.

For each reason, a pool may disrupt as many nodes as the strictest active budget for that reason allows, minus those in
disruption. An invalid budget blocks every disruption, for every reason: a blocked pool is better than one drained by a
typo. Schedules are in UTC (`scorer.windows.cron`).

Source: docs/specifications/nodepool-disruption.md 4.1 to 4.5; seed 002; Karpenter ``pkg/apis/v1/nodepool.go``.
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
"""Value for "unlimited", and the largest number of nodes in a budget."""

FOREVER: Final = 2**63
"""Minutes of a window that never closes."""

_LONGEST_CACHED: Final = 256
_NODES: Final = re.compile(r"(?:100|[0-9]{1,2})%|[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """The nodes of one pool that budgets count (nodepool-disruption.md 4.1).

    Args:
        total: Number of all nodes, including *deleting* and *not_ready*.
        deleting: Number of nodes that are marked for deletion, or rebooting.
        not_ready: Number of nodes that are not ready, and not already counted as deleting.

    Raises:
        ValueError: A count is negative, or the parts exceed the total.
    """

    total: int
    deleting: int = 0
    not_ready: int = 0

    def __post_init__(self) -> None:
        if min(self.total, self.deleting, self.not_ready) < 0 or self.deleting + self.not_ready > self.total:
            raise ValueError(
                f"total {self.total} must not be less than deleting {self.deleting} plus notReady {self.not_ready}"
            )

    def disrupting(self, reason: str) -> int:
        """Return how many nodes count against a budget for *reason*. Unready nodes do not count for Unhealthy."""
        return self.deleting + (0 if reason == DisruptionReason.UNHEALTHY else self.not_ready)


@dataclass(frozen=True, slots=True)
class Allowance:
    """Allowance of a pool's budgets for one reason at one instant.

    Args:
        limit: The strictest value, `UNLIMITED` if no active budget applies, 0 if one is invalid.
        disrupting: Number of nodes in disruption.
        active: Positions of the active budgets, for any reason.
        binding: Positions of the active budgets for the reason whose value is the limit.
        unusable: Positions and errors of the invalid budgets.
    """

    limit: int
    disrupting: int
    active: tuple[int, ...]
    binding: tuple[int, ...] = ()
    unusable: tuple[tuple[int, str], ...] = ()

    @property
    def remaining(self) -> int:
        """Number of further nodes that may be disrupted."""
        return max(0, self.limit - self.disrupting)


def budget_window(budget: Budget) -> BudgetWindow:
    """Return the window of *budget*.

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
        raise ValueError("duration must not be set without schedule")
    return BudgetWindow(parse_schedule(schedule), timedelta() if duration is None else parse_budget_duration(duration))


_cached_window = lru_cache(maxsize=65536)(_read_window)
"""Large enough for a thousand pools with fifty budgets each."""


def applies_to(budget: Budget, reason: str) -> bool:
    """Return whether *budget* applies to *reason*. An empty list of reasons applies to none."""
    return budget.reasons is None or reason in budget.reasons


def allowed_disruptions(budget: Budget, total: int) -> int:
    """Return how many of *total* nodes *budget* allows to disrupt while active. Percentages round up.

    Raises:
        ValueError: ``nodes`` is neither a number up to 2147483647 nor a percentage of 0% to 100%.
    """
    number = _number(budget.nodes)
    return -(-number * total // 100) if budget.nodes.endswith("%") else number


def _number(nodes: str) -> int:
    """Return the number of nodes, or the percentage. Raises like `allowed_disruptions`."""
    if len(nodes) > LONGEST_NODES or not _NODES.fullmatch(nodes):
        raise ValueError(f"nodes {nodes[:64]!r} must be a number or a percentage from 0% to 100%")
    if nodes.endswith("%"):
        return int(nodes[:-1])
    digits = nodes.lstrip("0") or "0"
    if len(digits) > len(str(UNLIMITED)) or int(digits) > UNLIMITED:
        raise ValueError(f"nodes {nodes[:64]!r} must be at most {UNLIMITED}")
    return int(digits)


def allowance(budgets: Sequence[Budget], counts: NodeCounts, reason: str, now: datetime) -> Allowance:
    """Return the allowance of *budgets* for *reason* at *now*, which is timezone-aware."""
    return parse_budgets(budgets).at(now).allowance(counts, reason)


class BudgetSet(tuple[Budget, ...]):
    """The budgets of a pool, parsed once.

    Callers that cache a pool cache its budgets in this form: parsing fifty of them takes longer than evaluating them.
    """

    readings: "tuple[ParsedBudget, ...]"
    """Each budget as parsed, in the same order."""
    mistakes: tuple[tuple[int, str], ...]
    """Positions and errors of the invalid budgets, active or not."""

    def __new__(cls, budgets: Iterable[Budget] = ()) -> Self:
        """Parse *budgets*."""
        budget_set = super().__new__(cls, budgets)
        budget_set.readings = tuple(map(_parse, budget_set))
        budget_set.mistakes = tuple(
            (index, reading.mistake) for index, reading in enumerate(budget_set.readings) if reading.mistake
        )
        return budget_set

    def at(self, now: datetime) -> "ActiveBudgets":
        """Return the budgets that are active at *now*.

        Raises:
            ValueError: *now* is not timezone-aware.
        """
        moment = CronMinute.of(now)
        is_odd = moment.start >= LAST_YEARS or moment.start.year == MINYEAR
        minutes_left = tuple(
            [
                reading.minutes_left(moment)
                if reading.window is None or not (is_odd or reading.is_odd)
                else int(reading.window.is_open(now))
                for reading in self.readings
            ]
        )
        active = tuple(index for index, minutes in enumerate(minutes_left) if minutes)
        return ActiveBudgets(self, now, moment, is_odd, minutes_left, active)


def parse_budgets(budgets: Iterable[Budget]) -> BudgetSet:
    """Return *budgets* parsed. A `BudgetSet` is returned unchanged."""
    return budgets if isinstance(budgets, BudgetSet) else BudgetSet(budgets)


@dataclass(frozen=True, slots=True, eq=False)
class ActiveBudgets:
    """Active budgets of a pool at one instant.

    Args:
        budgets: Budgets of the pool.
        now: The instant, timezone-aware.
        moment: The minute that contains it.
        is_odd: Whether it is near the minimum or maximum date, where windows may start or end within a minute.
        left: Minimum number of minutes that each budget remains active, from the start of that minute. 0 if it is
            inactive or invalid.
        active: Positions of the active budgets.
    """

    budgets: BudgetSet
    now: datetime
    moment: CronMinute
    is_odd: bool
    left: tuple[int, ...]
    active: tuple[int, ...]

    def allowance(self, counts: NodeCounts, reason: str) -> Allowance:
        """Return the allowance of the budgets for *reason*."""
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
    """A parsed budget.

    Args:
        window: Window, or None if its schedule or duration is invalid.
        schedule: Start times of its windows.
        minutes: Length of its windows.
        always: True if it is always active, False if it is never active, None if that depends on the time.
        is_odd: Whether it has silences in addition to its windows (see `scorer.windows.windows.BudgetWindow.silences`).
        number: Number of nodes, or percentage.
        is_share: Whether *number* is a percentage.
        reasons: Disruption reasons that it limits, or None if it limits all of them.
        mistake: Reason why it is invalid, otherwise empty.
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
        """Return the minimum number of minutes that it remains active, including this one, or 0 if inactive.

        Valid only from the year 2 until `LAST_YEARS`, and if it is not `is_odd`: elsewhere windows do not consist of
        whole minutes.
        """
        if self.schedule is None or self.always is not None:
            return FOREVER if self.always else 0
        since = self.schedule.minutes_since_fire(moment, self.minutes)
        return self.minutes - since if since is not None and since < self.minutes else 0

    def is_about(self, reason: str) -> bool:
        """Return whether the budget applies to disruptions for *reason*. See `applies_to`."""
        return self.reasons is None or reason in self.reasons

    def allowed(self, total: int) -> int:
        """Return how many of *total* nodes it allows to disrupt while active. Percentages round up."""
        return -(-self.number * total // 100) if self.is_share else self.number


def _parse(budget: Budget) -> ParsedBudget:
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
