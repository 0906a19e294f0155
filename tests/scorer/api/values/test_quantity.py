"""Quantities against exact fractions, and the doubles that decide how scores round."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.values.quantity import NANO, WIRE_SCHEMA, Quantity, format_quantity, parse_quantity, read_quantity

POWERS = {
    "": Fraction(1),
    **{suffix: Fraction(1, 1000**power) for power, suffix in enumerate("mun", 1)},
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{suffix + "i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
}
digits = st.text("0123456789", min_size=1, max_size=25)
numbers = st.tuples(st.sampled_from(["", "+", "-"]), digits, st.none() | st.text("0123456789", max_size=15))
suffixes = st.sampled_from(sorted(POWERS)) | st.integers(-40, 40).map(lambda exponent: f"e{exponent}")


def exact(sign: str, whole: str, fraction: str | None, suffix: str) -> Fraction:
    """Compute the amount by the definition: rounded away from zero to nano, binary forms capped."""
    power = Fraction(10) ** int(suffix[1:]) if suffix.startswith("e") else POWERS[suffix]
    amount = Fraction(int(whole + (fraction or "")), 10 ** len(fraction or "")) * power
    nano = -(-amount.numerator * NANO // amount.denominator)
    if suffix.endswith("i"):
        nano = min(nano, (2**63 - 1) * NANO)
    return Fraction(-nano if sign == "-" else nano, NANO)


@given(number=numbers, suffix=suffixes)
def test_parsing_is_exact(number, suffix):
    sign, whole, fraction = number
    text = sign + whole + ("" if fraction is None else "." + fraction) + suffix
    amount = exact(sign, whole, fraction, suffix)
    parsed = parse_quantity(text)
    assert parsed.number == amount
    assert parsed.double == pytest.approx(float(amount), rel=1e-12, abs=1e-15)
    assert re.fullmatch(WIRE_SCHEMA["pattern"], text)


@given(left=numbers, right=numbers, suffix=suffixes, other=suffixes)
def test_order_is_the_order_of_the_numbers(left, right, suffix, other):
    first = exact(*left, suffix), parse_quantity(left[0] + left[1] + "." + (left[2] or "") + suffix)
    second = exact(*right, other), parse_quantity(right[0] + right[1] + "." + (right[2] or "") + other)
    assert (first[0] < second[0]) == (first[1] < second[1])
    assert (first[0] == second[0]) == (first[1] == second[1])


@pytest.mark.parametrize("spelling", ["5", "5.0", "5000m", "5e0", "0.005k", "+5", "005", "5.", "50e-1", "5E0"])
def test_spellings_of_one_amount_are_equal(spelling):
    assert parse_quantity(spelling) == parse_quantity("5")
    assert str(parse_quantity(spelling)) == spelling


@pytest.mark.parametrize(
    "ascending",
    [
        ("17G", "16Gi", "17180M"),
        ("-1", "0", "1n"),
        ("999m", "1", "1001m"),
        ("1023", "1Ki", "1025"),
        ("1P", "1E", "1E19"),
    ],
)
def test_amounts_in_ascending_order(ascending):
    amounts = [parse_quantity(text) for text in ascending]
    assert amounts == sorted(amounts)
    assert len(set(amounts)) == len(ascending)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        pytest.param("1.0000000001n", Fraction(2, NANO), id="finer-than-nano-rounds-away-from-zero"),
        pytest.param("-0.1n", Fraction(-1, NANO), id="negative-rounds-away-from-zero"),
        pytest.param("1e-999999999", Fraction(1, NANO), id="huge-negative-exponent-costs-nothing"),
        pytest.param("0e999999999", Fraction(0), id="zero-times-anything"),
        pytest.param("1E", Fraction(10**18), id="E-alone-is-exa"),
        pytest.param("1E3", Fraction(1000), id="E-with-digits-is-an-exponent"),
        pytest.param("9999999Ei", Fraction(2**63 - 1), id="binary-forms-are-capped"),
        pytest.param("1.5Ki", Fraction(1536), id="fraction-with-binary-suffix"),
    ],
)
def test_edges(text, amount):
    assert parse_quantity(text).number == amount


@pytest.mark.parametrize(
    ("text", "double"),
    [
        pytest.param("0.30", 30 * (1 / 10.0**2), id="digits-as-written"),
        pytest.param("300m", 300 * (1 / 10.0**3), id="suffix-power"),
        pytest.param("1.5k", 15 * 10.0**2, id="suffix-minus-fraction"),
        pytest.param("3Ki", 3072.0, id="short-binary"),
        pytest.param("0.5Ki", (512 * NANO) * (1 / 10.0**9), id="binary-fraction-goes-through-nano"),
        pytest.param("1234567890123456789", float(1234567890123456789 * NANO) * (1 / 10.0**9), id="nineteen-digits"),
        pytest.param("000000000000000000000.3", 3 * (1 / 10.0), id="leading-zeros-are-no-digits"),
    ],
)
def test_double_to_the_last_bit(text, double):
    """scheduling.md 7, "Turning a quantity into a double"."""
    assert parse_quantity(text).double == double


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "5K",
        "5 Gi",
        "5mi",
        "1,5",
        "1.2.3",
        "0x10",
        "NaN",
        "Inf",
        "v1.31.2",
        ".",
        "+",
        "-",
        "Ki",
        "m",
        "1e",
        "1e1.5",
        "5\n",
        " 5",
        "5 ",
        "\N{ARABIC-INDIC DIGIT FIVE}",
        "5B",
        "5GB",
        "1_000",
        "--5",
        "1e400",
        "1e999999999",
        "9" * 5000,
    ],
)
def test_not_a_quantity(text):
    with pytest.raises(ValueError, match="quantit"):
        parse_quantity(text)
    assert read_quantity(text) is None


@pytest.mark.parametrize("value", [None, 5, 5.0, True, ["5"]])
def test_only_text_spells_a_quantity(value):
    assert read_quantity(value) is None


@given(st.text())
def test_any_text_either_parses_or_is_refused(text):
    assert isinstance(read_quantity(text), Quantity | None)


@given(st.integers(-(10**40), 10**40))
def test_formatted_quantities_parse_back(nano):
    assert parse_quantity(format_quantity(nano)).nano == nano


@pytest.mark.parametrize(
    ("nano", "text"), [(1, "1n"), (1500 * 10**6, "1500m"), (2 * NANO, "2"), (3000 * NANO, "3k"), (0, "0")]
)
def test_canonical_form(nano, text):
    assert format_quantity(nano) == text
