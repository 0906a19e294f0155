"""Tests that documents name, as ``tests/docs/test_links.py::test_links_lead_somewhere``."""

import ast

from tests.docs.pages import ROOT


def is_there(test: str) -> bool:
    """Return whether the repository has a test."""
    path, _, name = test.partition("::")
    file = ROOT / path
    if not name.startswith("test_") or not file.is_file():
        return False
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return name in {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
