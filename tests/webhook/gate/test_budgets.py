"""What budgets allow, as documents: now, at another time, and on the calendar."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from scorer.api.family import UnknownObjectError
from scorer.api.node_pool import Budget, DisruptionReason
from scorer.node_budgets.budgets import UNLIMITED, NodeCounts, allowance
from scorer.node_budgets.documents import (
    MOST_POOL_DAYS,
    BudgetedPool,
    CalendarMaker,
    Overviews,
    TooLargeError,
    overview,
)
from tests.waiting import until
from tests.webhook.gate.gates import empty_store, put_pool, replica

POOL_A = (
    {"nodes": "15%"},
    {"nodes": "4", "reasons": ["Empty", "Drifted"]},
    {"nodes": "0", "schedule": "30 18 * * 5", "duration": "62h"},
    {"nodes": "1", "reasons": ["Underutilized"], "schedule": "0 */4 * * *", "duration": "1h30m"},
)
"""Pool A of nodepool-disruption.md 4.5."""
FRIDAY = datetime(2026, 6, 12, 19, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def pool(*budgets, name="a", total=47, deleting=2, not_ready=1):
    return BudgetedPool(name, tuple(map(Budget.read, budgets)), NodeCounts(total, deleting, not_ready))


def calendar_of(start, days, *pools, zone=None):
    maker = CalendarMaker(len(pools), start, days, zone)
    for each in pools:
        maker.add(each)
    return maker.document()


def state(document, reason):
    return next(item for item in document["items"] if item["reason"] == reason)


def test_the_worked_example_of_now():
    document = overview([pool(*POOL_A)], datetime(2026, 6, 10, 4, tzinfo=UTC))
    found = {item["reason"]: (item["limit"], item["remaining"]) for item in document["items"]}
    assert found == {"Underutilized": (1, 0), "Empty": (4, 1), "Drifted": (4, 1), "Unhealthy": (8, 6)}
    assert state(document, "Underutilized") == {
        "pool": "a",
        "reason": "Underutilized",
        "limit": 1,
        "unlimited": False,
        "disrupting": 3,
        "remaining": 0,
        "total": 47,
        "active": [0, 1, 3],
        "binding": [3],
        "nextOpen": "2026-06-10T05:30:00Z",
        "neverOpens": False,
    }
    assert document["pools"][0]["budgets"] == list(POOL_A)
    assert document["pools"][0]["counts"] == {"total": 47, "deleting": 2, "notReady": 1}


def test_when_one_more_may_go():
    document = overview([pool(*POOL_A, deleting=0, not_ready=0)], FRIDAY)
    opens = {item["reason"]: item["nextOpen"] for item in document["items"]}
    assert opens == {
        "Underutilized": "2026-06-15T08:30:00Z",
        "Empty": "2026-06-15T08:30:00Z",
        "Drifted": "2026-06-15T08:30:00Z",
        "Unhealthy": "2026-06-15T08:30:00Z",
    }


def test_a_pool_that_waits_for_nodes_of_its_own_is_not_one_that_never_opens():
    night = {"nodes": "0", "schedule": "0 18 * * *", "duration": "12h"}
    used_up = pool({"nodes": "1"}, night, deleting=1, not_ready=0)
    item = state(overview([used_up], FRIDAY), "Drifted")
    assert (item["remaining"], item["nextOpen"], item["neverOpens"]) == (0, None, False)
    assert not any(reason["neverOpens"] for reason in calendar_of(FRIDAY, 1, used_up)["items"][0]["reasons"])
    shut = pool({"nodes": "0"}, deleting=1, not_ready=0)
    assert state(overview([shut], FRIDAY), "Drifted")["neverOpens"]
    assert all(reason["neverOpens"] for reason in calendar_of(FRIDAY, 1, shut)["items"][0]["reasons"])


def test_only_the_reasons_that_are_asked_for():
    document = overview([pool(*POOL_A)], FRIDAY, [DisruptionReason.EMPTY])
    assert [item["reason"] for item in document["items"]] == ["Empty"]


def test_a_budget_that_cannot_be_used_is_told_and_holds_everything():
    document = overview([pool({"nodes": "5"}, {"nodes": "0", "schedule": "0 9 * * 7", "duration": "8h"})], FRIDAY)
    assert {item["limit"] for item in document["items"]} == {0}
    assert {item["nextOpen"] for item in document["items"]} == {None}
    assert [wrong["budget"] for wrong in document["pools"][0]["unusable"]] == [1]
    assert "'7'" in document["pools"][0]["unusable"][0]["message"]


def test_no_limit_has_a_number_and_says_so():
    item = state(overview([pool(total=9, deleting=2, not_ready=0)], FRIDAY), "Drifted")
    assert (item["limit"], item["unlimited"], item["remaining"]) == (UNLIMITED, True, UNLIMITED - 2)


@pytest.mark.parametrize(
    "budgets",
    [pytest.param(POOL_A, id="pool-a"), pytest.param((), id="none"), pytest.param(POOL_A[2:3], id="one-window")],
)
def test_the_calendar_says_at_every_quarter_of_an_hour_what_now_would_say_then(budgets):
    one = pool(*budgets)
    document = calendar_of(FRIDAY, 4, one)
    for reason in document["items"][0]["reasons"]:
        spans = reason["spans"]
        assert spans[0]["start"] == "2026-06-12T19:00:00Z"
        assert spans[-1]["end"] == "2026-06-16T19:00:00Z"
        assert all(before["end"] == after["start"] for before, after in pairwise(spans))
        for quarter in range(4 * 24 * 4):
            at = FRIDAY + timedelta(minutes=15 * quarter)
            expected = allowance(one.budgets, one.counts, reason["reason"], at)
            text = f"{at:%Y-%m-%dT%H:%M:%SZ}"
            span = next(span for span in spans if span["start"] <= text < span["end"])
            assert (span["limit"], tuple(span["binding"])) == (expected.limit, expected.binding), text


def test_the_weekend_of_seed_002_never_opens_and_the_answer_says_what_was_meant():
    seed = ({"nodes": "50%", "schedule": "0 0 * * 6", "duration": "48h"}, {"nodes": "0"})
    item = calendar_of(FRIDAY, 14, pool(*seed))["items"][0]
    assert all(reason["neverOpens"] for reason in item["reasons"])
    fixed = [lint["fix"] for lint in item["lints"] if "fix" in lint]
    assert fixed == [[{"nodes": "50%"}, {"nodes": "0", "schedule": "0 0 * * 1", "duration": "120h"}]]
    assert item["lints"][0]["at"] == "budgets[1]"
    mended = calendar_of(FRIDAY, 14, pool(*fixed[0]))["items"][0]
    assert not any(reason["neverOpens"] for reason in mended["reasons"])
    opens = [span["start"] for span in mended["reasons"][0]["spans"] if span["limit"]]
    assert opens[1:] == ["2026-06-20T00:00:00Z"]  # Saturday
    assert mended["lints"] == []


@pytest.mark.parametrize(
    ("day", "before", "after"),
    [
        pytest.param(datetime(2026, 3, 29, tzinfo=UTC), "+01:00", "+02:00", id="spring"),
        pytest.param(datetime(2026, 10, 25, tzinfo=UTC), "+02:00", "+01:00", id="autumn"),
    ],
)
def test_local_times_have_the_offset_of_their_instant(day, before, after):
    night = {"nodes": "0", "schedule": "30 0 * * *", "duration": "1h"}
    spans = calendar_of(day, 1, pool(night), zone=BERLIN)["items"][0]["reasons"][0]["spans"]
    closed = next(span for span in spans if not span["limit"])
    assert closed["start"].endswith("T00:30:00Z")
    assert closed["localStart"][-6:] == before
    assert closed["localEnd"][-6:] == after
    assert datetime.fromisoformat(closed["localEnd"]) == datetime.fromisoformat(closed["end"])


def test_a_calendar_has_bounds():
    with pytest.raises(TooLargeError, match=r"101 pools for 14 days are too many for one response. Name at most 100"):
        CalendarMaker(101, FRIDAY, 14)
    CalendarMaker(MOST_POOL_DAYS, FRIDAY, 1)
    often = pool({"nodes": "0", "schedule": "*/2 * * * *", "duration": "1m"}, name="restless")
    with pytest.raises(TooLargeError, match=r"more than 100000 spans, because the budgets of restless change often"):
        calendar_of(FRIDAY, 60, often)
    calendar_of(FRIDAY, 14, often)


async def test_the_pools_of_a_hub_with_their_nodes():
    with closing(await empty_store()) as store:
        await put_pool(store, "batch", 6, {"nodes": "50%"})
        await put_pool(store, "array", 3, {"nodes": "0"})
        async with replica(store, lambda: FRIDAY) as gates:
            await until(lambda: sum(view.counts().total for view in gates.nodes.views()) == 9)
            budgets = gates.budgets
            assert [(each.name, each.counts.total) for each in budgets.pools()] == [("array", 3), ("batch", 6)]
            assert [each.name for each in budgets.pools(["batch", "array", "batch"])] == ["batch", "array"]
            with pytest.raises(UnknownObjectError, match=r'there is no NodePool "gone"'):
                budgets.pools(["gone"])
            told = await budgets.overview(budgets.pools(["batch"]), FRIDAY, tuple(DisruptionReason))
            assert {item["limit"] for item in told["items"]} == {3}
            shown = await budgets.calendar(budgets.pools(), FRIDAY, 2, BERLIN)
            assert (shown["timeZone"], [item["pool"] for item in shown["items"]]) == (
                "Europe/Berlin",
                ["array", "batch"],
            )


def shown(made, at, *pools, reasons=tuple(DisruptionReason)):
    """Return what is said of pools after other questions, and what is said of them at first sight."""
    return made.overview(pools, at, reasons), overview(pools, at, reasons)


def test_what_is_kept_says_what_is_found_anew():
    now = datetime(2026, 6, 10, 3, 58, 20, tzinfo=UTC)
    made = Overviews(lambda: now)
    first = pool(*POOL_A, deleting=0, not_ready=0)
    entry = made.overview([first], now)["pools"][0]
    for _ in range(200):  # over windows that open and close
        now += timedelta(seconds=47)
        kept, anew = shown(made, now, first)
        assert kept == anew
    assert kept["pools"][0] is not entry
    assert shown(made, now + timedelta(seconds=1), first)[0]["pools"][0] is kept["pools"][0]


def test_what_has_changed_is_looked_at_anew():
    made = Overviews(lambda: FRIDAY)
    for each in (pool(*POOL_A), pool(*POOL_A, total=40), pool(*POOL_A[:2]), pool({"nodes": "x"}), pool()):
        kept, anew = shown(made, FRIDAY, each)
        assert kept == anew
    kept, anew = shown(made, FRIDAY, pool(*POOL_A), pool(*POOL_A[1:], name="b"), reasons=[DisruptionReason.EMPTY])
    assert kept == anew


def test_a_look_at_another_time_takes_the_place_of_nothing():
    made, one = Overviews(lambda: FRIDAY), pool(*POOL_A)
    entry = made.overview([one], FRIDAY)["pools"][0]
    for days in (-400, -1, 1, 400):
        kept, anew = shown(made, FRIDAY + timedelta(days=days), one)
        assert kept == anew
    assert made.overview([one], FRIDAY)["pools"][0] is entry


def test_a_pool_that_is_gone_is_forgotten():
    made, one, other = Overviews(lambda: FRIDAY), pool(name="one"), pool(name="other")
    before = made.overview([one, other], FRIDAY)["pools"]
    made.forget({"other"})
    after = made.overview([one, other], FRIDAY)["pools"]
    assert after == before
    assert (after[0] is before[0], after[1] is before[1]) == (False, True)


def test_what_was_searched_for_in_vain_never_opens():
    shut = pool(
        {"nodes": "0", "schedule": "0 0 1-30 * *", "duration": "24h"},
        {"nodes": "0", "schedule": "0 0 31 * *", "duration": "24h"},
    )
    item = state(overview([shut], FRIDAY), "Drifted")
    assert (item["nextOpen"], item["neverOpens"], item["searchedUntil"]) == (None, True, "2027-07-17T19:00:00Z")
    assert all(reason["neverOpens"] for reason in calendar_of(FRIDAY, 1, shut)["items"][0]["reasons"])
