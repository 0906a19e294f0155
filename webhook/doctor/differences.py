"""Differences between a stored object and what this release would write."""

from collections.abc import Iterator
from typing import Any

from scorer.api.values.quoting import quote


def differences(actual: object, desired: object, at: str = "") -> Iterator[str]:
    """Yield a line for each field that differs from the desired value.

    Additional fields are allowed, because an API server adds defaults. Missing fields are allowed if the desired value
    is empty. If *desired* is an empty object, *actual* must be empty. A list must not have additional entries. The
    order of strings in a list does not matter.

    Args:
        actual: The stored value, decoded JSON.
        desired: The desired value.
        at: Path of the value.
    """
    match actual, desired:
        case dict(), dict() if desired:
            for name, value in desired.items():
                path = f"{at}.{name}" if at else name
                if name in actual:
                    yield from differences(actual[name], value, path)
                elif value not in ({}, [], ""):
                    yield f"{path} is missing"
        case list(), list() if len(actual) == len(desired):
            for number, (first, other) in enumerate(zip(_ordered(actual), _ordered(desired), strict=True)):
                yield from differences(first, other, f"{at}[{number}]")
        case _ if actual != desired:
            yield f"{at} is {quote(actual)}, not {quote(desired)}"


def _ordered(values: list[Any]) -> list[Any]:
    return sorted(values) if all(isinstance(value, str) for value in values) else values
