"""Errors as problem details.

Source: serving.md 3.3; RFC 9457.
"""

from typing import Literal

from webhook.description.gate import GateAnswer
from webhook.description.member_gates import MemberGateAnswer
from webhook.description.model import AnswerModel


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
