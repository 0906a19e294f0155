"""Minutes of a week, written as windows of budgets.

The minutes are those of `scorer.windows.windows.BudgetWindow.week`, held as one integer: bit 0 is Thursday 0:00 UTC,
since the epoch started on a Thursday. A set that is regular enough can be converted to schedules with durations.

Source: docs/specifications/nodepool-disruption.md 4.4 and 8.2.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from scorer.windows.cron import DAY_MINUTES
from scorer.windows.windows import WEEK_MINUTES, WHOLE_WEEK

_HOUR: Final = 60
_THURSDAY: Final = 4
_MONDAY: Final = 4 * DAY_MINUTES
_SHORTEST_RANGE: Final = 3


class Block(NamedTuple):
    """A window as written in a budget."""

    schedule: str
    duration: str


def blocks(minutes: int, most: int) -> list[Block] | None:
    """Return a set of minutes as windows of a week from Monday on, or None if that takes more than *most* windows.

    Windows of one length share a schedule, so their starts must be all combinations of some minutes, hours and
    weekdays. An empty set and the whole week cannot be written as windows.
    """
    lengths: dict[int, list[int]] = {}
    for start, length in _runs(minutes):
        lengths.setdefault(length, []).append(start)
    if not 0 < len(lengths) <= most:
        return None
    windows = []
    for length, starts in sorted(
        lengths.items(), key=lambda item: min((start - _MONDAY) % WEEK_MINUTES for start in item[1])
    ):
        parts = ({start % _HOUR for start in starts}, {start % DAY_MINUTES // _HOUR for start in starts})
        weekdays = {(start // DAY_MINUTES + _THURSDAY) % 7 for start in starts}
        if len(parts[0]) * len(parts[1]) * len(weekdays) != len(starts):
            return None
        schedule = f"{_field(parts[0], 60)} {_field(parts[1], 24)} * * {_field(weekdays, 7)}"
        windows.append(Block(schedule, _duration(length)))
    return windows


def _later(minutes: int, by: int) -> int:
    """Return the set shifted later *by* this number of minutes. The end of the week wraps around to its start."""
    return (minutes << by | minutes >> WEEK_MINUTES - by) & WHOLE_WEEK


def _runs(minutes: int) -> list[tuple[int, int]]:
    """Return start and length of each run without a gap."""
    earlier = _later(minutes, 1)
    starts, ends = _bits(minutes & ~earlier), _bits(earlier & ~minutes)
    if starts and ends and ends[0] <= starts[0]:  # the last stretch continues into the next week
        ends = [*ends[1:], ends[0] + WEEK_MINUTES]
    return [(start, end - start) for start, end in zip(starts, ends, strict=True)]


def _bits(number: int) -> list[int]:
    return [place for place, digit in enumerate(reversed(bin(number))) if digit == "1"]


def _field(values: Iterable[int], full: int) -> str:
    """Return a field of a schedule: ``*``, or numbers and ranges."""
    numbers = sorted(values)
    if len(numbers) == full:
        return "*"
    ranges: list[list[int]] = []
    for value in numbers:
        if ranges and value == ranges[-1][-1] + 1:
            ranges[-1].append(value)
        else:
            ranges.append([value])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) >= _SHORTEST_RANGE else ",".join(map(str, run)) for run in ranges)


def _duration(minutes: int) -> str:
    hours, minutes_left = divmod(minutes, _HOUR)
    return (f"{hours}h" if hours else "") + (f"{minutes_left}m" if minutes_left else "")
