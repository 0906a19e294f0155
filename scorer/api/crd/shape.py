"""The shape of our kinds: members, items, defaults and open objects, read from the fields of the models.

Decoding an object needs only these parts of its schema. Reading them takes a hundredth of the time of
`scorer.api.crd.definitions.structural_schema`, and every command that runs admission waits for it.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from scorer.api.crd.models import MODELS
from scorer.api.family import FAMILIES
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject, ObjectMeta

OPEN: Final = "x-kubernetes-preserve-unknown-fields"
"""Marks a node of a schema that accepts members besides those that it names."""
WHOLE_OBJECT: Final = "x-kubernetes-embedded-resource"
"""Marks a node of a schema that holds an object with ``metadata``."""
PARTS: Final = frozenset(
    {"type", "properties", "items", "additionalProperties", "default", "maxItems", OPEN, WHOLE_OBJECT}
)
"""Keywords of a shape. ``type`` is only in the shape of an object."""
OTHER_METADATA: Final[JsonObject] = {
    "generateName": {"type": "string", "description": "Prefix of a name that the server generates."},
    "deletionGracePeriodSeconds": {"type": "integer", "description": "Grace period of a deletion in seconds."},
    "managedFields": {"type": "array", "description": "Fields that each client manages. Written by the server."},
    "selfLink": {"type": "string", "description": "No longer used."},
}
"""The members of ``metadata`` that harbormaster does not read."""
_RUNS: Final = frozenset(family.run for family in FAMILIES)


@lru_cache(maxsize=256)
def shape_of(kind: Kind, *, staged_run_default_state: str | None = None) -> JsonObject:
    """Return the shape of one of our kinds, without the content of ``metadata``. It must not be mutated.

    Args:
        kind: The kind.
        staged_run_default_state: Default of ``spec.state`` of a staged update run (F-14). None: unset, the default of
            the model applies.

    Raises:
        KeyError: *kind* is not one of `OUR_KINDS`.
    """
    shape = _model_shape(MODELS[kind.group_kind])
    properties = {**shape["properties"], "metadata": {"type": "object"}}
    if kind in _RUNS and staged_run_default_state is not None:
        spec = properties["spec"]
        state = {**spec["properties"]["state"], "default": staged_run_default_state}
        properties["spec"] = {**spec, "properties": {**spec["properties"], "state": state}}
    return {**shape, "properties": properties}


def metadata_shape() -> JsonObject:
    """Return the shape of ``metadata`` with the members that harbormaster reads. It must not be mutated."""
    return _model_shape(ObjectMeta)


@lru_cache(maxsize=512)
def _model_shape(model: type[BaseModel]) -> JsonObject:
    return {
        "type": "object",
        "properties": {
            field.alias or to_camel(name): _field_shape(field) for name, field in model.model_fields.items()
        },
    }


def _field_shape(field: FieldInfo) -> JsonObject:
    shape = {**_type_shape(field.annotation)}
    if field.default_factory is None and not field.is_required() and field.default:
        shape["default"] = to_jsonable_python(field.default, by_alias=True)
    shape |= _keywords(field)
    if callable(field.json_schema_extra):
        field.json_schema_extra(shape)
    return _parts(shape)


def _type_shape(annotation: Any) -> JsonObject:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _model_shape(annotation)
    if origin is Annotated:
        shape = {**_type_shape(arguments[0])}
        for item in arguments[1:]:
            shape |= _keywords(item) if isinstance(item, FieldInfo) else {}
        return _parts(shape)
    if origin in (Union, UnionType):
        alternatives = [argument for argument in arguments if argument is not NoneType]
        return _type_shape(alternatives[0]) if len(alternatives) == 1 else {}
    if origin is tuple:
        return {"items": _type_shape(arguments[0])}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _type_shape(arguments[1])}
    return {}


def _keywords(field: FieldInfo) -> JsonObject:
    keywords: JsonObject = {**field.json_schema_extra} if isinstance(field.json_schema_extra, dict) else {}
    for item in field.metadata:
        if (most := getattr(item, "max_length", None)) is not None:
            keywords.setdefault("maxItems", most)
    return keywords


def _parts(schema: JsonObject) -> JsonObject:
    """Return the parts of a shape in *schema*. An open object has no schema of its values. Only lists have items."""
    unused = {"additionalProperties"} if schema.get(OPEN) else set()
    if "items" not in schema:
        unused.add("maxItems")  # the length of text or of a map
    return {key: value for key, value in schema.items() if key in PARTS - unused}
