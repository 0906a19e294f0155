"""What SECURITY.md promises is held by tests that are there."""

import pytest

from tests.docs.named_tests import is_there
from tests.docs.pages import ROOT, read_page

TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
HEAD = "| threat | measure | tests |"


def rows(text):
    """The rows of the table of threats, as cells."""
    table = text.partition(f"{HEAD}\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[1:]]


def named(cell):
    """The tests that a cell names, and nothing beside them."""
    return [each.strip("`") for each in cell.split()]


@pytest.mark.parametrize("row", rows(TEXT), ids=lambda row: row[0])
def test_every_threat_has_a_measure_and_tests_that_hold_it(row):
    assert len(row) == 3
    threat, measure, tests = row
    assert threat
    assert measure
    assert named(tests)
    assert [test for test in named(tests) if not is_there(test)] == []


def test_the_table_is_found():
    assert len(rows(TEXT)) == len([line for line in TEXT.splitlines() if "::test_" in line]) > 20


def test_no_threat_stands_there_twice():
    threats = [row[0] for row in rows(TEXT)]
    assert sorted(threats) == sorted(set(threats))


@pytest.mark.parametrize(
    "test",
    ["tests/docs/test_security.py::test_that_is_not_there", "tests/docs/none.py::test_a", "tests/docs/pages.py::ROOT"],
)
def test_a_test_that_is_not_there_is_seen(test):
    assert not is_there(test)


def test_nobody_is_sent_to_an_address_that_this_project_does_not_have():
    assert [link for link in read_page(ROOT / "SECURITY.md").links if "://" in link or link.startswith("mailto:")] == []
    assert "@" not in TEXT
