"""Answers of ``/v1/validate`` and ``/v1/default``."""

from typing import Literal

from webhook.description.model import AnswerModel, JsonValue, KubernetesObject


class FieldMistake(AnswerModel):
    """One reason to refuse an object."""

    field: str
    """Path as kubectl prints it, such as `spec.policy.numberOfClusters`; empty if the reason concerns no field."""
    reason: str
    """Such as `FieldValueInvalid`; if no field is concerned, the reason of the refusal, such as `Forbidden`."""
    message: str
    rule: str | None = None
    """Id of the rule."""


class ValidateAnswer(AnswerModel):
    """What admission would say."""

    allowed: bool
    errors: list[FieldMistake]
    """Every mistake, by path; empty when the object would be admitted."""
    warnings: list[str]


class PatchOperation(AnswerModel):
    """One operation of a JSON Patch (RFC 6902)."""

    op: Literal["add", "remove", "replace"]
    path: str
    """JSON Pointer."""
    value: JsonValue = None


class DefaultAnswer(AnswerModel):
    """What admission would fill in."""

    object: KubernetesObject
    """The object after the patch."""
    patch: list[PatchOperation]
    """What the mutating hook would change."""
    warnings: list[str]
