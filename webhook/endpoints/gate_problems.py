"""Turns a gate's errors into problem details, all in one place."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from webhook.endpoints.gate_question import refusal
from webhook.endpoints.problems import Mistake, Problem, ProblemError
from webhook.gate.errors import (
    ContendedError,
    GateError,
    MemberHeldError,
    MistakenQuestionError,
    NoRoomError,
    NotReadyError,
    NotYoursError,
    RefusedError,
    UnknownReservationError,
)

_PROBLEMS: Final[Mapping[type[GateError], Problem]] = {
    UnknownReservationError: Problem.NOT_FOUND,
    NotYoursError: Problem.FORBIDDEN,
    RefusedError: Problem.CONFLICT,
    MemberHeldError: Problem.CONFLICT,
    NoRoomError: Problem.CONFLICT,
    ContendedError: Problem.DEADLINE_EXCEEDED,
    NotReadyError: Problem.NOT_READY,
}
_UNKNOWN_NODE: Final = "unknown-node"
_CODES: Final = {_UNKNOWN_NODE: "unknown", "more-than-exist": "too-many", "duplicate": "duplicate"}
"""Codes of mistakes in a request, by the engine's codes."""


def _whole_body(_position: int) -> str:
    return ""


@contextmanager
def problems(place: Callable[[int], str] = _whole_body) -> Iterator[None]:
    """Turn a gate's errors into problem details.

    Args:
        place: Returns the JSON Pointer, in the body of the request, to a question by its position.
    """
    try:
        yield
    except MistakenQuestionError as error:
        pointer = place(error.position) + error.pointer
        mistakes = [Mistake(pointer, _CODES.get(error.code, "invalid"), error.detail)]
        if error.code == _UNKNOWN_NODE:  # as with a pool or a cluster that is not there
            raise ProblemError(Problem.NOT_FOUND, error.detail, mistakes=mistakes) from error
        raise refusal(mistakes) from error
    except GateError as error:
        members = {"answer": error.answer} if isinstance(error, RefusedError) else {}
        raise ProblemError(
            _PROBLEMS[type(error)], str(error), retry_after=error.retry_after, members=members
        ) from error
