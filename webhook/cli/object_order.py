"""The order that ``--sort-by`` asks for.

Texts are compared as quantities if both are, else letter by letter; what has no such field comes first.

Source: kubectl 1.36, ``get --sort-by``.
"""

from collections.abc import Sequence
from functools import cmp_to_key
from typing import Any

from scorer.api.json_object import JsonObject
from scorer.api.quantity import parse_quantity
from scorer.api.quoting import printable
from webhook.cli.failure import UserError
from webhook.cli.jsonpath import JsonPathError, parse_path


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
        return _compare_texts(left, right)
    if isinstance(left, int | float) and isinstance(right, int | float):
        return (left > right) - (left < right)
    raise UserError(f"--sort-by {printable(path)[:128]}: finds what has no order: objects, lists or mixed types")


def _compare_texts(left: str, right: str) -> int:
    try:
        amounts = parse_quantity(left).nano, parse_quantity(right).nano
    except ValueError:
        return (left > right) - (left < right)
    return (amounts[0] > amounts[1]) - (amounts[0] < amounts[1])
