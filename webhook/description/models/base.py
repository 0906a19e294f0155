"""Base class and shared types of the models.

A member with a default is left out where it says nothing; a member without one is always there, as ``null`` where its
type says so. The models describe: answers are written as plain objects, and tests hold both against each other.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel


class AnswerModel(BaseModel):
    """Base of the models of answers: camelCase, the text below a member is its description."""

    model_config = ConfigDict(alias_generator=to_camel)


Instant = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""UTC, whole seconds."""

DurationText = Annotated[str, WithJsonSchema({"type": "string", "examples": ["41s", "1h 12m"]})]
"""The two largest units."""


FleetRevision = Annotated[
    str, WithJsonSchema({"type": "string", "pattern": "^[0-9]+/[0-9]+$", "examples": ["1785/42"]})
]
"""The fleet, and the step of ten seconds that ages are measured at."""

ContinueToken = Annotated[str, Field(alias="continue", description="Asks for the next page; empty: this is the last.")]

JsonValue = Annotated[Any, WithJsonSchema({})]
"""Any JSON value."""
