from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scorer.api.node_pool import Budget
from scorer.api.values.duration import parse_budget_duration
from scorer.node_budgets.budgets import budget_window
from scorer.windows.cron import parse_schedule
from scorer.windows.fires import next_fire
from scorer.windows.windows import BudgetWindow, epoch_seconds, from_epoch, timeline
from tests.scorer.windows.schedules import AWARE, WINDOWED
from tests.thoroughness import examples

SECOND = timedelta(seconds=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def window(schedule: str, duration: str) -> BudgetWindow:
    return BudgetWindow(parse_schedule(schedule), parse_budget_duration(duration))


def found(window: BudgetWindow, start: str, end: str) -> list[tuple[str, str]]:
    spans = window.spans(at(start), at(end))
    return [
        tuple(from_epoch(edge).isoformat().removesuffix("+00:00") + "Z" for edge in pair)
        for pair in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("schedule", "duration", "start", "end", "spans"),
    [
        pytest.param(
            "0 9 * * 1-5",
            "8h",
            "2026-06-12T12:00Z",
            "2026-06-16T00:00Z",
            [("2026-06-12T12:00:00Z", "2026-06-12T17:00:00Z"), ("2026-06-15T09:00:00Z", "2026-06-15T17:00:00Z")],
            id="cut-at-the-start",
        ),
        pytest.param(
            "30 18 * * 5",
            "62h",
            "2026-06-14T00:00:30Z",
            "2026-06-19T18:30:01Z",
            [("2026-06-14T00:00:30Z", "2026-06-15T08:30:00Z"), ("2026-06-19T18:30:00Z", "2026-06-19T18:30:01Z")],
            id="seconds-at-both-ends",
        ),
        pytest.param(
            "@daily",
            "24h",
            "2026-06-12T12:00Z",
            "2026-06-14T12:00Z",
            [("2026-06-12T12:00:00Z", "2026-06-14T12:00:00Z")],
            id="back-to-back",
        ),
        pytest.param(
            "0 1,2 * * *",
            "90m",
            "2026-06-12T00:00Z",
            "2026-06-13T00:00Z",
            [("2026-06-12T01:00:00Z", "2026-06-12T03:30:00Z")],
            id="overlapping",
        ),
        pytest.param(
            "0 23 12 * *",
            "49h",
            "2026-06-12T00:00Z",
            "2026-06-20T00:00Z",
            [("2026-06-12T23:00:00Z", "2026-06-15T00:00:00Z")],
            id="over-whole-days",
        ),
        pytest.param(
            "@daily",
            "10m",
            "2026-06-12T00:09:59.5Z",
            "2026-06-12T00:09:59.7Z",
            [("2026-06-12T00:09:59Z", "2026-06-12T00:10:00Z")],
            id="within-a-second",
        ),
        pytest.param("@daily", "0m", "2026-06-12T00:00Z", "2026-06-20T00:00Z", [], id="no-length"),
        pytest.param("@daily", "8h", "2026-06-12T08:00Z", "2026-06-13T00:00Z", [], id="between-two"),
        pytest.param("@daily", "8h", "2026-06-12T03:00Z", "2026-06-12T03:00Z", [], id="no-time"),
        pytest.param("@daily", "8h", "2026-06-12T03:00Z", "2026-06-12T01:00Z", [], id="backwards"),
        pytest.param(
            "0 0 30 2 *",
            "1h",
            "2026-06-12T00:00:05Z",
            "2026-06-12T09:00Z",
            [("2026-06-12T00:00:05Z", "2026-06-12T09:00:00Z")],
            id="never-fires",
        ),
        pytest.param(
            "0 0 29 2 *",
            "24h",
            "2098-12-30T00:00Z",
            "2099-01-03T00:00Z",
            [("2098-12-30T00:00:00Z", "2099-01-01T23:59:59Z")],
            id="no-leap-day-within-reach",
        ),
        pytest.param(
            "0 0 29 2 *",
            "24h",
            "2104-02-28T00:00Z",
            "2104-03-02T00:00Z",
            [("2104-02-29T00:00:00Z", "2104-03-01T00:00:00Z")],
            id="next-leap-day",
        ),
        pytest.param(
            "@daily",
            "1h",
            "9999-12-30T00:30Z",
            "9999-12-31T23:59:59Z",
            [
                ("9999-12-30T00:30:00Z", "9999-12-30T01:00:00Z"),
                ("9999-12-31T00:00:00Z", "9999-12-31T23:59:59Z"),
            ],
            id="end-of-the-calendar",
        ),
        pytest.param(
            "0 12 * * *",
            "2562047h",
            "0001-01-01T00:00Z",
            "0001-02-01T00:00Z",
            [("0001-01-01T12:00:00Z", "0001-02-01T00:00:00Z")],
            id="beginning-of-the-calendar",
        ),
        pytest.param(
            "@every 1h",
            "1h",
            "2026-06-12T00:00Z",
            "2026-06-12T00:01Z",
            [("2026-06-12T00:00:00Z", "2026-06-12T00:01:00Z")],
            id="every-that-never-ends",
        ),
        pytest.param("@every 1h", "59m", "2026-06-12T00:00Z", "2026-06-12T09:00Z", [], id="every-that-is-over"),
    ],
)
def test_spans(schedule, duration, start, end, spans):
    assert found(window(schedule, duration), start, end) == spans


def test_without_a_schedule_it_is_always_open():
    assert found(BudgetWindow(), "2026-06-12T00:00Z", "2026-06-13T00:00Z") == [
        ("2026-06-12T00:00:00Z", "2026-06-13T00:00:00Z")
    ]


def test_without_a_duration_it_is_never_open():
    assert found(budget_window(Budget(schedule="@daily")), "2026-06-12T00:00Z", "2026-06-13T00:00Z") == []


@pytest.mark.parametrize("duration", [timedelta(seconds=90), timedelta(minutes=-1), timedelta(microseconds=1)])
def test_durations_are_whole_minutes(duration):
    with pytest.raises(ValueError, match="is not a number of whole minutes"):
        BudgetWindow(parse_schedule("@daily"), duration)


@given(windowed=WINDOWED, instant=AWARE)
@example({"schedule": "0 0 29 2 *", "duration": "24h"}, at("2099-01-01T23:59:58.9Z"))
@example({"schedule": "0 0 29 2 *", "duration": "24h"}, at("2099-01-01T23:59:59Z"))
@settings(max_examples=examples(500))
def test_a_window_is_open_by_the_rule_of_the_reference(windowed, instant):
    """nodepool-disruption.md 4.4, word by word."""
    window = budget_window(Budget(**windowed))
    fire = next_fire(window.schedule, instant - window.duration)
    assert window.is_open(instant) is (fire is None or fire <= instant)


@pytest.mark.parametrize(
    ("schedule", "duration", "never"),
    [
        pytest.param("@daily", "24h", True, id="back-to-back"),
        pytest.param("@daily", "23h59m", False, id="a-minute-is-left"),
        pytest.param("0 0 1-31 * *", "2562047h", True, id="longer-than-all-time"),
        pytest.param("0 */2 * * *", "2h", True, id="every-other-hour"),
        pytest.param("0 */7 * * *", "6h", False, id="a-gap-around-noon"),
        pytest.param("0 8,20 * * *", "12h", True, id="over-midnight"),
        pytest.param("* * * * *", "1m", True, id="every-minute"),
        pytest.param("* * * * *", "0m", False, id="no-length"),
        pytest.param("0 0 30 2 *", "0m", True, id="never-fires"),
        pytest.param("@every 1h", "1h", True, id="every"),
        pytest.param("@every 1h", "59m", False, id="every-that-is-over"),
        pytest.param("0 0 * * 1", "168h", False, id="of-weeks-nothing-is-said"),
    ],
)
def test_what_never_closes_is_known(schedule, duration, never):
    assert window(schedule, duration).never_closes is never


@given(windowed=WINDOWED, instant=AWARE)
@settings(max_examples=examples(300))
def test_what_never_closes_is_always_open(windowed, instant):
    window = budget_window(Budget(**windowed))
    assert window.is_open(instant) or not window.never_closes


@given(
    windowed=WINDOWED,
    start=AWARE,
    length=st.timedeltas(SECOND, timedelta(days=40)),
    places=st.lists(st.floats(0, 1, exclude_max=True), max_size=10),
)
@example({"schedule": "0 0 29 2 *", "duration": "24h"}, at("2098-12-25T00:00Z"), timedelta(days=30), [])
@example({"schedule": "0 12 29 2 *", "duration": "9000h"}, at("2100-01-01T00:00Z"), timedelta(days=40), [0.5])
@settings(max_examples=examples(400))
def test_an_instant_is_within_a_span_when_the_window_is_open(windowed, start, length, places):
    """At the edges, right beside them, and anywhere else, fractions of seconds included."""
    budget, end = budget_window(Budget(**windowed)), start + length
    spans = budget.spans(start, end)
    edges = [from_epoch(second) for second in (*spans.starts.tolist(), *spans.ends.tolist())[:200]]
    instants = [edge + step for edge in edges for step in (-SECOND, -SECOND / 1000, SECOND * 0, SECOND / 1000, SECOND)]
    for instant in (*instants, *(start + place * length for place in places)):
        if start <= instant < end:
            second = epoch_seconds(instant)
            assert budget.is_open(instant) is bool(((spans.starts <= second) & (second < spans.ends)).any()), instant
    assert (spans.starts < spans.ends).all()
    assert (spans.ends[:-1] < spans.starts[1:]).all()


def test_a_timeline_shows_several_windows_over_the_same_instants():
    windows = (
        BudgetWindow(),
        window("0 0 29 2 *", "24h"),
        window("* * * * *", "1m"),
        window("@daily", "0m"),
        BudgetWindow(),
    )
    cuts, states, stop = timeline(windows, at("2099-01-01T23:58:10Z"), at("2099-01-02T00:00:20.5Z"))
    first = epoch_seconds(at("2099-01-01T23:58:10Z"))
    assert [cut - first for cut in cuts.tolist()] == [0, 50, 109, 110]
    assert stop - first == 131
    assert states.astype(int).tolist() == [[1] * 4, [1, 1, 0, 0], [1] * 4, [0] * 4, [1] * 4]


def test_a_timeline_without_windows_or_without_time_is_empty():
    now = datetime(2026, 6, 12, tzinfo=UTC)
    assert timeline((), now, now + timedelta(minutes=3))[1].shape == (0, 3)
    assert timeline((BudgetWindow(),), now, now)[1].shape == (1, 0)
