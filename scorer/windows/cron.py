"""Schedules of disruption budgets: the reference's cron dialect, always UTC.

The parser is our own, linear in the length of the text: the cron libraries accept much that the reference refuses, and
refuse some that it accepts (nodepool-disruption.md 8.3). The next fire time of a single schedule is computed with
croniter, in `scorer.windows.fires`.

The search in this module is for many schedules over many days. It works on sets of bits, a whole month or a whole day
per step, where croniter steps from date to date. A calendar, or the next opening over 400 days, needs every fire time
of 50 schedules. A schedule that fires each minute has 576,000 fire times in 400 days. The gate determines which of the
50 budgets of a pool are active within one turn of the event loop. That takes 30 microseconds with bits, 160
microseconds with the next fire time of each schedule, and 13 ms if no two schedules share their days.

Source: docs/specifications/nodepool-disruption.md 8; robfig/cron v3 ``parser.go`` and ``spec.go``.
"""

import dataclasses
import re
from calendar import monthrange
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import MINYEAR, UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from scorer.api.node_pool import LONGEST_SCHEDULE
from scorer.api.values.duration import parse_go_duration

MACROS: Final[Mapping[str, str]] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
DAY_MINUTES: Final = 24 * 60

MINUTE: Final = timedelta(minutes=1)
_FEBRUARY: Final = 2
_LEAP_DAY: Final = 29
_SHORT_MONTHS: Final = 1 << _FEBRUARY | 1 << 4 | 1 << 6 | 1 << 9 | 1 << 11
_SIX_WEEKS: Final = sum(1 << 7 * week for week in range(6))
_LONGEST_CACHED: Final = 256
_LONGEST_WORD: Final = 64
_QUOTED: Final = 64
_COUNTED: Final = 10
"""Maximum number of fields that are counted for an error message."""
_LARGEST: Final = 2**63 - 1
_LARGEST_DIGITS: Final = len(str(_LARGEST))
_SPACE: Final = (
    "\t\n\v\f\r \u0085\u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
"""Characters that separate fields for the reference's parser. The CRD's pattern allows only five of them."""
_WORD: Final = re.compile(f"[^{_SPACE}]+")
_BLANK: Final = re.compile(r"[\t\f\r ]")
_EVERY: Final = "@every "
_TIME_ZONES: Final = ("TZ=", "CRON_TZ=")


@dataclass(frozen=True, slots=True)
class CronMinute:
    """A minute in a form for fast checks against many schedules. See `CronMinute.of`.

    Args:
        start: First instant, in UTC.
        first_weekday: Weekday of the first day of its month, Sunday being 0.
        past_days: The days of its month up to and including its day, as bits.
        past_minutes: The minutes of its hour up to and including it, as bits.
    """

    start: datetime
    day: int
    month: int
    hour: int
    minute: int
    first_weekday: int
    past_days: int
    past_minutes: int

    @classmethod
    def of(cls, instant: datetime) -> "CronMinute":
        """Return the minute that contains *instant*.

        Raises:
            ValueError: *instant* has no time zone.
        """
        start = whole_second(instant).replace(second=0)
        first_weekday, _ = _month(start.year, start.month)
        past_days, past_minutes = (2 << start.day) - 2, (2 << start.minute) - 1
        return cls(start, start.day, start.month, start.hour, start.minute, first_weekday, past_days, past_minutes)


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """A parsed schedule. It fires at second 0 of a minute, except for ``@every``.

    *minutes* to *weekdays* contain the values of the five fields as bits: 5 is allowed if bit 5 is set. They are empty
    if the schedule never fires, and for an ``@every`` schedule.

    Args:
        text: The schedule as written.
        either: Whether a day must be in *days* or in *weekdays*. Otherwise it must be in both.
        every: Delay of an ``@every`` schedule, in whole seconds. None if the schedule has fields.
    """

    text: str
    minutes: int = 0
    hours: int = 0
    days: int = 0
    months: int = 0
    weekdays: int = 0
    either: bool = False
    every: timedelta | None = None

    @property
    def canonical(self) -> str:
        """The schedule as five fields, each ``*`` or a sorted list. Empty if it has no fields or never fires."""
        if not self.minutes:
            return ""
        sets = (self.minutes, self.hours, self.days, self.months, self.weekdays)
        return " ".join(
            "*" if bits == field.full and not (self.either and field in _DAY_FIELDS) else ",".join(_set_bits(bits))
            for bits, field in zip(sets, _FIELDS, strict=True)
        )

    @property
    def never_fires(self) -> bool:
        """Whether no instant matches at all, as with 31 February or a list that consists of commas."""
        return not self.minutes and self.every is None

    @property
    def leap_days_only(self) -> bool:
        """Whether it fires only on 29 February. Any other schedule that ever fires does so every year."""
        return not self.either and self.months == 1 << _FEBRUARY and _lowest(self.days) == _LEAP_DAY

    @property
    def is_weekly(self) -> bool:
        """Whether it fires at the same times every week."""
        every_day = self.either and self.weekdays == _WEEKDAY.full
        return self.months == _MONTH.full and (every_day or self.days == _DAY.full)

    @property
    def is_daily(self) -> bool:
        """Whether it fires at the same times every day."""
        days, weekdays = self.days == _DAY.full, self.weekdays == _WEEKDAY.full
        return self.months == _MONTH.full and (days or weekdays if self.either else days and weekdays)

    def last_at(self, instant: datetime) -> datetime | None:
        """Return the latest fire time that is not after *instant*, in UTC. None if the year 1 is reached without one.

        For an ``@every`` schedule, the result is *instant*, rounded down to the second. Such a schedule fires one
        interval after the start of a search, so a search that starts one interval earlier fires at that second.

        Raises:
            ValueError: *instant* has no time zone.
        """
        second = whole_second(instant)
        if self.every is not None:
            return second if second - datetime.min.replace(tzinfo=UTC) >= self.every else None
        if not self.minutes:
            return None
        year, month, day = second.year, second.month, second.day
        time = self._time_until(second.hour, second.minute)
        days = self._days_of(year, month) & ((1 << day + (time is not None)) - 1)
        if time is None or not days >> day & 1:
            time = _highest(self.hours), _highest(self.minutes)
        while not days:
            year, month = (year, month - 1) if month > 1 else (year - 1, 12)
            if year < MINYEAR:
                return None
            days = self._days_of(year, month)
        return datetime(year, month, _highest(days), *time, tzinfo=UTC)

    def minutes_since_fire(self, moment: CronMinute, most: int) -> int | None:
        """Return the minutes since the fire time that `last_at` returns. Only for schedules with fields.

        None if there is no fire time, or if it was before this month and therefore at least *most* minutes ago: the
        exact number would take longer to compute, and the caller does not need it.
        """
        if self.months >> moment.month & 1:
            weekdays = self.weekdays * _SIX_WEEKS >> moment.first_weekday << 1
            days = (self.days | weekdays if self.either else self.days & weekdays) & moment.past_days
            if days >> moment.day & 1:
                if self.hours >> moment.hour & 1 and (minutes := self.minutes & moment.past_minutes):
                    return moment.minute + 1 - minutes.bit_length()
                if hours := self.hours & ((1 << moment.hour) - 1):
                    return 60 * (moment.hour + 1 - hours.bit_length()) + moment.minute + 1 - self.minutes.bit_length()
                days ^= 1 << moment.day
            if days:
                hours_ago = 24 * (moment.day + 1 - days.bit_length()) + moment.hour + 1 - self.hours.bit_length()
                return 60 * hours_ago + moment.minute + 1 - self.minutes.bit_length()
        if most <= DAY_MINUTES * (moment.day - 1):
            return None
        fire = self.last_at(moment.start)
        return None if fire is None else (moment.start - fire) // MINUTE

    def firing_minutes(self) -> int:
        """Return the minutes of a day at which the schedule fires, as bits. Only for schedules with fields."""
        return self.minutes * _first_minutes(self.hours)

    def firing_days(self, first: date, days: int) -> int:
        """Return the days when the schedule fires, as bits, for *days* days from *first* on.

        Only for schedules with fields. No day may be later than the year 9999.
        """
        days_with_fire = done = 0
        year, month, day = first.year, first.month, first.day
        while done < days:
            days_with_fire |= self._days_of(year, month) >> day << done
            done += _month(year, month)[1].bit_length() - day
            year, month, day = (year, month + 1, 1) if month < 12 else (year + 1, 1, 1)
        return days_with_fire & ((1 << days) - 1)

    def _days_of(self, year: int, month: int) -> int:
        """Return the days of a month on which the schedule fires, as bits."""
        if not self.months >> month & 1:
            return 0
        # The set of weekdays is repeated for six weeks, and shifted so that bit 1 is the first day of the month.
        # Example: July 2026 starts on a Wednesday, so bit 3 moves to bit 1, and the bits of earlier weekdays drop out.
        first, month_days = _month(year, month)
        weekdays = self.weekdays * _SIX_WEEKS >> first << 1
        return (self.days | weekdays if self.either else self.days & weekdays) & month_days

    def _time_until(self, hour: int, minute: int) -> tuple[int, int] | None:
        """Return the last time of day, at or before the given one, at which the schedule fires, or None."""
        if self.hours >> hour & 1 and (minutes := self.minutes & ((2 << minute) - 1)):
            return hour, _highest(minutes)
        hours = self.hours & ((1 << hour) - 1)
        return (_highest(hours), _highest(self.minutes)) if hours else None


@lru_cache(maxsize=2048)
def _month(year: int, month: int) -> tuple[int, int]:
    """Return the weekday of the first day of a month, Sunday being 0, and its days as bits."""
    weekday, length = monthrange(year, month)
    return (weekday + 1) % 7, (2 << length) - 2


@lru_cache(maxsize=1024)
def _first_minutes(hours: int) -> int:
    """Return the first minute of each of *hours*, as bits of the minutes of a day."""
    return _bits(60 * hour for hour in _values(hours))


def whole_second(instant: datetime) -> datetime:
    """Return the start of the second that contains *instant*, in UTC.

    Raises:
        ValueError: *instant* has no time zone.
    """
    if instant.tzinfo is None:
        raise ValueError(f"{instant} has no time zone")
    utc = instant if instant.tzinfo is UTC else instant.astimezone(UTC)
    return utc.replace(microsecond=0) if utc.microsecond else utc


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _highest(bits: int) -> int:
    return bits.bit_length() - 1


def _bits(values: Iterable[int]) -> int:
    return sum(1 << value for value in values)


def _values(bits: int) -> Iterator[int]:
    return (value for value in range(bits.bit_length()) if bits >> value & 1)


def _set_bits(bits: int) -> Iterator[str]:
    return map(str, _values(bits))


@dataclass(frozen=True, slots=True, eq=False)
class _Field:
    """One of the five fields. Names count up from the smallest value.

    Args:
        full: All values, as bits.
    """

    title: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    full: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "full", (2 << self.high) - (1 << self.low))


