"""Decoding as an API server does it before any rule runs: prune unknown fields, drop nulls, apply defaults.

Each step returns the same document if it changes nothing. Otherwise it copies only along the path to the change. For
kinds that are not ours, only the fields of ``metadata`` are known.

Source: docs/specifications/placement-api.md 2.8 and 6 (D1).
"""

import math
from copy import deepcopy
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, TypeAlias

from scorer.api.crd.models import MODELS
from scorer.api.crd.shape import OPEN, OTHER_METADATA, WHOLE_OBJECT, metadata_shape, shape_of
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.api.values.field_path import LONGEST_PART, FieldPath

_Parts: TypeAlias = tuple[str | int, ...]
_GONE = object()
_BELOW = ("items", "additionalProperties")


@dataclass(frozen=True, slots=True)
class Pruned:
    """A document without its unknown fields, and where they were."""

    document: JsonObject
    dropped: tuple[FieldPath, ...] = ()


@dataclass(frozen=True, slots=True)
class _Defaults:
    """The parts of a schema that lead to a default.

    Args:
        value: The default of an absent value, with its own defaults filled in, or None without a default.
        properties: By member name, only members that have a default or lead to one.
        items: Defaults of every list item.
        values: Defaults of every value of a map. Separate from *items*: a map in place of a list is left unchanged,
            so that admission reports it as it was sent.
        most: The largest number of items of a list.
    """

    value: Any
    properties: tuple[tuple[str, "_Defaults"], ...]
    items: "_Defaults | None"
    values: "_Defaults | None"
    most: float


def apply_schema_defaults(
    kind: Kind, document: JsonObject, *, staged_run_default_state: str | None = None
) -> JsonObject:
    """Apply the defaults of the schema: absent or null becomes the default, inside objects that are present.

    A list that is longer than the schema allows is left unchanged: no API server would store it.

    Args:
        kind: The kind of *document*.
        document: An object of any shape. Values of the wrong type are left unchanged.
        staged_run_default_state: Default of ``spec.state`` of a staged update run (F-14). None: unset, the default of
            the model applies.
    """
    defaults = _defaults(kind, staged_run_default_state)
    filled: JsonObject = document if defaults is None else _fill_defaults(document, defaults)
    return filled


@lru_cache(maxsize=256)
def _defaults(kind: Kind, state: str | None) -> _Defaults | None:
    if kind.group_kind not in MODELS:
        return None
    return _compile_defaults(shape_of(kind, staged_run_default_state=state))


def _compile_defaults(schema: JsonObject) -> _Defaults | None:
    properties = tuple(
        (name, defaults)
        for name, field in schema.get("properties", {}).items()
        if (defaults := _compile_defaults(field)) is not None
    )
    items, values = (_compile_defaults(subschema) if (subschema := schema.get(name)) else None for name in _BELOW)
    value = schema.get("default")
    if value is None and not properties and items is values is None:
        return None
    own = _Defaults(None, properties, items, values, schema.get("maxItems", math.inf))
    return replace(own, value=_fill_defaults(value, own))


