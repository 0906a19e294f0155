"""Durations as Go reads them; the values are those of ``time.ParseDuration``."""

import pytest

from scorer.api.values.duration import parse_go_duration


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        pytest.param("4h", 4 * 3600 * 10**9, id="hours"),
        pytest.param("1h30m", 5400 * 10**9, id="sum"),
        pytest.param("1.5h", 5400 * 10**9, id="fraction"),
        pytest.param(".5s", 5 * 10**8, id="fraction-alone"),
        pytest.param("1.s", 10**9, id="point-alone"),
        pytest.param("+3ms", 3 * 10**6, id="plus"),
        pytest.param("-2us", -2000, id="minus"),
        pytest.param("7µs", 7000, id="micro-sign"),
        pytest.param("7μs", 7000, id="greek-mu"),
        pytest.param("0", 0, id="bare-zero"),
        pytest.param("-0", 0, id="signed-zero"),
        pytest.param("9223372036854775807ns", 2**63 - 1, id="largest"),
        pytest.param("-9223372036854775808ns", -(2**63), id="smallest"),
        pytest.param("1m1m", 120 * 10**9, id="repeat"),
    ],
)
def test_what_go_reads(text, nanoseconds):
    assert parse_go_duration(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "h",
        "1d",
        "1H",
        " 1h",
        "1h ",
        "1h\n",
        "--1h",
        ".h",
        "1e3s",
        "٣h",
        "9223372036854775808ns",
        "2562048h",
        "1" * 300 + "h",
    ],
)
def test_what_go_refuses(text):
    with pytest.raises(ValueError, match=r"is not a duration|is longer than"):
        parse_go_duration(text)
