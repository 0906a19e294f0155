"""Models and typed dictionaries as JSON Schema, with names and descriptions for readers who do not know our code.

* Schemas of requests are closed, because unknown fields are refused. Schemas of responses are open.
* The schema of a model field with a default omits null, because null counts as absent there. A field of a typed
  dictionary is nullable if its type includes None, whether or not it is required.
* Responses have no defaults. Requests omit defaults that only mean "not given".
* Only the first paragraph of a docstring is used. The string below a field is its description
  (`scorer.api.crd.descriptions`).
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from pydantic import TypeAdapter

from scorer.api.crd.descriptions import DocumentedJsonSchema
from scorer.api.meta import JsonObject

REFERENCE: Final = "#/components/schemas/"

_PARAGRAPH: Final = re.compile(r"\n\s*\n")
_NOT_GIVEN: Final[tuple[object, ...]] = (None, "", [], {})
_RESERVED: Final = "x-"

Purpose = Literal["request", "answer"]


class UnknownSchemaError(KeyError):
    """Two models would have the same name in the document."""


def named(model: type, names: Mapping[str, str]) -> str:
    """Return the name of a model's schema: that in *names*, else that of the class."""
    return names.get(model.__name__, model.__name__)


def reference(name: str) -> JsonObject:
    """Return a reference to a named schema."""
    return {"$ref": REFERENCE + name}


def schemas_of(models: Iterable[type], purpose: Purpose, names: Mapping[str, str]) -> dict[str, JsonObject]:
    """Return the schemas of *models* and of all models that they refer to.

    Args:
        models: The top-level models.
        purpose: Request or response. Schemas of requests are closed.
        names: Names that differ from those of the classes.

    Raises:
        UnknownSchemaError: Two models would have the same name.
    """
    inputs: list[tuple[str, Literal["validation"], TypeAdapter[Any]]] = [
        (model.__name__, "validation", TypeAdapter(model)) for model in dict.fromkeys(models)
    ]
    _, document = TypeAdapter.json_schemas(
        inputs, ref_template=REFERENCE + "{model}", schema_generator=DocumentedJsonSchema
    )
    schemas: dict[str, JsonObject] = {}
    for own_name, schema in document.get("$defs", {}).items():
        name = names.get(own_name, own_name)
        if "__" in own_name or name in schemas:
            raise UnknownSchemaError(f"two models have the name {name}")
        schemas[name] = _cleaned(schema, purpose, names)
    return schemas


def _cleaned(schema: Any, purpose: Purpose, names: Mapping[str, str]) -> Any:
    if isinstance(schema, list):
        return [_cleaned(item, purpose, names) for item in schema]
    if not isinstance(schema, dict):
        return schema
    clean: JsonObject = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key.startswith(_RESERVED) or (key == "default" and (purpose == "answer" or value in _NOT_GIVEN)):
            continue
        if key == "$ref":
            own_name = value.removeprefix(REFERENCE)
            clean[key] = REFERENCE + names.get(own_name, own_name)
        elif key == "description":
            clean[key] = prose(value)
        elif key == "properties":
            clean[key] = {name: _cleaned(member, purpose, names) for name, member in value.items()}
        elif key in ("examples", "const", "enum", "required", "default"):
            clean[key] = value
        else:
            clean[key] = _cleaned(value, purpose, names)
    if "discriminator" in clean:
        _spell_constants(clean["discriminator"])
    _let_absence_be_absence(
        clean, {name for name, member in schema.get("properties", {}).items() if "default" in member}
    )
    if purpose == "request" and "properties" in clean:
        clean.setdefault("additionalProperties", False)
    return dict(sorted(clean.items()))


def _spell_constants(discriminator: JsonObject) -> None:
    """Write the booleans in the mapping of a discriminator as JSON does."""
    mapping = discriminator["mapping"]
    discriminator["mapping"] = {{"True": "true", "False": "false"}.get(word, word): at for word, at in mapping.items()}


def _let_absence_be_absence(schema: JsonObject, optional: Collection[str]) -> None:
    """Remove null from the types of the *optional* fields: a null counts as absent there."""
    for name in optional:
        member = schema["properties"][name]
        choices = member.get("anyOf")
        if choices is None or {"type": "null"} not in choices:
            continue
        rest = [choice for choice in choices if choice != {"type": "null"}]
        del member["anyOf"]
        member_schema = {"anyOf": rest} if len(rest) > 1 else rest[0]
        schema["properties"][name] = dict(sorted((member_schema | member).items()))


def prose(text: str) -> str:
    """Return the first paragraph of a docstring in one line, with its literals in Markdown."""
    first = _PARAGRAPH.split(text.strip(), maxsplit=1)[0]
    return " ".join(first.replace("``", "`").split())


def references(schema: Any) -> Iterator[str]:
    """Yield the names of the schemas that *schema* refers to."""
    if isinstance(schema, dict):
        target = schema.get("$ref")
        if isinstance(target, str) and target.startswith(REFERENCE):
            yield target.removeprefix(REFERENCE)
        for value in schema.values():
            yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)
