"""Type check of the answers of a back end, down to the fields.

Back ends come from other packages. Without the check, a wrong answer would raise deep inside the engine in every pass,
and the run would make no progress.

Source: docs/specifications/upgrade-runs.md 13.1.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

_LONGEST_SHOWN: Final = 100


def check_answer(answer: object, expected: Any) -> None:
    """Check the type of an answer.

    Args:
        answer: Answer of a back end.
        expected: A type, as in an annotation: dataclasses, unions, tuples, and types that `isinstance` accepts.

    Raises:
        TypeError: The type is wrong. The message names the field and the value.
    """
    mistake = next(_mistakes(answer, expected, "the answer"), None)
    if mistake is not None:
        raise TypeError(mistake)


def _mistakes(value: object, hint: Any, path: str) -> Iterator[str]:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if any(next(_mistakes(value, argument, path), None) is None for argument in args):
            return
        inner = (argument for argument in args if isinstance(argument, type) and isinstance(value, argument))
        yield from (mistake for argument in inner for mistake in _mistakes(value, argument, path))
        yield _mismatch(value, hint, path)
    elif origin is tuple:
        many = len(args) == 2 and args[1] is ...
        if not isinstance(value, tuple) or not (many or len(value) == len(args)):
            yield _mismatch(value, hint, path)
            return
        for position, item in enumerate(value):
            yield from _mistakes(item, args[0] if many else args[position], f"{path}[{position}]")
    elif not isinstance(value, origin or hint) or (hint is int and isinstance(value, bool)):
        yield _mismatch(value, hint, path)
    elif isinstance(value, datetime) and value.tzinfo is None:
        yield f"{path} is {value.isoformat()}, which has no time zone"
    elif isinstance(hint, type) and is_dataclass(hint):
        for name, argument_hint in _hints(hint).items():
            yield from _mistakes(getattr(value, name), argument_hint, f"{path}.{name}".removeprefix("the answer."))


@cache
def _hints(of: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(of)
    return {field.name: hints[field.name] for field in fields(of)}


def _mismatch(value: object, hint: Any, path: str) -> str:
    expected = hint.__name__ if isinstance(hint, type) and get_origin(hint) is None else str(hint)
    return f"{path} is {repr(value)[:_LONGEST_SHOWN]}, not {expected}"
