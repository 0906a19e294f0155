"""The Events that the code tells, as far as they can be read off it: reasons with their types."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from tests.docs.speaking import CONSTANTS, calling, modules_with

TELLERS: Final = {"Event": 0, "MemberEvent": 0, "announce": 0, "Note": 2, "Repair": 3}
"""What makes an Event, and which of its arguments is the reason."""
REMARKS: Final = "request_note"
"""Returns a reason with its message, for others to make an Event of."""


@cache
def events_told() -> Mapping[str, set[str]]:
    """Return the types that every reason is told with; empty: the type is found out when it is told."""
    values = {name: word for tree in modules_with(CONSTANTS) for name, word in _constants(tree)}
    told: dict[str, set[str]] = {}
    for tree in modules_with(calling({*TELLERS, REMARKS})):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (reason := _reason(node, values)):
                told.setdefault(reason, set()).update(_types(node))
            elif isinstance(node, ast.FunctionDef) and node.name == REMARKS:
                told |= {reason: set() for reason in _returned(node)}
    return told


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the words that modules and enumerations name, such as ``BLOCKED`` and ``NodePoolEventReason.CANDIDATE``."""
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for each in inner:
            match each:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(word)))
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(word)))
                ):
                    yield prefix + name, word


def _reason(call: ast.Call, values: Mapping[str, str]) -> str:
    """Return the reason of what makes an Event; empty: it makes none, or the reason is found out when it is told."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    place = TELLERS.get(name)
    if place is None or len(call.args) <= place:
        return ""
    match call.args[place]:
        case ast.Constant(value=str(word)):
            return word
        case ast.Name(id=constant) | ast.Attribute(attr=constant) as node:
            return values.get(ast.unparse(node), values.get(constant, "") if isinstance(node, ast.Name) else "")
    return ""


def _returned(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        match node:
            case ast.Return(value=ast.Tuple(elts=[ast.Constant(value=str(reason)), _])):
                yield reason


def _types(call: ast.Call) -> set[str]:
    for word in call.keywords:
        match word:
            case ast.keyword(arg="warning", value=ast.Constant(value=bool(warning))):
                return {"Warning" if warning else "Normal"}
            case ast.keyword(arg="type", value=ast.Constant(value=str(kind))):
                return {kind}
            case ast.keyword(arg="warning" | "type"):
                return set()
    match call.args[2:]:
        case [ast.Constant(value=str("Normal" | "Warning" as kind))]:
            return {kind}
        case [_] if getattr(call.func, "id", "") == "Event":
            return set()
    return {"Normal"}
