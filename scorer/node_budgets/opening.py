"""Opening of a pool: the first instant at which no budget blocks a disruption.

The search assumes that the number of nodes and of disruptions does not change. A fixed set of budgets then blocks
whenever active, and the result is the first instant that none of their windows covers. This instant is usually a few
windows away, so the search first steps from the end of one window to the end of the next. After that, the windows are
combined as bits, one per minute, first for a few days and then for the rest. This takes a few milliseconds where the
reference walks thousands of rounds.

Source: docs/specifications/nodepool-disruption.md 14.3. The search described there walks rounds of closing windows, and
gives up after 20000. This search finds the same instant, but does not give up before the horizon.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import MINYEAR, UTC, datetime, timedelta
from functools import lru_cache, reduce
from operator import or_
from typing import Final

from scorer.api.node_pool import Budget
from scorer.node_budgets.budgets import FOREVER, UNLIMITED, ActiveBudgets, NodeCounts, ParsedBudget, parse_budgets
from scorer.windows.cron import DAY_MINUTES, MINUTE, CronMinute
from scorer.windows.windows import LAST_YEARS, WEEK_MINUTES, WHOLE_WEEK, BudgetWindow, epoch_seconds, from_epoch

HORIZON: Final = timedelta(days=400)
_LATEST: Final = datetime.max.replace(tzinfo=UTC)
_STEPS: Final = 24
"""Maximum number of steps from one window's end to the next before the search uses bits."""
_LOOKS: Final = (2, 30, 400)
"""Horizon of each attempt, in days from now. Most searches end in the first."""


@dataclass(frozen=True, slots=True)
class Opening:
    """Time from which the desired number of nodes may be disrupted.

    Args:
        instant: Time in UTC, or None if not found.
        searched_until: End of the search if an opening may exist later, otherwise None.
        closing: Positions of the budgets that block now, or are invalid.
    """

    instant: datetime | None
    searched_until: datetime | None
    closing: tuple[int, ...]


def next_open(
    budgets: Sequence[Budget],
    counts: NodeCounts,
    reason: str,
    requested: int,
    now: datetime,
    *,
    horizon: timedelta = HORIZON,
) -> Opening:
    """Return the first instant from *now* on, within *horizon*, at which *requested* nodes may be disrupted.

    An invalid budget keeps the pool closed, active or not, since its intention is unknown. *now* is timezone-aware.
    """
    return opening_of(parse_budgets(budgets).at(now), counts, reason, requested, horizon=horizon)


def opening_of(
    active_budgets: ActiveBudgets, counts: NodeCounts, reason: str, requested: int, *, horizon: timedelta = HORIZON
) -> Opening:
    """Return the result of `next_open` for budgets whose state at the instant is already known."""
    now = active_budgets.now.astimezone(UTC)
    if requested <= 0:
        return Opening(now, None, ())
    most = counts.disrupting(reason) + requested
    if active_budgets.budgets.mistakes or most > UNLIMITED:
        return Opening(None, None, tuple(index for index, _ in active_budgets.budgets.mistakes))
    total = counts.total
    blockers = {
        index: reading
        for index, reading in enumerate(active_budgets.budgets.readings)
        if reading.is_about(reason) and reading.allowed(total) < most
    }
    closing = tuple(index for index in active_budgets.active if index in blockers)
    if not closing:
        return Opening(now, None, ())
    ahead = max(active_budgets.left[index] for index in closing)
    if ahead == FOREVER:
        return Opening(None, None, closing)
    near = None if active_budgets.is_odd else _end_of_windows(blockers.values(), active_budgets.moment, ahead)
    if near is not None and near - now <= horizon:
        return Opening(near, None, closing)
    windows = (reading.window for reading in blockers.values() if reading.window is not None)
    instant, searched_until = first_gap(windows, now, horizon)
    return Opening(instant, searched_until, closing)


