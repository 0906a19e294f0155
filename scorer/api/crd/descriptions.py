"""Descriptions in generated schemas: the string below a field of a model, and the default and bounds of the field.

Docstrings of the models describe a field and the effect of its absence. The numbers come from the schema itself, so
that no description can contradict it.

The models could collect these themselves, but that would take a tenth of a second at every start of a process.
Descriptions are read only when a schema is written for people.
"""

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from types import ModuleType
from typing import Any, Final

import orjson
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from typing_extensions import is_typeddict

from scorer.api.meta import JsonObject

_OF_THE_TYPE: Final = frozenset(bound for bits in (32, 64) for bound in (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
"""Bounds that follow from the type."""


def add_facts(schema: JsonObject) -> None:
    """Complete the descriptions of all fields of *schema*, at every depth."""
    for field in schema.get("properties", {}).values():
        if "description" in field:
            field["description"] = " ".join((field["description"], *facts(field)))
        add_facts(field)
    for key in ("items", "additionalProperties"):
        if key in schema:
            add_facts(schema[key])


def facts(field: JsonObject) -> Iterator[str]:
    """Yield the facts in the schema of a field, a sentence each, such as ``Default: 60`` and ``1 to 600``."""
    if field.get("default", {}) != {}:  # the fields below an empty object have their own defaults
        yield f"Default: {_as_text(field['default'])}."
    yield from _bounds(field, "minimum", "maximum", "")
    yield from _bounds(field, "minLength", "maxLength", " characters")
    yield from _bounds(field, "minItems", "maxItems", " items")
    yield from _bounds(field, "minProperties", "maxProperties", " entries")


def _bounds(field: JsonObject, lower: str, upper: str, unit: str) -> Iterator[str]:
    low, high = (None if field.get(bound) in _OF_THE_TYPE else field.get(bound) for bound in (lower, upper))
    if high is not None:
        yield f"{low} to {high}{unit}." if low is not None else f"At most {high}{unit}."
    elif low is not None:
        yield f"At least {low}{unit if low != 1 else unit.removesuffix('s')}."


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


class DocumentedJsonSchema(GenerateJsonSchema):
    """Describes each member with the string below it, unless its field has a description."""

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        """Return the schema of one typed dictionary."""
        json_schema = super().typed_dict_schema(schema)
        for base in _bases_of(schema["cls"]):
            for name, words in _words_in(base).items():
                json_schema["properties"][name].setdefault("description", words)
        return json_schema

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Return the schema of one model."""
        json_schema = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        bases = (base for base in reversed(model.__mro__) if issubclass(base, BaseModel))
        words = {name: text for base in bases for name, text in _words_in(base).items()}
        for name, field in model.model_fields.items():
            member = json_schema.get("properties", {}).get(field.alias or name)
            if member is not None and name in words:
                member.setdefault("description", words[name])
        return json_schema


def _words_in(model: type) -> Mapping[str, str]:
    """Return the strings below the members of a class, its bases not included."""
    module = inspect.getmodule(model)
    return {} if module is None else _words_of(module).get(model.__qualname__, {})


def _bases_of(typed_dict: type) -> Iterator[type]:
    """Yield a typed dictionary and those that it extends, which its method resolution order does not have."""
    yield typed_dict
    for base in getattr(typed_dict, "__orig_bases__", ()):
        if is_typeddict(base):
            yield from _bases_of(base)


@lru_cache(maxsize=256)
def _words_of(module: ModuleType) -> Mapping[str, Mapping[str, str]]:
    """Return the strings below the members of all classes of a module, by their qualified names."""
    return dict(_classes(ast.parse(inspect.getsource(module)).body, ""))


def _classes(statements: Iterable[ast.stmt], prefix: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    for statement in statements:
        match statement:
            case ast.ClassDef(name=name, body=body):
                yield prefix + name, dict(_members(body))
                yield from _classes(body, f"{prefix}{name}.")
            case ast.FunctionDef(name=name, body=body) | ast.AsyncFunctionDef(name=name, body=body):
                yield from _classes(body, f"{prefix}{name}.<locals>.")


def _members(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for statement, docstring in pairwise(body):
        match statement, docstring:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)
