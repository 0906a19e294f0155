"""Maintenance windows: whether they are open, and when they open next.

Everything is computed in whole minutes, the resolution of a window. Local time is UTC plus the fixed offset of the
window, without daylight-saving shifts.

Example: a window at 02:00 with offset +01:00 opens at 01:00 UTC all year. In summer, that is 03:00 on a clock in
Berlin. With a time zone instead of an offset, its start would not exist on the last Sunday in March, when clocks there
skip from 02:00 to 03:00, and would occur twice on the last Sunday in October.

Source: docs/specifications/upgrade-runs.md 11.
"""

import calendar
import re
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from operator import itemgetter
from typing import Final

from scorer.api.upgrade.fields import OFFSET_PATTERN, TIME_PATTERN, Weekday
from scorer.api.upgrade.maintenance_window import (
    AbsoluteMonthlySchedule,
    DateRange,
    MaintenanceWindowSpec,
    RelativeMonthlySchedule,
    Schedule,
    WeekIndex,
)
from scorer.windows.cron import DAY_MINUTES, MINUTE

HORIZON_DAYS: Final = 800
"""Horizon of the search for an opening."""
_FIRST_INSTANT: Final = datetime.min.replace(tzinfo=UTC)
_ANCHOR: Final = date(1970, 1, 1)
_WEEKS_ANCHOR: Final = date(1970, 1, 5)
"""Anchors of windows without a start date. Weeks start on a Monday."""
_WEEKDAYS: Final = {day: place for place, day in enumerate(Weekday)}
_WEEKS: Final[dict[WeekIndex, int]] = {
    week: place for place, week in enumerate(WeekIndex) if week is not WeekIndex.LAST
}

OpenInterval = tuple[int, int]
"""Minutes since 0001-01-01 UTC, half-open."""
_end_of = itemgetter(1)


