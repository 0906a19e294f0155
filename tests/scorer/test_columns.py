"""Columns: rounding, codes, and exact comparison of amounts."""

from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.values.quantity import NANO, Quantity, parse_quantity, read_quantity
from scorer.columns import (
    ABSENT,
    OPERATORS,
    DictionaryColumn,
    PropertyReading,
    QuantityColumn,
    Rows,
    round_half_away,
    row_of,
)
from tests.scorer.builders import modest
from tests.scorer.relations import RELATIONS


def exactly_rounded(value: float) -> int:
    return int(Decimal(value).quantize(Decimal(1), rounding=ROUND_HALF_UP))


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        pytest.param(2.5, 3, id="half-up"),
        pytest.param(-2.5, -3, id="negative-half-down"),
        pytest.param(0.5, 1, id="half-not-to-even"),
        pytest.param(-12.5, -13, id="scheduling-8-example"),
        pytest.param(0.49999999999999994, 0, id="largest-below-half"),
        pytest.param(-0.49999999999999994, 0, id="negative-largest-below-half"),
        pytest.param(0.5000000000000001, 1, id="smallest-above-half"),
        pytest.param(2.4999999999999996, 2, id="E8-milli"),
        pytest.param(2.5000000000000004, 3, id="E8-decimal"),
        pytest.param(-0.0, 0, id="negative-zero"),
        pytest.param(5e-324, 0, id="denormal"),
        pytest.param(2.0**52 - 0.5, 2**52, id="last-half"),
        pytest.param(0.5 - 2.0**52, -(2**52), id="last-negative-half"),
        pytest.param(2.0**51 + 0.25, 2**51, id="large-quarter"),
    ],
)
def test_rounds_halves_away_from_zero(value, rounded):
    assert round_half_away(np.array([value])).tolist() == [rounded]


@given(st.lists(st.floats(-(2.0**52), 2.0**52, exclude_min=True, exclude_max=True), max_size=20))
@modest(120)
def test_rounding_equals_exact_arithmetic(values):
    assert round_half_away(np.array(values, dtype=np.float64)).tolist() == [exactly_rounded(value) for value in values]


@given(whole=st.integers(-(2**40), 2**40), ulps=st.integers(-2, 2))
@modest(120)
def test_rounding_is_right_next_to_every_half(whole, ulps):
    value = whole + 0.5
    for _ in range(abs(ulps)):
        value = float(np.nextafter(value, np.inf if ulps > 0 else -np.inf))
    assert round_half_away(np.array([value])).tolist() == [exactly_rounded(value)]


VALUES = st.sampled_from([None, "a", "b", "c", ""])


@given(values=st.lists(VALUES, max_size=8), data=st.data())
@modest(100)
def test_an_updated_code_book_reads_like_a_rebuilt_one(values, data):
    rows = st.integers(0, len(values) - 1) if values else st.nothing()
    changes = data.draw(st.dictionaries(rows, VALUES, max_size=4) if values else st.just({}))
    after = [changes.get(row, value) for row, value in enumerate(values)]
    before = DictionaryColumn.of(values)
    book = before.updated(changes)
    assert [book.value(row) for row in range(len(values))] == after
    assert [before.value(row) for row in range(len(values))] == values
    assert book.holds(lambda value: value in ("a", "")).tolist() == [value in ("a", "") for value in after]


def test_code_book_marks_absent_values():
    book = DictionaryColumn.of(["x", None, "y", "x"])
    assert book.codes.tolist() == [0, ABSENT, 1, 0]
    assert book.values == ("x", "y")
    assert book.index == {"x": 0, "y": 1}


def test_code_book_asks_once_per_distinct_value():
    asked = []
    DictionaryColumn.of(["x", None, "y", "x", "x"]).holds(lambda value: bool(asked.append(value)))
    assert asked == ["x", "y"]


def test_code_book_of_nothing():
    book = DictionaryColumn.of([])
    assert book.holds(lambda _: True).tolist() == []


def test_a_change_to_the_same_value_keeps_the_column():
    book = DictionaryColumn.of(["x", None])
    assert book.updated({0: "x", 1: None}) is book


