"""What the budgets of a pool allow, and until when (`scorer.node_budgets.outlook`)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.api.node_pool import Budget, DisruptionReason
from scorer.node_budgets.budgets import NodeCounts, allowance
from scorer.node_budgets.opening import next_open
from scorer.node_budgets.outlook import LONGEST_MINUTES, outlook
from tests.scorer.windows.schedules import AWARE, budgets
from tests.thoroughness import examples

NOW = datetime(2026, 6, 10, 12, 0, 30, tzinfo=UTC)
NIGHT = Budget(nodes="0", schedule="0 18 * * *", duration="12h")
MINUTE = timedelta(minutes=1)


def steady(*pool, now=NOW):
    return len(outlook(pool, NodeCounts(9), now).minutes)


@pytest.mark.parametrize(
    ("pool", "minutes"),
    [
        pytest.param((), LONGEST_MINUTES, id="none"),
        pytest.param((Budget(nodes="1"),), LONGEST_MINUTES, id="always"),
        pytest.param((Budget(schedule="x"),), LONGEST_MINUTES, id="unusable"),
        pytest.param((NIGHT,), LONGEST_MINUTES, id="long-before"),
        pytest.param((Budget(schedule="15 13 * * *", duration="1h"),), 75, id="until-one-opens"),
        pytest.param((Budget(schedule="0 11 * * *", duration="62m"),), 2, id="until-one-closes"),
        pytest.param((Budget(schedule="0 12 * * *", duration="1m"),), 1, id="the-last-minute"),
        pytest.param((Budget(schedule="* * * * *", duration="1m"),), LONGEST_MINUTES, id="never-closes"),
        pytest.param((Budget(schedule="@every 1h", duration="1m"),), LONGEST_MINUTES, id="never-open"),
        pytest.param((Budget(schedule="0 0 29 2 *", duration="1m"),), 1, id="leap-day"),
        pytest.param((NIGHT, Budget(schedule="1 12 * * *", duration="1m", reasons=())), 1, id="about-nothing"),
    ],
)
def test_until_when_nothing_changes(pool, minutes):
    assert steady(*pool) == minutes


def test_at_the_ends_of_the_calendar_nothing_is_foretold():
    assert steady(NIGHT, now=datetime(9999, 6, 1, tzinfo=UTC)) == 1
    assert steady(NIGHT, now=datetime(1, 6, 1, tzinfo=UTC)) == 1


@given(
    pool=st.lists(budgets(("0", "1", "3", "40%", "x")), max_size=5).map(tuple),
    parts=st.lists(st.integers(0, 5), min_size=3, max_size=3),
    now=AWARE,
    place=st.floats(0, 0.9999),
)
@settings(max_examples=examples(200))
def test_all_of_it_is_true_as_long_as_it_holds(pool, parts, now, place):
    counts = NodeCounts(sum(parts), parts[0], parts[1])
    found = outlook(pool, counts, now)
    start = now.replace(second=0, microsecond=0)
    then = max(now, start + len(found.minutes) * MINUTE * place)
    assert found.holds(pool, counts, then)
    assert [each.reason for each in found.prospects] == list(DisruptionReason)
    for each in found.prospects:
        assert each.allowed == allowance(pool, counts, each.reason, then)
        assert (each.opening is None) is bool(each.allowed.remaining)
        if each.opening is not None:
            fresh = next_open(pool, counts, each.reason, 1, then)
            if fresh.searched_until is None and each.opening.searched_until is None:
                assert each.opening == fresh
        alone = next_open(pool, NodeCounts(max(1, counts.total)), each.reason, 1, now)
        assert each.never_opens is (not each.allowed.remaining and alone.instant is None)


def test_it_holds_for_the_same_pool_only():
    counts = NodeCounts(9)
    found = outlook((NIGHT,), counts, NOW)
    assert found.holds((NIGHT,), counts, NOW)
    assert found.holds(found.budgets, counts, NOW.replace(second=0))
    assert not found.holds((NIGHT, NIGHT), counts, NOW)
    assert not found.holds((NIGHT,), NodeCounts(9, 1), NOW)
    assert not found.holds((NIGHT,), counts, NOW - MINUTE)
    assert not found.holds((NIGHT,), counts, NOW + LONGEST_MINUTES * MINUTE)
