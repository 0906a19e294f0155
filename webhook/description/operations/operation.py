"""One operation: a method on a path, its request, its answer and its problems."""

from dataclasses import dataclass
from typing import Final, Literal

from webhook.endpoints.http.problems import Problem

_EVERYONE: Final = (
    Problem.UNAUTHENTICATED,
    Problem.FORBIDDEN,
    Problem.INTERNAL,
    Problem.NOT_READY,
)
_BODY: Final = (
    Problem.MALFORMED_REQUEST,
    Problem.REQUEST_TIMEOUT,
    Problem.PAYLOAD_TOO_LARGE,
    Problem.UNSUPPORTED_MEDIA_TYPE,
)


@dataclass(frozen=True, slots=True)
class OpenApiOperation:
    """One method on one path.

    Args:
        name: ``operationId``, and the name of its example.
        method: HTTP method in lower case.
        path: Path with parameters in braces.
        tag: One of `webhook.description.operations.table.TAGS`.
        summary: A few words.
        description: Sentences, with literals in backticks.
        answer: Model of a successful response. None: unset, described by *media* alone.
        request: Model of the body.
        problems: Possible problems in addition to those of every operation.
        tagged: Whether responses have an ``ETag``.
        many: Whether the response is a bare list of *answer*.
        batch: Models of several questions in one body, and of their answers.
        query: Names of its parameters in the query of the URL.
        status: Status of a successful response. 204 has no content.
        media: Media type of the response.
        open_to_all: Whether callers need not authenticate.
        body_optional: Whether the body is optional.
    """

    name: str
    method: Literal["get", "post", "put", "delete"]
    path: str
    tag: str
    summary: str
    description: str
    answer: type | None = None
    request: type | None = None
    problems: tuple[Problem, ...] = ()
    tagged: bool = False
    many: bool = False
    batch: tuple[type, type] | None = None
    query: tuple[str, ...] = ()
    status: Literal[200, 201, 204] = 200
    media: str = "application/json"
    open_to_all: bool = False
    body_optional: bool = False

    @property
    def requests(self) -> tuple[type, ...]:
        """Alternative models of the body."""
        return () if self.request is None else (self.request, *(self.batch or ())[:1])

    @property
    def answers(self) -> tuple[type, ...]:
        """Alternative models of the response."""
        return () if self.answer is None else (self.answer, *(self.batch or ())[1:])

    @property
    def every_problem(self) -> tuple[Problem, ...]:
        """All possible problems, by status."""
        return tuple(sorted({*self._common(), *self.problems}, key=lambda problem: (problem.status, problem.slug)))

    def _common(self) -> tuple[Problem, ...]:
        if self.open_to_all:
            return (Problem.INTERNAL,)
        if self.tag == "Extender":  # schedulers are not throttled, and may send unknown fields
            return (*_EVERYONE, *_BODY, Problem.DEADLINE_EXCEEDED)
        limits = (Problem.RATE_LIMITED,)
        return (*_EVERYONE, *limits, *((*_BODY, Problem.VALIDATION_FAILED) if self.request is not None else ()))
