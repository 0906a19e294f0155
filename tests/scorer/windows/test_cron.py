import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scorer.windows.cron import MACROS, CronMinute, matches_crd_pattern, parse_schedule
from scorer.windows.fires import next_fire
from tests.scorer.windows.expressions import EXPRESSIONS, INSTANTS
from tests.thoroughness import examples

CRD_PATTERN = re.compile(
    r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))"
    r"|((.+)[\t\n\f\r ](.+)[\t\n\f\r ](.+)[\t\n\f\r ](.+)[\t\n\f\r ](.+))\Z"
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("0 9 * * 1-5", id="plain"),
        pytest.param("  0 9 *\t* 1-5  ", id="blanks-around-and-tabs"),
        pytest.param("0 9 *\n* 1", id="newline-between-fields"),
        pytest.param("? ? ? ? ?", id="question-marks-everywhere"),
        pytest.param("?/5 ?,5 * * *", id="question-mark-with-step-and-in-list"),
        pytest.param("5-5 * * * *", id="range-of-one"),
        pytest.param("*-foo 3 * * *", id="star-with-unread-rest"),
        pytest.param("*-1-2 3 * * *", id="star-with-several-hyphens"),
        pytest.param("+5 0005 03 02 01", id="plus-sign-and-leading-zeros"),
        pytest.param("0 0 * * MON-fri", id="names-in-any-case"),
        pytest.param("0 0 * * 1-wed/2", id="names-and-numbers-mixed"),
        pytest.param("1,,2 ,1 1, , *", id="empty-items"),
        pytest.param("*/1000 * * * *", id="step-beyond-the-range"),
        pytest.param("*/9223372036854775807 * * * *", id="largest-step"),
        pytest.param("@daily  ", id="macro-with-trailing-blanks"),
        *(pytest.param(macro, id=macro) for macro in MACROS),
    ],
)
def test_accepts_what_the_reference_accepts(text):
    assert parse_schedule(text).text == text
    assert matches_crd_pattern(text)


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        pytest.param("", "not 0", id="empty"),
        pytest.param(" " * 120, "not 0", id="only-blanks"),
        pytest.param("* * * *", "not 4", id="four-fields"),
        pytest.param("0 0 9 * * 1-5", "not 6", id="six-fields"),
        pytest.param("0 " * 200, "not 10 or more", id="no-end-of-fields"),
        pytest.param("TZ=Asia/Shanghai 0 9 * * *", "schedules are in UTC", id="time-zone"),
        pytest.param("CRON_TZ=UTC @daily", "schedules are in UTC", id="time-zone-and-macro"),
        pytest.param("60 * * * *", "minute '60': outside 0 to 59", id="minute-60"),
        pytest.param("0 24 * * *", "hour '24'", id="hour-24"),
        pytest.param("0 0 0 * *", "day of month '0'", id="day-0"),
        pytest.param("0 0 * 13 *", "month '13'", id="month-13"),
        pytest.param("0 0 * * 7", "day of week '7': outside 0 to 6", id="sunday-is-0-only"),
        pytest.param("0 22-6 * * *", "hour '22-6': a range must not end before it starts", id="wrapping-range"),
        pytest.param("0 0 * * fri-mon", "day of week 'fri-mon'", id="wrapping-names"),
        pytest.param("0 0 * * monday", "day of week 'monday'", id="full-name"),
        pytest.param("0 0 * * feb", "day of week 'feb'", id="name-in-the-wrong-field"),
        pytest.param("mon * * * *", "minute 'mon': not a whole number", id="name-in-a-field-without-names"),
        pytest.param("*/0 * * * *", "step", id="step-0"),
        pytest.param("*/ * * * *", "step", id="step-empty"),
        pytest.param("*/-1 * * * *", "step", id="step-negative"),
        pytest.param("*/1.5 * * * *", "step", id="step-fraction"),
        pytest.param("*/9223372036854775808 * * * *", "step", id="step-beyond-64-bits"),
        pytest.param("/5 * * * *", "minute '/5'", id="step-without-base"),
        pytest.param("1/2/3 * * * *", "more than one '/'", id="two-slashes"),
        pytest.param("1-2-3 * * * *", "more than one '-'", id="two-hyphens"),
        pytest.param("-1 * * * *", "minute '-1'", id="negative"),
        pytest.param("5- * * * *", "minute '5-'", id="open-range"),
        pytest.param("** * * * *", "minute '**'", id="two-stars"),
        pytest.param("1_0 * * * *", "minute '1_0'", id="underscore"),
        pytest.param("++5 * * * *", "minute '++5'", id="two-plus-signs"),
        pytest.param("\uff15 * * * *", "minute", id="full-width-digit"),
        pytest.param("\u00b2 * * * *", "minute", id="superscript-digit"),
        pytest.param("0 0 L * *", "day of month 'L'", id="last-day"),
        pytest.param("0 0 15W * *", "day of month '15W'", id="nearest-weekday"),
        pytest.param("0 0 * * 1#2", "day of week '1#2'", id="nth-weekday"),
        pytest.param("H 0 * * *", "minute 'H'", id="hash"),
        pytest.param("R R * * *", "minute 'R'", id="random"),
        pytest.param("0 9 * * ~", "day of week '~'", id="tilde"),
        pytest.param("@Daily", "macro '@Daily'", id="macro-in-capitals"),
        pytest.param("@dailyx", "macro '@dailyx'", id="macro-with-a-tail"),
        pytest.param("@reboot", "macro '@reboot'", id="unknown-macro"),
        pytest.param("@every", "macro '@every'", id="every-without-duration"),
        pytest.param("@every 1d", "@every: '1d'", id="every-with-days"),
        pytest.param("@every  1h", "@every: ' 1h'", id="every-with-two-blanks"),
        pytest.param("@every 2562048h", "longer than", id="every-beyond-64-bits"),
        pytest.param("x" * 100 + " * * * *", "...'", id="long-texts-are-cut"),
        pytest.param("x" * 100_000 + " * * * *", "...' has 100008 characters, at most 512", id="too-long-to-be-read"),
    ],
)
def test_refuses_with_the_field_and_the_text(text, mentions):
    with pytest.raises(ValueError) as refused:
        parse_schedule(text)
    assert mentions in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        pytest.param("@every 1h", False, id="every-is-not-admitted"),
        pytest.param(" @daily", False, id="macro-after-a-blank"),
        pytest.param("0\u00a09 * * *", False, id="other-blanks-between-fields"),
        pytest.param("0\v9\v*\v*\v*", False, id="vertical-tabs-between-fields"),
        pytest.param("0 9 * * *\u00a0", True, id="other-blanks-around"),
        pytest.param("0 9 * * *\n", False, id="a-last-newline-needs-a-part-after-it"),
    ],
)
def test_the_parser_alone_takes_more_than_the_crd(text, pattern):
    assert parse_schedule(text)
    assert matches_crd_pattern(text) is pattern


