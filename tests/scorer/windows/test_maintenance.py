"""Maintenance windows: open now, until when, and when next."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.meta import parse_time
from scorer.api.upgrade.maintenance_window import MaintenanceWindowSpec
from scorer.windows import maintenance
from scorer.windows.maintenance import HORIZON_DAYS, MaintenanceWindow, NextOpenings, WindowState, window_state

DAILY = {"daily": {"intervalDays": 1}}
MONDAY = datetime(2025, 1, 6, tzinfo=UTC)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def window(schedule=None, **fields):
    fields = {"startTime": "00:00", **fields, "schedule": schedule or DAILY}
    return MaintenanceWindow.of(MaintenanceWindowSpec.read(fields))


def weekly(day, weeks=1):
    return {"weekly": {"intervalWeeks": weeks, "dayOfWeek": day}}


def monthly(day, months=1):
    return {"absoluteMonthly": {"intervalMonths": months, "dayOfMonth": day}}


def nth(week, day, months=1):
    return {"relativeMonthly": {"intervalMonths": months, "weekIndex": week, "dayOfWeek": day}}


def at(text, *windows):
    """Return whether the windows are open, and until when that stays so, as text."""
    found = window_state(windows, parse_time(text))
    return found.is_open, found.until and found.until.strftime("%Y-%m-%dT%H:%M")


MONDAYS = window(weekly("Monday"), startTime="01:00")
THIRD_FRIDAYS = window(weekly("Friday", 3), durationHours=8, utcOffset="+05:30", startDate="2025-01-10")
QUARTERS = window(
    monthly(1, 3),
    startTime="09:00",
    utcOffset="-08:00",
    startDate="2024-10-01",
    notAllowedDates=[{"start": "2024-12-23", "end": "2025-01-05"}],
)
LAST_DAYS = window(monthly(31), durationHours=24)
NIGHTS = window(startTime="22:00", durationHours=8, notAllowedDates=[{"start": "2025-01-08", "end": "2025-01-08"}])


@pytest.mark.parametrize(
    ("now", "opened", "want"),
    [
        pytest.param("2025-01-06T04:59:59Z", MONDAYS, (True, "2025-01-06T05:00"), id="last-second"),
        pytest.param("2025-01-06T05:00:00Z", MONDAYS, (False, "2025-01-13T01:00"), id="closing-instant-is-outside"),
        pytest.param("2025-01-10T01:00:00Z", THIRD_FRIDAYS, (True, "2025-01-10T02:30"), id="ahead-of-utc"),
        pytest.param("2025-01-10T02:30:00Z", THIRD_FRIDAYS, (False, "2025-01-30T18:30"), id="every-third-week"),
        pytest.param("2025-01-01T12:00:00Z", QUARTERS, (False, "2025-04-01T17:00"), id="not-on-the-days-blocked"),
        pytest.param("2025-02-01T00:00:00Z", LAST_DAYS, (False, "2025-02-28T00:00"), id="last-day-of-a-shorter-month"),
        pytest.param("2025-01-07T23:59:00Z", NIGHTS, (True, "2025-01-08T00:00"), id="cut-by-a-blocked-day"),
        pytest.param("2025-01-08T01:00:00Z", NIGHTS, (False, "2025-01-09T00:00"), id="opens-at-midnight-after-it"),
        pytest.param("2025-01-09T00:00:00Z", NIGHTS, (True, "2025-01-09T06:00"), id="the-rest-stays-usable"),
    ],
)
def test_a_window_is_open_from_its_start_until_just_before_its_end(now, opened, want):
    assert at(now, opened) == want


@pytest.mark.parametrize(
    ("schedule", "opening"),
    [
        pytest.param({"daily": {"intervalDays": 3}}, "2025-01-09T00:00", id="every-third-day"),
        pytest.param(weekly("Sunday", 2), "2025-01-12T00:00", id="the-first-sunday-on-or-after-the-start"),
        pytest.param(monthly(30, 2), "2025-01-30T00:00", id="in-the-month-of-the-start"),
        pytest.param(monthly(5, 2), "2025-03-05T00:00", id="not-before-the-start"),
        pytest.param(nth("First", "Monday"), "2025-02-03T00:00", id="first-monday-after-today"),
        pytest.param(nth("Second", "Tuesday"), "2025-01-14T00:00", id="second-tuesday"),
        pytest.param(nth("Third", "Wednesday", 6), "2025-01-15T00:00", id="third-wednesday"),
        pytest.param(nth("Fourth", "Friday"), "2025-01-24T00:00", id="fourth-friday"),
        pytest.param(nth("Last", "Friday"), "2025-01-31T00:00", id="last-of-five-fridays"),
        pytest.param(nth("Last", "Tuesday"), "2025-01-28T00:00", id="last-of-four-tuesdays"),
    ],
)
def test_intervals_count_from_the_start_date(schedule, opening):
    found = window(schedule, durationHours=1, startDate="2025-01-06")
    assert at("2025-01-06T12:00:00Z", found) == (False, opening)


@pytest.mark.parametrize(
    ("schedule", "opening"),
    [
        pytest.param({"daily": {"intervalDays": 2}}, "2025-01-08T00:00", id="from-1-january-1970"),
        pytest.param(weekly("Monday", 4), "2025-01-20T00:00", id="from-monday-5-january-1970"),
        pytest.param(monthly(1, 5), "2025-06-01T00:00", id="from-january-1970"),
    ],
)
def test_without_a_start_date_intervals_count_from_the_epoch(schedule, opening):
    assert at("2025-01-06T12:00:00Z", window(schedule, durationHours=1)) == (False, opening)


def test_a_window_is_closed_before_its_start_date():
    assert at("2025-01-06T12:00:00Z", window(startTime="02:00", startDate="2025-03-01")) == (False, "2025-03-01T02:00")


def test_of_several_windows_the_first_to_open_counts_and_the_last_to_close():
    morning, noon = window(startTime="08:00"), window(startTime="10:00")
    assert at("2025-01-06T07:00:00Z", noon, morning) == (False, "2025-01-06T08:00")
    assert at("2025-01-06T09:00:00Z", noon, morning) == (True, "2025-01-06T14:00")


def test_windows_that_follow_one_another_without_a_gap_do_not_close_in_between():
    found = window(durationHours=24, notAllowedDates=[{"start": "2025-01-10", "end": "2025-01-11"}])
    assert at("2025-01-06T09:00:00Z", found) == (True, "2025-01-10T00:00")
    assert at("2025-01-06T09:00:00Z", window(durationHours=24)) == (True, None)


def test_an_opening_is_searched_800_days_ahead():
    first = (MONDAY + timedelta(days=HORIZON_DAYS)).date()
    assert window_state([window(startDate=str(first))], MONDAY).until == MONDAY + timedelta(days=HORIZON_DAYS)
    late = window(startDate=str(first + timedelta(days=1)))
    assert window_state([late], MONDAY) == WindowState(is_open=False, until=None)


def test_no_windows_are_never_open():
    assert window_state([], MONDAY) == WindowState(is_open=False, until=None)


@pytest.mark.parametrize("now", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_the_ends_of_the_calendar_are_no_errors(now):
    blocked = [{"start": "0001-01-01", "end": "0001-01-02"}, {"start": "9999-12-30", "end": "9999-12-31"}]
    for schedule in (DAILY, weekly("Friday", 4), monthly(31, 6), nth("Last", "Sunday", 6)):
        for offset in ("+14:00", "-13:59"):
            window_state([window(schedule, durationHours=24, utcOffset=offset)], parse_time(now))
            assert not window_state(
                [window(schedule, utcOffset="+00:00", notAllowedDates=blocked)], parse_time(now)
            ).is_open


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"startTime": "24:00"}, "spec.startTime: '24:00' is not a time of day such as 22:00"),
        ({"utcOffset": "Europe/Berlin"}, "spec.utcOffset: 'Europe/Berlin' is not an offset such as +01:00"),
        (
            {"schedule": {**DAILY, **weekly("Monday")}},
            "spec.schedule: must have exactly one of daily, weekly, absoluteMonthly and relativeMonthly, "
            "has daily, weekly",
        ),
        (
            {"schedule": {}},
            "spec.schedule: must have exactly one of daily, weekly, absoluteMonthly and relativeMonthly, has nothing",
        ),
        (
            {"notAllowedDates": [{"start": "2025-01-02", "end": "2025-01-01"}]},
            "spec.notAllowedDates[0]: end 2025-01-01 must not be before start 2025-01-02",
        ),
    ],
)
def test_a_window_that_cannot_be_used_names_the_field_and_its_value(fields, message):
    spec = MaintenanceWindowSpec.read({"schedule": DAILY, "startTime": "00:00", **fields})
    with pytest.raises(ValueError) as found:
        MaintenanceWindow.of(spec)
    assert str(found.value) == message


SCHEDULES = st.one_of(
    st.builds(lambda days: {"daily": {"intervalDays": days}}, st.integers(1, 7)),
    st.builds(weekly, st.sampled_from(WEEKDAYS), st.integers(1, 4)),
    st.builds(monthly, st.integers(1, 31), st.integers(1, 6)),
    st.builds(
        nth,
        st.sampled_from(("First", "Second", "Third", "Fourth", "Last")),
        st.sampled_from(WEEKDAYS),
        st.integers(1, 6),
    ),
)
WINDOWS = st.builds(
    lambda schedule, hour, hours, offset, blocked: window(
        schedule,
        startTime=f"{hour:02}:30",
        durationHours=hours,
        utcOffset=offset,
        startDate="2025-01-03",
        notAllowedDates=[{"start": f"2025-01-{day:02}", "end": f"2025-01-{day + 1:02}"} for day in blocked],
    ),
    SCHEDULES,
    st.integers(0, 23),
    st.integers(1, 24),
    st.sampled_from(("+00:00", "+14:00", "-13:30", "+05:30")),
    st.lists(st.integers(1, 30), max_size=3),
)


@given(windows=st.lists(WINDOWS, min_size=1, max_size=3), half_hours=st.integers(0, 48 * 90))
def test_what_is_said_stays_true_until_the_instant_that_is_named(windows, half_hours):
    now = MONDAY + half_hours * timedelta(minutes=30)
    found = window_state(windows, now)
    assert found.until is None or found.until > now
    if found.until is not None:
        assert window_state(windows, found.until).is_open is not found.is_open
        last = found.until - timedelta(microseconds=1)
        assert window_state(windows, last) == found
        middle = now + (last - now) / 2
        assert window_state(windows, middle) == found


@given(found=WINDOWS, day=st.integers(-10, 40))
def test_what_is_blocked_is_cut_out_of_what_the_schedule_opens(found, day):
    since = (MONDAY - maintenance._FIRST_INSTANT) // timedelta(minutes=1) + day * 1440
    free = {minute for begin, end in islice(replace(found, blocked=()).openings(since), 40) for minute in (begin, end)}
    last = max(free)
    wanted = []
    for begin, end in replace(found, blocked=()).openings(since):
        parts = [(begin, end)]
        for closes, opens in found.blocked:
            parts = [
                part
                for first, final in parts
                for part in ((first, min(final, closes)), (max(first, opens), final))
                if part[0] < part[1]
            ]
        wanted += [part for part in parts if part[1] > since]
        if begin > last:
            break
    assert list(islice(found.openings(since), len(wanted))) == wanted


def test_a_window_that_is_closed_for_years_is_not_looked_at_day_by_day(monkeypatch):
    days = [{"start": f"2025-01-{day:02}", "end": f"2025-01-{day:02}"} for day in range(1, 29)]
    found = window(notAllowedDates=[*days, *days[:21], {"start": "2025-01-20", "end": "2027-02-28"}])
    assert len(found.blocked) == 1, "ranges that touch are one"
    looked_at, every = [], MaintenanceWindow._days

    def counted(self, begin, last):
        for day in every(self, begin, last):
            looked_at.append(day)
            yield day

    monkeypatch.setattr(MaintenanceWindow, "_days", counted)
    assert window_state([found], MONDAY).until == datetime(2027, 3, 1, tzinfo=UTC)
    assert len(looked_at) < 10


def test_windows_that_several_sets_share_are_searched_once(monkeypatch):
    windows, searched, search = (
        [window(startTime=f"{hour:02}:00") for hour in range(10, 16)],
        [],
        MaintenanceWindow.openings,
    )

    def counted(self, since):
        searched.append(self)
        return search(self, since)

    monkeypatch.setattr(MaintenanceWindow, "openings", counted)
    known = NextOpenings()
    for first in range(3):
        for minutes in range(3):
            now = MONDAY + timedelta(minutes=minutes)
            assert window_state(windows[first : first + 4], now, known).until == MONDAY + timedelta(hours=10 + first)
    assert len(searched) == len(windows)
