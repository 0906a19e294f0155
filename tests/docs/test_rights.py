"""The table of rights says what is checked, row by row."""

import ast

import pytest

from e2e.access.rights import ELSEWHERE, ROWS, Question
from tests.docs.pages import DOCS, ROOT

TEXT = (DOCS / "who-may-do-what.md").read_text(encoding="utf-8")
HEADS = ("| who | | what | check |", "| who | | what | checked by |")


def table(head: str) -> list[str]:
    """The rows of a table, as they are written."""
    return TEXT.partition(f"{head}\n")[2].partition("\n\n")[0].splitlines()[1:]


def may(allowed: bool) -> str:
    return "may" if allowed else "may **not**"


def test_each_row_is_a_check_and_each_check_a_row():
    assert table(HEADS[0]) == [f"| {row.who} | {may(row.may)} | {row.what} | `{row.name}` |" for row in ROWS]


def test_what_others_check_is_there_too():
    assert table(HEADS[1]) == [
        f"| {who} | {may(allowed)} | {what} | `{test}` |" for who, allowed, what, test in ELSEWHERE
    ]


@pytest.mark.parametrize("test", [row[-1] for row in ELSEWHERE])
def test_those_checks_exist(test):
    path, _, name = test.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_row_asks_something_that_can_go_wrong(row):
    assert row.asked
    answered = [asked.status < 400 for asked in row.asked if isinstance(asked, Question)]
    assert set(answered) <= {row.may}


def test_names_are_unique():
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
