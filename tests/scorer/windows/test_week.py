from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.values.duration import parse_budget_duration
from scorer.windows.cron import parse_schedule
from scorer.windows.week import blocks
from scorer.windows.windows import WEEK_MINUTES, WHOLE_WEEK, BudgetWindow

THURSDAY = datetime(2026, 6, 4, tzinfo=UTC)


def minutes(schedule, duration):
    return BudgetWindow(parse_schedule(schedule), parse_budget_duration(duration)).week


def joined(found):
    total = 0
    for block in found:
        total |= minutes(*block)
    return total


@pytest.mark.parametrize(
    ("schedule", "same"),
    [
        pytest.param("0 0 * * 6", True, id="weekday"),
        pytest.param("0 0 1-31 * *", True, id="all-days-written-out"),
        pytest.param("0 0 1 * 0-6", True, id="or-any-weekday"),
        pytest.param("0 0 1-31 * 1", True, id="any-day-or-monday"),
        pytest.param("0 0 * 1-12 *", True, id="all-months"),
        pytest.param("0 0 1 * *", False, id="first-of-the-month"),
        pytest.param("0 0 1 * 1", False, id="first-or-monday"),
        pytest.param("0 0 * 12 *", False, id="december"),
        pytest.param("0 0 31 2 *", True, id="never-fires-and-so-is-always-open"),
        pytest.param("@every 1h", True, id="every-hour-from-whenever"),
    ],
)
def test_which_windows_are_the_same_in_every_week(schedule, same):
    assert (minutes(schedule, "1h") is not None) is same


schedules = st.builds(
    "{} {} {} * {}".format,
    st.sampled_from(["0", "*/15", "59", "30,45", "*"]),
    st.sampled_from(["0", "23", "*/6", "9-17", "*"]),
    st.sampled_from(["*", "1-31", "*/1"]),
    st.sampled_from(["*", "0", "6", "1-5", "0,6", "0-6"]),
)


@given(schedules, st.integers(0, 9000), st.integers(0, WEEK_MINUTES - 1))
def test_the_minutes_are_those_of_the_window(schedule, length, minute):
    window = BudgetWindow(parse_schedule(schedule), timedelta(minutes=length))
    assert bool(window.week >> minute & 1) is window.is_open(THURSDAY + timedelta(minutes=minute))


@pytest.mark.parametrize(
    ("open_", "written"),
    [
        pytest.param(("0 0 * * 6", "48h"), [("0 0 * * 1", "120h")], id="seed-002-weekend"),
        pytest.param(("0 2 * * *", "2h"), [("0 4 * * *", "22h")], id="nightly"),
        pytest.param(("30 22 * * 5", "4h30m"), [("0 3 * * 6", "163h30m")], id="once-a-week"),
        pytest.param(("0 9 * * 1-5", "8h"), [("0 17 * * 1-4", "16h"), ("0 17 * * 5", "64h")], id="business-hours"),
        pytest.param(("0 */6 * * *", "1h"), [("0 1,7,13,19 * * *", "5h")], id="four-times-a-day"),
        pytest.param(("*/30 * * * *", "10m"), [("10,40 * * * *", "20m")], id="twice-an-hour"),
        pytest.param(("0 0 * * *", "24h"), None, id="always"),
        pytest.param(("15,45 6,18 * * 0,3", "1h"), None, id="no-pattern"),
    ],
)
def test_the_rest_of_the_week_is_written_as_windows(open_, written):
    found = blocks(WHOLE_WEEK & ~minutes(*open_), 2)
    assert found == written
    if found is not None:
        assert joined(found) == WHOLE_WEEK & ~minutes(*open_)


@given(schedules, st.integers(1, 9000))
def test_what_is_written_means_what_it_was_written_for(schedule, length):
    open_ = BudgetWindow(parse_schedule(schedule), timedelta(minutes=length)).week
    for wanted in (open_, WHOLE_WEEK & ~open_):
        found = blocks(wanted, 10)
        assert found is None or joined(found) == wanted


def test_nothing_and_everything_are_no_windows():
    assert (blocks(0, 3), blocks(WHOLE_WEEK, 3)) == (None, None)
