import itertools
from datetime import MAXYEAR, UTC, datetime, timedelta, timezone

import pytest
from croniter import CroniterBadDateError, croniter
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scorer.windows import fires
from scorer.windows.cron import parse_schedule
from scorer.windows.fires import HORIZON_YEARS, next_fire
from tests.scorer.windows.expressions import EXPRESSIONS, FIELDS, INSTANTS, fires_after
from tests.thoroughness import examples

SECOND = timedelta(seconds=1)
ANY_TIME = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 58)).map(
    lambda naive: naive.replace(tzinfo=UTC)
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("text", "start", "fires"),
    [
        pytest.param(
            "0 9-17 * * 1-5",
            "2026-08-31T08:59:59.5+00:00",
            ["2026-08-31T09:00Z", "2026-08-31T10:00Z"],
            id="fraction-of-a-second-before",
        ),
        pytest.param("* * * * *", "2026-06-10T12:00:00.5Z", ["2026-06-10T12:01Z"], id="fraction-of-a-second-after"),
        pytest.param("0 4 * * *", "2026-06-10T04:00Z", ["2026-06-11T04:00Z"], id="strictly-after"),
        pytest.param("@hourly", "2025-11-30T17:45:12+05:30", ["2025-11-30T13:00Z"], id="the-offset-does-not-matter"),
        pytest.param("@weekly", "2026-06-10T00:00Z", ["2026-06-14T00:00Z"], id="weekly-is-sunday"),
        pytest.param("0 0 13 * 5", "2026-02-01T00:00Z", ["2026-02-06T00:00Z", "2026-02-13T00:00Z"], id="either-day"),
        pytest.param("0 0 */2 * 1", "2026-06-02T00:00Z", ["2026-06-03T00:00Z", "2026-06-05T00:00Z"], id="step-either"),
        pytest.param("0 0 */1 * 1", "2026-06-02T00:00Z", ["2026-06-08T00:00Z"], id="step-of-one-keeps-the-mark"),
        pytest.param("0 0 *,5 * 1", "2026-06-02T00:00Z", ["2026-06-08T00:00Z"], id="mark-in-a-list"),
        pytest.param("0 0 1-31 * 1", "2026-06-02T00:00Z", ["2026-06-03T00:00Z"], id="full-range-is-no-mark"),
        pytest.param("0 0 1 * 0-6", "2026-06-02T00:00Z", ["2026-06-03T00:00Z"], id="full-week-is-no-mark"),
        pytest.param("0 0 13 * ,", "2026-06-02T00:00Z", ["2026-06-13T00:00Z"], id="empty-weekdays-beside-days"),
        pytest.param("0 0 , * mon", "2026-06-02T00:00Z", ["2026-06-08T00:00Z"], id="empty-days-beside-weekdays"),
        pytest.param("0 0 31 2 1", "2026-05-01T00:00Z", ["2027-02-01T00:00Z"], id="no-such-day-but-weekdays"),
        pytest.param("5-5 0 * * *", "2026-06-02T00:00Z", ["2026-06-02T00:05Z"], id="range-of-one"),
        pytest.param("0 0 29 2 *", "2099-12-31T23:59:59Z", ["2104-02-29T00:00Z", "2108-02-29T00:00Z"], id="in-reach"),
        pytest.param("0 0 29 2 *", "2099-12-31T23:59:58Z", ["2104-02-29T00:00Z"], id="last-second-of-the-year-before"),
        pytest.param("0 0 29 2 *", "2098-12-31T23:59:58Z", [], id="out-of-reach"),
        pytest.param("@every 90m30.9s", "2026-06-02T00:00:00.7Z", ["2026-06-02T01:30:30Z"], id="every"),
        pytest.param("@every 1ms", "2026-06-02T00:00Z", ["2026-06-02T00:00:01Z"], id="every-at-least-a-second"),
        pytest.param("@every -1h", "2026-06-02T00:00Z", ["2026-06-02T00:00:01Z"], id="every-negative"),
        pytest.param("@every 0", "2026-06-02T00:00Z", ["2026-06-02T00:00:01Z"], id="every-zero"),
    ],
)
def test_fires(text, start, fires):
    schedule = parse_schedule(text)
    assert list(itertools.islice(fires_after(schedule, at(start)), len(fires) or 1)) == [at(fire) for fire in fires]
    assert not schedule.never_fires


