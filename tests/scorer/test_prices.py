"""Price lists, in both notations."""

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.prices import InvalidPricesError, PriceList, csv_rows, read_price_list

BY_SKU = {
    "updatedAt": "2026-03-01T00:00:00Z",
    "prices": {"small": 0.192, "free": 0, "tiny": "1e-3"},
    "regions": {"north": {"small": 0.1}, "south": None},
}
ROWS = [
    {"name": "small", "cpu": "2", "memory": "8Gi", "zone": "z1", "price": 0.2},
    {"name": "small", "cpu": "2", "memory": "8Gi", "zone": "z2", "price": "0.1"},
    {"name": "small", "cpu": "2", "memory": "8Gi", "zone": "z2", "capacityType": "spot", "price": 0.01},
    {"name": "large", "offerings": [{"zone": "z1", "capacityType": "on-demand", "price": 3}]},
]


def mistakes(document):
    with pytest.raises(InvalidPricesError) as found:
        read_price_list(document)
    return [str(mistake) for mistake in found.value.mistakes]


def test_prices_by_sku():
    found = read_price_list(BY_SKU)
    assert found.updated_at == datetime(2026, 3, 1, tzinfo=UTC)
    assert found.of("north") == {"small": 0.1, "free": 0, "tiny": 0.001}
    assert found.of("south") == found.of("elsewhere") == {"small": 0.192, "free": 0, "tiny": 0.001}


@pytest.mark.parametrize("document", [ROWS, {"instanceTypes": ROWS}], ids=["list", "object"])
def test_of_rows_the_lowest_on_demand_price_counts(document):
    assert read_price_list(document) == PriceList({"small": 0.1, "large": 3})


def test_an_instant_that_yaml_has_read():
    assert read_price_list({"prices": {}, "updatedAt": datetime(2026, 3, 1, tzinfo=UTC)}).updated_at is not None


@pytest.mark.parametrize(
    ("document", "found"),
    [
        pytest.param(None, ["null: must be rows or prices by SKU"], id="nothing"),
        pytest.param({}, ["prices: must be set: the price per hour by SKU"], id="nothing-in-it"),
        pytest.param(
            {"prices": {}, "price": {}},
            ["price: unknown field: must be one of updatedAt, prices, regions"],
            id="unknown-field",
        ),
        pytest.param(
            {"prices": {"a": "cheap", "b": -1, "c": True, "d": None, "e": float("inf")}},
            [
                'prices.a: "cheap" is not a price per hour: a finite number that is not negative',
                'prices.b: "-1" is not a price per hour: a finite number that is not negative',
                'prices.c: "True" is not a price per hour: a finite number that is not negative',
                "prices.d: is missing",
                'prices.e: "inf" is not a price per hour: a finite number that is not negative',
            ],
            id="every-mistake",
        ),
        pytest.param({"regions": {"north": {"a": {}}}}, ['regions.north.a: "{}" is not a price'], id="in-a-region"),
        pytest.param({"prices": [1]}, ["prices: [1] is not an object"], id="no-object"),
        pytest.param(
            {"prices": {}, "updatedAt": "yesterday"},
            ['updatedAt: "yesterday" is not an instant such as 2026-03-01T00:00:00Z'],
            id="no-instant",
        ),
        pytest.param(
            [{"price": 1}, {"name": "a"}, {"name": "b", "offerings": [{"price": "x"}, 3]}],
            [
                '[0]: {"price":1} is not a row',
                "[1].price: is missing",
                "[2].offerings[1]: 3 is not an object",
            ],
            id="rows",
        ),
    ],
)
def test_mistakes_are_named(document, found):
    told = mistakes(document)
    for words in found:
        assert any(each.startswith(words) for each in told), (words, told)


NAMES = st.text() | st.sampled_from(["prices", "regions", "updatedAt", "name", "offerings", "instanceTypes"])


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner),
    )
)
def test_any_document_is_read_or_refused(document):
    with suppress(InvalidPricesError):
        read_price_list(document)


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        pytest.param(
            "name;price\nd4;0,2",
            "line 1: must have a column name. Columns are separated by commas and not by semicolons or tabs",
            id="semicolons",
        ),
        pytest.param("# prices\nname", "line 1: must have a column name. Columns are", id="comment"),
        pytest.param("name,price,price\n", 'line 1: column "price" is listed twice', id="column-twice"),
        pytest.param("name,price\n\nd4,1,2\n", "line 3: has 3 cells, must have 2", id="too-many-cells"),
        pytest.param(f"name\n{'x' * 200_000}\n", "not CSV: field larger than", id="huge-cell"),
    ],
)
def test_what_is_no_price_list(text, mistake):
    with pytest.raises(InvalidPricesError) as found:
        csv_rows(text)
    assert str(found.value).startswith(mistake)
