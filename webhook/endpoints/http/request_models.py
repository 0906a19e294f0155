"""Request bodies as strict models: camelCase, no unknown members, no coercion, every error with its JSON pointer."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal, Self, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from scorer.api.kinds import PLACEMENT
from scorer.api.meta import JsonObject, dump_json, without_nulls
from scorer.api.placement.placement import PlacementPolicy
from scorer.api.values.answer import ShapeOf
from scorer.api.values.field_path import json_pointer
from scorer.api.values.quoting import quote
from webhook.endpoints.http.problems import Mistake, Problem, ProblemError

ModelT = TypeVar("ModelT", bound=BaseModel)
MOST_MISTAKES: Final = 1000
"""Maximum number of listed errors per body."""


class RequestModel(BaseModel):
    """Base of request bodies: camelCase, unknown members refused, no coercion, null equal to absent."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        defer_build=True,
    )


class ObjectMetadata(BaseModel):
    """`metadata` of an object. Members not named here are kept."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class KubernetesObject(BaseModel):
    """Any object of a Kubernetes API."""

    model_config = ConfigDict(extra="allow", alias_generator=to_camel, defer_build=True)

    api_version: Annotated[str, Field(min_length=1)]
    kind: Annotated[str, Field(min_length=1)]
    metadata: ObjectMetadata | None = None


WholeObject = Annotated[JsonObject, ShapeOf(KubernetesObject)]
"""An object in an answer, as it is."""


def read_model(model: type[ModelT], value: JsonObject) -> ModelT:
    """Validate a request body against *model*.

    Raises:
        ProblemError: Every error with its pointer. If there are too many, only their number.
    """
    body = without_nulls(value)
    try:
        return model.model_validate_json(dump_json(body), extra="forbid")
    except pydantic.ValidationError as error:
        if error.error_count() > MOST_MISTAKES:  # a list of half a million takes seconds to write, and has no reader
            detail = f"the body has {error.error_count()} errors. They are listed if there are at most {MOST_MISTAKES}"
            mistake = Mistake("", "too-many", detail)
            raise ProblemError(Problem.VALIDATION_FAILED, detail, mistakes=[mistake]) from error
        mistakes = [_mistake(body, detail) for detail in error.errors(include_url=False)]
        raise ProblemError.of_mistakes(mistakes) from error


_CODES: Final = {"missing": "required", "extra_forbidden": "unknown", "too_long": "too-many", "too_short": "too-few"}


def _place(document: Any, loc: Sequence[str | int], *, missing: bool) -> Iterator[str | int]:
    """Yield the part of pydantic's path that exists in a body. The rest only names the models that were tried.

    Args:
        document: The body.
        loc: The path from pydantic.
        missing: Whether the last part of the path is a required member that is absent.
    """
    for number, part in enumerate(loc, 1):
        exists = 0 <= part < len(document) if isinstance(document, list) and isinstance(part, int) else False
        if exists or (isinstance(document, dict) and part in document):
            document = document[part]
            yield part
        elif missing and number == len(loc):
            yield part


def _mistake(document: JsonObject, detail: Any) -> Mistake:
    kind = detail["type"]
    pointer = json_pointer(_place(document, detail["loc"], missing=kind == "missing"))
    message = detail["msg"].removeprefix("Value error, ")
    words = message[:1].lower() + message[1:]
    code = _CODES.get(kind) or ("type" if kind.endswith("_type") else "invalid")
    if kind == "missing":
        return Mistake(pointer, code, "must be set")
    if kind == "extra_forbidden":
        return Mistake(pointer, code, "unknown field")
    if kind == "too_long":
        return Mistake(pointer, code, f"{len(detail['input'])} items: must have at most {detail['ctx']['max_length']}")
    if isinstance(detail["input"], dict | list):
        return Mistake(pointer, code, words)
    return Mistake(pointer, code, f"{quote(detail['input'])}: {words}")


Name = Annotated[str, Field(min_length=1, max_length=253)]


class RefModel(RequestModel):
    """Names a placement on the hub."""

    kind: Literal["ClusterResourcePlacement", "ResourcePlacement"]
    name: Name
    namespace: Annotated[str, Field(max_length=63)] = ""
    """Namespace of a ResourcePlacement. A ClusterResourcePlacement has none."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.kind == PLACEMENT.kind) == bool(self.namespace):
            raise ValueError("must be set for a ResourcePlacement, and must not be set for a ClusterResourcePlacement")
        return self


class PlacementModel(RequestModel):
    """Either a placement by name, or a policy that need not be on the hub."""

    ref: RefModel | None = None
    """A placement on the hub, evaluated with its current clusters."""
    inline: PlacementPolicy | None = None
    """A policy, evaluated as if it had placed nothing yet."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.ref is None) == (self.inline is None):
            raise ValueError("exactly one of ref and inline must be set")
        return self