AMOUNTS = st.one_of(
    st.sampled_from(
        ["0", "-0", "5", "5.0", "5000m", "5e0", "0.005k", "17G", "16Gi", "17180M", "0.1m", "100u", "1n", "-1n", "1E"]
    ),
    st.integers(-(10**24), 10**24).map(lambda nano: f"{nano}n"),
    st.builds(lambda whole, nano: f"{whole}.{nano:09}", st.integers(0, 2**63), st.integers(0, NANO - 1)),
    st.builds(lambda digits, power: f"{digits}e{power}", st.integers(-99, 99), st.integers(-12, 60)),
)
READINGS = st.one_of(
    st.none(),
    st.just(PropertyReading("junk", None)),
    AMOUNTS.map(lambda text: PropertyReading(text, parse_quantity(text))),
)


def fraction(amount: Quantity) -> Fraction:
    return Fraction(amount.nano, NANO)


def assert_compares_exactly(column: QuantityColumn, wanted: Quantity) -> None:
    for relation, holds in RELATIONS.items():
        expected = [
            bool(reading and reading.quantity and holds(fraction(reading.quantity), fraction(wanted)))
            for reading in column.readings
        ]
        assert column.compare(relation, wanted).tolist() == expected, (relation, str(wanted))


def test_all_six_relations_are_known():
    assert frozenset(RELATIONS) == OPERATORS


@given(readings=st.lists(READINGS, max_size=6), wanted=AMOUNTS)
@modest(120)
def test_comparison_is_exact(readings, wanted):
    assert_compares_exactly(QuantityColumn.of(readings), parse_quantity(wanted))


@given(nano=st.integers(-(2**120), 2**120), steps=st.lists(st.integers(-3, 3), min_size=1, max_size=5))
@modest(120)
def test_comparison_tells_neighbours_of_one_nano_apart(nano, steps):
    texts = [f"{nano + step}n" for step in steps]
    column = QuantityColumn.of([PropertyReading(text, parse_quantity(text)) for text in texts])
    assert_compares_exactly(column, parse_quantity(f"{nano}n"))


@pytest.mark.parametrize(
    ("observed", "relation", "wanted", "holds"),
    [
        pytest.param("17G", "Lt", "16Gi", True, id="decimal-giga-below-binary"),
        pytest.param("16Gi", "Lt", "17180M", True, id="binary-giga-below-mega"),
        pytest.param("0.1m", "Eq", "100u", True, id="spellings"),
        pytest.param("0.3", "Eq", "300m", True, id="not-by-doubles"),
        pytest.param("9007199254740993", "Gt", "9007199254740992", True, id="beyond-53-bits"),
        pytest.param("1.0000000001n", "Eq", "2n", True, id="rounds-away-from-zero"),
        pytest.param(None, "Ne", "5", False, id="absent-fails-ne"),
        pytest.param(None, "Lt", "5", False, id="absent-fails-lt"),
        pytest.param("v1.31.2", "Ne", "5", False, id="unreadable-fails-ne"),
        pytest.param("NaN", "Ne", "5", False, id="nan-is-unreadable"),
        pytest.param("0", "Eq", "0", True, id="zero-is-a-value"),
        pytest.param("0", "Lt", "1n", True, id="zero-below-nano"),
        pytest.param(None, "Ne", "1e40", False, id="absent-against-huge"),
        pytest.param("junk", "Ne", "1e40", False, id="unreadable-against-huge"),
        pytest.param("1e300", "Gt", "1e299", True, id="huge"),
    ],
)
def test_comparison(observed, relation, wanted, holds):
    reading = None if observed is None else PropertyReading(observed, read_quantity(observed))
    column = QuantityColumn.of([reading, PropertyReading("7", parse_quantity("7"))])
    assert bool(column.compare(relation, parse_quantity(wanted))[0]) is holds


@given(readings=st.lists(READINGS, min_size=1, max_size=6), data=st.data())
@modest(100)
def test_an_updated_quantity_column_equals_a_rebuilt_one(readings, data):
    column = QuantityColumn.of(readings)
    for _ in range(data.draw(st.integers(1, 3))):
        if data.draw(st.booleans()):
            assert column.extremes is column.extremes  # known from now on, and handed on
        changes = data.draw(st.dictionaries(st.integers(0, len(readings) - 1), READINGS, max_size=4))
        readings = [changes.get(row, reading) for row, reading in enumerate(readings)]
        column = column.updated(changes, readings)
    assert_same_column(column, QuantityColumn.of(readings))


