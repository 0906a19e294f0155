"""When a maintenance window is open, and when it opens next.

Everything is computed in whole minutes, since nothing about a window is finer. Local time is UTC plus the fixed offset
of the window: there is no daylight-saving shift.

Source: upgrade-runs.md 11.
"""

import calendar
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
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
from scorer.windows.cron import DAY_MINUTES

HORIZON_DAYS: Final = 800
"""How far ahead an opening is searched."""
_MINUTE: Final = timedelta(minutes=1)
_FIRST_INSTANT: Final = datetime.min.replace(tzinfo=UTC)
_ANCHOR: Final = date(1970, 1, 1)
_WEEKS_ANCHOR: Final = date(1970, 1, 5)
"""The anchors of windows without a start date; weeks begin on a Monday."""
_WEEKDAYS: Final = {day: place for place, day in enumerate(Weekday)}
_WEEKS: Final[dict[WeekIndex, int]] = {
    week: place for place, week in enumerate(WeekIndex) if week is not WeekIndex.LAST
}

Stretch = tuple[int, int]
"""Minutes since the first instant of the calendar, UTC; the end does not belong to it."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether windows are open at one instant.

    Args:
        is_open: Whether one of them is.
        until: When that changes; None: not within `HORIZON_DAYS`.
    """

    is_open: bool
    until: datetime | None


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """When one window is open.

    Args:
        schedule: On which local days it opens; exactly one of the four.
        opens: The minute of the local day at which it opens.
        minutes: How long it stays open.
        offset: Minutes by which local time is ahead of UTC.
        first: The first local day on which it may open, from which intervals count; None: there is none.
        blocked: When it is closed nevertheless, in order.
    """

    schedule: Schedule
    opens: int
    minutes: int
    offset: int = 0
    first: date | None = None
    blocked: Sequence[Stretch] = ()

    @classmethod
    def of(cls, spec: MaintenanceWindowSpec) -> "MaintenanceWindow":
        """Read ``spec`` of a ClusterMaintenanceWindow.

        Raises:
            ValueError: A field cannot be used; the message names it and its value.
        """
        given = [name for name, each in spec.schedule if each is not None]
        if len(given) != 1:
            said = ", ".join(given) or "nothing"
            raise ValueError(f"spec.schedule: needs one of daily, weekly, absoluteMonthly, relativeMonthly, has {said}")
        offset = _offset(spec.utc_offset)
        blocked = sorted(_blocked(place, each, offset) for place, each in enumerate(spec.not_allowed_dates))
        opens = _minute_of_day(spec.start_time)
        return cls(spec.schedule, opens, spec.duration_hours * 60, offset, spec.start_date, tuple(blocked))

    def stretches(self, since: int) -> Iterator[Stretch]:
        """Yield when it is open, in order, from the minute *since* on: what has ended by then is left out."""
        last = since // DAY_MINUTES + 1 + HORIZON_DAYS + 1
        for day in self._days(since // DAY_MINUTES + 1 - 2, min(last, date.max.toordinal())):
            begin = (day - 1) * DAY_MINUTES + self.opens - self.offset
            for stretch in _without((begin, begin + self.minutes), self.blocked):
                if stretch[1] > since:
                    yield stretch

    def _days(self, begin: int, last: int) -> Iterator[int]:
        """Yield the local days on which it opens, as ordinals, from *begin* to *last*."""
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


def standing(windows: Sequence[MaintenanceWindow], now: datetime) -> Standing:
    """Say whether one of several windows is open at *now*, which has a time zone, and until when that stays so."""
    minute = (now - _FIRST_INSTANT) // _MINUTE
    end = _closing(windows, minute)
    if end > minute:
        return Standing(is_open=True, until=None if _is_far(minute, end) else _instant(end))
    openings = (next(window.stretches(minute), None) for window in windows)
    opening = min((each[0] for each in openings if each is not None), default=None)
    return Standing(is_open=False, until=None if opening is None or _is_far(minute, opening) else _instant(opening))


def openings(
    windows: Sequence[MaintenanceWindow], begin: datetime, end: datetime, most: int
) -> Iterator[tuple[datetime, datetime]]:
    """Yield when one of several windows is open between two instants, in order, at most *most* times."""
    at = begin
    for _ in range(most * 2):
        if at >= end:
            return
        found = standing(windows, at)
        if found.is_open:
            yield at, min(found.until or end, end)
        if found.until is None:
            return
        at = found.until


def _closing(windows: Iterable[MaintenanceWindow], minute: int) -> int:
    """Return when the windows that are open at *minute* have closed, others that open meanwhile included.

    *minute* itself when none is open; a search that goes on for longer than the horizon ends somewhere behind it.
    """
    end, known = minute, -1
    while end != known and not _is_far(minute, end):
        known = end
        for window in windows:
            begin, finish = next(window.stretches(end), (end + 1, end))
            if begin <= end:
                end = finish
    return end


def _is_far(minute: int, end: int) -> bool:
    return end - minute > HORIZON_DAYS * DAY_MINUTES


def _instant(minute: int) -> datetime | None:
    """Return the instant of a minute; None: it is after the end of the calendar."""
    try:
        return _FIRST_INSTANT + minute * _MINUTE
    except OverflowError:
        return None


def _every(step: int, anchor: int, begin: int, last: int) -> range:
    """Return the numbers from *begin* to *last* whose distance from *anchor* can be divided by *step*."""
    return range(begin + (anchor - begin) % step, last + 1, step)


def _month(day: date) -> int:
    return day.year * 12 + day.month - 1


def _month_of(ordinal: int) -> int:
    return _month(date.fromordinal(ordinal))


def _day_of_month(schedule: AbsoluteMonthlySchedule | RelativeMonthlySchedule, month: int) -> int:
    """Return the day of a month, which is counted from the year 0, on which a monthly window opens."""
    year, place = divmod(month, 12)
    first = date(year, place + 1, 1).toordinal()
    length = calendar.monthrange(year, place + 1)[1]
    if isinstance(schedule, AbsoluteMonthlySchedule):
        return first + min(schedule.day_of_month, length) - 1
    to_weekday = (_WEEKDAYS[schedule.day_of_week] - (first - 1)) % 7
    return first + to_weekday + 7 * _WEEKS.get(schedule.week_index, (length - 1 - to_weekday) // 7)


def _without(stretch: Stretch, blocked: Iterable[Stretch]) -> Iterator[Stretch]:
    """Yield what remains of a stretch; *blocked* is in order."""
    begin, end = stretch
    for closes, opens in blocked:
        if opens <= begin or closes >= end:
            continue
        if closes > begin:
            yield begin, closes
        begin = opens
    if begin < end:
        yield begin, end


def _blocked(place: int, days: DateRange, offset: int) -> Stretch:
    """Return the minutes of whole local days, both ends included."""
    if days.end < days.start:
        raise ValueError(f"spec.notAllowedDates[{place}]: end {days.end} is before start {days.start}")
    return (days.start.toordinal() - 1) * DAY_MINUTES - offset, days.end.toordinal() * DAY_MINUTES - offset


def _minute_of_day(text: str) -> int:
    if not re.fullmatch(TIME_PATTERN, text, re.ASCII):
        raise ValueError(f"spec.startTime: {text[:64]!r} is not a time of day such as 22:00")
    return int(text[:2]) * 60 + int(text[3:])


def _offset(text: str) -> int:
    if not re.fullmatch(OFFSET_PATTERN, text, re.ASCII):
        raise ValueError(f"spec.utcOffset: {text[:64]!r} is not an offset such as +01:00")
    return int(text[0] + "1") * (int(text[1:3]) * 60 + int(text[4:]))
