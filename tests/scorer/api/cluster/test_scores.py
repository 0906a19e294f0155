"""The annotation that holds an external score: what can be read, and why something cannot."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.cluster.scores import ExternalScore, parse_score, read_score, score_names
from tests.scorer.builders import LATENCY, modest

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        pytest.param('{"value":"42"}', ExternalScore("42"), id="without-end"),
        pytest.param('{"value":"-1.5k","validUntil":"2026-11-21T12:00:00Z"}', ExternalScore("-1.5k", NOON), id="utc"),
        pytest.param('{"value":"1","validUntil":"2026-11-21T13:00:00+01:00"}', ExternalScore("1", NOON), id="offset"),
        pytest.param('{"value":"1","validUntil":"2026-11-21t12:00:00.000z"}', ExternalScore("1", NOON), id="small-t"),
        pytest.param('{"value":"1","validUntil":null}', ExternalScore("1"), id="null-is-absent"),
    ],
)
def test_scores(text, score):
    assert parse_score(text) == score


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "not JSON", id="empty"),
        pytest.param("42", "no", id="bare-number"),
        pytest.param("[1]", "not a JSON object", id="list"),
        pytest.param("{", "not JSON", id="cut"),
        pytest.param("\ud800", "not JSON", id="lone-surrogate"),
        pytest.param('{"value":42}', "quotes", id="number-instead-of-text"),
        pytest.param("{}", "value", id="nothing"),
        pytest.param('{"value":"fast"}', "'fast' is not a quantity", id="no-quantity"),
        pytest.param('{"value":"1","validuntil":"2026-11-21T12:00:00Z"}', "'validuntil'", id="misspelt-member"),
        pytest.param('{"value":"1","validUntil":"tomorrow"}', "'tomorrow'", id="no-instant"),
        pytest.param('{"value":"1","validUntil":"2026-11-21T12:00:00"}', "RFC 3339", id="no-offset"),
        pytest.param('{"value":"1","validUntil":"2026-11-21"}', "RFC 3339", id="date-only"),
        pytest.param('{"value":"1","validUntil":"20261121T120000Z"}', "RFC 3339", id="basic-format"),
        pytest.param('{"value":"1","validUntil":"2026-13-21T12:00:00Z"}', "RFC 3339", id="no-month"),
        pytest.param('{"value":"1","validUntil":"0001-01-01T00:00:00+23:00"}', "RFC 3339", id="before-all-time"),
        pytest.param('{"value":"1","validUntil":1}', "RFC 3339", id="number-as-instant"),
        pytest.param('{"value":"' + "1" * 2000 + '"}', "2012 characters", id="far-too-long"),
    ],
)
def test_what_is_no_score(text, words):
    with pytest.raises(ValueError) as raised:
        parse_score(text)
    assert words in str(raised.value)
    assert len(str(raised.value)) < 200
    assert read_score({LATENCY: text}, LATENCY) is None


@given(st.text() | st.dictionaries(st.text(), st.text()).map(str))
@modest(200)
def test_any_text_is_a_score_or_is_not(text):
    """Nothing but a `ValueError`, which `read_score` takes for no score."""
    found = read_score({LATENCY: text}, LATENCY)
    if found is None:
        with pytest.raises(ValueError):
            parse_score(text)
    else:
        assert parse_score(text) == found


@given(
    value=st.integers(-(10**12), 10**12).map(str),
    instant=st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-9))])),
)
@modest(100)
def test_what_is_written_is_read(value, instant):
    text = f'{{"value": "{value}", "validUntil": "{instant.isoformat()}"}}'
    if not datetime(2, 1, 1, tzinfo=UTC) < instant < datetime(9998, 1, 1, tzinfo=UTC):
        return
    assert parse_score(text) == ExternalScore(value, instant)


def test_only_annotations_with_the_prefix_are_scores():
    annotations = {LATENCY: "x", "scores.harbormaster.dev/a": "y", "harbormaster.dev/latency": "z"}
    assert score_names(annotations) == ["scores.harbormaster.dev/a", LATENCY]
