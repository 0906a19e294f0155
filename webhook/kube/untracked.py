"""Keeps what cannot be part of a cycle from the collector of garbage.

The collector walks all maps, lists and models that exist, to find those that refer to each other in a circle. What was
read from JSON never does: documents are trees, as are the models of them, and nobody writes to either. With a hundred
thousand members they are millions, and to walk those that came since the last time stops every answer for a fifth of a
second. An object that the collector does not know is freed as ever, with the last reference to it.

On the way, models that were given the same fields get one set of their names: else a third of what models take is sets.
"""

import ctypes
from collections.abc import Callable
from gc import is_tracked
from typing import Any, Final, TypeVar

from pydantic import BaseModel

T = TypeVar("T")


def untracked(tree: T) -> T:
    """Return *tree* itself, after the collector has been told to leave it out.

    Args:
        tree: Maps, lists, tuples and frozen models, in each other but not in a circle; not to be changed any more. A
            map that is nevertheless given another one is walked again.
    """
    if is_tracked(tree):
        _leave_out(tree)
    return tree


def _leave_out(part: Any) -> None:
    """Leave out a part that is tracked; one that is not holds none that is."""
    if isinstance(part, dict):
        _UNTRACK(part)
        inner: Any = part.values()
    elif isinstance(part, list | tuple):
        _UNTRACK(part)
        inner = part
    elif isinstance(part, BaseModel):
        given = part.__pydantic_fields_set__
        object.__setattr__(part, "__pydantic_fields_set__", _GIVEN.setdefault(frozenset(given), given))
        _UNTRACK(part)
        _UNTRACK(part.__dict__)
        inner = part.__dict__.values()
    else:
        return
    for each in inner:
        if is_tracked(each):
            _leave_out(each)


def _from_interpreter() -> Callable[[Any], None]:
    untrack = ctypes.pythonapi.PyObject_GC_UnTrack
    untrack.argtypes, untrack.restype = (ctypes.py_object,), None
    return untrack


_UNTRACK: Final = _from_interpreter()
"""Does nothing to what is not tracked. Source: docs.python.org/3/c-api/gcsupport.html."""
_GIVEN: Final[dict[frozenset[str], set[str]]] = {}
"""Sets of names of fields; bounded, as models have few. Nothing changes one: a copy of a model makes its own."""
