"""Errors of ``/v1`` as problem details.

Source: docs/specifications/serving.md 3.3; RFC 9457.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Annotated, Final, NotRequired, Self

from typing_extensions import TypedDict

from scorer.api.values.answer import one_of
from scorer.member_gate.answer import MemberGateAnswer
from scorer.node_budgets.answer import GateAnswer

PROBLEM_JSON: Final = "application/problem+json"
MOST_NAMED: Final = 20
"""Maximum number of errors that a detail names. The member `errors` has all."""


class Problem(Enum):
    """All kinds of problems: slug, status, title."""

    MALFORMED_REQUEST = ("malformed-request", HTTPStatus.BAD_REQUEST, "Bad request")
    UNAUTHENTICATED = ("unauthenticated", HTTPStatus.UNAUTHORIZED, "No valid credentials")
    FORBIDDEN = ("forbidden", HTTPStatus.FORBIDDEN, "Not allowed")
    NOT_FOUND = ("not-found", HTTPStatus.NOT_FOUND, "Not found")
    METHOD_NOT_ALLOWED = ("method-not-allowed", HTTPStatus.METHOD_NOT_ALLOWED, "Method not allowed")
    REQUEST_TIMEOUT = ("request-timeout", HTTPStatus.REQUEST_TIMEOUT, "Timed out reading the body")
    CONFLICT = ("conflict", HTTPStatus.CONFLICT, "Conflict with the state of another object")
    CONTINUE_EXPIRED = ("continue-expired", HTTPStatus.GONE, "The list has changed. Start again")
    PAYLOAD_TOO_LARGE = ("payload-too-large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too large")
    UNSUPPORTED_MEDIA_TYPE = (
        "unsupported-media-type",
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "The request body must be uncompressed JSON in UTF-8, with a matching Content-Type",
    )
    VALIDATION_FAILED = ("validation-failed", HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid request")
    RATE_LIMITED = ("rate-limited", HTTPStatus.TOO_MANY_REQUESTS, "Too many requests")
    INTERNAL = ("internal", HTTPStatus.INTERNAL_SERVER_ERROR, "Internal error")
    NOT_READY = ("not-ready", HTTPStatus.SERVICE_UNAVAILABLE, "Not ready yet")
    DEADLINE_EXCEEDED = ("deadline-exceeded", HTTPStatus.SERVICE_UNAVAILABLE, "Timed out")

    def __init__(self, slug: str, status: HTTPStatus, title: str) -> None:
        self.slug = slug
        self.status = status
        self.title = title


class RequestMistake(TypedDict):
    """One of the errors in a request."""

    pointer: str
    """JSON Pointer into the request body, empty for the body as a whole."""
    code: Annotated[str, one_of("required", "unknown", "type", "too-many", "too-few", "duplicate", "invalid")]
    """Kind of error."""
    detail: str


class ProblemDetails(TypedDict):
    """Error response (RFC 9457). Clients must ignore unknown members."""

    type: str
    """`urn:harbormaster:problem:<slug>`."""
    title: str
    """The same for every problem of a type."""
    status: int
    """HTTP status of the response."""
    detail: str
    """Explanation of this occurrence, with every error in the request."""
    instance: str
    """`urn:uuid:<request id>`, as in the log of the server."""
    errors: NotRequired[list[RequestMistake]]
    """Every error in the request."""
    retryAfterSeconds: NotRequired[int]
    """Seconds to wait before a retry."""
    audience: NotRequired[str]
    """The required audience of a token. Present if a valid token is missing."""
    answer: NotRequired[GateAnswer | MemberGateAnswer]
    """Answer of the gate, if it refused a reservation."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """An error in a request body: location (JSON Pointer), kind, message."""

    pointer: str
    code: str
    detail: str


class ProblemError(Exception):
    """Aborts a handler with a problem.

    Args:
        problem: Kind of problem.
        detail: Explanation of this occurrence, with the offending value.
        mistakes: Errors, each with its location in the request.
        headers: Additional headers of the response.
        retry_after: Seconds to wait before a retry.
        request_id: The ID of the request, if it already has one.
        audience: The required audience of the caller's token.
        answer: The answer of a gate that refused a reservation.
    """

    def __init__(
        self,
        problem: Problem,
        detail: str,
        *,
        mistakes: Sequence[Mistake] = (),
        headers: dict[str, str] | None = None,
        retry_after: int | None = None,
        request_id: str = "",
        audience: str = "",
        answer: GateAnswer | MemberGateAnswer | None = None,
    ) -> None:
        super().__init__(detail)
        self.problem = problem
        self.detail = detail
        self.mistakes = tuple(mistakes)
        self.headers = headers or {}
        self.retry_after = retry_after
        self.request_id = request_id
        self.audience = audience
        self.answer = answer

    @classmethod
    def of_mistakes(cls, mistakes: Sequence[Mistake], problem: Problem = Problem.VALIDATION_FAILED) -> Self:
        """Return the problem of a request with errors. Its detail names them, and counts those beyond `MOST_NAMED`."""
        texts = [f"{mistake.pointer}: {mistake.detail}" if mistake.pointer else mistake.detail for mistake in mistakes]
        more = [f"and {len(texts) - MOST_NAMED} more"] if len(texts) > MOST_NAMED else []
        return cls(problem, "; ".join((*texts[:MOST_NAMED], *more)), mistakes=mistakes)
