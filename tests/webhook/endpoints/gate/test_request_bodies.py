"""Every error of the gates is a problem of its own kind."""

import pytest

from scorer.reservations import MEMBER, Reservation
from webhook.endpoints.gate.request_bodies import problems
from webhook.endpoints.http.problems import Mistake, Problem, ProblemError
from webhook.gate.errors import (
    ContendedError,
    GateError,
    LeaseFullError,
    MemberHeldError,
    MistakenQuestionError,
    NotReadyError,
    NotYoursError,
    ReservationRefusedError,
    UnknownReservationError,
)

REFUSAL = {"message": "no", "retryAfterSeconds": 0}
ERRORS = [
    (UnknownReservationError("gone"), Problem.NOT_FOUND, None),
    (NotYoursError("hands off"), Problem.FORBIDDEN, None),
    (ReservationRefusedError(REFUSAL), Problem.CONFLICT, 10),
    (ReservationRefusedError(REFUSAL | {"retryAfterSeconds": 75}), Problem.CONFLICT, 75),
    (MemberHeldError("held", Reservation("i", "h", "ann", MEMBER, ("a",), None)), Problem.CONFLICT, 10),
    (LeaseFullError("full", 10), Problem.CONFLICT, 10),
    (ContendedError("busy", 1), Problem.DEADLINE_EXCEEDED, 1),
    (NotReadyError("wait", 1), Problem.NOT_READY, 1),
]


def told(error, *place):
    with pytest.raises(ProblemError) as caught, problems(*place):
        raise error
    return caught.value


def test_no_error_is_forgotten():
    assert {type(error) for error, *_ in ERRORS} | {MistakenQuestionError} == set(GateError.__subclasses__())


@pytest.mark.parametrize(("error", "problem", "retry_after"), ERRORS)
def test_what_is_told(error, problem, retry_after):
    found = told(error)
    assert (found.problem, found.detail, found.retry_after) == (problem, str(error), retry_after)
    assert found.answer == (error.answer if isinstance(error, ReservationRefusedError) else None)


@pytest.mark.parametrize(
    ("code", "shown"),
    [("more-than-exist", "too-many"), ("duplicate", "duplicate"), ("negative", "invalid")],
)
def test_a_mistake_stands_where_its_question_stands(code, shown):
    error = MistakenQuestionError("/nodes/0", code, "says why", position=3)
    for place, pointer in (((), "/nodes/0"), ((lambda at: f"/questions/{at}",), "/questions/3/nodes/0")):
        found = told(error, *place)
        (mistake,) = found.mistakes
        assert (found.problem, found.detail) == (Problem.VALIDATION_FAILED, f"{pointer}: says why")
        assert (mistake.pointer, mistake.code) == (pointer, shown)


def test_a_node_that_is_not_there_is_not_found_like_a_pool():
    error = MistakenQuestionError("/nodes/0", "unknown-node", "'who' is not a node of NodePool batch", position=3)
    found = told(error, lambda at: f"/questions/{at}")
    assert (found.problem, found.detail) == (Problem.NOT_FOUND, "'who' is not a node of NodePool batch")
    assert found.mistakes == (Mistake("/questions/3/nodes/0", "unknown", found.detail),)
