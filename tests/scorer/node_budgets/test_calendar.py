from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scorer.api.node_pool import Budget, DisruptionReason
from scorer.node_budgets.budgets import UNLIMITED, NodeCounts, allowance
from scorer.node_budgets.calendar import calendar
from tests.scorer.windows.schedules import AWARE, budgets
from tests.thoroughness import examples

POOL_A = (
    Budget(nodes="15%"),
    Budget(nodes="4", reasons=("Empty", "Drifted")),
    Budget(nodes="0", schedule="30 18 * * 5", duration="62h"),
    Budget(nodes="1", reasons=("Underutilized",), schedule="0 */4 * * *", duration="1h30m"),
)
WEEKEND_ONLY_OF_SEED_002 = (Budget(nodes="50%", schedule="0 0 * * 6", duration="48h"), Budget(nodes="0"))
WEEKEND_ONLY = (Budget(nodes="50%"), Budget(nodes="0", schedule="0 0 * * 1", duration="120h"))
STEPS_OF_SEED_002 = (
    Budget(nodes="1", schedule="0 2 * * *", duration="2h"),
    Budget(nodes="3", schedule="0 4 * * *", duration="4h"),
)
SEED_002 = (Budget(nodes="20%"), Budget(nodes="5"), Budget(nodes="0", schedule="@daily", duration="10m"))
NOW = datetime(2026, 6, 10, tzinfo=UTC)
DAY = timedelta(days=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def shown(pool, counts, reason, start, end):
    """Return day and time of each start, the limit, and the binding budgets."""
    found = calendar(pool, counts, at(start), at(end))
    (spans,) = (entry.spans for entry in found.reasons if entry.reason == reason)
    return [(span.start.strftime("%d %H:%M:%S"), span.limit, span.binding) for span in spans]


@pytest.mark.parametrize(
    ("reason", "spans"),
    [
        pytest.param(
            "Drifted",
            [("12 16:00:00", 4, (1,)), ("12 18:30:00", 0, (2,)), ("15 08:30:00", 4, (1,))],
            id="weekend",
        ),
        pytest.param(
            "Underutilized",
            [
                ("12 16:00:00", 1, (3,)),
                ("12 17:30:00", 8, (0,)),
                ("12 18:30:00", 0, (2,)),
                ("15 08:30:00", 1, (3,)),
                ("15 09:30:00", 8, (0,)),
            ],
            id="every-four-hours-as-well",
        ),
        pytest.param(
            "Unhealthy", [("12 16:00:00", 8, (0,)), ("12 18:30:00", 0, (2,)), ("15 08:30:00", 8, (0,))], id="the-rest"
        ),
    ],
)
def test_worked_example_of_four_budgets(reason, spans):
    """Pool A of nodepool-disruption.md 4.5."""
    assert shown(POOL_A, NodeCounts(47, 2, 1), reason, "2026-06-12T16:00Z", "2026-06-15T12:00Z") == spans


@pytest.mark.parametrize(
    ("pool", "spans"),
    [
        pytest.param(WEEKEND_ONLY_OF_SEED_002, [("12 00:00:00", 0, (1,))], id="weekend-of-seed-002-never-opens"),
        pytest.param(
            WEEKEND_ONLY,
            [("12 00:00:00", 0, (1,)), ("13 00:00:00", 5, (0,)), ("15 00:00:00", 0, (1,))],
            id="weekend-as-it-was-meant",
        ),
        pytest.param(
            STEPS_OF_SEED_002,
            [
                (f"{day} {hour:02}:00:00", limit, binding)
                for day in (12, 13, 14, 15)
                for hour, limit, binding in ((0, UNLIMITED, ()), (2, 1, (0,)), (4, 3, (1,)), (8, UNLIMITED, ()))
                if (day, hour) == (12, 0) or hour
            ],
            id="steps-of-seed-002-leave-the-day-without-limit",
        ),
        pytest.param(
            (*SEED_002[:2], Budget(nodes="0", schedule="0 0 13 * *", duration="10m")),
            [("12 00:00:00", 2, (0,)), ("13 00:00:00", 0, (2,)), ("13 00:10:00", 2, (0,))],
            id="ten-minutes",
        ),
        pytest.param((), [("12 00:00:00", UNLIMITED, ())], id="no-budgets"),
        pytest.param((Budget(nodes="0", reasons=()),), [("12 00:00:00", UNLIMITED, ())], id="inert"),
        pytest.param((Budget(nodes="1"), Budget(nodes="10%")), [("12 00:00:00", 1, (0, 1))], id="two-bind"),
        pytest.param(
            (Budget(nodes="3"), Budget(nodes="3", schedule="0 0 13 * *", duration="24h")),
            [("12 00:00:00", 3, (0,)), ("13 00:00:00", 3, (0, 1)), ("14 00:00:00", 3, (0,))],
            id="another-binds-as-well",
        ),
        pytest.param(
            (Budget(nodes="3"), Budget(nodes="9", reasons=("Empty",), schedule="0 9 * * 7", duration="1h")),
            [("12 00:00:00", 0, ())],
            id="unusable-schedule",
        ),
        pytest.param(
            (Budget(nodes="3"), Budget(nodes="x", reasons=(), schedule="0 0 13 * *", duration="1h")),
            [("12 00:00:00", 3, (0,)), ("13 00:00:00", 0, ()), ("13 01:00:00", 3, (0,))],
            id="unusable-nodes-while-in-force",
        ),
    ],
)
def test_what_budgets_really_do(pool, spans):
    """Those of seed 002 as in nodepool-disruption.md 4.6, and what fails closed as in 4.2."""
    assert shown(pool, NodeCounts(10), "Drifted", "2026-06-12T00:00Z", "2026-06-16T00:00Z") == spans


@pytest.mark.parametrize(
    ("pool", "counts", "never"),
    [
        pytest.param(WEEKEND_ONLY_OF_SEED_002, NodeCounts(10), True, id="weekend-of-seed-002"),
        pytest.param(WEEKEND_ONLY, NodeCounts(10), False, id="weekend-as-it-was-meant"),
        pytest.param((Budget(nodes="0"),), NodeCounts(0), True, id="zero-for-no-nodes"),
        pytest.param((Budget(nodes="10%"),), NodeCounts(0), False, id="a-share-of-no-nodes"),
        pytest.param((Budget(nodes="0%"),), NodeCounts(0), True, id="no-share-of-no-nodes"),
        pytest.param((Budget(nodes="2"),), NodeCounts(9, 2), False, id="as-many-as-are-being-lost"),
        pytest.param((Budget(nodes="0"),), NodeCounts(9, 2), True, id="fewer-than-are-being-lost"),
        pytest.param(
            (
                Budget(nodes="0", schedule="0 0 1-30 * *", duration="24h"),
                Budget(nodes="0", schedule="0 0 31 * *", duration="24h"),
            ),
            NodeCounts(9),
            True,
            id="searched-in-vain",
        ),
        pytest.param((Budget(nodes="0", schedule="0 0 1 7 *", duration="24h"),), NodeCounts(9), False, id="later"),
        pytest.param(
            (Budget(nodes="0", schedule="0 0 1 6 *", duration="2400h"),), NodeCounts(9), False, id="after-the-end"
        ),
        pytest.param((Budget(nodes="0", schedule="@daily", duration="24h"),), NodeCounts(9), True, id="back-to-back"),
        pytest.param((Budget(schedule="nonsense"),), NodeCounts(9), True, id="unusable"),
    ],
)
def test_never_opens(pool, counts, never):
    found = calendar(pool, counts, NOW, NOW + 14 * DAY)
    assert [entry.never_opens for entry in found.reasons] == [never] * 4


def test_one_calendar_holds_every_reason():
    pool = (Budget(nodes="1", reasons=("Empty",)), Budget(nodes="0", reasons=("Drifted",)), Budget(duration="1d"))
    found = calendar(pool[:2], NodeCounts(7, 1), NOW, NOW + DAY)
    assert [entry.reason for entry in found.reasons] == list(DisruptionReason)
    assert [entry.spans[0].limit for entry in found.reasons] == [UNLIMITED, 1, 0, UNLIMITED]
    assert [entry.never_opens for entry in found.reasons] == [False, False, True, False]
    assert (found.start, found.end, found.counts, found.unusable) == (NOW, NOW + DAY, NodeCounts(7, 1), ())
    assert calendar(pool, NodeCounts(7), NOW, NOW + DAY).unusable == ((2, "duration must not be set without schedule"),)


def test_times_are_utc_and_exact_whatever_was_given():
    found = calendar((), NodeCounts(1), at("2026-06-10T08:00:00.25+02:00"), at("2026-06-10T09:30:00.5+02:00"))
    (span,) = found.reasons[0].spans
    assert (span.start, span.end) == (at("2026-06-10T06:00:00.25Z"), at("2026-06-10T07:30:00.5Z"))
    assert span.start.tzinfo is span.end.tzinfo is UTC


@pytest.mark.parametrize("end", [NOW, NOW - DAY])
def test_the_end_is_after_the_start(end):
    with pytest.raises(ValueError, match="must be after the start 2026-06-10"):
        calendar((), NodeCounts(1), NOW, end)


@given(
    pool=st.lists(
        budgets(("0", "1", "2", "3", "10%", "40%", "x")) | st.just(Budget(schedule="x", duration="1h")), max_size=6
    ).map(tuple),
    parts=st.lists(st.integers(0, 9), min_size=3, max_size=3),
    start=AWARE,
    length=st.timedeltas(timedelta(milliseconds=1), 20 * DAY),
    places=st.lists(st.floats(0, 0.999), max_size=5),
)
@example(
    (Budget(nodes="0", schedule="0 0 29 2 *", duration="24h"), Budget(nodes="1")),
    [1, 0, 0],
    at("2099-01-01T12:00:01.5Z"),
    DAY,
    [],
)
@settings(max_examples=examples(100))
def test_every_instant_is_as_asked_for_one_by_one(pool, parts, start, length, places):
    counts, end = NodeCounts(sum(parts), parts[0], parts[1]), start + length
    found = calendar(pool, counts, start, end)
    for entry in found.reasons:
        assert (entry.spans[0].start, entry.spans[-1].end) == (start, end)
        assert all(here.end == after.start and here[2:] != after[2:] for here, after in pairwise(entry.spans))
        edges = [instant for span in entry.spans[:8] for instant in (span.start, span.end - timedelta(microseconds=1))]
        for instant in (*edges, *(start + place * length for place in places)):
            (span,) = (span for span in entry.spans if span.start <= instant < span.end)
            wanted = allowance(pool, counts, entry.reason, instant)
            assert (span.limit, span.binding) == (wanted.limit, wanted.binding), (entry.reason, instant)
            assert not (entry.never_opens and wanted.remaining)
