"""Where a stored object differs from what this release would write."""

from collections.abc import Iterator
from typing import Any

from scorer.api.values.quoting import quote


def differences(found: object, wanted: object, at: str = "") -> Iterator[str]:
    """Yield a line for each field that is not as wanted.

    Fields that are not wanted may be there, as an API server adds defaults; an object that is wanted empty is empty,
    and a list has no more entries than wanted. The order of words in a list does not matter.

    Args:
        found: What is stored, decoded JSON.
        wanted: What should be.
        at: Where that is.
    """
    match found, wanted:
        case dict(), dict() if wanted:
            for name, value in wanted.items():
                path = f"{at}.{name}" if at else name
                if name in found:
                    yield from differences(found[name], value, path)
                elif value not in ({}, [], ""):
                    yield f"{path} is missing"
        case list(), list() if len(found) == len(wanted):
            for number, (one, other) in enumerate(zip(_ordered(found), _ordered(wanted), strict=True)):
                yield from differences(one, other, f"{at}[{number}]")
        case _ if found != wanted:
            yield f"{at} is {quote(found)}, not {quote(wanted)}"


def _ordered(values: list[Any]) -> list[Any]:
    return sorted(values) if all(isinstance(value, str) for value in values) else values
