"""Base classes of all API models, and the models of metadata.

Models are frozen views and check only the shape: types, bounds, enum values. Rules that relate fields live in
``webhook.validation``. A user's object is never written back through a model, which would drop the fields that the
model does not know.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Self, TypeVar, cast

import orjson
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidationError,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError, core_schema

from scorer.api.unstructured.json_object import JsonObject as JsonObject
from scorer.api.unstructured.json_object import dump_json as dump_json
from scorer.api.unstructured.json_object import format_instant as format_instant
from scorer.api.unstructured.json_object import format_time as format_time
from scorer.api.unstructured.json_object import json_equal as json_equal
from scorer.api.unstructured.json_object import parse_time as parse_time
from scorer.api.unstructured.json_object import read_instant as read_instant
from scorer.api.unstructured.json_object import without_nulls as without_nulls


class ApiModel(BaseModel):
    """Base of all API models: frozen, camelCase, unknown fields ignored, no coercion.

    Read an object with `read`, which treats ``null`` as absent, as an API server does.
    ``model_fields_set`` distinguishes an absent field from an empty one, for rules that depend on it.
    """

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        validate_default=False,
        defer_build=True,  # a process reads few of the kinds: the validator of a model is made when it is first needed
    )

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Check the shape of *document* and return a view of it.

        Args:
            document: A decoded JSON object. It is neither mutated nor kept.

        Raises:
            pydantic.ValidationError: Types, bounds or enum values are wrong, and every error is listed. Or *document*
                is nested too deep.
        """
        try:
            text = dump_json(document)
        except (orjson.JSONEncodeError, RecursionError) as error:
            too_deep = PydanticCustomError("nesting", "must not be nested more than 200 levels deep")
            raise ValidationError.from_exception_data(cls.__name__, [{"type": too_deep, "input": ...}]) from error
        if b":null" in text:
            text = dump_json(without_nulls(document))
        return cls.model_validate_json(text, by_alias=True, by_name=False)


_Model = TypeVar("_Model", bound=ApiModel)


def shared_default(model: type[_Model]) -> Callable[[], _Model]:
    """Return a ``default_factory`` that returns the same instance of *model*, with its defaults, every time.

    ``default_factory=model`` would build another validator of *model*. The validator of the whole kind already contains
    one.
    """

    @cache
    def default() -> _Model:
        return cast(_Model, model.model_construct())  # the plugin of mypy types it as an ApiModel

    return default


def first_mistake(error: ValidationError) -> str:
    """Return the first error in a document, as ``field: message``."""
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _in_utc_too(instant: datetime) -> datetime:
    """Return an instant. Instants in UTC share one time zone object, because a fleet has nine instants for each member.

    Raises:
        ValueError: The instant cannot be written: in UTC, it lies outside of the years 1 to 9999.
    """
    if instant.year in (datetime.min.year, datetime.max.year):
        try:
            instant.astimezone(UTC)
        except OverflowError as error:
            raise ValueError("lies outside the years 1 to 9999 in UTC") from error
    return instant if instant.utcoffset() else instant.replace(tzinfo=UTC)


Time = Annotated[
    AwareDatetime, AfterValidator(_in_utc_too), PlainSerializer(format_time, return_type=str, when_used="json")
]
"""A timezone-aware instant on the wire (``format: date-time``)."""


@dataclass(frozen=True, slots=True)
class _Integer:
    """Bounds an integer to *bits* bits. Narrower bounds of the field take precedence.

    Not two ``Field(ge=…, le=…)`` in the annotation: those would replace the field's own bounds.
    """

    bits: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        schema = cast("core_schema.IntSchema", handler(source))
        schema.setdefault("ge", -(2 ** (self.bits - 1)))
        schema.setdefault("le", 2 ** (self.bits - 1) - 1)
        return schema

    def __get_pydantic_json_schema__(self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler) -> JsonObject:
        return {**handler(schema), "format": f"int{self.bits}"}


Name = Annotated[str, Field(max_length=253)]
"""A name, group, version or kind: as long as an API server accepts, which also bounds messages that repeat it."""

Int32 = Annotated[int, _Integer(32)]
Int64 = Annotated[int, _Integer(64)]

ALWAYS_WRITTEN: JsonObject = {"x-required": True}
"""Marks a field that the CRD requires and readers can do without."""

AnyObject = Annotated[JsonObject, Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})]
"""A JSON object without a schema of its content."""

EmbeddedObject = Annotated[
    JsonObject,
    Field(
        json_schema_extra={"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    ),
]
"""A complete Kubernetes object inside another one. The API server requires its ``apiVersion`` and ``kind``."""

Base64Text = Annotated[str, Field(json_schema_extra={"format": "byte"})]
"""Bytes on the wire (``format: byte``)."""


class OwnerReference(ApiModel):
    """``metadata.ownerReferences[]``."""

    api_version: str
    """Group and version of the owner."""
    kind: str
    """Kind of the owner."""
    name: str
    """Name of the owner."""
    uid: str
    """UID of the owner. Another object of its name is not the owner."""
    controller: bool = False
    """Whether the owner is the one that manages the object. Absent: false."""
    block_owner_deletion: bool = False
    """Whether a foreground deletion of the owner waits until the object is deleted. Absent: false."""


class ObjectMeta(ApiModel):
    """The members of ``metadata`` that harbormaster reads."""

    name: str = ""
    """Name of the object, unique within its kind and namespace. It cannot be changed."""
    namespace: str = ""
    """Namespace of the object, empty for a cluster-scoped one. It cannot be changed."""
    uid: str = ""
    """Unique identity of the object, set by the server and never reused."""
    generation: int = 0
    """Number of the current version of the spec, counted from 1, set by the server."""
    resource_version: str = ""
    """Version of the stored object. A write with an outdated one is refused."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels for selectors, by key."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations, by key. Selectors ignore them."""
    finalizers: tuple[str, ...] = ()
    """Steps to complete before a deletion. The object is removed when the list is empty."""
    owner_references: tuple[OwnerReference, ...] = ()
    """Owners of the object. It is deleted when all of them are deleted."""
    creation_timestamp: Time | None = None
    """Time when the object was created, set by the server."""
    deletion_timestamp: Time | None = None
    """Time when its deletion was requested. Absent until then."""


class ApiObject(ApiModel):
    """A complete object: ``apiVersion``, ``kind`` and ``metadata``. Each kind adds ``spec`` and ``status``."""

    api_version: str = ""
    """Group and version of the kind, for example ``placement.kubernetes-fleet.io/v1beta1``."""
    kind: str = ""
    """Name of the kind."""
    metadata: ObjectMeta = Field(default_factory=shared_default(ObjectMeta))
