"""Windows of budgets: whether one is active at an instant, and over a period.

A window is a set of minutes. Schedules fire at second 0 and durations are whole minutes, so nothing changes within a
minute, with one exception: a search for the next fire time that gives up does so at the first second of a year (see
`BudgetWindow.silences`). A period is therefore held as one long integer with a bit per minute, and the windows of a day
are computed once for all days that match. The cost does not depend on how often a schedule fires.

Schedules are in UTC, so neither gaps nor overlaps of local time occur. Example: ``0 2 * * *`` with ``2h`` is active for
exactly two hours every day, including the days of a daylight-saving shift.

Source: docs/specifications/nodepool-disruption.md 4.4.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import product, repeat
from typing import Final

import numpy as np

from scorer.columns import BoolColumn, IntColumn
from scorer.windows.cron import DAY_MINUTES, MINUTE, CronSchedule
from scorer.windows.fires import HORIZON_YEARS, next_fire

WEEK_MINUTES: Final = 7 * DAY_MINUTES
WHOLE_WEEK: Final = (1 << WEEK_MINUTES) - 1
"""Every minute of a week."""
_WHOLE_DAY: Final = (1 << DAY_MINUTES) - 1
_SECOND: Final = timedelta(seconds=1)
_FEW_DAYS: Final = 7
_YEAR_SECONDS: Final = 31_556_952
"""Mean over 400 years."""
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_EPOCH_DAY: Final = _EPOCH.date().toordinal()
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
_LATEST: Final = datetime.max.replace(tzinfo=UTC)
LAST_YEARS: Final = datetime(MAXYEAR - 2 * HORIZON_YEARS, 1, 1, tzinfo=UTC)
"""Before this instant, every schedule that ever fires does so again later. After it, a search may find no fire time."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Periods in seconds since the epoch: half-open, sorted, with gaps between them.

    Args:
        starts: Shape (spans,).
        ends: Shape (spans,).
    """

    starts: IntColumn
    ends: IntColumn


@dataclass(frozen=True, slots=True)
class BudgetWindow:
    """Times at which a budget is active: for *duration* from each fire time of *schedule*, end excluded.

    Without a schedule, the budget is always active.

    Raises:
        ValueError: *duration* is negative, or not in whole minutes.
    """

    schedule: CronSchedule | None = None
    duration: timedelta = timedelta()

    def __post_init__(self) -> None:
        if self.duration < timedelta() or self.duration % MINUTE:
            raise ValueError(f"duration {self.duration} is not a number of whole minutes")

    def is_open(self, now: datetime) -> bool:
        """Return whether the budget is active at *now*, which is timezone-aware.

        This follows the specification word for word for one instant. `minutes` and `silences` give the same result for
        all instants of a period.

        The reference searches for the next fire time from *duration* ago on, and treats a schedule as always active if
        that search gives up. This happens only to schedules of leap days, and near the maximum date. An ``@every``
        schedule fires one interval after the start of a search, so the budget is either always or never active.
        """
        if self.schedule is None or self.schedule.never_fires:
            return True
        if self.schedule.every is not None:
            return self.schedule.every <= self.duration
        if now - _EARLIEST < self.duration:  # the search would start before the minimum date
            return self.schedule.last_at(now) is not None
        fire = next_fire(self.schedule, now - self.duration)
        return fire is None or fire <= now

    @property
    def is_constant(self) -> bool | None:
        """True if the budget is always active, False if it is never active, None if that depends on the time.

        Also None if windows follow each other without a gap, because detecting that would require a search.
        """
        if self.schedule is None or self.schedule.never_fires:
            return True
        return None if self.schedule.every is None else self.schedule.every <= self.duration

    @property
    def never_closes(self) -> bool:
        """Whether the budget is certainly active at every instant from the year 2 on.

        True if `is_constant` is True, and for a daily schedule whose windows leave no gap. False may also mean that the
        answer would require a search.
        """
        constant = self.is_constant
        if constant is not None or self.schedule is None or not self.schedule.is_daily:
            return constant is True
        minutes = _extend_bits(self.schedule.firing_minutes(), min(self.duration // MINUTE, DAY_MINUTES))
        return (minutes | minutes >> DAY_MINUTES) & _WHOLE_DAY == _WHOLE_DAY

    @property
    def week(self) -> int | None:
        """Minutes of a week when the budget is active, as bits, or None if weeks differ.

        Bit 0 is the minute of the epoch, a Thursday. The value does not apply to the start of the year 1, because no
        earlier window extends into it.
        """
        if self.is_constant is None and not (self.schedule and self.schedule.is_weekly):
            return None
        return self.minutes(0, WEEK_MINUTES)

    def minutes(self, first: int, count: int) -> int:
        """Return the minutes when the budget is active, as bits, without its `silences`.

        Args:
            first: The minute of bit 0, counted from the epoch. All minutes must be in the years 1 to 9999.
            count: Number of minutes to return.
        """
        constant = self.is_constant
        if constant is not None or not self.duration:
            return (1 << count) - 1 if constant else 0
        assert self.schedule is not None
        day, offset = divmod(first, DAY_MINUTES)
        days = -(-(offset + count) // DAY_MINUTES)
        start_days = self.schedule.firing_days(date.fromordinal(_EPOCH_DAY + day), days)
        minutes = (
            self._minutes_of_few_days(start_days, days)
            if days <= _FEW_DAYS
            else self._minutes_of_many_days(start_days, days)
        )
        # A window that opened before the first of these days may still be open. Example: ``0 22 * * 5`` with ``60h``
        # opens on Friday, and is open on Sunday although the schedule fires on neither Saturday nor Sunday.
        fire = self.schedule.last_at(_EPOCH + day * DAY_MINUTES * MINUTE)
        if fire is not None:
            remaining = (fire - _EPOCH) // MINUTE + self.duration // MINUTE - day * DAY_MINUTES
            minutes |= (1 << max(0, min(remaining, offset + count))) - 1
        if offset:
            minutes >>= offset
        return minutes & ((1 << count) - 1) if minutes.bit_length() > count else minutes

    def _minutes_of_few_days(self, start_days: int, days: int) -> int:
        """Return the minutes of the windows that start on *start_days*, for a small number of *days*.

        The result may include minutes after the last day.
        """
        assert self.schedule is not None
        fires, minutes = self.schedule.firing_minutes(), 0
        for day in range(days):
            if start_days >> day & 1:
                minutes |= fires << day * DAY_MINUTES
        return _extend_bits(minutes, min(self.duration // MINUTE, days * DAY_MINUTES))

    def _minutes_of_many_days(self, start_days: int, days: int) -> int:
        """Return the minutes as `_minutes_of_few_days` does, composed of whole days, which is faster for many days."""
        pattern, day_mask = _pattern(self), (1 << days) - 1
        whole_days = _extend_bits(start_days << 1, min(pattern.reach - 1, days)) & day_mask
        end_days = start_days << min(pattern.reach, days) & day_mask
        kinds = zip(f"{start_days:0{days}b}", f"{end_days:0{days}b}", f"{whole_days:0{days}b}", strict=True)
        return int.from_bytes(b"".join(map(pattern.days.__getitem__, kinds)), "big")

    def silences(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield when, from *start* to *end*, the budget is active because the search for a fire time gives up.

        All times are in seconds since the epoch. There are two causes: the next 29 February is up to eight years away
        around a year such as 2100, and the calendar ends with the year 9999.
        """
        if self.schedule is None or self.is_constant is not None:
            return
        seconds = self.duration // _SECOND
        if end - seconds > epoch_seconds(LAST_YEARS):
            fire = self.schedule.last_at(_LATEST)
            if fire is not None and (begin := max(start, epoch_seconds(fire) + seconds)) < end:
                yield begin, end
        if self.schedule.leap_days_only:
            for year in _centuries(start - seconds, end - seconds):
                fire = self.schedule.last_at(datetime(year, 1, 1, tzinfo=UTC))
                gives_up_no_more = datetime(year + 4 - HORIZON_YEARS, 1, 1, tzinfo=UTC) - _SECOND
                assert fire is not None
                begin = max(start, epoch_seconds(fire) + seconds)
                finish = min(end, epoch_seconds(gives_up_no_more) + seconds)
                if begin < finish:
                    yield begin, finish

    def spans(self, start: datetime, end: datetime) -> Spans:
        """Return when the budget is active between two timezone-aware instants.

        Spans start and end at whole seconds: *start* is rounded down, and *end* is rounded up.
        """
        cuts, (open_,), stop = timeline((self,), start, end)
        if not len(cuts):
            return Spans(cuts, cuts)
        steps = np.diff(open_, prepend=False, append=False)
        edges = np.append(cuts, stop)[steps]
        return Spans(edges[::2], edges[1::2])


