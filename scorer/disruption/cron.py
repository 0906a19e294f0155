"""Schedules of disruption budgets: the reference's cron dialect, always UTC.

Whether a text is a schedule is judged here, by a parser of our own: croniter accepts much that the reference
refuses and the reverse (nodepool-disruption.md 8.3). croniter only searches dates, and only ever sees a
canonical text made from the value sets: plain lists and ``*``. Everything is linear in the length of the text.

Source: nodepool-disruption.md 8; robfig/cron v3 ``parser.go`` and ``spec.go``.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Final

from croniter import CroniterBadDateError, croniter

MACROS: Final[Mapping[str, str]] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
HORIZON_YEARS: Final = 5
"""The search ends with the fifth calendar year after that of its first second."""

_LATEST: Final = datetime.max.replace(tzinfo=UTC)
_LONGEST_CACHED: Final = 256
_QUOTED: Final = 64
_COUNTED: Final = 10
"""Fields that are counted before a text is refused for having too many."""
_LARGEST: Final = 2**63 - 1
_LARGEST_DIGITS: Final = len(str(_LARGEST))
_SPACE: Final = (
    "\t\n\v\f\r \u0085\u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
"""What separates fields for the reference's parser; the CRD's pattern knows five of them only."""
_WORD: Final = re.compile(f"[^{_SPACE}]+")
_BLANK: Final = re.compile(r"[\t\f\r ]")
_EVERY: Final = "@every "
_DURATION: Final = re.compile(r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+", re.ASCII)
_GROUP: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_NANOSECONDS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule that has been understood. It fires at second 0 of a minute, ``@every`` apart.

    Args:
        text: As written.
        canonical: Five fields, each ``*`` or a sorted list; empty when there is none, because the schedule
            never fires or because of *every*.
        every: The delay of an ``@every`` schedule, in whole seconds.
    """

    text: str
    canonical: str
    every: timedelta | None = None

    @property
    def never_fires(self) -> bool:
        """Whether no instant at all matches, as with 31 February or a list of only commas."""
        return not self.canonical and self.every is None

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire strictly after *instant*, in UTC.

        None when there is none before the search gives up: the year of the fire may exceed that of the first
        whole second after *instant* by at most five.

        Raises:
            ValueError: *instant* has no time zone.
        """
        return next(self.fires_after(instant), None)

    def fires_after(self, instant: datetime) -> Iterator[datetime]:
        """Yield the fires strictly after *instant*, each searched for from the one before.

        Raises:
            ValueError: *instant* has no time zone.
        """
        if instant.tzinfo is None:
            raise ValueError(f"{instant} has no time zone")
        here = instant.astimezone(UTC).replace(microsecond=0)
        if self.every is not None:
            while here <= _LATEST - self.every:
                here += self.every
                yield here
            return
        if not self.canonical:
            return
        dates = croniter(self.canonical, here, ret_type=datetime, max_years_between_matches=HORIZON_YEARS + 4)
        while here.year < MAXYEAR - 2 * HORIZON_YEARS:
            last_year = (here + timedelta(seconds=1)).year + HORIZON_YEARS
            try:
                here = dates.get_next()
            except CroniterBadDateError:
                return
            if here.year > last_year:
                return
            yield here


@dataclass(frozen=True, slots=True)
class _Field:
    """One of the five fields; the names count up from the smallest value."""

    title: str
    low: int
    high: int
    names: tuple[str, ...] = ()


_MINUTE: Final = _Field("minute", 0, 59)
_HOUR: Final = _Field("hour", 0, 23)
_DAY: Final = _Field("day of month", 1, 31)
_MONTH: Final = _Field(
    "month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
)
_WEEKDAY: Final = _Field("day of week", 0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat"))
_FIELDS: Final = (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)


@dataclass(frozen=True, slots=True)
class _Values:
    """What a field allows, and whether it carries the star mark (nodepool-disruption.md 8.2)."""

    allowed: frozenset[int]
    star: bool


def parse_schedule(text: str) -> Schedule:
    """Read a schedule: five fields, a macro, or ``@every`` with a duration.

    Admission asks for `matches_crd_pattern` as well.

    Raises:
        ValueError: Not of the dialect; the message names the field and the text that is wrong.
    """
    return _parse_cached(text) if len(text) <= _LONGEST_CACHED else _parse(text)


def matches_crd_pattern(text: str) -> bool:
    r"""Say whether the CRD's pattern for schedules lets *text* pass.

    A macro word at the start, whatever follows; or five parts of one or more characters, none a newline, with
    single blanks (tab, newline, form feed, carriage return, space) between them, the last part ending the
    text and the first beginning anywhere. A newline can only be a separator, so the text is looked at line by
    line from its end; how many parts fit into a line is counted greedily.
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
    """Return into how many parts, at most five, single blanks can divide *line*."""
    parts, start = 1, 0
    for blank in _BLANK.finditer(line):
        if start < blank.start() < len(line) - 1:
            parts, start = parts + 1, blank.end()
            if parts == len(_FIELDS):
                break
    return parts


