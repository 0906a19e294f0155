"""Which test files may detect a mutant of a module, most promising first."""

import ast
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LEFT_OUT: Final = ("tests/mutation/", "tests/webhook/page/", "tests/bench/")
"""The tool itself, and what needs a browser or measures."""
_UNCONNECTED: Final = 99


@dataclass(frozen=True, slots=True)
class Choice:
    """The imports of the project, reversed.

    Args:
        tests: All test files.
        importers: Files that import a file, by that file. Paths are relative to the project.
    """

    tests: tuple[str, ...]
    importers: Mapping[str, frozenset[str]]

    def tests_for(self, path: str, limit: int) -> list[str]:
        """Return at most *limit* test files that import *path*, directly or through others.

        The file that mirrors the module comes first, then those of its name, then the others by the length of the
        shortest chain of imports, which counts as one longer outside the folder of the module. Commands are imported by
        their name: so the mirror and the files of the folder count without an import, too, after all others.
        """
        distances = self._distances(path)
        folder, _, name = path.rpartition("/")
        mirror, neighbours = f"tests/{folder}/test_{name}", f"tests/{folder}/test_"

        def rank(test: str) -> tuple[bool, bool, int, str]:
            distance = distances.get(test, _UNCONNECTED) + (not test.startswith(neighbours))
            return test != mirror, not test.endswith(f"/test_{name}"), distance, test

        tests = [test for test in self.tests if test in distances or test.startswith(neighbours)]
        return sorted((test for test in tests if not test.startswith(_LEFT_OUT)), key=rank)[:limit]

    def _distances(self, path: str) -> dict[str, int]:
        distances, waiting = {path: 0}, deque([path])
        while waiting:
            file = waiting.popleft()
            for importer in self.importers.get(file, ()):
                if importer not in distances:
                    distances[importer] = distances[file] + 1
                    waiting.append(importer)
        return distances


def read_choice(root: Path, folders: tuple[str, ...]) -> Choice:
    """Read the imports of every Python file in *folders* of *root*."""
    files = {path.relative_to(root).as_posix() for folder in folders for path in (root / folder).rglob("*.py")}
    importers: dict[str, set[str]] = {}
    for file in sorted(files):
        for name in _imports((root / file).read_text(encoding="utf-8")):
            stem = name.replace(".", "/")
            for target in {f"{stem}.py", f"{stem}/__init__.py"} & files:
                importers.setdefault(target, set()).add(file)
    tests = tuple(sorted(file for file in files if file.startswith("tests/") and "/test_" in file))
    return Choice(tests, {target: frozenset(importing) for target, importing in importers.items()})


def _imports(text: str) -> Iterator[str]:
    """Yield imported modules, and every name that may be one."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
