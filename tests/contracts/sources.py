"""The project's modules as texts: read once, whatever looks at them."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("scorer", "webhook", "certs")


def sources(*places: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of the modules in some folders of the project; a place may be a module as well."""
    for place in places:
        found = ROOT / place
        for path in sorted(found.rglob("*.py")) if found.is_dir() else [found]:
            yield path.relative_to(ROOT).as_posix(), _text(path)


def statements(source: str) -> Iterator[ast.AST]:
    """Yield the statements of a module, those within others as well; what is in expressions takes most of a walk."""
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        yield node
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            waiting += getattr(node, name, ())


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