def _fill_defaults(value: Any, defaults: _Defaults) -> Any:
    if isinstance(value, dict):
        changes = {}
        for name, field in defaults.properties:
            old = value.get(name)
            # A copy of the default, because the compiled defaults are shared by all documents.
            new = _fill_defaults(old, field) if old is not None else deepcopy(field.value)
            if new is not old:
                changes[name] = new
        if defaults.values is not None:
            for name, old in value.items():
                if (new := _fill_defaults(old, defaults.values)) is not old:
                    changes[name] = new
        return {**value, **changes} if changes else value
    if isinstance(value, list) and defaults.items is not None and len(value) <= defaults.most:
        items = [_fill_defaults(item, defaults.items) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def prune(kind: Kind, document: JsonObject, content: JsonObject | None = None) -> Pruned:
    """Drop the fields that the schema does not know, including those of ``metadata``.

    Preserved content does not change.

    Args:
        kind: The kind of *document*.
        document: An object of any shape.
        content: Schema from the definition of a kind that is not ours. None: unknown, so the kind takes any content.
    """
    return _prune(document, object_schema(kind) if content is None else with_metadata(content))


def unknown_fields(document: JsonObject, schema: JsonObject) -> tuple[FieldPath, ...]:
    """Return the fields at any depth that a schema does not know, in the order of the document.

    Args:
        document: An object of any shape. A value of the wrong type has no unknown fields.
        schema: A result of `object_schema`.
    """
    return _prune(document, schema).dropped


def nearest_field(path: FieldPath, schema: JsonObject) -> str:
    """Return the known sibling of the unknown field at *path* whose spelling is the most similar.

    Empty: none is similar, or the schema does not name all fields.
    """
    *parents, name = path.parts
    for part in parents:
        properties = _properties(schema).get(part) if isinstance(part, str) else None
        schema = properties if isinstance(properties, dict) else _below(schema, part)
    by_letters = (
        {} if schema.get(OPEN) else {property_name.lower(): property_name for property_name in _properties(schema)}
    )
    close = get_close_matches(str(name)[:LONGEST_PART].lower(), by_letters, n=1)
    return by_letters[close[0]] if close else ""


@lru_cache(maxsize=256)
def object_schema(kind: Kind) -> JsonObject:
    """Return the schema of whole objects of a kind, with ``metadata``. A kind that is not ours takes any content."""
    if kind.group_kind not in MODELS:
        return with_metadata({OPEN: True})
    return with_metadata(shape_of(kind))


def with_metadata(schema: JsonObject) -> JsonObject:
    """Return the schema of a definition as that of whole objects: definitions leave ``metadata`` to the API server.

    A definition in a file, or on the embedded hub, may be of any shape: a part that is not a schema takes any content.
    """
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        return with_metadata({OPEN: True})
    own = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": _metadata()}
    return {**schema, "properties": {**properties, **own}}


@lru_cache(maxsize=1)
def _metadata() -> JsonObject:
    schema = metadata_shape()
    return {**schema, "properties": {**schema["properties"], **OTHER_METADATA}}


def _prune(document: JsonObject, schema: JsonObject) -> Pruned:
    dropped: list[_Parts] = []
    remaining = _sift(document, schema, dropped, nulls=False)
    return Pruned(remaining, tuple(FieldPath(parts) for parts in dropped))


def strip_nulls(kind: Kind, document: JsonObject) -> JsonObject:
    """Drop the members whose value is null: null means absent. List items and preserved content do not change."""
    if kind.group_kind not in MODELS:
        return document
    remaining: JsonObject = _sift(document, shape_of(kind), [], nulls=True)
    return remaining


def _sift(value: Any, schema: JsonObject, dropped: list[_Parts], at: _Parts = (), *, nulls: bool) -> Any:
    """Return *value* without its nulls, or without its unknown members. Their paths are appended to *dropped*."""
    if isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        sifted = [_sift(item, items, dropped, (*at, index), nulls=nulls) for index, item in enumerate(value)]
        return sifted if any(new is not old for new, old in zip(sifted, value, strict=True)) else value
    properties = _named_properties(schema) if nulls else _properties(schema)
    values = schema.get("additionalProperties")
    is_map = values is not None and values is not False
    closed = not (is_map or schema.get(OPEN)) and schema.get("type") == "object"
    if not isinstance(value, dict) or not (properties or is_map or (closed and not nulls)):
        return value
    changes: dict[str, Any] = {}
    for name, old in value.items():
        field = properties.get(name, values)
        if old is None if nulls else field is None and closed:
            dropped.append((*at, name))
            changes[name] = _GONE
        elif isinstance(field, dict) and isinstance(old, (dict, list)):
            new = _sift(old, field, dropped, (*at, name), nulls=nulls)
            if new is not old:
                changes[name] = new
    if not changes:
        return value
    return {name: changes.get(name, old) for name, old in value.items() if changes.get(name) is not _GONE}


def _properties(schema: JsonObject) -> JsonObject:
    """Return the members that a schema names, plus ``metadata`` if it describes a whole embedded object."""
    properties = _named_properties(schema)
    return {**properties, "metadata": _metadata()} if schema.get(WHOLE_OBJECT) else properties


def _named_properties(schema: JsonObject) -> JsonObject:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _below(schema: JsonObject, part: str | int) -> JsonObject:
    """Return the schema of every item of a list, or of every value of a map."""
    subschema = schema.get("items" if isinstance(part, int) else "additionalProperties")
    return subschema if isinstance(subschema, dict) else {}
