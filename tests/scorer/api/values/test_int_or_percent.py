"""Values that are a number or a percentage (placement-api.md 2.4)."""

from fractions import Fraction
from math import ceil, floor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scorer.api.placement.eviction import DisruptionBudgetSpec
from scorer.api.placement.placement import RollingUpdate
from scorer.api.values.int_or_percent import percent, scaled_down, scaled_up


@given(share=st.integers(0, 100), total=st.integers(0, 10**6))
def test_percentages_round_as_their_field_wants(share, total):
    exact = Fraction(total * share, 100)
    assert scaled_up(f"{share}%", total) == ceil(exact)
    assert scaled_down(f"{share}%", total) == max(1, floor(exact))


@given(value=st.integers(0, 10**9), total=st.integers(0, 100))
def test_numbers_are_taken_as_written(value, total):
    assert scaled_up(value, total) == scaled_down(value, total) == value


@pytest.mark.parametrize(("text", "value"), [("0%", 0), ("05%", 5), ("25%", 25), ("100%", 100)])
def test_percentages(text, value):
    assert percent(text) == value


@pytest.mark.parametrize(
    "text", ["", "%", "5", "101%", "010%", "-1%", "5 %", "5%\n", "\N{ARABIC-INDIC DIGIT FIVE}%", "1.5%", 5]
)
def test_not_percentages(text):
    assert percent(text) is None


@pytest.mark.parametrize("scaled", [scaled_up, scaled_down])
def test_a_text_that_is_no_percentage_cannot_be_scaled(scaled):
    with pytest.raises(ValueError, match="'50'"):
        scaled("50", 10)


@pytest.mark.parametrize("value", [3, "25%", "anything", 2**70 // 2**10])
def test_integers_and_texts_are_read_as_they_are(value):
    assert RollingUpdate.read({"maxSurge": value}).max_surge == value


@pytest.mark.parametrize("value", [True, 2.0, 2.5, [], {}, 10**30])
def test_nothing_else_is_read(value):
    with pytest.raises(ValidationError, match="maxSurge"):
        RollingUpdate.read({"maxSurge": value})


def test_absent_differs_from_zero():
    spec = DisruptionBudgetSpec.read({"maxUnavailable": 0, "minAvailable": None})
    assert spec.max_unavailable == 0
    assert spec.model_fields_set == {"max_unavailable"}
