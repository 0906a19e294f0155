from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scorer.api.node_pool import Budget
from scorer.node_budgets.budgets import UNLIMITED, NodeCounts, allowance, applies_to, budget_window
from scorer.node_budgets.opening import HORIZON, first_gap, next_open
from tests.scorer.windows.schedules import AWARE, budgets
from tests.thoroughness import examples

POOL_A = (
    Budget(nodes="15%"),
    Budget(nodes="4", reasons=("Empty", "Drifted")),
    Budget(nodes="0", schedule="30 18 * * 5", duration="62h"),
    Budget(nodes="1", reasons=("Underutilized",), schedule="0 */4 * * *", duration="1h30m"),
)
OFFICE_HOURS = (Budget(nodes="0", schedule="0 9 * * 1-5", duration="8h"), Budget(nodes="10%"))
CHAIN = (
    Budget(nodes="0", schedule="0 22 * * *", duration="3h"),
    Budget(nodes="0", schedule="0 1 * * *", duration="2h"),
    Budget(nodes="0", schedule="30 2 * * *", duration="5h"),
)
STAGGERED = tuple(Budget(nodes="0", schedule=f"{minute} * * * *", duration="16m") for minute in (0, 15, 30, 45))
NOW = datetime(2026, 6, 10, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("budgets", "counts", "reason", "wanted", "now", "opens"),
    [
        pytest.param(POOL_A, NodeCounts(47), "Drifted", 2, "2026-06-12T19:00Z", "2026-06-15T08:30Z", id="A-drifted-2"),
        pytest.param(POOL_A, NodeCounts(47), "Drifted", 5, "2026-06-12T19:00Z", None, id="A-drifted-5"),
        pytest.param(
            POOL_A, NodeCounts(47), "Underutilized", 2, "2026-06-12T19:00Z", "2026-06-15T09:30Z", id="A-underutilized-2"
        ),
        pytest.param(
            POOL_A, NodeCounts(47), "Unhealthy", 7, "2026-06-12T19:00Z", "2026-06-15T08:30Z", id="A-unhealthy-7"
        ),
        pytest.param(POOL_A, NodeCounts(47), "Unhealthy", 9, "2026-06-12T19:00Z", None, id="A-unhealthy-9"),
        pytest.param(POOL_A, NodeCounts(47, 2, 1), "Drifted", 2, "2026-06-12T19:00Z", None, id="A-in-flight-drifted-2"),
        pytest.param(
            POOL_A,
            NodeCounts(47, 2, 1),
            "Underutilized",
            2,
            "2026-06-12T19:00Z",
            "2026-06-15T09:30Z",
            id="A-in-flight-underutilized-2",
        ),
        pytest.param(
            OFFICE_HOURS, NodeCounts(30), "Empty", 1, "2026-06-10T12:00Z", "2026-06-10T17:00Z", id="office-hours-1"
        ),
        pytest.param(OFFICE_HOURS, NodeCounts(30), "Empty", 4, "2026-06-10T12:00Z", None, id="office-hours-4"),
        pytest.param(
            CHAIN, NodeCounts(30), "Empty", 1, "2026-06-10T22:30Z", "2026-06-11T07:30Z", id="chain-of-three-budgets"
        ),
    ],
)
def test_worked_examples(budgets, counts, reason, wanted, now, opens):
    """The examples of nodepool-disruption.md 14.3."""
    assert next_open(budgets, counts, reason, wanted, at(now)).instant == (opens and at(opens))


