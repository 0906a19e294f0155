"""The vocabulary of refusals: phrases, quoting, and what the model parser says in our words."""

import pydantic
import pytest

from scorer.api.meta import json_equal
from scorer.api.placement.placement import ClusterResourcePlacement
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import printable, quote
from webhook.validation.framework.field import (
    Cause,
    FieldError,
    duplicate,
    invalid,
    not_supported,
    shape_errors,
    too_many,
)
from webhook.validation.framework.reading import is_deeper, read_object

AT = FieldPath.of("spec", "x")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(FieldError(AT, Cause.REQUIRED, ""), "Required value", id="required"),
        pytest.param(FieldError(AT, Cause.REQUIRED, "say it"), "Required value: say it", id="required-why"),
        pytest.param(invalid(AT, 3, "too big"), "Invalid value: 3: too big", id="invalid"),
        pytest.param(
            not_supported(AT, "c", ("a", "b")), 'Unsupported value: "c": supported values: "a", "b"', id="not-supported"
        ),
        pytest.param(duplicate(AT, "a"), 'Duplicate value: "a"', id="duplicate"),
        pytest.param(too_many(AT, 51, 50), "Too many: 51: must have at most 50 items", id="too-many"),
        pytest.param(FieldError(AT, Cause.FORBIDDEN, "not here"), "Forbidden: not here", id="forbidden"),
    ],
)
def test_messages_begin_with_the_phrase_of_their_cause(error, text):
    assert error.text() == text
    assert str(error) == f"spec.x: {text}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("a\x1b[31m\u202eb", '"a\\u001b[31m\N{REPLACEMENT CHARACTER}b"', id="escapes-and-bidi"),
        pytest.param("x" * 100, '"' + "x" * 61 + '..."', id="cut"),
        pytest.param(True, "true", id="bool"),
        pytest.param({"a": [1, None]}, '{"a":[1,null]}', id="object"),
        pytest.param("\ud800", '"\N{REPLACEMENT CHARACTER}"', id="lone-surrogate"),
    ],
)
def test_quoted_values(value, text):
    assert quote(value) == text


def test_long_values_are_cut_to_64_characters():
    assert all(len(quote(value)) <= 66 for value in ("x" * 10_000, list(range(1000)), {"é" * 100: 1}))


def test_printable_text_stays():
    assert printable("naïve, 東京") == "naïve, 東京"
    assert printable("a\nb\x7f\u2066") == "a" + "\N{REPLACEMENT CHARACTER}".join(["", "b", "", ""])


def shape(spec):
    with pytest.raises(pydantic.ValidationError) as caught:
        ClusterResourcePlacement.read({"spec": spec})
    return [(str(error.field), error.cause) for error in shape_errors(caught.value)]


TERM = {"group": "", "version": "v1", "kind": "Namespace"}


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param({}, [("spec.resourceSelectors", Cause.REQUIRED)], id="missing"),
        pytest.param({"resourceSelectors": []}, [("spec.resourceSelectors", Cause.REQUIRED)], id="too-short"),
        pytest.param(
            {"resourceSelectors": [3]}, [("spec.resourceSelectors[0]", Cause.TYPE_INVALID)], id="no-spurious-too-short"
        ),
        pytest.param({"resourceSelectors": [TERM] * 101}, [("spec.resourceSelectors", Cause.TOO_MANY)], id="too-long"),
        pytest.param(
            {"resourceSelectors": [TERM], "policy": {"placementType": 3}},
            [("spec.policy.placementType", Cause.TYPE_INVALID)],
            id="a-number-is-no-word",
        ),
        pytest.param(
            {"resourceSelectors": [TERM], "policy": {"placementType": "Pick"}},
            [("spec.policy.placementType", Cause.NOT_SUPPORTED)],
            id="unknown-word",
        ),
        pytest.param(
            {"resourceSelectors": [TERM], "revisionHistoryLimit": 0},
            [("spec.revisionHistoryLimit", Cause.INVALID)],
            id="bound",
        ),
    ],
)
def test_what_the_parser_says(spec, wanted):
    assert shape(spec) == wanted


def test_paths_sort_by_position_not_by_text():
    assert [path for path, _ in shape({"resourceSelectors": [TERM, *[{}] * 10]})][:3] == [
        "spec.resourceSelectors[1].group",
        "spec.resourceSelectors[1].kind",
        "spec.resourceSelectors[1].version",
    ]


def test_a_flood_of_mistakes_is_not_read_to_its_end():
    endless = {"labelSelector": {"matchExpressions": [1] * 20_000}}
    reading = read_object(ClusterResourcePlacement, {"spec": {"resourceSelectors": [endless]}})
    assert 50 < len(reading.errors) < 10_000


def test_json_values_keep_their_type():
    assert not json_equal({"a": 1}, {"a": True})
    assert not json_equal([1], [1.0])
    assert json_equal({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]})


def test_depth():
    value: dict[str, object] = {}
    for _ in range(99):
        value = {"a": value}
    assert not is_deeper(value, 100)
    assert is_deeper({"a": value}, 100)
