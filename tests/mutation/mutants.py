"""Mutants of a file, and a repeatable random sample of them.

The mutations are those of mutmut plus four that it lacks: a negated condition, ``return None``, a dropped call, and a
dropped condition of a comprehension. Only functions are mutated. Annotations and decorators are left alone: a change
there mostly fails the import, and any test detects that.
"""

import difflib
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

_UNTOUCHED: Final = (cst.Annotation, cst.Decorator, cst.Import, cst.ImportFrom, cst.FormattedStringExpression)
_UNTOUCHED_CALLS: Final = frozenset({"isinstance", "len", "cast", "TypeVar"})


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file.

    Args:
        path: The file, relative to the project.
        line: Where the mutated node starts.
        before: The changed lines as they were, joined.
        after: The changed lines as they are.
        source: The whole file with the change.
    """

    path: str
    line: int
    before: str
    after: str
    source: str


@dataclass(frozen=True, slots=True)
class Place:
    """A node, and what it can be replaced by."""

    line: int
    node: cst.CSTNode
    replacements: tuple[cst.CSTNode, ...]


def sample(root: Path, folders: Iterable[str], size: int, dice: random.Random) -> list[Mutant]:
    """Return *size* different mutants of the files in *folders*, fewer if there are no more.

    A file is drawn in proportion to its length, then a node of it, then one mutation of that node. The node decides
    the odds, so that a call with many arguments does not dominate the sample.
    """
    files = sorted(path for folder in folders for path in (root / folder).rglob("*.py"))
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    lengths = [text.count("\n") for text in texts.values()]
    places: dict[Path, tuple[cst.Module, list[Place]]] = {}
    tried: set[tuple[Path, int, int]] = set()
    drawn: dict[tuple[str, str], Mutant] = {}
    for _ in range(20 * size):
        if len(drawn) == size or not any(lengths):
            break
        path = dice.choices(files, lengths)[0]
        if path not in places:
            places[path] = find_places(texts[path])
        module, spots = places[path]
        if not spots:
            continue
        place = dice.choice(spots)
        replacement = dice.choice(place.replacements)
        if (key := (path, id(place), id(replacement))) in tried:
            continue
        tried.add(key)
        mutant = apply(module, place, replacement, path.relative_to(root).as_posix())
        if mutant is not None:
            drawn.setdefault((mutant.path, mutant.source), mutant)
    return list(drawn.values())


def find_places(text: str) -> tuple[cst.Module, list[Place]]:
    """Return the parsed file and every node that can be mutated, in the order of the file."""
    finder = _Finder()
    wrapper = MetadataWrapper(cst.parse_module(text))
    wrapper.visit(finder)
    return wrapper.module, finder.places


def apply(module: cst.Module, place: Place, replacement: cst.CSTNode, path: str) -> Mutant | None:
    """Return the mutant; None: the change does not compile or changes nothing."""
    source = cast(cst.Module, module.deep_replace(place.node, replacement)).code
    try:
        compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    changes = list(difflib.unified_diff(module.code.splitlines(), source.splitlines(), n=0, lineterm=""))[3:]
    if not changes:
        return None
    before = " ".join(line[1:].strip() for line in changes if line.startswith("-"))
    after = " ".join(line[1:].strip() for line in changes if line.startswith("+"))
    return Mutant(path, place.line, before, after, source)


class _Finder(cst.CSTVisitor):
    """Collects the places in functions."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.places: list[Place] = []
        self._depth = 0

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _UNTOUCHED) or _is_untouched_call(node) or _is_docstring(node):
            return False
        if self._depth and not isinstance(node, cst.Parameters):
            replacements = tuple(replacements_of(node))
            if replacements:
                span = self.get_metadata(PositionProvider, node)
                self.places.append(Place(span.start.line, node, replacements))
        self._depth += isinstance(node, cst.FunctionDef)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        self._depth -= isinstance(original_node, cst.FunctionDef)


def replacements_of(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield what *node* can be replaced by. Strings with a space are prose and are left alone."""
    if isinstance(node, cst.SimpleString) and " " in node.value:
        return
    for kind, operator in mutation_operators:
        if isinstance(node, kind):
            yield from operator(node)
    if isinstance(node, cst.If | cst.While):
        yield node.with_changes(test=_negated(node.test))
    if isinstance(node, cst.Return) and node.value is not None and not _is_none(node.value):
        yield node.with_changes(value=cst.Name("None"), whitespace_after_return=cst.SimpleWhitespace(" "))
    if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call | cst.Await):
        yield cst.Pass()
    if isinstance(node, cst.CompIf):
        yield node.with_changes(test=cst.Name("True"))


def _negated(test: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return test.expression
    bracketed = test.with_changes(lpar=[cst.LeftParen(), *test.lpar], rpar=[*test.rpar, cst.RightParen()])
    return cst.UnaryOperation(cst.Not(), bracketed)


def _is_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def _is_untouched_call(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in _UNTOUCHED_CALLS


def _is_docstring(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Expr) and isinstance(node.value, cst.BaseString)