@pytest.mark.parametrize("text", ["@dailyx", "0 0 9 * * 1-5", "TZ=UTC 0 9 * * *", " " * 120, "a b c d e"])
def test_the_crd_alone_takes_more_than_the_parser(text):
    assert matches_crd_pattern(text)
    with pytest.raises(ValueError):
        parse_schedule(text)


@given(st.text(alphabet="a \n\t\f\r\v@0", max_size=14) | st.sampled_from(["@dail", "@yearly", "@hourly1"]))
@example("\n\n0\n0\n0\n0")
@example("\n0\n0\n0\n0\n0")
@settings(max_examples=examples(400))
def test_the_pattern_is_that_of_the_crd(text):
    assert matches_crd_pattern(text) is (CRD_PATTERN.search(text) is not None)


@given(st.text(alphabet="0159*?/-+, \tmonjan@every1h.L#", max_size=40) | st.text(max_size=40))
@settings(max_examples=examples(240))
def test_the_parser_raises_nothing_but_value_error(text):
    try:
        schedule = parse_schedule(text)
    except ValueError:
        return
    now = at("2026-06-12T18:30:00Z")
    fire = schedule.last_at(now)
    assert fire is None or fire <= now


@pytest.mark.parametrize(
    "text",
    [
        "0 0 30 2 *",
        "0 0 30 2 */1",
        "0 0 31 2,4,6,9,11 *",
        ", * * * *",
        "0 , * * *",
        "0 0 , * ,",
        "0 0 , * *",
        "0 0 1 , *",
    ],
)
def test_some_schedules_never_fire(text):
    schedule = parse_schedule(text)
    assert schedule.never_fires
    assert next_fire(schedule, at("2026-06-12T18:30:00Z")) is None


