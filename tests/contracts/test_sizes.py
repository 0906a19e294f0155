"""Modules stay readable in one go, and functions callable without counting."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath

from tests.contracts.sources import PACKAGES, ROOT, sources, statements

MOST_LINES = 500
REASON = "Over 500 lines because"
"""What the docstring of a longer module says."""
MOST_PARAMETERS = 8
MOST_MODULES = 25
LONG = re.compile(rf"\bdef \w+\((?:[^,)]*,){{{MOST_PARAMETERS}}}|\bdef \w+\([^)]*\(")
"""A function with so many commas before the first bracket, or with a bracket in its parameters: worth parsing."""


def wide(source: str) -> Iterator[str]:
    if not LONG.search(source):
        return
    for node in statements(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            if len(names) - (names[:1] in (["self"], ["cls"])) > MOST_PARAMETERS:
                yield node.name


def gives_reason(source: str) -> bool:
    return REASON in source and REASON in (ast.get_docstring(ast.parse(source)) or "")


def test_modules_are_short_or_say_why_not():
    ours = dict(sources(*PACKAGES))
    long = {path for path, source in ours.items() if len(source.splitlines()) > MOST_LINES}
    assert long == {path for path, source in ours.items() if gives_reason(source)}


def test_folders_are_taken_in_at_a_glance():
    paths = (PurePath(path) for path, _ in sources(*PACKAGES))
    modules = Counter(path.parent for path in paths if path.name != "__init__.py")
    assert {folder: count for folder, count in modules.items() if count > MOST_MODULES} == {}


def test_functions_are_narrow():
    assert {path: names for path, source in sources(*PACKAGES) if (names := list(wide(source)))} == {}


def test_nothing_stands_loose_in_the_service():
    assert [path.name for path in (ROOT / "webhook").glob("*.py")] == ["__init__.py"]


def test_a_function_that_is_too_wide_is_seen():
    assert list(wide("def f(a, b, c, d, e, f, g, h, *, i): ...")) == ["f"]
