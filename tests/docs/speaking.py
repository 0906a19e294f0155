"""The modules that may speak to people, parsed: those of the engine and of the service."""

import ast
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.docs.pages import ROOT

LEFT_OUT: Final = (ROOT / "webhook" / "embedded", ROOT / "webhook" / "cli")
"""Simulated members speak as Kubernetes' own controllers do; the command line only shows what others have said."""


def speaking_modules() -> list[ast.Module]:
    """Parse them; no garbage is looked for meanwhile, since nearly all that is made stays as long as the trees."""
    gc.disable()
    try:
        return [ast.parse(path.read_text(encoding="utf-8")) for path in _paths()]
    finally:
        gc.enable()


def _paths() -> Iterator[Path]:
    for package in ("scorer", "webhook"):
        for path in (ROOT / package).rglob("*.py"):
            if not any(path.is_relative_to(folder) for folder in LEFT_OUT):
                yield path
