"""The modules that may speak to people: those of the engine and of the service. Only what is needed is parsed."""

import ast
import gc
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from tests.docs.pages import ROOT

LEFT_OUT: Final = (ROOT / "webhook" / "embedded", ROOT / "webhook" / "cli")
"""Simulated members speak as Kubernetes' own controllers do; the command line only shows what others have said."""
CONSTANTS: Final = re.compile(r'^ *\w+(?:: [^=\n]+)? = \(?\s*"[A-Z][A-Za-z]*"', re.MULTILINE)
"""A word that a module or an enumeration names."""


def calling(names: Iterable[str]) -> re.Pattern[str]:
    """Return the pattern of a call, or of the definition, of one of *names*."""
    return re.compile(rf"\b(?:{'|'.join(sorted(names))})\(")


def modules_with(pattern: re.Pattern[str]) -> list[ast.Module]:
    """Return those modules whose text has *pattern*, parsed."""
    return [_tree(path) for path, text in _texts().items() if pattern.search(text)]


@cache
def _texts() -> Mapping[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in _paths()}


@cache
def _tree(path: Path) -> ast.Module:
    gc.disable()  # nearly all that is made stays as long as the tree
    try:
        return ast.parse(_texts()[path])
    finally:
        gc.enable()


def _paths() -> Iterator[Path]:
    for package in ("scorer", "webhook"):
        for path in (ROOT / package).rglob("*.py"):
            if not any(path.is_relative_to(folder) for folder in LEFT_OUT):
                yield path
