"""Mistakes in objects and requests: answers of ``/v1/validate`` and ``/v1/default``, and problem details.

Source: serving.md 3.3; RFC 9457.
"""

from typing import Literal

from scorer.member_gate.answer import MemberGateAnswer
from scorer.node_budgets.answer import GateAnswer
from webhook.description.models.base import AnswerModel, JsonValue, KubernetesObject


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


class RequestMistake(AnswerModel):
    """One of the mistakes in a request."""

    pointer: str
    """JSON Pointer into the request body; empty for the body as a whole."""
    code: Literal["required", "unknown", "type", "too-many", "too-few", "duplicate", "invalid"]
    """Kind of mistake."""
    detail: str


class ProblemDetails(AnswerModel):
    """Why there is no answer (RFC 9457). Ignore members you do not know."""

    type: str
    """`urn:harbormaster:problem:<slug>`."""
    title: str
    """The same for every problem of a type."""
    status: int
    """Of the answer."""
    detail: str
    """What happened this time."""
    instance: str
    """`urn:uuid:<request id>`; the log of the server knows it."""
    errors: list[RequestMistake] | None = None
    """Every mistake in the request."""
    retry_after_seconds: int | None = None
    """When to ask again."""
    audience: str | None = None
    """The audience that a token needs; present when a valid one is missing."""
    answer: GateAnswer | MemberGateAnswer | None = None
    """What the gate says, where it does not let something be reserved."""