@pytest.mark.parametrize(
    ("budgets", "now", "opens"),
    [
        pytest.param(OFFICE_HOURS[:1], "2026-06-10T08:59:59.999Z", "2026-06-10T08:59:59.999Z", id="open-now"),
        pytest.param(OFFICE_HOURS[:1], "2026-06-10T16:59:59.999Z", "2026-06-10T17:00Z", id="a-millisecond-before"),
        pytest.param(OFFICE_HOURS[:1], "2026-06-10T17:00Z", "2026-06-10T17:00Z", id="the-end-is-open"),
        pytest.param(OFFICE_HOURS[:1], "2026-06-10T18:30+05:30", "2026-06-10T17:00Z", id="any-offset"),
        pytest.param(
            (Budget(nodes="0", schedule="0 0 1 7 *", duration="2880h"),),
            "2026-07-02T00:00Z",
            "2026-10-29T00:00Z",
            id="after-months",
        ),
        pytest.param(
            (Budget(nodes="0", schedule="1 0 1 7 *", duration="8760h"),),
            "2027-07-02T00:00Z",
            "2028-06-30T00:01Z",
            id="a-leap-year-leaves-a-day",
        ),
        pytest.param(
            (Budget(nodes="0", schedule="0 0 29 2 *", duration="24h"),),
            "2098-12-01T00:00Z",
            "2099-01-01T23:59:59Z",
            id="the-search-for-the-leap-day-has-a-goal-again",
        ),
        pytest.param(
            (
                Budget(nodes="0", schedule="0 0 29 2 *", duration="24h"),
                Budget(nodes="0", schedule="59 23 * * *", duration="2m"),
            ),
            "2098-12-01T00:00Z",
            "2099-01-02T00:01Z",
            id="and-then-another-is-in-the-way",
        ),
        pytest.param(
            (Budget(nodes="0", schedule="@daily", duration="10m"),),
            "2026-06-10T00:00Z",
            "2026-06-10T00:10Z",
            id="seed-002-ten-minutes",
        ),
    ],
)
def test_the_first_open_instant(budgets, now, opens):
    found = next_open(budgets, NodeCounts(30), "Empty", 1, at(now))
    assert (found.instant, found.searched_until) == (at(opens), None)


@pytest.mark.parametrize(
    ("budgets", "searched", "closing"),
    [
        pytest.param((Budget(nodes="0"), *OFFICE_HOURS), None, (0, 1), id="unscheduled"),
        pytest.param((Budget(nodes="1"), Budget(nodes="2")), None, (0,), id="too-few-nodes"),
        pytest.param((Budget(nodes="0", schedule="@daily", duration="24h"),), None, (0,), id="back-to-back"),
        pytest.param((Budget(nodes="0", schedule="@hourly", duration="9h"),), None, (0,), id="overlapping"),
        pytest.param((Budget(nodes="0", schedule="0 0 30 2 *", duration="1h"),), None, (0,), id="never-fires"),
        pytest.param((Budget(nodes="0", schedule="@every 1h", duration="1h"),), None, (0,), id="every"),
        pytest.param(STAGGERED, None, (0, 3), id="every-week-the-same"),
        pytest.param(
            (
                Budget(nodes="0", schedule="0 0 1-30 * *", duration="24h"),
                Budget(nodes="0", schedule="0 0 31 * *", duration="24h"),
            ),
            NOW + HORIZON,
            (0,),
            id="one-after-the-other",
        ),
        pytest.param((Budget(nodes="0", schedule="0 0 1-16 * *", duration="400h"),), None, (0,), id="over-the-month"),
        pytest.param((Budget(nodes="0", schedule="0 0 29 2 *", duration="40000h"),), NOW + HORIZON, (0,), id="years"),
        pytest.param(
            (*OFFICE_HOURS, Budget(nodes="5", schedule="@daily", duration="1d")), None, (2,), id="unusable-duration"
        ),
        pytest.param((*OFFICE_HOURS, Budget(nodes="x", reasons=())), None, (2,), id="unusable-nodes"),
        pytest.param(
            (Budget(nodes="x", schedule="@daily", duration="1h"),), None, (0,), id="unusable-nodes-not-in-force"
        ),
        pytest.param(
            (Budget(nodes="9"), Budget(nodes="9", schedule="x", duration="1h")), None, (1,), id="unusable-though-open"
        ),
    ],
)
def test_no_time_helps(budgets, searched, closing):
    """A search that comes to its end says how far it went, unless a single budget always stands in the way."""
    found = next_open(budgets, NodeCounts(30), "Drifted", 2, NOW)
    assert (found.instant, found.searched_until, found.closing) == (None, searched, closing)


def test_nothing_wanted_is_always_open():
    shut = (Budget(nodes="0"), Budget(schedule="nonsense"))
    assert next_open(shut, NodeCounts(0), "Empty", 0, NOW).instant == NOW


def test_more_than_unlimited_never_opens():
    assert next_open((), NodeCounts(9, 2), "Empty", UNLIMITED - 2, NOW).instant == NOW
    assert next_open((), NodeCounts(9, 2), "Empty", UNLIMITED - 1, NOW).instant is None


