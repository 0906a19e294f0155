"""Allowed disruptions of a pool over the next days, by reason.

The windows of every budget are laid out minute by minute once. The limit is then the minimum of each column.

Source: docs/specifications/nodepool-disruption.md 4.2 to 4.4, for all instants instead of one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from scorer.api.node_pool import Budget, DisruptionReason
from scorer.columns import BoolColumn, IntColumn
from scorer.node_budgets.budgets import UNLIMITED, BudgetSet, NodeCounts, parse_budgets
from scorer.node_budgets.opening import next_open
from scorer.windows.windows import all_from_epoch, timeline


class CalendarSpan(NamedTuple):
    """A period without changes. There can be thousands in a day.

    Args:
        start: Start in UTC.
        end: End, exclusive.
        limit: Maximum number of concurrent disruptions of the pool: `UNLIMITED`, or the strictest active value. 0 while
            an invalid budget is active.
        binding: Positions of the budgets whose value is the limit, empty while an invalid budget is active.
    """

    start: datetime
    end: datetime
    limit: int
    binding: tuple[int, ...]


_SPAN: Final = partial(tuple.__new__, CalendarSpan)
"""Fast path: creates a span from a tuple in a third of the time of `CalendarSpan`.

A calendar has up to 100,000 spans.
"""


@dataclass(frozen=True, slots=True)
class ReasonCalendar:
    """Calendar of one reason.

    Args:
        spans: Spans without gaps. Adjacent ones differ in limit or binding.
        never_opens: Whether no node may be disrupted at any time within 400 days of the start, even if none is in
            disruption by then. A pool without nodes is treated as if it had one.
    """

    reason: DisruptionReason
    spans: tuple[CalendarSpan, ...]
    never_opens: bool


@dataclass(frozen=True, slots=True)
class PoolCalendar:
    """Calendar of a pool, from *start* to *end*.

    Args:
        counts: The nodes that it was computed for.
        unusable: Positions and errors of the invalid budgets.
    """

    start: datetime
    end: datetime
    counts: NodeCounts
    reasons: tuple[ReasonCalendar, ...]
    unusable: tuple[tuple[int, str], ...] = ()


def calendar(budgets: Sequence[Budget], counts: NodeCounts, start: datetime, end: datetime) -> PoolCalendar:
    """Return the calendar of *budgets* from *start* to *end*, both timezone-aware, with constant *counts*.

    Raises:
        ValueError: *end* is not after *start*.
    """
    start, end = start.astimezone(UTC), end.astimezone(UTC)
    if end <= start:
        raise ValueError(f"the end {end.isoformat()} must be after the start {start.isoformat()}")
    pool = parse_budgets(budgets)
    windows = {index: reading.window for index, reading in enumerate(pool.readings) if reading.window is not None}
    values = {
        index: reading.allowed(counts.total) for index, reading in enumerate(pool.readings) if not reading.mistake
    }
    cuts, active, _ = timeline(list(windows.values()), start, end)
    rows = dict(zip(windows, active, strict=True))
    shut = np.full(len(cuts), len(windows) < len(pool))
    for index in windows.keys() - values.keys():
        shut |= rows[index]
    instants: dict[int, datetime] = {}
    calendars: dict[tuple[int, ...], ReasonCalendar] = {}
    reasons: list[ReasonCalendar] = []
    for reason in DisruptionReason:
        relevant = tuple(index for index in values if pool.readings[index].is_about(reason))
        if relevant not in calendars:
            limits = {index: (rows[index] & ~shut, values[index]) for index in relevant}
            change_points, limit, bindings = _changes(limits, shut)
            begins = _instants(cuts[change_points], instants)
            spans = zip((start, *begins[1:]), (*begins[1:], end), limit, bindings, strict=True)
            day_spans = tuple(map(_SPAN, spans))
            calendars[relevant] = ReasonCalendar(reason, day_spans, _never_opens(pool, counts, reason, day_spans))
        reasons.append(replace(calendars[relevant], reason=reason))
    return PoolCalendar(start, end, counts, tuple(reasons), pool.mistakes)


def _instants(seconds: IntColumn, instants_by_second: dict[int, datetime]) -> list[datetime]:
    """Return seconds since the epoch as instants. *instants_by_second* is a cache shared by all reasons."""
    instants = seconds.tolist()
    new = [second for second in instants if second not in instants_by_second]
    instants_by_second.update(zip(new, all_from_epoch(new), strict=True))
    return [instants_by_second[second] for second in instants]


def _changes(
    limits: Mapping[int, tuple[BoolColumn, int]], shut: BoolColumn
) -> tuple[IntColumn, list[int], list[tuple[int, ...]]]:
    """Return the changes for one reason.

    Args:
        limits: By position of the budget: when it is active while no invalid budget is, shape (cuts,), and its value.
        shut: Whether an invalid budget is active, shape (cuts,).

    Returns:
        The cuts at which something changes, including the first one. For each of them, the limit and the positions of
        the binding budgets from then on.
    """
    limit = np.where(shut, 0, UNLIMITED)
    for in_force, value in limits.values():
        limit[in_force & (limit > value)] = value
    positions = np.array([*limits, -1], dtype=np.int64)  # -1 never binds: it avoids an empty array
    binding = np.zeros((len(positions), len(shut)), dtype=np.bool_)
    for row, (in_force, value) in zip(binding, limits.values(), strict=False):
        np.logical_and(in_force, limit == value, out=row)
    packed_patterns = np.ascontiguousarray(np.packbits(binding, axis=0).T)
    changes = np.ones(len(shut), dtype=np.bool_)
    changes[1:] = (limit[1:] != limit[:-1]) | (packed_patterns[1:] != packed_patterns[:-1]).any(axis=1)
    indices = np.flatnonzero(changes)
    patterns = packed_patterns[indices].view(f"V{packed_patterns.shape[1]}").ravel().tolist()
    positions_by_pattern = {
        pattern: tuple(positions[binding[:, cut]].tolist())
        for pattern, cut in dict(zip(patterns, indices.tolist(), strict=True)).items()
    }
    return indices, limit[indices].tolist(), [positions_by_pattern[pattern] for pattern in patterns]


def _never_opens(budgets: BudgetSet, counts: NodeCounts, reason: str, spans: Sequence[CalendarSpan]) -> bool:
    if any(span.limit for span in spans):
        return False
    idle_counts = NodeCounts(max(1, counts.total))
    return next_open(budgets, idle_counts, reason, 1, spans[0].start).instant is None
