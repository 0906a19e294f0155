from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scorer.api.node_pool import Budget, Disruption
from scorer.node_budgets.budgets import (
    UNLIMITED,
    Allowance,
    NodeCounts,
    allowance,
    allowed_disruptions,
    applies_to,
    budget_window,
    parse_budgets,
)
from tests.scorer.windows.schedules import AWARE, budgets
from tests.thoroughness import examples

POOL_A = (
    Budget(nodes="15%"),
    Budget(nodes="4", reasons=("Empty", "Drifted")),
    Budget(nodes="0", schedule="30 18 * * 5", duration="62h"),
    Budget(nodes="1", reasons=("Underutilized",), schedule="0 */4 * * *", duration="1h30m"),
)
SEED_002 = (Budget(nodes="20%"), Budget(nodes="5"), Budget(nodes="0", schedule="@daily", duration="10m"))
WEDNESDAY = datetime(2026, 6, 10, 12, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("nodes", "total", "allowed"),
    [
        pytest.param("0", 50, 0, id="zero-blocks-everything"),
        pytest.param("5", 3, 5, id="absolute-is-taken-as-written"),
        pytest.param("007", 50, 7, id="leading-zeros"),
        pytest.param("5%", 10, 1, id="percent-rounds-up"),
        pytest.param("1%", 1, 1, id="one-percent-of-one"),
        pytest.param("33%", 4, 2, id="a-third-of-four"),
        pytest.param("20%", 26, 6, id="seed-002-above-25-nodes"),
        pytest.param("0%", 50, 0, id="zero-percent"),
        pytest.param("100%", 0, 0, id="empty-pool"),
        pytest.param("0" * 200 + "2147483647", 1, UNLIMITED, id="largest-number"),
    ],
)
def test_allowed_disruptions(nodes, total, allowed):
    """A budget allows its absolute value, or its share of the pool rounded up."""
    assert allowed_disruptions(Budget(nodes=nodes), total) == allowed


@pytest.mark.parametrize(
    "nodes", ["", "%", "-1", "101%", "10.5%", "10 %", "1e2", "5\n", "\u0665", "2147483648", "4294967297", "9" * 5000]
)
def test_nodes_that_are_neither_number_nor_share_are_refused(nodes):
    with pytest.raises(ValueError, match="nodes '"):
        allowed_disruptions(Budget(nodes=nodes), 10)


@given(percent=st.integers(0, 100), total=st.integers(0, 10_000))
def test_a_share_never_exceeds_the_pool(percent, total):
    """Rounding up cannot allow more disruptions than there are nodes."""
    share = allowed_disruptions(Budget(nodes=f"{percent}%"), total)
    assert 0 <= share <= total
    assert share * 100 >= percent * total > (share - 1) * 100 or share == 0


@pytest.mark.parametrize(
    ("now", "active", "empty", "drifted", "underutilized", "unhealthy"),
    [
        pytest.param("2026-06-10T03:59:59Z", (0, 1), (4, 1), (4, 1), (8, 5), (8, 6), id="before-the-window"),
        pytest.param("2026-06-10T04:00:00Z", (0, 1, 3), (4, 1), (4, 1), (1, 0), (8, 6), id="window-opens"),
        pytest.param("2026-06-10T05:29:59Z", (0, 1, 3), (4, 1), (4, 1), (1, 0), (8, 6), id="last-second"),
        pytest.param("2026-06-10T05:30:00Z", (0, 1), (4, 1), (4, 1), (8, 5), (8, 6), id="end-is-not-included"),
        pytest.param("2026-06-12T18:30:00Z", (0, 1, 2), (0, 0), (0, 0), (0, 0), (0, 0), id="weekend-begins"),
        pytest.param("2026-06-15T08:29:59Z", (0, 1, 2, 3), (0, 0), (0, 0), (0, 0), (0, 0), id="weekend-ends"),
        pytest.param("2026-06-15T08:30:00Z", (0, 1, 3), (4, 1), (4, 1), (1, 0), (8, 6), id="monday-morning"),
        pytest.param("2026-06-15T09:30:00Z", (0, 1), (4, 1), (4, 1), (8, 5), (8, 6), id="monday-later"),
    ],
)
def test_worked_example_of_four_budgets(now, active, empty, drifted, underutilized, unhealthy):
    """The table of nodepool-disruption.md 4.5: 47 nodes, 2 deleting, 1 more not ready."""
    counts = NodeCounts(47, deleting=2, not_ready=1)
    wanted = {"Empty": empty, "Drifted": drifted, "Underutilized": underutilized, "Unhealthy": unhealthy}
    for reason, (limit, remaining) in wanted.items():
        found = allowance(POOL_A, counts, reason, at(now))
        assert (found.limit, found.remaining, found.active) == (limit, remaining, active), reason