@dataclass(frozen=True, slots=True)
class _Pattern:
    """Effect of the fire times of one day on that day and the following ones.

    Args:
        reach: Number of days after which the last window of a day ends.
        days: The minutes of a day as bytes, the first minute in the lowest bit of the last byte, by three digits:
            whether windows start on the day, whether the last one of an earlier day ends on it, whether one lasts all
            day.
    """

    reach: int
    days: Mapping[tuple[str, str, str], bytes]


@lru_cache(maxsize=1024)
def _pattern(window: BudgetWindow) -> _Pattern:
    assert window.schedule is not None
    fires, length = window.schedule.firing_minutes(), window.duration // MINUTE
    if length < DAY_MINUTES:
        minutes = _extend_bits(fires, length)
        starting, ending, reach = minutes & _WHOLE_DAY, minutes >> DAY_MINUTES, 1
    else:
        starting = _WHOLE_DAY ^ ((fires & -fires) - 1)
        reach, remaining = divmod(fires.bit_length() - 1 + length, DAY_MINUTES)
        ending = (1 << remaining) - 1
    days: dict[tuple[str, str, str], bytes] = {}
    for begins, ends, lasts in product("01", repeat=3):
        minutes = starting * int(begins) | ending * int(ends) | _WHOLE_DAY * int(lasts)
        days[begins, ends, lasts] = minutes.to_bytes(DAY_MINUTES // 8, "big")
    return _Pattern(reach, days)


def _extend_bits(bits: int, length: int) -> int:
    """Return *bits* with each set bit extended over *length* bits, by doubling. The result is 0 for a length of 0.

    Example: a length of 5 takes 3 steps, to 2, to 4 and then by 1 more. A month of windows of 8 hours takes 9 shifts of
    one long integer, however often the schedule fires.
    """
    width = 1
    while width < length:
        more = min(width, length - width)
        bits |= bits << more
        width += more
    return bits if length else 0


def _centuries(first: int, last: int) -> Iterator[int]:
    """Yield the century years without a leap day that a search may meet if it starts between *first* and *last*.

    Both are in seconds since the epoch, and may be out of range.
    """
    begin, end = (_EPOCH.year + second // _YEAR_SECONDS for second in (first, last))
    for year in range(max(100, begin // 100 * 100), min(MAXYEAR, end + 2 * HORIZON_YEARS), 100):
        if year % 400:
            yield year


def epoch_seconds(instant: datetime) -> int:
    """Return the whole second that contains *instant*, which has a time zone."""
    return (instant - _EPOCH) // _SECOND


def from_epoch(seconds: int) -> datetime:
    """Return the instant of a second since the epoch."""
    return _EPOCH + timedelta(seconds=seconds)


def all_from_epoch(seconds: Iterable[int]) -> Iterator[datetime]:
    """Return the instants of many seconds since the epoch, twice as fast as with `from_epoch`."""
    return map(_EPOCH.__add__, map(timedelta, repeat(0), seconds))


def timeline(windows: Sequence[BudgetWindow], start: datetime, end: datetime) -> tuple[IntColumn, BoolColumn, int]:
    """Lay several windows out over the same period.

    Returns:
        The cuts, shape (cuts,), a mask that is True while a window is active, shape (windows, cuts), and the exclusive
        end. Cuts and end are in seconds since the epoch. The cuts are the start, every minute, and each edge of a
        silence. Nothing changes between two cuts. There are no cuts if *end* is not after *start*.
    """
    first, stop = epoch_seconds(start), -((_EPOCH - end) // _SECOND)
    if first >= stop:
        return np.zeros(0, dtype=np.int64), np.zeros((len(windows), 0), dtype=np.bool_), first
    minute = first // 60
    count = -(-stop // 60) - minute
    cuts = np.arange(minute, minute + count, dtype=np.int64) * 60
    cuts[0] = first
    silences = {window: tuple(window.silences(first, stop)) for window in windows}
    odd = [edge for silence in silences.values() for pair in silence for edge in pair if first < edge < stop]
    if odd:
        cuts = np.union1d(cuts, np.array(odd, dtype=np.int64))
    rows: dict[BudgetWindow, BoolColumn] = {}
    for window, silence in silences.items():
        row = _unpack(window.minutes(minute, count), count)
        if odd:
            row = row[cuts // 60 - minute]
        for begin, finish in silence:
            row[np.searchsorted(cuts, begin) : np.searchsorted(cuts, finish)] = True
        rows[window] = row
    open_ = np.array([rows[window] for window in windows], dtype=np.bool_).reshape(len(windows), len(cuts))
    return cuts, open_, stop


def _unpack(bits: int, count: int) -> BoolColumn:
    content = np.frombuffer(bits.to_bytes(-(-count // 8), "little"), dtype=np.uint8)
    return np.unpackbits(content, count=count, bitorder="little").view(np.bool_)
