"""Price lists in files."""

import os
from pathlib import Path

import pytest

from scorer.prices import read_price_list
from webhook.runtime.price_files import PriceFile, PriceFileError, load_prices

BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 7))


def write(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("p.yaml", "prices:\n  small: 1e-1\n", id="yaml"),
        pytest.param("p", '{"prices": {"small": 0.1}}', id="json"),
        pytest.param("p.yaml", "\ufeff[{name: small, price: 0.1}]", id="rows-with-a-byte-order-mark"),
        pytest.param(
            "p.yaml", "- &base {name: large, zone: z, price: 3}\n- {<<: *base, name: small, price: 0.1}", id="merge"
        ),
        pytest.param("p.CSV", "name,price\nsmall,0.1\n", id="csv"),
    ],
)
def test_every_form_is_read(tmp_path, name, text):
    assert load_prices(write(tmp_path, name, text), read_price_list).prices["small"] == 0.1


def test_numbers_are_decimal(tmp_path):
    text = "prices: {a: 010, b: 1e1, c: +10, d: 10., e: '10'}"
    assert set(load_prices(write(tmp_path, "p.yaml", text), read_price_list).prices.values()) == {10.0}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        pytest.param("p.yaml", "a: [", "is neither YAML nor JSON: line 2: did not find expected node", id="no-yaml"),
        pytest.param("p.yaml", "[2026-99-99]", "is neither YAML nor JSON: month must be in", id="no-date"),
        pytest.param("p.yaml", "prices: {}\n---\nprices: {}", "is neither YAML nor JSON: line 2: but found", id="two"),
        pytest.param("p.yaml", "prices:\n  a: 1\n  b: cheap\n", 'line 3: prices.b: "cheap" is not a price', id="line"),
        pytest.param("p.yaml", "prices:\n  a: 1\n  a: 2\n", "line 3: prices.a: is listed twice", id="twice"),
        pytest.param("p.yaml", "updatedAt: 2026-03-01T00:00:00Z\n", "line 1: prices: must be set", id="not-there"),
        pytest.param("p.json", '{"prices": {"a": 1, "a": 2}}', "line 1: prices.a: is listed twice", id="twice-in-json"),
        pytest.param("p.json", '{"prices": {"a": "x"}}', 'prices.a: "x" is not a price', id="json"),
        pytest.param("p.csv", "name,price\n\na,x\n", 'line 3: price: "x" is not a price', id="csv"),
        pytest.param(
            "p.txt",
            "name,price\na,1\n",
            "must be a price list in YAML or JSON. The name of a CSV file must end",
            id="csv-by-another-name",
        ),
        pytest.param("p.yaml", "prices: {a: 1:30}", 'line 1: prices.a: "1:30" is not a price', id="no-minutes"),
        pytest.param("p.yaml", BOMB, "its aliases repeat too much", id="aliases-of-aliases"),
        pytest.param("p.yaml", "&a [*a]", "its aliases repeat too much", id="alias-of-itself"),
        pytest.param("p.yaml", "", "null: must be rows or prices by SKU", id="empty"),
    ],
)
def test_mistakes_are_named_with_the_file_and_the_line(tmp_path, name, text, message):
    with pytest.raises(PriceFileError) as error:
        load_prices(write(tmp_path, name, text), read_price_list)
    assert str(error.value).startswith(f"{tmp_path / name}: {message}"), error.value


def test_a_file_that_is_no_text(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_bytes(b"prices: \xff")
    with pytest.raises(PriceFileError, match="is not UTF-8 text: byte 8"):
        load_prices(path, read_price_list)


async def test_a_file_is_read_again_when_it_changes_and_kept_while_it_is_wrong(tmp_path):
    path = write(tmp_path, "prices.yaml", "prices: {a: 1}")
    file = PriceFile(path, read_price_list)
    await file.open()
    first = await file.current()
    assert await file.current() is first
    write(tmp_path, "prices.yaml", "prices: {a: no}")
    os.utime(path, ns=(1, 1))
    assert await file.current() is first
    assert await file.current() is first
    assert "prices.a: " in file.problem
    write(tmp_path, "prices.yaml", "prices: {a: 2}")
    os.utime(path, ns=(2, 2))
    assert (await file.current()).prices == {"a": 2}
    assert file.problem == ""


async def test_a_file_that_comes_back_unchanged_is_no_problem_any_more(tmp_path):
    path = write(tmp_path, "prices.yaml", "prices: {a: 1}")
    file = PriceFile(path, read_price_list)
    await file.open()
    path.rename(tmp_path / "away")
    assert (await file.current()).prices == {"a": 1}
    assert "no such file" in file.problem
    (tmp_path / "away").rename(path)
    assert (await file.current()).prices == {"a": 1}
    assert file.problem == ""


async def test_a_file_that_becomes_readable_is_read(tmp_path):
    """Without a change of its time or size."""
    path = tmp_path / "prices.yaml"
    path.mkdir()
    file = PriceFile(path, read_price_list)
    assert await file.current() is None
    path.rmdir()
    write(tmp_path, "prices.yaml", "prices: {a: 1}")
    assert (await file.current()).prices == {"a": 1}


async def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(PriceFileError, match="none: no such file or directory"):
        await PriceFile(tmp_path / "none", read_price_list).open()


async def test_a_file_without_end():
    with pytest.raises(PriceFileError, match="/dev/zero: larger than 33554432 bytes"):
        await PriceFile(Path("/dev/zero"), read_price_list).open()