@pytest.mark.parametrize(
    ("budgets", "counts", "reason", "limit", "remaining"),
    [
        pytest.param(Disruption().budgets, NodeCounts(23, 1, 1), "Drifted", 3, 1, id="default-budget"),
        pytest.param((Budget(nodes="20%"),), NodeCounts(5), "Empty", 1, 1, id="share-of-five"),
        pytest.param((Budget(nodes="20%"),), NodeCounts(6), "Empty", 2, 2, id="share-of-six"),
        pytest.param((Budget(nodes="50%"),), NodeCounts(1, 0, 1), "Empty", 1, 0, id="the-only-node-is-not-ready"),
        pytest.param((), NodeCounts(9, 2), "Empty", UNLIMITED, UNLIMITED - 2, id="no-budgets-no-limit"),
        pytest.param(
            (Budget(nodes="0", reasons=("Drifted",)),), NodeCounts(9), "Empty", UNLIMITED, UNLIMITED, id="other"
        ),
        pytest.param((Budget(nodes="0", reasons=()),), NodeCounts(9), "Empty", UNLIMITED, UNLIMITED, id="inert"),
        pytest.param((Budget(nodes="1"),), NodeCounts(9, 3), "Empty", 1, 0, id="never-below-zero"),
        pytest.param(SEED_002, NodeCounts(24), "Empty", 5, 5, id="seed-002-24-nodes"),
        pytest.param(SEED_002, NodeCounts(26), "Empty", 5, 5, id="seed-002-the-cap-bites"),
        pytest.param(SEED_002, NodeCounts(10), "Empty", 2, 2, id="seed-002-10-nodes"),
    ],
)
def test_allowance(budgets, counts, reason, limit, remaining):
    found = allowance(budgets, counts, reason, WEDNESDAY)
    assert (found.limit, found.remaining) == (limit, remaining)


def test_the_strictest_budgets_in_force_are_binding():
    budgets = (Budget(nodes="5"), Budget(nodes="2"), Budget(nodes="20%"), Budget(nodes="1", reasons=("Empty",)))
    assert allowance(budgets, NodeCounts(10), "Drifted", WEDNESDAY).binding == (1, 2)


@pytest.mark.parametrize(
    ("broken", "active"),
    [
        pytest.param(Budget(nodes="9", schedule="0 9 * * 7", duration="1h"), (0,), id="schedule"),
        pytest.param(Budget(nodes="9", schedule="@daily", duration="1d"), (0,), id="duration"),
        pytest.param(Budget(nodes="9", duration="1h"), (0,), id="duration-without-schedule"),
        pytest.param(Budget(nodes="12a%"), (0, 1), id="nodes"),
        pytest.param(Budget(nodes="4294967297", reasons=("Empty",)), (0, 1), id="nodes-of-another-reason"),
    ],
)
@pytest.mark.parametrize("reason", ["Underutilized", "Drifted", "Unhealthy"])
def test_an_unusable_budget_holds_back_everything(broken, active, reason):
    """Fails closed for every reason, whatever the reasons of the budget."""
    found = allowance((Budget(nodes="50%"), broken), NodeCounts(10), reason, WEDNESDAY)
    assert (found.limit, found.remaining, found.active) == (0, 0, active)
    assert [index for index, _ in found.unusable] == [1]


def test_unusable_nodes_of_a_budget_not_in_force_do_no_harm():
    asleep = Budget(nodes="many", schedule="0 0 * * *", duration="1h")
    found = allowance((Budget(nodes="50%"), asleep), NodeCounts(10), "Empty", WEDNESDAY)
    assert (found.limit, found.unusable) == (5, ())


@pytest.mark.parametrize(
    ("budget", "now", "active"),
    [
        pytest.param(Budget(), "2026-06-10T12:00Z", True, id="no-schedule"),
        pytest.param(Budget(schedule="@daily", duration="24h"), "2026-06-10T12:00Z", True, id="back-to-back"),
        pytest.param(Budget(schedule="@hourly", duration="0m"), "2026-06-10T12:00Z", False, id="no-length"),
        pytest.param(Budget(schedule="@hourly"), "2026-06-10T12:00Z", False, id="schedule-without-duration"),
        pytest.param(Budget(schedule="0 0 30 2 *", duration="1h"), "2026-06-10T12:00Z", True, id="never-fires"),
        pytest.param(Budget(schedule="0 0 30 2 *"), "2026-06-10T12:00Z", True, id="never-fires-without-duration"),
        pytest.param(
            Budget(schedule="@daily", duration="10m"), "2026-06-10T00:09:59.999Z", True, id="last-millisecond"
        ),
        pytest.param(Budget(schedule="@daily", duration="10m"), "2026-06-10T00:10Z", False, id="end"),
        pytest.param(Budget(schedule="@daily", duration="10m"), "2026-06-10T02:05+02:00", True, id="offset"),
        pytest.param(Budget(schedule="0 0 29 2 *", duration="24h"), "2096-02-28T12:00Z", False, id="before-leap-day"),
        pytest.param(Budget(schedule="0 0 29 2 *", duration="24h"), "2097-01-01T00:00Z", True, id="2100-has-none"),
        pytest.param(Budget(schedule="0 0 29 2 *", duration="24h"), "2099-01-01T23:59:58Z", True, id="out-of-reach"),
        pytest.param(Budget(schedule="0 0 29 2 *", duration="24h"), "2099-01-01T23:59:59Z", False, id="in-reach-again"),
        pytest.param(Budget(schedule="@daily", duration="2562047h"), "0100-01-01T12:00Z", True, id="before-all-time"),
    ],
)
def test_window_is_open(budget, now, active):
    assert budget_window(budget).is_open(at(now)) is active


