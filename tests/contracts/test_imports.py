"""Test modules are for pytest alone: what several of them need stands in a module beside them, named after it."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.contracts.sources import sources, statements

ROOMS = ("tests", "e2e")
IMPORTED = re.compile(r"^ *(?:from|import) (?:.*\btest_|.*\($(?:[^)]*)\btest_)", re.MULTILINE)
"""An import in which something is called as test modules are; only where there is one, a module is parsed."""


def imported(text: str) -> Iterator[str]:
    """Yield the full names of everything that a module imports."""
    for node in statements(text):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from (f"{module}.{each.name}" for each in names)
            case ast.ImportFrom(module=module, names=names):  # of a neighbour: which room it is in does not matter
                yield from (".".join(filter(None, (ROOMS[0], module, each.name))) for each in names)


def borrowed(text: str) -> list[str]:
    """Return what a module imports from test modules."""
    if not IMPORTED.search(text):
        return []
    parts = {name: name.split(".") for name in imported(text)}
    return [name for name, (room, *rest) in parts.items() if room in ROOMS and any(map(is_test, rest))]


def is_test(part: str) -> bool:
    """Whether a part of a name is that of a test module, or of a test."""
    return part.startswith("test_")


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_is_imported_from_a_test_module(room):
    assert {path: names for path, source in sources(room) if (names := borrowed(source))} == {}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("from tests.webhook.cli.planning.test_plan import files", id="from-it"),
        pytest.param("from tests.webhook.cli import test_plan", id="all-of-it"),
        pytest.param("import e2e.admission.test_clients as clients", id="by-another-name"),
        pytest.param("from . import test_plan", id="of-a-neighbour"),
        pytest.param("from .test_plan import files", id="from-a-neighbour"),
        pytest.param("def late():\n    from e2e.admission.test_clients import MERGE", id="late"),
    ],
)
def test_an_import_from_a_test_module_is_found(text):
    assert borrowed(text)


def test_support_modules_and_the_code_may_be_imported():
    assert (
        borrowed("from tests.waiting import until\nfrom webhook.cli.planning.plan import plan\nimport test_plan") == []
    )
