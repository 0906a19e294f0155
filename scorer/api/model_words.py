"""What the source of a model says of its members: the string below a member is its description.

The models could collect these themselves, but would do so at every start of a process, which takes a tenth of a second;
they are read where a schema is written for people.
"""

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from types import ModuleType

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema


class InWords(GenerateJsonSchema):
    """Tells of each member what the string below it says, unless its field has a description."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Return the schema of one model."""
        found = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        words = {name: text for base in reversed(model.__mro__) for name, text in _words_in(base).items()}
        for name, field in model.model_fields.items():
            member = found.get("properties", {}).get(field.alias or name)
            if member is not None and name in words:
                member.setdefault("description", words[name])
        return found


def _words_in(model: type) -> Mapping[str, str]:
    """Return the strings below the members of a class, its bases not included."""
    module = inspect.getmodule(model)
    if not issubclass(model, BaseModel) or module is None:
        return {}
    return _words_of(module).get(model.__qualname__, {})


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
    for statement, below in pairwise(body):
        match statement, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)