@pytest.mark.parametrize(
    ("text", "instant", "fire"),
    [
        pytest.param("0 9 * * 1-5", "2026-06-12T09:00Z", "2026-06-12T09:00Z", id="the-instant-counts"),
        pytest.param("0 9 * * 1-5", "2026-06-12T08:59:59.9Z", "2026-06-11T09:00Z", id="a-moment-before"),
        pytest.param("0 9 * * 1-5", "2026-06-15T02:00+02:00", "2026-06-12T09:00Z", id="over-the-weekend"),
        pytest.param("15,45 3,21 31 * *", "2026-07-30T00:00Z", "2026-05-31T21:45Z", id="over-a-short-month"),
        pytest.param("30 18 * * 5", "2026-06-12T18:29Z", "2026-06-05T18:30Z", id="minute-within-the-hour"),
        pytest.param("0 0 29 2 *", "2104-02-28T23:59Z", "2096-02-29T00:00Z", id="it-does-not-give-up"),
        pytest.param("@yearly", "0001-01-01T00:00Z", "0001-01-01T00:00Z", id="first-instant"),
        pytest.param("@monthly", "9999-12-31T23:59:59Z", "9999-12-01T00:00Z", id="last-instant"),
        pytest.param("0 1 1 1 *", "0001-01-01T00:59Z", None, id="before-all-fires"),
        pytest.param("0 0 30 2 *", "2026-06-12T18:29Z", None, id="never-fires"),
        pytest.param("@every 1h", "2026-06-12T18:29:03.5Z", "2026-06-12T18:29:03Z", id="every"),
        pytest.param("@every 1h", "0001-01-01T00:59:59Z", None, id="every-before-the-first"),
    ],
)
def test_last_at(text, instant, fire):
    assert parse_schedule(text).last_at(at(instant)) == (fire and at(fire))


def test_an_instant_without_time_zone_is_refused():
    naive = datetime(2026, 6, 12, tzinfo=UTC).replace(tzinfo=None)
    with pytest.raises(ValueError, match="no time zone"):
        next_fire(parse_schedule("@daily"), naive)
    with pytest.raises(ValueError, match="no time zone"):
        parse_schedule("@daily").last_at(naive)


@given(text=EXPRESSIONS, instant=INSTANTS, most=st.integers(0, 100_000))
@settings(max_examples=examples(240))
def test_the_latest_fire_is_as_long_ago_as_the_moment_says(text, instant, most):
    schedule, minute = parse_schedule(text), instant.replace(second=0, microsecond=0)
    since, fire = schedule.minutes_since_fire(CronMinute.of(instant), most), schedule.last_at(instant)
    if since is None:
        assert fire is None or minute - fire >= timedelta(minutes=most)
    else:
        assert fire == minute - timedelta(minutes=since)


def test_a_moment_needs_a_time_zone():
    assert CronMinute.of(at("2026-06-12T13:59:59.9+02:00")) == CronMinute.of(at("2026-06-12T11:59Z"))
    with pytest.raises(ValueError, match="has no time zone"):
        CronMinute.of(datetime(2026, 6, 12))


@pytest.mark.parametrize(
    ("text", "weekly", "daily"),
    [
        pytest.param("5 */6 * * *", True, True, id="stars"),
        pytest.param("0 0 1-31 1-12 0-6", True, True, id="written-out"),
        pytest.param("0 0 1-31 * 1", True, True, id="any-day-or-monday"),
        pytest.param("0 0 1 * 0-6", True, True, id="the-first-or-any-weekday"),
        pytest.param("0 0 * * 1-5", True, False, id="weekdays"),
        pytest.param("0 0 1-30 * *", False, False, id="days-of-the-month"),
        pytest.param("0 0 * 1-11 *", False, False, id="months"),
        pytest.param("0 0 13 * 5", False, False, id="the-thirteenth-or-friday"),
    ],
)
def test_what_repeats_itself(text, weekly, daily):
    schedule = parse_schedule(text)
    assert (schedule.is_weekly, schedule.is_daily) == (weekly, daily)


def test_a_field_may_be_long():
    many = ",".join(["1-7"] * 100)
    assert parse_schedule(f"0 0 {many} * *").canonical == "0 0 1,2,3,4,5,6,7 * *"
    with pytest.raises(ValueError, match="day of month '32': outside 1 to 31"):
        parse_schedule(f"0 0 {many},32 * *")


@given(text=EXPRESSIONS, instant=INSTANTS, days=st.integers(1, 70))
@settings(max_examples=examples(100))
def test_a_day_fires_at_the_same_minutes_whenever_it_fires(text, instant, days):
    schedule = parse_schedule(text)
    if schedule.never_fires:
        return
    midnight = instant.replace(hour=0, minute=0, second=0, microsecond=0)
    firing, minutes = schedule.firing_days(midnight.date(), days), schedule.firing_minutes()
    for day in range(days):
        before = midnight + timedelta(days=day, microseconds=-1)
        fire = next_fire(schedule, before)
        fires = fire is not None and fire < before + timedelta(days=1)
        assert bool(firing >> day & 1) is fires
        assert not fires or minutes & -minutes == 1 << fire.hour * 60 + fire.minute
