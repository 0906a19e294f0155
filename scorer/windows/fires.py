"""Next fire time of a schedule. croniter finds the day.

croniter never parses a user's text. It receives the three day fields from our parser, and searches for the first
matching day within nine years. A search usually takes a tenth of a millisecond, and at most one or two milliseconds.
Its results are cached. A small cache is enough: the schedules of a fleet share a few sets of days. They differ in their
times of day, which are computed from the sets of `scorer.windows.cron` without croniter. A cached result takes three
microseconds.

`scorer.windows.cron` has another search, which finds the fire times of many schedules over many days as bits.

Source: docs/specifications/nodepool-disruption.md 8.4. There, croniter evaluates the complete schedule. The tests
compare both results.
"""

from datetime import MAXYEAR, UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from scorer.windows.cron import MINUTE, CronSchedule, whole_second

HORIZON_YEARS: Final = 5
"""The search ends with the fifth calendar year after the year of its first second."""

_LATEST: Final = datetime.max.replace(tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_DAY: Final = timedelta(days=1)
_CYCLE_YEARS: Final = 400
_CYCLE: Final = timedelta(days=146_097)
"""Number of days, and of years, after which the calendar repeats, including weekdays."""
_CYCLE_START: Final = 2000
"""croniter is only called for the cycle from this year on: it fails near the minimum and maximum date."""
_MOST_YEARS: Final = 9
"""Horizon of the search in years, longer than the eight years between two leap days around a year such as 2100."""


def next_fire(schedule: CronSchedule, instant: datetime) -> datetime | None:
    """Return the first fire time strictly after *instant*, in UTC.

    None if the search finds no fire time within its horizon. The horizon ends with the calendar year `HORIZON_YEARS`
    after the year of the first whole second after *instant*, and with the year 9999.

    Raises:
        ValueError: *instant* has no time zone.
    """
    second = whole_second(instant)
    if schedule.every is not None:
        return second + schedule.every if second <= _LATEST - schedule.every else None
    if schedule.never_fires:
        return None
    cycles = (second.year - _CYCLE_START) // _CYCLE_YEARS
    if cycles:
        second -= cycles * _CYCLE
    last_year = min((second + _SECOND).year + HORIZON_YEARS, MAXYEAR - cycles * _CYCLE_YEARS)
    today, times = second.replace(hour=0, minute=0, second=0), schedule.firing_minutes()
    # Today's minutes up to now are cleared. Example: at 14:30 the schedule ``0 9,18 * * *`` has only 18:00 left today.
    # If the day search then finds a later day, all of its times count again, and the first one is 9:00.
    next_minute = second.hour * 60 + second.minute + 1
    remaining = times >> next_minute << next_minute
    first = today if remaining else today + _DAY
    day = _first_day(schedule.days, schedule.months, schedule.weekdays, schedule.either, first)
    if day is None or day.year > last_year:
        return None
    times = remaining if day == today else times
    fire = day + ((times & -times).bit_length() - 1) * MINUTE
    return fire + cycles * _CYCLE if cycles else fire


@lru_cache(maxsize=4096)
def _first_day(days: int, months: int, weekdays: int, either: bool, midnight: datetime) -> datetime | None:
    """Return the start of the first matching day from *midnight* on, or None if it is too far."""
    midnights = CronSchedule("", 1, 1, days, months, weekdays, either).canonical
    # Imported here because most processes never need it, and its import runs a program to determine the word size of
    # Python.
    from croniter import CroniterBadDateError, croniter  # type: ignore[import-untyped]  # it has no py.typed

    search = croniter(midnights, midnight - MINUTE, ret_type=datetime, max_years_between_matches=_MOST_YEARS)
    try:
        midnight_of_fire: datetime = search.get_next()
    except CroniterBadDateError:
        return None
    return midnight_of_fire