@pytest.mark.parametrize(
    ("hours", "opens"),
    [
        pytest.param(400 * 24, NOW + HORIZON, id="at-the-horizon"),
        pytest.param(400 * 24 + 1, None, id="beyond-the-horizon"),
    ],
)
def test_the_search_ends_after_400_days(hours, opens):
    """The one window of these years, begun on the leap day of 2024, lasts to the end of the search, or on."""
    leap_day = datetime(2024, 2, 29, tzinfo=UTC)
    budget = Budget(nodes="0", schedule="0 0 29 2 *", duration=f"{(NOW - leap_day) // timedelta(hours=1) + hours}h")
    found = next_open((budget,), NodeCounts(3), "Empty", 1, NOW)
    assert (found.instant, found.searched_until) == (opens, None if opens else NOW + HORIZON)


@pytest.mark.parametrize("now", ["9999-12-31T23:59:59.999999Z", "9999-06-01T00:00Z", "0001-01-01T00:00Z"])
@pytest.mark.parametrize("budget", [CHAIN, STAGGERED, OFFICE_HOURS, ()])
def test_both_ends_of_the_calendar_are_no_accident(budget, now):
    found = next_open(budget, NodeCounts(30), "Drifted", 1, at(now))
    assert found.instant is None or found.instant >= at(now)


def brute_force(pool, counts, reason, wanted, now, horizon):
    """Ask every minute: nothing changes within one in the years that are drawn."""
    instant = now
    while instant <= now + horizon:
        if allowance(pool, counts, reason, instant).remaining >= wanted:
            return instant
        instant = instant.replace(second=0, microsecond=0) + timedelta(minutes=1)
    return None


@given(
    pool=st.lists(budgets(), min_size=1, max_size=5).map(tuple),
    parts=st.lists(st.integers(0, 20), min_size=3, max_size=3),
    reason=st.sampled_from(["Drifted", "Empty", "Unhealthy", "Underutilized"]),
    wanted=st.integers(1, 5),
    now=AWARE.filter(lambda instant: instant.year < 2095),
)
@example(STAGGERED, [9, 0, 0], "Empty", 1, at("2026-12-31T23:59:59.9Z"))
@example(CHAIN, [9, 0, 0], "Empty", 1, at("2028-02-28T22:00Z"))
@settings(max_examples=examples(40))
def test_next_open_is_the_first_of_a_minute_by_minute_search(pool, parts, reason, wanted, now):
    counts, horizon = NodeCounts(sum(parts), parts[0], parts[1]), 2 * DAY
    found = next_open(pool, counts, reason, wanted, now, horizon=horizon)
    assert found.instant == brute_force(pool, counts, reason, wanted, now, horizon)
    assert found.searched_until in (None, now + horizon)
    here = allowance(pool, counts, reason, now)
    assert set(found.closing) <= set(here.active)
    assert bool(found.closing) is (here.remaining < wanted)


@given(
    pool=st.lists(budgets(("0",)), min_size=1, max_size=6).map(tuple), now=AWARE | st.datetimes(timezones=st.just(UTC))
)
@example(CHAIN, at("9988-12-31T23:30Z"))
@example((Budget(nodes="0", schedule="@hourly", duration="1h"),), at("0001-01-01T00:00Z"))
@settings(max_examples=examples(200))
def test_going_from_window_to_window_finds_the_first_gap(pool, now):
    """Also at the ends of the calendar, where the search does not take steps."""
    found = next_open(pool, NodeCounts(3), "Empty", 1, now)
    blockers = [budget_window(budget) for budget in pool if applies_to(budget, "Empty")]
    if any(window.is_open(now) for window in blockers):
        assert (found.instant, found.searched_until) == first_gap(blockers, now)
    else:
        assert (found.instant, found.searched_until) == (now, None)


@given(pool=st.lists(budgets(("0",)), min_size=1, max_size=6).map(tuple), now=AWARE)
@settings(max_examples=examples(150))
def test_an_instant_before_the_opening_is_closed_and_the_opening_is_open(pool, now):
    """The real horizon, and the years around 2100 as well."""
    counts = NodeCounts(10)
    found = next_open(pool, counts, "Drifted", 1, now)
    stop = found.instant or now + HORIZON
    if found.instant is not None:
        assert allowance(pool, counts, "Drifted", found.instant).remaining
    for place in (0, 1 / 1000, 1 / 7, 1 / 2, 19 / 20):
        instant = now + place * (stop - now)
        assert instant == stop or not allowance(pool, counts, "Drifted", instant).remaining
    if stop > now:
        assert not allowance(pool, counts, "Drifted", stop - timedelta(microseconds=1)).remaining
