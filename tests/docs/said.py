"""The words by which the code speaks to people: types and reasons of conditions, and reasons of events.

They stand where something is said, as literals, in registries and in enums. Collected are all words of that form in
the modules that make conditions or events, but for those that are only read there: compared, looked up by, or part of
a sentence. So a new word is found wherever it is added, and one that has gone is no longer found.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from tests.docs.speaking import CONSTANTS, calling, modules_with

SPEAKERS: Final = frozenset(
    {"make_condition", "Event", "MemberEvent", "Statement", "CollectionError", "Repair", "Cost", "report_refusal"}
    | {"NotSeen", "set_condition", "_Cause", "skip_member", "fail_member", "mark_waiting"}
)
"""What makes a condition or an event, or a part of one."""
SPEAKING_METHODS: Final = frozenset({"set_run_progress", "set_stage_progress", "announce"})
"""Methods that make a condition or an event."""
BESIDES: Final = frozenset(
    {"True", "False", "Unknown", "Normal", "Warning"}
    | {"ClusterResourcePlacement", "ResourcePlacement", "MemberAgent", "NotYet", "Confirmed", "Ordered"}
)
"""Words in those modules that are neither: statuses, types of events, kinds, a cause that is never said,
and values of an annotation."""

_WORD: Final = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]*)*|[A-Z]{2,}[a-z]+(?:[A-Z][a-z]+)*")
_ENUMS: Final = re.compile(r"^ *class \w+(?:Reason|Cause)\b", re.MULTILINE)
_REASONS: Final = re.compile(r"\w+(?:Reason|Cause)")
_BUDGETS: Final = "DisruptionReason"
"""For which budgets are asked, not of anything that is said."""


@cache
def words_said() -> frozenset[str]:
    """Return every type and reason of a condition and every reason of an event that the code can produce."""
    speaking: list[ast.AST] = []
    known: set[str] = set()
    for tree in modules_with(calling(SPEAKERS | SPEAKING_METHODS)):
        nodes = list(ast.walk(tree))
        names = _known_names(nodes)
        if names & _called_names(nodes) & SPEAKERS or _called_methods(nodes) & SPEAKING_METHODS:
            speaking.append(tree)
            known |= names
    enums = {name for name in known if _REASONS.fullmatch(name)} - {_BUDGETS}
    classes = (node for tree in modules_with(_ENUMS) for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    found = [*speaking, *(node for node in classes if node.name in enums)]
    words = {word for tree in found for word in _words(tree)}
    constants = {name for name in known if name.isupper()}
    named = {word for tree in modules_with(CONSTANTS) for word in _constants(tree, constants)}
    return frozenset(words | named) - BESIDES


def _known_names(nodes: Sequence[ast.AST]) -> set[str]:
    """Return what a module defines or imports by name."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    imported = {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    return imported | {node.name for node in nodes if isinstance(node, kinds)}


def _called_names(nodes: Sequence[ast.AST]) -> set[str]:
    return {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def _called_methods(nodes: Sequence[ast.AST]) -> set[str]:
    calls = (node.func for node in nodes if isinstance(node, ast.Call))
    return {called.attr for called in calls if isinstance(called, ast.Attribute)}


def _constants(tree: ast.Module, names: set[str]) -> Iterator[str]:
    """Yield the words that a module gives one of *names*; the types and reasons that others import are constants."""
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(word)))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(word)))
            ) if name in names and _WORD.fullmatch(word):
                yield word


def _words(tree: ast.AST) -> Iterator[str]:
    read = {id(node) for each in ast.walk(tree) for node in _only_read(each)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(word)) if id(node) not in read and _WORD.fullmatch(word):
                yield word


def _only_read(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of *node* whose words are compared with, looked up by, annotations, or part of a sentence."""
    match node:
        case ast.Compare() | ast.JoinedStr():
            yield from ast.walk(node)
        case ast.Subscript(slice=key):
            yield key
        case ast.Call(func=ast.Attribute(attr="get"), args=arguments):
            yield from arguments
        case ast.arg(annotation=ast.AST() as annotation) | ast.AnnAssign(annotation=annotation):
            yield from ast.walk(annotation)
        case ast.FunctionDef(returns=ast.AST() as returned) | ast.AsyncFunctionDef(returns=ast.AST() as returned):
            yield from ast.walk(returned)