_MINUTE: Final = _Field("minute", 0, 59)
_HOUR: Final = _Field("hour", 0, 23)
_DAY: Final = _Field("day of month", 1, 31)
_MONTH: Final = _Field(
    "month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
)
_WEEKDAY: Final = _Field("day of week", 0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat"))
_FIELDS: Final = (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)
_DAY_FIELDS: Final = (_DAY, _WEEKDAY)


class _Values(NamedTuple):
    """Allowed values of a field as bits, and whether it carries the star mark (nodepool-disruption.md 8.2)."""

    allowed: int
    star: bool


def parse_schedule(text: str) -> CronSchedule:
    """Parse a schedule: five fields, a macro, or ``@every`` with a duration.

    Admission also requires `matches_crd_pattern`.

    Raises:
        ValueError: The dialect does not allow *text*. The message names the field and the invalid text.
    """
    if len(text) > LONGEST_SCHEDULE:
        raise ValueError(f"{_quote(text)} has {len(text)} characters, at most {LONGEST_SCHEDULE} are read")
    return _parse_cached(text) if len(text) <= _LONGEST_CACHED else _parse(text)


def matches_crd_pattern(text: str) -> bool:
    r"""Return whether *text* matches the CRD's pattern for schedules.

    It matches if the text starts with a macro word, regardless of the rest. It also matches if it contains five parts
    of one or more characters other than newlines, separated by single blanks (tab, newline, form feed, carriage return,
    space), where the last part ends the text and the first may start anywhere. A newline can only be a separator, so
    the text is examined line by line from its end, and the parts that fit into a line are counted greedily.
    """
    if text.startswith(tuple(MACROS)):
        return True
    parts = 0
    for line in reversed(text.rsplit("\n", len(_FIELDS))[-len(_FIELDS) :]):
        if not line:
            return False
        parts += _most_parts(line)
        if parts >= len(_FIELDS):
            return True
    return False


def _most_parts(line: str) -> int:
    """Return how many parts, at most five, result from splitting *line* at single blanks."""
    parts, start = 1, 0
    for blank in _BLANK.finditer(line):
        if start < blank.start() < len(line) - 1:
            parts, start = parts + 1, blank.end()
            if parts == len(_FIELDS):
                break
    return parts


def _parse(text: str) -> CronSchedule:
    trimmed = text.strip(_SPACE)
    if trimmed.startswith("@"):
        if trimmed.startswith(_EVERY):
            return CronSchedule(text, every=_parse_every(trimmed.removeprefix(_EVERY)))
        if trimmed not in MACROS:
            raise ValueError(f"macro {_quote(trimmed)} must be one of {', '.join(MACROS)}")
        return _read_fields(text, MACROS[trimmed].split())
    if trimmed.startswith(_TIME_ZONES):
        raise ValueError(f"must not name a time zone, because schedules are in UTC: {_quote(text)}")
    words = [word[0] for word in islice(_WORD.finditer(trimmed), _COUNTED)]
    if len(words) != len(_FIELDS):
        titles = ", ".join(field.title for field in _FIELDS)
        count = f"{len(words)} or more" if len(words) == _COUNTED else len(words)
        raise ValueError(f"must have 5 fields ({titles}), not {count}: {_quote(text)}")
    return _read_fields(text, words)


_parse_cached = lru_cache(maxsize=4096)(_parse)


def _read_fields(text: str, words: list[str]) -> CronSchedule:
    """Return the schedule of five fields (nodepool-disruption.md 8.2)."""
    minutes, hours, days, months, weekdays = (
        (_parse_field_cached if len(word) <= _LONGEST_WORD else _parse_field)(word, field)
        for word, field in zip(words, _FIELDS, strict=True)
    )
    # Two restricted day fields are alternatives, as in crontab(5): ``0 0 13 * 5`` fires on each 13th and each Friday.
    # With a star in one of them, both must match: ``0 0 * * 5`` would otherwise fire every day.
    either = not (days.star or weekdays.star)
    if either and not (days.allowed and weekdays.allowed):  # one field allows no day, so the other one decides
        either = False
        if days.allowed:
            weekdays = _Values(_WEEKDAY.full, star=True)
        elif weekdays.allowed:
            days = _Values(_DAY.full, star=True)
    never_fires = not (minutes.allowed and hours.allowed and months.allowed and days.allowed and weekdays.allowed)
    if never_fires or not (either or _day_exists(days.allowed, months.allowed)):
        return CronSchedule(text)
    return CronSchedule(
        text,
        minutes=minutes.allowed,
        hours=hours.allowed,
        days=days.allowed,
        months=months.allowed,
        weekdays=weekdays.allowed,
        either=either,
    )


def _day_exists(days: int, months: int) -> bool:
    first = _lowest(days)
    return first <= _LEAP_DAY or bool(months & ~(1 << _FEBRUARY if first == 30 else _SHORT_MONTHS))


def _parse_field(word: str, field: _Field) -> _Values:
    """Parse a comma-separated field. Empty items are skipped. Raise ValueError if an item is invalid."""
    bits, any_star = 0, False
    for item in dict.fromkeys(word.split(",")):
        if item:
            values, is_star = _parse_item(item, field)
            bits |= _bits(values)
            any_star = any_star or is_star
    return _Values(bits, any_star)


_parse_field_cached = lru_cache(maxsize=4096)(_parse_field)
"""Schedules differ, but nearly all are made of the same few fields."""


def _parse_item(item: str, field: _Field) -> tuple[range, bool]:
    """Parse ``base[/step]``. Return its values and whether it sets the star mark. Raise ValueError if it is invalid."""
    base, slash, step_text = item.partition("/")
    if "/" in step_text:
        raise _wrong(field, item, "more than one '/'")
    low, dash, high = base.partition("-")
    star = low in {"*", "?"}
    if star:  # the reference never reads what follows a hyphen here, so neither do we
        first, last = field.low, field.high
    elif "-" in high:
        raise _wrong(field, item, "more than one '-'")
    else:
        first = _parse_value(low, field, item)
        last = _parse_value(high, field, item) if dash else field.high if slash else first
    if first < field.low or last > field.high:
        raise _wrong(field, item, f"outside {field.low} to {field.high}")
    if first > last:
        raise _wrong(field, item, "a range must not end before it starts")
    step = _parse_number(step_text) if slash else 1
    if not step:
        raise _wrong(field, item, "the step must be a whole number of at least 1")
    return range(first, last + 1, step), star and step == 1


def _parse_value(word: str, field: _Field, item: str) -> int:
    number = _parse_number(word)
    if number is not None:
        return number
    if field.names and (lower := word.lower()) in field.names:
        return field.low + field.names.index(lower)
    expected = "a whole number or a three-letter name" if field.names else "a whole number"
    raise _wrong(field, item, f"not {expected}" if word == item else f"{_quote(word)} is not {expected}")


def _parse_number(word: str) -> int | None:
    """Return an unsigned decimal of at most 63 bits, or None if *word* is not one."""
    digits = word.removeprefix("+")
    if not (digits.isdigit() and digits.isascii()):
        return None
    if len(digits) < _LARGEST_DIGITS:
        return int(digits)
    digits = digits.lstrip("0") or "0"
    number = int(digits) if len(digits) <= _LARGEST_DIGITS else _LARGEST + 1
    return number if number <= _LARGEST else None


def _parse_every(text: str) -> timedelta:
    """Parse the delay of ``@every``: whole seconds, at least one. Raise ValueError if it is invalid."""
    try:
        nanoseconds = parse_go_duration(text)
    except ValueError as error:
        raise ValueError(f"@every: {error}") from error
    return timedelta(seconds=max(1, nanoseconds // 10**9))


def _wrong(field: _Field, item: str, reason: str) -> ValueError:
    return ValueError(f"{field.title} {_quote(item)}: {reason}")


def _quote(text: str) -> str:
    return repr(text if len(text) <= _QUOTED else text[: _QUOTED - 3] + "...")
