"""The order that ``--sort-by`` asks for.

Texts that are quantities are compared as such, others with their numbers as numbers; what has no such field comes
first.

Source: kubectl ``pkg/cmd/get/sorter.go``.
"""

import re
from collections.abc import Sequence
from functools import cmp_to_key
from typing import Any

from scorer.api.json_object import JsonObject
from scorer.api.quantity import parse_quantity
from scorer.api.quoting import printable
from webhook.cli.failure import UserError
from webhook.cli.jsonpath import JsonPathError, parse_path

_PARTS = re.compile(r"(\d+)", re.ASCII)


def sort_objects(documents: Sequence[JsonObject], path: str) -> list[JsonObject]:
    """Return *documents* in the order of what *path* finds in each.

    Raises:
        UserError: The path cannot be read, or finds nothing in any of them, or things that have no order.
    """
    try:
        found = parse_path(path)
        keyed = [(found.find([document]), document) for document in documents]
    except JsonPathError as error:
        raise UserError(f"--sort-by {printable(path)[:128]}: {error}") from error
    if documents and not any(values for values, _ in keyed):
        raise UserError(f"--sort-by {printable(path)[:128]}: no object has such a field")

    def compare(left: tuple[list[Any], JsonObject], right: tuple[list[Any], JsonObject]) -> int:
        if not left[0] or not right[0]:
            return bool(left[0]) - bool(right[0])
        return _compare(left[0][0], right[0][0], path)

    return [document for _, document in sorted(keyed, key=cmp_to_key(compare))]


def _compare(left: Any, right: Any, path: str) -> int:
    if left is None or right is None:
        return (left is not None) - (right is not None)
    if isinstance(left, str) and isinstance(right, str):
        one, other = _order_of_text(left, right)
        return int(one > other) - int(one < other)
    if isinstance(left, int | float) and isinstance(right, int | float):
        return (left > right) - (left < right)
    raise UserError(f"--sort-by {printable(path)[:128]}: finds what has no order: objects, lists or mixed types")


def _order_of_text(left: str, right: str) -> tuple[Any, Any]:
    try:
        return parse_quantity(left).nano, parse_quantity(right).nano
    except ValueError:
        return _natural(left), _natural(right)


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Return the parts of a text: numbers, which come before other text, and what is between them."""
    return [(0, int(part[:4000]), part) if part.isdigit() else (1, 0, part) for part in _PARTS.split(text) if part]