def _parse(text: str) -> Schedule:
    trimmed = text.strip(_SPACE)
    if trimmed.startswith("@"):
        if trimmed.startswith(_EVERY):
            return Schedule(text, "", _parse_every(trimmed.removeprefix(_EVERY)))
        if trimmed not in MACROS:
            raise ValueError(f"macro {_quote(trimmed)} is none of {', '.join(MACROS)}")
        return Schedule(text, _canonical(MACROS[trimmed].split()))
    words = [word[0] for word in islice(_WORD.finditer(trimmed), _COUNTED)]
    if len(words) != len(_FIELDS):
        titles = ", ".join(field.title for field in _FIELDS)
        count = f"{len(words)} or more" if len(words) == _COUNTED else len(words)
        raise ValueError(f"5 fields are needed ({titles}), not {count}: {_quote(text)}")
    return Schedule(text, _canonical(words))


_parse_cached = lru_cache(maxsize=4096)(_parse)


def _canonical(words: list[str]) -> str:
    """Return the text croniter gets, empty for a schedule that never fires."""
    minutes, hours, days, months, weekdays = (
        _parse_field(word, field) for word, field in zip(words, _FIELDS, strict=True)
    )
    if not (minutes.allowed and hours.allowed and months.allowed):
        return ""
    if not (days.allowed and weekdays.allowed):
        if days.star or weekdays.star or not (days.allowed or weekdays.allowed):
            return ""
        days, weekdays = (_Values(v.allowed, not v.allowed) for v in (days, weekdays))
    if weekdays.star and not days.star and not _day_exists(days.allowed, months.allowed):
        return ""
    return " ".join(
        (
            _list(minutes, full=60),
            _list(hours, full=24),
            _list(days),
            _list(months, full=12),
            _list(weekdays),
        )
    )


def _day_exists(days: frozenset[int], months: frozenset[int]) -> bool:
    first = min(days)
    return first <= 29 or bool(months - ({2} if first == 30 else {2, 4, 6, 9, 11}))


def _list(values: _Values, *, full: int | None = None) -> str:
    if values.star or len(values.allowed) == full:
        return "*"
    return ",".join(map(str, sorted(values.allowed)))


def _parse_field(word: str, field: _Field) -> _Values:
    """Read a comma-separated field; empty items are skipped."""
    allowed: set[int] = set()
    star = False
    for item in dict.fromkeys(word.split(",")):
        if item:
            values, marked = _parse_item(item, field)
            allowed.update(values)
            star = star or marked
    return _Values(frozenset(allowed), star)


def _parse_item(item: str, field: _Field) -> tuple[range, bool]:
    """Read ``base[/step]``; return its values and whether it sets the star mark."""
    base, slash, step_text = item.partition("/")
    if "/" in step_text:
        raise _wrong(field, item, "more than one '/'")
    low, dash, high = base.partition("-")
    star = low in {"*", "?"}
    if star:  # whatever follows a hyphen is never read
        first, last = field.low, field.high
    elif "-" in high:
        raise _wrong(field, item, "more than one '-'")
    else:
        first = _parse_value(low, field, item)
        last = _parse_value(high, field, item) if dash else field.high if slash else first
    if first < field.low or last > field.high:
        raise _wrong(field, item, f"outside {field.low} to {field.high}")
    if first > last:
        raise _wrong(field, item, "a range cannot run backwards")
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
    """Return an unsigned decimal of at most 63 bits, None when *word* is none."""
    digits = word.removeprefix("+")
    if not (digits.isdigit() and digits.isascii()):
        return None
    if len(digits) < _LARGEST_DIGITS:
        return int(digits)
    digits = digits.lstrip("0") or "0"
    number = int(digits) if len(digits) <= _LARGEST_DIGITS else _LARGEST + 1
    return number if number <= _LARGEST else None


def _parse_every(text: str) -> timedelta:
    """Read the delay of ``@every``: whole seconds, at least one."""
    if text.lstrip("+-") == "0" and len(text) <= 2:
        return timedelta(seconds=1)
    if len(text) > _LONGEST_CACHED or not _DURATION.fullmatch(text):
        raise ValueError(f"@every: {_quote(text)} is not a duration such as 1h30m")
    nanoseconds = sum(_nanoseconds(*group) for group in _GROUP.findall(text))
    if nanoseconds > _LARGEST + text.startswith("-"):
        raise ValueError(f"@every: {_quote(text)} is longer than 2562047h")
    seconds = 0 if text.startswith("-") else nanoseconds // 10**9
    return timedelta(seconds=max(1, seconds))


def _nanoseconds(whole: str, fraction: str, unit: str) -> int:
    """Return one group of a duration; a fraction counts as the reference's double arithmetic sees it."""
    digits = fraction[:18]
    part = int(float(int(digits)) * (_NANOSECONDS[unit] / 10.0 ** len(digits))) if digits else 0
    return int(whole or "0") * _NANOSECONDS[unit] + part


def _wrong(field: _Field, item: str, why: str) -> ValueError:
    return ValueError(f"{field.title} {_quote(item)}: {why}")


def _quote(text: str) -> str:
    return repr(text if len(text) <= _QUOTED else text[: _QUOTED - 3] + "...")