@given(
    minutes=st.integers(0, 3000),
    start=st.integers(0, 59),
    now=st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)),
)
def test_a_window_is_half_open(minutes, start, now):
    """In force exactly when a fire lies in (now - duration, now]."""
    here = now.replace(tzinfo=UTC)
    latest = here.replace(minute=start, second=0, microsecond=0)
    latest -= timedelta(hours=1) if latest > here else timedelta()
    budget = Budget(schedule=f"{start} * * * *", duration=f"{minutes}m")
    assert budget_window(budget).is_open(here) is (here - latest < timedelta(minutes=minutes))


ANY_TIME = AWARE | st.datetimes(timezones=st.just(UTC))
UNUSABLE = st.sampled_from([Budget(nodes="x"), Budget(schedule="x"), Budget(nodes="x", schedule="@daily")])


def by_hand(pool, counts, reason, now):
    """Judge one budget after the other, by the rules of nodepool-disruption.md 4.2 to 4.4."""
    active, unusable, values = [], [], {}
    for index, budget in enumerate(pool):
        try:
            if budget_window(budget).is_open(now):
                active.append(index)
                value = allowed_disruptions(budget, counts.total)
                if applies_to(budget, reason):
                    values[index] = value
        except ValueError as error:
            unusable.append((index, str(error)))
    limit = 0 if unusable else min(values.values(), default=UNLIMITED)
    binding = () if unusable else tuple(index for index, value in values.items() if value == limit)
    return Allowance(limit, counts.disrupting(reason), tuple(active), binding, tuple(unusable))


@given(
    pool=st.lists(budgets() | budgets() | UNUSABLE, max_size=6).map(tuple),
    parts=st.lists(st.integers(0, 20), min_size=3, max_size=3),
    reason=st.sampled_from(["Drifted", "Empty", "Unhealthy", "Underutilized", "Expired"]),
    now=ANY_TIME,
)
@example((Budget(schedule="@daily"),), [1, 0, 0], "Empty", at("9999-12-31T23:59:59Z"))
@example((Budget(schedule="@daily", duration="24h"),), [1, 0, 0], "Empty", at("0001-01-01T00:00Z"))
@example((Budget(schedule="5 0 * * *", duration="24h"),), [1, 0, 0], "Empty", at("0001-01-01T00:04:59Z"))
@settings(max_examples=examples(300))
def test_what_is_understood_at_once_is_what_each_budget_says(pool, parts, reason, now):
    counts = NodeCounts(sum(parts), parts[0], parts[1])
    assert allowance(pool, counts, reason, now) == by_hand(pool, counts, reason, now)


@given(pool=st.lists(budgets(), max_size=6).map(tuple), now=AWARE, place=st.floats(0, 0.999))
@settings(max_examples=examples(200))
def test_a_window_stays_open_for_as_long_as_is_said(pool, now, place):
    standing = parse_budgets(pool).at(now)
    for budget, left in zip(pool, standing.left, strict=True):
        assert bool(left) is budget_window(budget).is_open(now)
        then = standing.moment.start + timedelta(minutes=min(left, 10**6)) * place
        assert not left or then < now or budget_window(budget).is_open(then)


def test_what_is_understood_is_still_the_list_of_budgets():
    pool = (Budget(nodes="1"), Budget(nodes="x"))
    found = parse_budgets(pool)
    assert found == pool
    assert parse_budgets(found) is found
    assert found.mistakes == ((1, "nodes 'x' must be a number or a percentage from 0% to 100%"),)
    with pytest.raises(ValueError, match="has no time zone"):
        found.at(datetime(2026, 6, 10))


@pytest.mark.parametrize("counts", [(-1, 0, 0), (3, 2, 2), (3, -1, 0), (0, 0, 1)])
def test_counts_that_cannot_be_are_refused(counts):
    with pytest.raises(ValueError, match="total"):
        NodeCounts(*counts)