@dataclass(frozen=True, slots=True)
class WindowState:
    """State of windows at one instant.

    Args:
        is_open: Whether any of them is open.
        until: Time at which that changes. None: unknown, not within `HORIZON_DAYS`.
    """

    is_open: bool
    until: datetime | None


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """One maintenance window.

    Args:
        schedule: Local days of its openings, exactly one of the four kinds.
        opens: Minute of the local day at which it opens.
        minutes: Length of an opening.
        offset: Offset of local time from UTC, in minutes.
        first: First local day of an opening, the anchor of intervals. None: unset.
        blocked: Sorted closed periods that neither overlap nor touch.
    """

    schedule: Schedule
    opens: int
    minutes: int
    offset: int = 0
    first: date | None = None
    blocked: Sequence[OpenInterval] = ()

    @classmethod
    def of(cls, spec: MaintenanceWindowSpec) -> "MaintenanceWindow":
        """Parse ``spec`` of a ClusterMaintenanceWindow.

        Raises:
            ValueError: A field is invalid. The message has its name and value.
        """
        schedules = [name for name, schedule in spec.schedule if schedule is not None]
        if len(schedules) != 1:
            message = ", ".join(schedules) or "nothing"
            raise ValueError(
                "spec.schedule: must have exactly one of daily, weekly, absoluteMonthly and relativeMonthly, has "
                f"{message}"
            )
        offset = _offset(spec.utc_offset)
        closures = sorted(_blocked_interval(place, days, offset) for place, days in enumerate(spec.not_allowed_dates))
        opens = _minute_of_day(spec.start_time)
        return cls(spec.schedule, opens, spec.duration_hours * 60, offset, spec.start_date, _merge(closures))

    def openings(self, since: int) -> Iterator[OpenInterval]:
        """Yield its openings in order, without those that have ended by the minute *since*."""
        # From two days earlier: an opening lasts up to a day, and an offset moves a local day by up to one more.
        # Example: an opening on Monday at 23:00 for 24 hours, with offset -12:00, is still open on Wednesday at 03:00
        # UTC.
        day: int | None = since // DAY_MINUTES + 1 - 2
        last = min(since // DAY_MINUTES + 1 + HORIZON_DAYS + 1, date.max.toordinal())
        while day is not None and day <= last:
            day = yield from self._until_blocked(day, last, since)

    def _until_blocked(self, begin: int, last: int, since: int) -> Generator[OpenInterval, None, int | None]:
        """Yield its openings on local days, up to one that is blocked completely.

        Returns:
            The first unblocked day after it, or None. A window that is closed for years is thus not checked day by day.
        """
        for day in self._days(begin, last):
            opens = (day - 1) * DAY_MINUTES + self.opens - self.offset
            closes = opens + self.minutes
            place = bisect_right(self.blocked, opens, key=_end_of)
            if place < len(self.blocked) and self.blocked[place][0] <= opens and closes <= self.blocked[place][1]:
                reopens = self.blocked[place][1]
                return max(day, (reopens - self.minutes - self.opens + self.offset) // DAY_MINUTES + 1) + 1
            for stretch in _without((opens, closes), self.blocked[place:]):
                if stretch[1] > since:
                    yield stretch
        return None

    def _days(self, begin: int, last: int) -> Iterator[int]:
        """Yield the local days of its openings, as ordinals, from *begin* to *last*."""
        anchor = self.first or _ANCHOR
        begin = max(begin, 1 if self.first is None else self.first.toordinal())
        if (daily := self.schedule.daily) is not None:
            yield from _every(daily.interval_days, anchor.toordinal(), begin, last)
        elif (weekly := self.schedule.weekly) is not None:
            base = (self.first or _WEEKS_ANCHOR).toordinal()
            base += (_WEEKDAYS[weekly.day_of_week] - (base - 1)) % 7
            yield from _every(7 * weekly.interval_weeks, base, begin, last)
        elif (monthly := self.schedule.absolute_monthly or self.schedule.relative_monthly) is not None:
            for month in _every(monthly.interval_months, _month(anchor), _month_of(begin), _month_of(last)):
                if begin <= (day := _day_of_month(monthly, month)) <= last:
                    yield day


class NextOpenings:
    """Cache of the next opening of each window, valid until it has ended.

    A caller that evaluates many sets of windows, or many instants, keeps this cache.
    """

    __slots__ = ("_cache",)

    def __init__(self) -> None:
        self._cache: dict[int, tuple[MaintenanceWindow, int, OpenInterval | None]] = {}

    def of(self, window: MaintenanceWindow, minute: int) -> OpenInterval | None:
        """Return the first opening that has not ended by *minute*, or None without one within the horizon."""
        entry = self._cache.get(id(window))
        if entry is not None:
            _, since, opening = entry
            if since <= minute < opening[1] if opening is not None else since // DAY_MINUTES == minute // DAY_MINUTES:
                return opening
        opening = next(window.openings(minute), None)
        self._cache[id(window)] = window, minute, opening  # keeps the window alive: its id is not reused
        return opening


def window_state(windows: Sequence[MaintenanceWindow], now: datetime, cache: NextOpenings | None = None) -> WindowState:
    """Return whether any of several windows is open, and until when.

    Args:
        windows: The windows.
        now: The instant, timezone-aware.
        cache: Cached openings. None: unset.
    """
    minute, cache = (now - _FIRST_INSTANT) // MINUTE, cache or NextOpenings()
    end = _closing(windows, minute, cache)
    if end > minute:
        return WindowState(is_open=True, until=None if _is_far(minute, end) else _instant(end))
    openings = (cache.of(window, minute) for window in windows)
    opening = min((opening[0] for opening in openings if opening is not None), default=None)
    return WindowState(is_open=False, until=None if opening is None or _is_far(minute, opening) else _instant(opening))


def openings(
    windows: Sequence[MaintenanceWindow], begin: datetime, end: datetime, most: int
) -> Iterator[tuple[datetime, datetime]]:
    """Yield the openings of several windows combined, in order, at most *most* of them.

    The first one starts at *begin* at the earliest, the last one before *end*. Its end may be later, and is *end* if it
    is unknown.
    """
    at, cache = begin, NextOpenings()
    for _ in range(most * 2):
        if at >= end:
            return
        state = window_state(windows, at, cache)
        if state.is_open:
            yield at, state.until or end
        if state.until is None:
            return
        at = state.until


def _closing(windows: Iterable[MaintenanceWindow], minute: int, next_stretches: NextOpenings) -> int:
    """Return the first minute from *minute* on at which no window is open.

    Returns *minute* itself if none is open then. A search beyond the horizon ends at some minute after it.
    """
    end, last_end = minute, -1
    while end != last_end and not _is_far(minute, end):
        last_end = end
        for window in windows:
            opening = next_stretches.of(window, end)
            if opening is not None and opening[0] <= end:
                end = opening[1]
    return end


def _is_far(minute: int, end: int) -> bool:
    return end - minute > HORIZON_DAYS * DAY_MINUTES


def _instant(minute: int) -> datetime | None:
    """Return the instant of a minute, or None if it is out of range."""
    try:
        return _FIRST_INSTANT + minute * MINUTE
    except OverflowError:
        return None


def _every(step: int, anchor: int, begin: int, last: int) -> range:
    """Return the numbers from *begin* to *last* whose distance from *anchor* is a multiple of *step*."""
    return range(begin + (anchor - begin) % step, last + 1, step)


def _month(day: date) -> int:
    return day.year * 12 + day.month - 1


def _month_of(ordinal: int) -> int:
    return _month(date.fromordinal(ordinal))


def _day_of_month(schedule: AbsoluteMonthlySchedule | RelativeMonthlySchedule, month: int) -> int:
    """Return the day of the opening in a month, which is counted from the year 0."""
    year, place = divmod(month, 12)
    first = date(year, place + 1, 1).toordinal()
    length = calendar.monthrange(year, place + 1)[1]
    if isinstance(schedule, AbsoluteMonthlySchedule):
        return first + min(schedule.day_of_month, length) - 1
    days_to_weekday = (_WEEKDAYS[schedule.day_of_week] - (first - 1)) % 7
    return first + days_to_weekday + 7 * _WEEKS.get(schedule.week_index, (length - 1 - days_to_weekday) // 7)


def _without(stretch: OpenInterval, closures: Iterable[OpenInterval]) -> Iterator[OpenInterval]:
    """Yield the parts of an interval outside of *closures*, which are sorted."""
    begin, end = stretch
    for closes, opens in closures:
        if closes >= end:
            break
        if opens <= begin:
            continue
        if closes > begin:
            yield begin, closes
        begin = opens
    if begin < end:
        yield begin, end


def _merge(stretches: Iterable[OpenInterval]) -> tuple[OpenInterval, ...]:
    """Merge overlapping and adjacent intervals. *stretches* must be sorted."""
    merged: list[OpenInterval] = []
    for begin, end in stretches:
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((begin, end))
    return tuple(merged)


def _blocked_interval(place: int, days: DateRange, offset: int) -> OpenInterval:
    """Return the minutes of whole local days, both ends included. Raise ValueError if they end before they start."""
    if days.end < days.start:
        raise ValueError(f"spec.notAllowedDates[{place}]: end {days.end} must not be before start {days.start}")
    return (days.start.toordinal() - 1) * DAY_MINUTES - offset, days.end.toordinal() * DAY_MINUTES - offset


def _minute_of_day(text: str) -> int:
    if not re.fullmatch(TIME_PATTERN, text, re.ASCII):
        raise ValueError(f"spec.startTime: {text[:64]!r} is not a time of day such as 22:00")
    return int(text[:2]) * 60 + int(text[3:])


def _offset(text: str) -> int:
    if not re.fullmatch(OFFSET_PATTERN, text, re.ASCII):
        raise ValueError(f"spec.utcOffset: {text[:64]!r} is not an offset such as +01:00")
    return int(text[0] + "1") * (int(text[1:3]) * 60 + int(text[4:]))
