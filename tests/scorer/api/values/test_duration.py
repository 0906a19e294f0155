"""The grammars of durations on the wire."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.values.duration import format_duration, parse_budget_duration, parse_sum, parse_wait_time

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("0s", timedelta()),
        ("90s", 90 * SECOND),
        ("1h30m", 90 * MINUTE),
        ("1.5h", 90 * MINUTE),
        ("1s1h1s", HOUR + 2 * SECOND),
    ],
)
def test_wait_time(text, duration):
    assert parse_wait_time(text) == duration


@pytest.mark.parametrize(
    "text",
    [
        "",
        "01h",
        "1d",
        "300ms",
        "90",
        "-1h",
        "1h 30m",
        "1h\n",
        "h",
        ".5h",
        "1.h",
        "1H",
        "\N{ARABIC-INDIC DIGIT THREE}h",
        "1us",
    ],
)
def test_no_wait_time(text):
    with pytest.raises(ValueError, match="duration"):
        parse_wait_time(text)


@pytest.mark.parametrize(
    ("text", "duration"),
    [("1h30m5s", 90 * MINUTE + 5 * SECOND), ("1m1m", 2 * MINUTE), ("5s1h", HOUR + 5 * SECOND), ("00h05m", 5 * MINUTE)],
)
def test_sum(text, duration):
    assert parse_sum(text) == duration


@pytest.mark.parametrize(
    "text", ["1.5h", "1ms", "1d", "5", "", " 1h", "never", "Never", "FooNever", "Never1h", "1h\n", "-1h"]
)
def test_no_sum(text):
    with pytest.raises(ValueError, match="duration"):
        parse_sum(text)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("8h", 8 * HOUR),
        ("90m", 90 * MINUTE),
        ("1h30m", 90 * MINUTE),
        ("1h30m0s", 90 * MINUTE),
        ("8h0s", 8 * HOUR),
        ("0m", timedelta()),
        pytest.param("10h5m", 605 * MINUTE, id="seed-002-10h5m"),
        pytest.param("30m", 30 * MINUTE, id="seed-002-30m"),
        pytest.param("160h", 160 * HOUR, id="seed-002-160h"),
    ],
)
def test_budget_duration(text, duration):
    assert parse_budget_duration(text) == duration


@pytest.mark.parametrize("text", ["30s", "30m1h", "1h1h", "1h30m15s", "1.5h", "1d", "-1h", "Never", "", "0s", "8h\n"])
def test_no_budget_duration(text):
    with pytest.raises(ValueError, match="duration"):
        parse_budget_duration(text)


@pytest.mark.parametrize("parse", [parse_wait_time, parse_sum, parse_budget_duration])
def test_64_bits_of_nanoseconds_are_the_limit(parse):
    assert parse("2562047h") == 2562047 * HOUR
    with pytest.raises(ValueError, match="2562048h"):
        parse("2562048h")


groups = st.lists(st.tuples(st.integers(0, 10**5), st.sampled_from("smh")), min_size=1, max_size=8)


@given(groups)
def test_a_duration_is_the_sum_of_its_groups(parts):
    text = "".join(f"{count}{unit}" for count, unit in parts)
    seconds = sum(count * {"s": 1, "m": 60, "h": 3600}[unit] for count, unit in parts)
    assert parse_sum(text) == parse_wait_time(text) == timedelta(seconds=seconds)


@given(st.text("0123456789.smh -", max_size=12))
def test_any_text_either_parses_or_is_refused(text):
    for parse in (parse_wait_time, parse_sum, parse_budget_duration):
        try:
            duration = parse(text)
        except ValueError:
            continue
        assert duration >= timedelta()


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (2 * HOUR, "2h"),
        (HOUR + 12 * MINUTE, "1h 12m"),
        (41 * SECOND, "41s"),
        (timedelta(days=3), "3d"),
        (timedelta(days=3, minutes=5), "3d"),
        (HOUR + SECOND, "1h"),
        (HOUR + MINUTE + SECOND, "1h 1m"),
        (timedelta(), "0s"),
        (-90 * SECOND, "-1m 30s"),
    ],
)
def test_durations_for_people(duration, text):
    assert format_duration(duration) == text