def _end_of_windows(blockers: Iterable[ParsedBudget], moment: CronMinute, ahead: int) -> datetime | None:
    """Return the first uncovered instant, or None if the search takes too many steps from window end to window end.

    Args:
        blockers: The budgets that must not be active.
        moment: Start of the search.
        ahead: Number of minutes from *moment* during which at least one of *blockers* is active.
    """
    variable_readings = [reading for reading in blockers if reading.always is None]
    if any(reading.is_odd for reading in variable_readings):
        return None
    for _ in range(_STEPS):
        if ahead >= (LAST_YEARS - moment.start) // MINUTE:
            return None
        moment = CronMinute.of(moment.start + ahead * MINUTE)
        ahead = max([reading.minutes_left(moment) for reading in variable_readings])
        if not ahead:
            return moment.start
    return None


def first_gap(
    windows: Iterable[BudgetWindow], now: datetime, horizon: timedelta = HORIZON
) -> tuple[datetime | None, datetime | None]:
    """Return the first instant from *now* on, within *horizon* of at most 400 days, at which none of *windows* is open.

    Returns:
        The instant and None, or None and the end of the search. Both are None if no such instant can exist: a single
        window never closes, or the weekly windows cover every minute of the week.
    """
    distinct = frozenset(windows)
    if any(window.is_constant for window in distinct):
        return None, None
    until = now.astimezone(UTC) + horizon if now <= _LATEST - horizon else _LATEST
    position, last = epoch_seconds(now), epoch_seconds(until)
    minute, first = position // 60, position // 60
    week, other_windows = 0, distinct
    steady: set[BudgetWindow] | None = None
    for days in _LOOKS:
        stop = min(first + days * DAY_MINUTES, last // 60) // DAY_MINUTES * DAY_MINUTES + DAY_MINUTES
        if stop <= minute:
            break
        count = stop - minute
        minutes_by_window = {window: window.minutes(minute, count) for window in other_windows}
        minutes = reduce(or_, minutes_by_window.values(), _repeat_week(week, minute, count))
        first_minute = _first_free(minutes, minute, count, position, distinct)
        if first_minute is not None:
            return (max(now.astimezone(UTC), from_epoch(first_minute)), None) if first_minute <= last else (None, until)
        if steady is None and now.year > MINYEAR:
            week, other_windows = _by_week(distinct)
            if week == WHOLE_WEEK:
                return None, None
        full = (1 << count) - 1
        candidates = other_windows if steady is None else steady
        steady = {window for window in candidates if minutes_by_window[window] == full and not _pauses(window)}
        minute, position = stop, stop * 60
    return None, None if steady else until


def _pauses(window: BudgetWindow) -> bool:
    return window.schedule is not None and window.schedule.leap_days_only


@lru_cache(maxsize=2048)
def _by_week(windows: frozenset[BudgetWindow]) -> tuple[int, frozenset[BudgetWindow]]:
    """Return the minutes of the week covered by the weekly ones among *windows*, and the other windows."""
    weeks = {window: window.week for window in windows}
    week = reduce(or_, (week for week in weeks.values() if week is not None), 0)
    return week, frozenset(window for window in windows if weeks[window] is None)


def _repeat_week(week: int, first: int, count: int) -> int:
    """Return *week* repeated over *count* minutes from *first* on, counted from the epoch."""
    offset = first % WEEK_MINUTES
    weeks = -(-(offset + count) // WEEK_MINUTES)
    minutes = int.from_bytes(week.to_bytes(WEEK_MINUTES // 8, "little") * weeks, "little")
    return minutes >> offset & ((1 << count) - 1)


def _first_free(minutes: int, minute: int, count: int, second: int, windows: Iterable[BudgetWindow]) -> int | None:
    """Return the first second from *second* on that neither *minutes* nor a silence of *windows* covers, or None.

    *minutes* has a bit for each of the *count* minutes from *minute* on, counted from the epoch.
    """
    end = (minute + count) * 60
    silences = [silence for window in windows for silence in window.silences(second, end)]
    while second < end:
        ahead = minutes >> second // 60 - minute
        shift = (~ahead & (ahead + 1)).bit_length() - 1
        if shift:
            second = (second // 60 + shift) * 60
        silent_until = max((finish for begin, finish in silences if begin <= second < finish), default=None)
        if silent_until is None:
            return second if second < end else None
        second = silent_until
    return None
