"""The result of defaulting, and its copy-on-write steps.

Defaulting never changes the document it is given: it returns a new one that shares every unchanged part, so
that the patch between the two is cheap to compute.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scorer.api.meta import JsonObject
from webhook.validation.framework.field import FieldWarning


class UnreadableDocumentError(Exception):
    """The document is too broken to default: a field has the wrong JSON type."""


@dataclass(frozen=True, slots=True)
class DefaultedObject:
    """A document with its defaults, and warnings for the user.

    Args:
        document: The same object as the given document if no default was missing.
        warnings: Warnings about rewritten fields. Plain defaults cause none.
    """

    document: JsonObject
    warnings: tuple[FieldWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class DefaultingContext:
    """The request that an object is defaulted for.

    Args:
        now: Arrival time of the request.
        uid: Unique id of the request. Empty: a dry run.
    """

    now: datetime
    uid: str = ""


def filled(block: JsonObject, defaults: Mapping[str, Any]) -> JsonObject:
    """Return *block* with the *defaults* that it lacks. Null counts as absent. Present values are kept."""
    missing = {key: value for key, value in defaults.items() if block.get(key) is None}
    return {**block, **missing} if missing else block


def replaced(block: JsonObject, key: str, value: Any) -> JsonObject:
    """Return *block* with *value* under *key*."""
    return block if block.get(key) is value and value is not None else {**block, key: value}


def without(block: JsonObject, key: str) -> JsonObject:
    """Return *block* without *key*."""
    return {name: value for name, value in block.items() if name != key} if key in block else block


def within(block: JsonObject, key: str, step: Callable[[JsonObject], JsonObject]) -> JsonObject:
    """Return *block* with *step* applied to the object under *key*, if there is one. Raises as `object_at`."""
    inner = object_at(block, key)
    return block if inner is None else replaced(block, key, step(inner))


def for_each(block: JsonObject, key: str, step: Callable[[JsonObject], JsonObject], most: int) -> JsonObject:
    """Return *block* with *step* applied to each object of the list under *key*, if there is one.

    A list of more than *most* items is left unchanged: validation will refuse it.

    Raises:
        UnreadableDocumentError: The value is not a list of objects.
    """
    items = block.get(key)
    if items is None or (isinstance(items, list) and len(items) > most):
        return block
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise UnreadableDocumentError(key)
    done = [step(item) for item in items]
    return block if all(new is old for new, old in zip(done, items, strict=True)) else {**block, key: done}


def object_at(block: JsonObject, key: str) -> JsonObject | None:
    """Return the object under *key*, None when it is absent or null.

    Raises:
        UnreadableDocumentError: The value is not an object.
    """
    inner = block.get(key)
    if inner is None or isinstance(inner, dict):
        return inner
    raise UnreadableDocumentError(key)