def test_the_end_of_the_calendar_is_no_fire():
    assert next_fire(parse_schedule("* * * * *"), datetime.max.replace(tzinfo=UTC)) is None
    assert next_fire(parse_schedule("@every 1h"), datetime.max.replace(tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("text", "start", "fire"),
    [
        pytest.param("* * * * *", "9999-12-31T23:58:59Z", "9999-12-31T23:59Z", id="last-minute"),
        pytest.param("* * * * *", "9999-12-31T23:59:30Z", None, id="within-the-last-minute"),
        pytest.param("@yearly", "9998-12-31T23:59:59.9Z", "9999-01-01T00:00Z", id="last-year"),
        pytest.param("0 0 29 2 *", "9996-02-29T00:00Z", None, id="no-leap-year-is-left"),
        pytest.param("@daily", "0001-01-01T00:00Z", "0001-01-02T00:00Z", id="first-day"),
        pytest.param("0 0 29 2 *", "0001-01-01T00:00Z", "0004-02-29T00:00Z", id="first-leap-day"),
    ],
)
def test_the_search_reaches_both_ends_of_the_calendar(text, start, fire):
    assert next_fire(parse_schedule(text), at(start)) == (fire and at(fire))


def brute_force(fields, start: datetime) -> datetime | None:
    """Try every day, hour and minute after *start* until the horizon."""
    (_, minutes, _), (_, hours, _), (_, days, any_day), (_, months, _), (_, weekdays, any_weekday) = fields
    last_year = (start.replace(microsecond=0) + timedelta(seconds=1)).year + 5
    day = start.replace(hour=0, minute=0, second=0, microsecond=0)
    while day.year <= last_year:
        in_days, in_weekdays = day.day in days, day.isoweekday() % 7 in weekdays
        matches = (in_days and in_weekdays) if any_day or any_weekday else (in_days or in_weekdays)
        if matches and day.month in months:
            for hour, minute in itertools.product(sorted(hours), sorted(minutes)):
                fire = day.replace(hour=hour, minute=minute)
                if fire > start:
                    return fire
        day += timedelta(days=1)
    return None


@given(
    fields=FIELDS,
    start=st.datetimes(datetime(2023, 1, 1), datetime(2110, 1, 1)),
    offset=st.integers(-12, 14),
)
@settings(max_examples=examples(80))
def test_next_is_the_first_of_a_minute_by_minute_search(fields, start, offset):
    schedule = parse_schedule(" ".join(text for text, _, _ in fields))
    here = start.replace(tzinfo=UTC)
    for fire in (*itertools.islice(fires_after(schedule, here), 2), None):
        wanted = brute_force(fields, here)
        assert next_fire(schedule, here.astimezone(timezone(timedelta(hours=offset)))) == wanted
        if fire is None:
            break
        assert fire == wanted
        assert fire > here
        here = fire


def by_the_recipe(canonical: str, instant: datetime) -> datetime | None:
    """Give the whole schedule to croniter, as nodepool-disruption.md 8.4 says."""
    here = instant.replace(microsecond=0)
    try:
        fire = croniter(canonical, here, ret_type=datetime, max_years_between_matches=9).get_next()
    except CroniterBadDateError:
        return None
    return fire if fire.year <= (here + timedelta(seconds=1)).year + 5 else None


@given(text=EXPRESSIONS, instant=INSTANTS)
@example("0 0 29 2 *", at("2096-02-29T00:00:00Z"))
@example("59 23 29 2 *", at("2098-12-31T23:59:59Z"))
@example("0 0 29,30 2 0-6/2", at("2097-12-31T23:59:59Z"))
@example("0 0 31 */2 *", at("2099-12-31T23:59:59.5Z"))
@settings(max_examples=examples(240))
def test_the_days_of_croniter_are_enough(text, instant):
    schedule = parse_schedule(text)
    if schedule.never_fires:
        return
    for fire in itertools.islice(fires_after(schedule, instant), 3):
        assert fire == by_the_recipe(schedule.canonical, instant)
        instant = fire
    assert next_fire(schedule, instant) == by_the_recipe(schedule.canonical, instant)


@given(text=EXPRESSIONS, instant=INSTANTS | ANY_TIME)
@example("0 0 29 2 *", at("2096-02-29T00:00:00Z"))
@example("0 0 29 2 *", at("1894-12-31T23:59:59Z"))
@example("0 0 30 12 5", at("9999-12-30T12:00:00Z"))
@example("* * * * *", at("9999-12-31T23:59:58Z"))
@example("0 0 1 1 *", at("0001-01-01T00:00:00Z"))
@settings(max_examples=examples(240))
def test_croniter_and_our_own_search_agree(text, instant):
    """On the way forward and on the way back there is no fire between the instant and the next one, in any year."""
    schedule = parse_schedule(text)
    fire = next_fire(schedule, instant)
    last_year = min((instant.replace(microsecond=0) + SECOND).year + HORIZON_YEARS, MAXYEAR)
    if fire is None:
        latest = schedule.last_at(datetime(last_year, 12, 31, 23, 59, tzinfo=UTC))
    else:
        assert fire > instant
        assert fire.year <= last_year
        assert schedule.last_at(fire) == fire
        latest = None if fire == datetime.min.replace(tzinfo=UTC) else schedule.last_at(fire - SECOND)
    assert latest is None or latest <= instant


@given(text=EXPRESSIONS, instant=INSTANTS)
@settings(max_examples=examples(300))
def test_the_latest_fire_is_followed_by_none_before_the_instant(text, instant):
    schedule = parse_schedule(text)
    fire = schedule.last_at(instant)
    assert (fire is None) is schedule.never_fires
    if fire is not None:
        assert fire <= instant
        assert next_fire(schedule, fire - timedelta(microseconds=1)) == fire
        following = next_fire(schedule, fire)
        assert following is None or following > instant


def test_schedules_of_the_same_days_share_one_search():
    """What people may write in the fields of the time of day costs no search of croniter."""
    known = fires._first_day.cache_info().misses
    for minute in range(60):
        schedule = parse_schedule(f"{minute} 8-23/{minute + 1} 29 2 *")
        assert next_fire(schedule, at("2077-06-12T07:00Z")) == at(f"2080-02-29T08:{minute:02}Z")
    assert fires._first_day.cache_info().misses <= known + 1
