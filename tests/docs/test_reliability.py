"""docs/reliability.md: every accident has a verdict, and a test or a command that repeats it."""

import re

import pytest

from e2e.fleet.accidents import ACCIDENTS
from tests.docs.named_tests import is_there
from tests.docs.pages import DOCS

TEXT = (DOCS / "reliability.md").read_text(encoding="utf-8")
HEAD = "| accident | how to repeat | verdict | seconds until reported | seconds until healed | note |"
VERDICTS = ("Resilient", "Degraded", "Failed")


def rows():
    """The rows of all tables of accidents, as cells."""
    tables = [part.partition("\n\n")[0] for part in TEXT.split(f"{HEAD}\n")[1:]]
    lines = [line for table in tables for line in table.splitlines()[1:]]
    return [[cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")] for line in lines]


def named_in(cell):
    return re.findall(r"`(\S+::\S+)`", cell)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_every_accident_can_be_repeated_and_has_a_verdict(row):
    assert len(row) == 6
    accident, how, verdict, *_ = row
    assert accident
    assert "`" in how
    assert [test for test in named_in(how) if not is_there(test)] == []
    assert verdict in VERDICTS


def test_no_accident_stands_there_twice():
    accidents = [row[0] for row in rows()]
    assert sorted(accidents) == sorted(set(accidents))


def test_every_random_accident_is_listed():
    listed = {name for row in rows() for name in re.findall(r"\(`(\w+)`\)", " ".join(row))}
    assert {accident.__name__ for accident in ACCIDENTS} == listed
