"""The price list."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from webhook.member.properties.prices import PriceError, PriceFile, PriceList, parse_prices

TEXT = """updatedAt: 2026-03-01T00:00:00Z
prices:
  small: 0.192
  free: 0
regions:
  north: {small: 1e-1}
  south:
"""


def test_a_list_with_everything():
    found = parse_prices(TEXT, "p")
    assert found.updated_at == datetime(2026, 3, 1, tzinfo=UTC)
    assert found.of("north") == {"small": 0.1, "free": 0}
    assert found.of("south") == found.of("elsewhere") == {"small": 0.192, "free": 0}


def test_json_and_no_age():
    assert parse_prices('{"prices": {"small": 1.5}}', "p") == PriceList({"small": 1.5}, {}, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "p: is empty; it must have prices, SKU to USD per hour", id="empty"),
        pytest.param("a: [", "p: line 2: did not find expected node content", id="no-yaml"),
        pytest.param("- a", "p: line 1: a list must be an object", id="a-list"),
        pytest.param("{}", "p: line 1: prices: is missing: SKU to USD per hour", id="nothing-in-it"),
        pytest.param(
            "prices: {}\nprice: {}",
            "p: line 2: price: there is no such field; known are updatedAt, prices, regions",
            id="unknown-field",
        ),
        pytest.param(
            "prices:\n  a: 1\n  b: cheap",
            "p: line 3: prices.b: 'cheap' must be a number of USD per hour, 0 or more",
            id="no-number",
        ),
        pytest.param(
            "prices: {a: -1}", "p: line 1: prices.a: '-1' must be a number of USD per hour, 0 or more", id="negative"
        ),
        pytest.param(
            "prices: {a: '1'}", "p: line 1: prices.a: '1' must be a number of USD per hour, 0 or more", id="text"
        ),
        pytest.param(
            "prices: {a: .inf}", "p: line 1: prices.a: '.inf' must be a number of USD per hour, 0 or more", id="no-end"
        ),
        pytest.param("prices: {a: 1, a: 2}", "p: line 1: prices.a: is there twice", id="twice"),
        pytest.param(
            "regions:\n  north:\n    a: {}",
            "p: line 3: regions.north.a: an object must be a number of USD per hour, 0 or more",
            id="in-a-region",
        ),
        pytest.param(
            "prices: {}\nupdatedAt: yesterday",
            "p: line 2: updatedAt: 'yesterday' must be an instant like 2026-03-01T00:00:00Z",
            id="no-instant",
        ),
    ],
)
def test_mistakes_are_named(text, message):
    with pytest.raises(PriceError) as error:
        parse_prices(text, "p")
    assert str(error.value) == message


async def test_a_file_is_read_again_when_it_changes(tmp_path):
    path = tmp_path / "prices.yaml"
    path.write_text("prices: {a: 1}", encoding="utf-8")
    file = PriceFile(path)
    await file.open()
    first = await file.current()
    assert await file.current() is first
    path.write_text("prices: {a: no}", encoding="utf-8")
    os.utime(path, ns=(1, 1))
    assert await file.current() is first
    assert "prices.a: 'no'" in file.problem
    path.write_text("prices: {a: 2}", encoding="utf-8")
    os.utime(path, ns=(2, 2))
    assert (await file.current()).prices == {"a": 2}
    assert file.problem == ""


async def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(PriceError, match="No such file or directory"):
        await PriceFile(tmp_path / "none").open()


async def test_a_file_without_end():
    with pytest.raises(PriceError, match="/dev/zero: larger than 1048576 bytes"):
        await PriceFile(Path("/dev/zero")).open()