def assert_same_column(column, rebuilt):
    assert list(column.readings) == list(rebuilt.readings)
    np.testing.assert_array_equal(column.double, rebuilt.double)
    np.testing.assert_array_equal(column.high, rebuilt.high)
    ours, theirs = (
        np.zeros_like(each.high) if each.low is None else np.nan_to_num(each.low) for each in (column, rebuilt)
    )
    known = ~np.isnan(rebuilt.high)
    np.testing.assert_array_equal(ours[known], theirs[known])
    assert column.extremes == rebuilt.extremes
    assert column.complete == rebuilt.complete


@given(readings=st.lists(READINGS, max_size=6), data=st.data())
@modest(60)
def test_what_is_hidden_is_absent(readings, data):
    hidden = np.array([data.draw(st.booleans()) for _ in readings], dtype=np.bool_)
    left = [None if gone else reading for reading, gone in zip(readings, hidden, strict=True)]
    column = QuantityColumn.of(readings)
    before = column.high.copy()
    assert_same_column(column.without(hidden), QuantityColumn.of(left))
    np.testing.assert_array_equal(column.high, before)


@given(st.lists(READINGS, max_size=8))
@modest(80)
def test_extremes_are_the_first_smallest_and_largest_amounts(readings):
    """Amounts beyond 10^21 that share a double pair may tie; those here are told apart or are equal."""
    amounts = {row: fraction(entry.quantity) for row, entry in enumerate(readings) if entry and entry.quantity}
    found = QuantityColumn.of(readings).extremes
    if not amounts:
        assert found is None
    else:
        low = next(row for row, amount in amounts.items() if amount == min(amounts.values()))
        high = next(row for row, amount in amounts.items() if amount == max(amounts.values()))
        assert found == (low, high)


def test_doubles_fill_gaps():
    column = QuantityColumn.of([PropertyReading("2", parse_quantity("2")), None, PropertyReading("junk", None)])
    assert not column.complete
    assert column.doubles(np.array([0, 1, 2]), 9.0).tolist() == [2.0, 9.0, 9.0]


def test_column_of_an_empty_fleet():
    column = QuantityColumn.of([])
    assert column.extremes is None
    assert column.compare("Ge", parse_quantity("1")).tolist() == []


@pytest.mark.parametrize(
    "digits", ["179769313486231581", "179769313486231580", "179769313486231579", "17976931348623158"]
)
def test_amounts_at_the_edge_of_doubles_are_taken_or_refused(digits):
    """No text makes the column fail: what does not fit a double is unreadable (DV-3)."""
    text = f"{digits}e{309 - len(digits)}"
    column = QuantityColumn.of([PropertyReading(text, read_quantity(text))])
    assert column.compare("Gt", parse_quantity("1")).tolist() == [read_quantity(text) is not None]


@pytest.mark.parametrize(
    ("name", "row"),
    [("a", 0), ("c", 1), ("e", 2), ("b", None), ("f", None), ("", None)],
)
def test_row_of(name, row):
    assert row_of(["a", "c", "e"], name) == row


@given(
    size=st.integers(0, 100),
    steps=st.lists(st.dictionaries(st.integers(0, 99), st.integers(), max_size=5), max_size=3),
    row=st.integers(-105, 105),
)
def test_rows_with_some_replaced_are_as_a_list_and_those_before_stay(size, steps, row):
    wanted = [[*range(size)]]
    rows = [Rows(range(size))]
    for step in steps:
        changes = {at: value for at, value in step.items() if at < size}
        wanted.append([changes.get(at, value) for at, value in enumerate(wanted[-1])])
        rows.append(rows[-1].replaced(changes))
    for ours, theirs in zip(rows, wanted, strict=True):
        assert [*ours] == theirs
        assert len(ours) == size
        assert [*ours[row:]] == theirs[row:]
        if -size <= row < size:
            assert ours[row] == theirs[row]
        else:
            with pytest.raises(IndexError):
                ours[row]
