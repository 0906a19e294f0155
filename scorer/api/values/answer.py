"""Types of response members: plain JSON values, each with its schema in the OpenAPI document.

A response is a ``TypedDict`` alongside the function that builds it, so mypy checks the function, and the document is
made from the same definition. ``TypedDict`` must be imported from ``typing_extensions``, because pydantic does not
support the one in ``typing`` before Python 3.12.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from scorer.api.unstructured.json_object import JsonObject


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """The JSON Schema of a value."""

    schema: JsonObject

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> JsonObject:
        return dict(self.schema)


@dataclass(frozen=True, slots=True)
class ShapeOf:
    """The JSON Schema of a model or an enumeration, for a value that is passed on as plain JSON."""

    model: Any

    def __get_pydantic_core_schema__(self, source: object, handler: Any) -> Any:
        return handler.generate_schema(self.model)


@dataclass(frozen=True, slots=True)
class Described:
    """The description of a member that cannot have a string below it, because its name is a keyword of Python."""

    text: str

    def __get_pydantic_json_schema__(self, schema: object, handler: Any) -> JsonObject:
        return {**handler(schema), "description": self.text}


Count = Annotated[int, Shape({"type": "integer", "minimum": 0})]

Instant = Annotated[str, Shape({"type": "string", "format": "date-time"})]
"""UTC, whole seconds."""

DurationText = Annotated[str, Shape({"type": "string", "examples": ["41s", "1h 12m"]})]
"""The two largest units."""

FleetRevision = Annotated[str, Shape({"type": "string", "pattern": "^[0-9]+/[0-9]+$", "examples": ["1785/42"]})]
"""Version of the fleet, and number of the ten-second step at which ages are measured."""

ContinueToken = Annotated[str, Described("Requests the next page. Empty: this is the last one.")]

JsonValue = Annotated[Any, Shape({})]
"""Any JSON value."""


def one_of(*words: str) -> Shape:
    """Return the schema of a word that is one of these."""
    return Shape({"type": "string", "enum": [str(word) for word in words]})
