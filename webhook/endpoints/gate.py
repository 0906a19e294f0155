"""``/v1/gate``: may these nodes be disrupted now, and the reservations of what may.

Source: serving.md 3.1 and 3.3; nodepool-disruption.md 14.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from aiohttp import web

from scorer.api.meta import JsonObject, format_time
from scorer.api.quoting import printable, quote
from scorer.api.references import ref_prefixes
from scorer.member_gate.holds import rollout_holder
from scorer.node_budgets.question import InvalidQuestion
from scorer.reservations import (
    ROLLOUT,
    Reservation,
    Thing,
    TooManyReservationsError,
    UnreadableReservationsError,
    without_halves,
)
from webhook.admission.enforcement import HOLDER
from webhook.admission.review import encode
from webhook.endpoints.answers import JSON, headers, tagged
from webhook.endpoints.api import Api, ModelT, read_model
from webhook.endpoints.callers import caller_of
from webhook.endpoints.gate_question import (
    DisruptionBatchModel,
    DisruptionModel,
    RenewalModel,
    ReservationModel,
    refusal,
)
from webhook.endpoints.member_gates import ClusterUpdateModel, RolloutModel, check_ready
from webhook.endpoints.problems import Mistake, Problem, ProblemError
from webhook.gate.members import RefusedError
from webhook.gate.nodes import HubGate, MemberHeldError, NotYoursError, UnknownReservationError
from webhook.gate.reservations import BusyError
from webhook.kube.ports import StoreError

QUESTION: Final = "/question"
_REVISION: Final = "reservations"
_OF_ROLLOUTS: Final = rollout_holder("")
POLL_SECONDS: Final = 10
"""So often may be asked again where nobody knows when it will be different (nodepool-disruption.md 14.3)."""

_CODES: Final = {"unknown-node": "unknown", "more-than-exist": "too-many", "duplicate": "duplicate"}
"""Kinds of mistakes as requests have them, by those of the engine."""
_HEADERS: Final = headers(Content_Type=JSON, Cache_Control="no-store")


def add_routes(api: Api, gate: HubGate) -> None:
    """Serve the questions."""

    async def disruption(request: web.Request) -> web.Response:
        body = await api.read_as(request, _one_or_many)
        _check_ready(gate)
        identity = caller_of(request).username
        with problems():
            if isinstance(body, DisruptionModel):
                question = body.question()
                if not question.reserve_seconds:
                    return _answered(gate.ask(question).document())
                answer = await gate.reserve(question, identity, identity, question.reserve_seconds)
                return _answered(answer.document())
            assert isinstance(body, DisruptionBatchModel)
            questions = [each.question("questions", at) for at, each in enumerate(body.questions)]
            answers = await gate.answer_all(questions, identity)
            return _answered({"answers": [answer.document() for answer in answers]})

    async def every(request: web.Request) -> web.Response:
        _check_ready(gate)
        prefixes = ref_prefixes(await api.readable_kinds(request))
        listed, unreadable = gate.list_reservations()
        identity = caller_of(request).username
        shown = [
            (thing, each)
            for thing, each in listed
            if each.identity == identity or thing.gate != ROLLOUT or thing.name.startswith(prefixes)
        ]
        kept = {each.id for each in without_halves(each for _, each in shown)}
        items = [
            _listed(thing, each, prefixes, mine=each.identity == identity) for thing, each in shown if each.id in kept
        ]
        return tagged(request, {"items": items, "unreadable": [printable(text) for text in unreadable]}, _REVISION)

    async def reserve(request: web.Request) -> web.Response:
        body = await api.read(request, ReservationModel)
        if body.holder == HOLDER:
            raise refusal([Mistake("/holder", "invalid", f"{quote(HOLDER)} is what admission calls itself")])
        with problems(QUESTION):
            if body.gate == "disruption":
                return await reserve_nodes(request, body)
            return await reserve_member(request, body)

    async def reserve_nodes(request: web.Request, body: ReservationModel) -> web.Response:
        _check_ready(gate)
        question = _read_question(DisruptionModel, body).question("question")
        if question.reserve_seconds:
            raise refusal([Mistake(f"{QUESTION}/reserveSeconds", "invalid", "ttlSeconds says for how long")])
        identity = caller_of(request).username
        answer = await gate.reserve(question, body.holder, identity, body.ttl_seconds)
        if answer.reservation is None:
            raise _refused(answer.message, answer.retry_after_seconds, answer.document())
        identifier, expires = answer.reservation
        return _answered(_reservation(identifier, expires, answer.granted), 201)

    async def reserve_member(request: web.Request, body: ReservationModel) -> web.Response:
        assert api.services.disruption is not None
        gates, identity = api.services.disruption.members, caller_of(request).username
        check_ready(gates)
        try:
            if body.gate == "rollout":
                rollout = _read_question(RolloutModel, body)
                await api.require_placement(request, rollout.ref)
                held = await gates.reserve_rollout(
                    rollout.ref, rollout.cluster, body.holder, identity, body.ttl_seconds
                )
            else:
                update = _read_question(ClusterUpdateModel, body)
                held = await gates.reserve_update(
                    update.cluster, update.run or "", body.holder, identity, body.ttl_seconds
                )
        except RefusedError as error:
            told = error.answer.document()
            raise _refused(error.answer.message, told["retryAfterSeconds"], told) from error
        return _answered(_document(held), 201)

    async def renew(request: web.Request) -> web.Response:
        body = await api.read(request, RenewalModel)
        with problems():
            kept = await gate.renew(request.match_info["id"], caller_of(request).username, body.ttl_seconds)
        return _answered(_document(kept))

    async def release(request: web.Request) -> web.Response:
        with problems():
            await gate.release(request.match_info["id"], caller_of(request).username)
        return web.Response(status=204)

    api.post("/v1/gate/disruption", "/v1/gate/disruption", disruption)
    api.serve("/v1/gate/reservations", "/v1/gate/reservations", {"GET": every, "HEAD": every, "POST": reserve})
    api.serve("/v1/gate/reservations/{id}", "/v1/gate/reservations/*", {"PUT": renew, "DELETE": release})


def _one_or_many(body: JsonObject) -> type[DisruptionModel | DisruptionBatchModel]:
    return DisruptionBatchModel if "questions" in body else DisruptionModel


def _check_ready(gate: HubGate) -> None:
    if not gate.synced:
        raise ProblemError(Problem.NOT_READY, "node pools and reservations are not known yet", retry_after=1)


def _read_question(model: type[ModelT], body: ReservationModel) -> ModelT:
    """Read the question inside a reservation. Raises `ProblemError`."""
    try:
        return read_model(model, body.question)
    except ProblemError as error:
        mistakes = [Mistake(QUESTION + each.pointer, each.code, each.detail) for each in error.mistakes]
        raise ProblemError(error.problem, f"{mistakes[0].pointer}: {mistakes[0].detail}", mistakes=mistakes) from error


def _refused(why: str, retry_after: int, answer: JsonObject) -> ProblemError:
    return ProblemError(Problem.CONFLICT, why, retry_after=retry_after or POLL_SECONDS, members={"answer": answer})


@contextmanager
def problems(prefix: str = "") -> Iterator[None]:
    """Turn what keeps a gate from answering into problems.

    Args:
        prefix: JSON Pointer to the question in the body of the request.
    """
    try:
        yield
    except InvalidQuestion as error:
        raise refusal([Mistake(prefix + error.pointer, _CODES.get(error.code, "invalid"), error.detail)]) from error
    except UnknownReservationError as error:
        raise ProblemError(Problem.NOT_FOUND, str(error)) from error
    except NotYoursError as error:
        raise ProblemError(Problem.FORBIDDEN, str(error)) from error
    except (MemberHeldError, TooManyReservationsError) as error:
        raise ProblemError(Problem.CONFLICT, str(error), retry_after=POLL_SECONDS) from error
    except BusyError as error:
        raise ProblemError(Problem.DEADLINE_EXCEEDED, str(error), retry_after=1) from error
    except (UnreadableReservationsError, StoreError) as error:
        raise ProblemError(Problem.NOT_READY, printable(str(error)), retry_after=POLL_SECONDS) from error


def _answered(body: JsonObject, status: int = 200) -> web.Response:
    return web.Response(status=status, body=encode(body, sort=True), headers=_HEADERS)


def _document(reservation: Reservation) -> JsonObject:
    return _reservation(reservation.id, reservation.expires, reservation.granted)


def _listed(thing: Thing, reservation: Reservation, prefixes: tuple[str, ...], *, mine: bool) -> JsonObject:
    """Return a reservation as it is listed: the id, by which it is given back, only to who has taken it.

    Args:
        thing: What it is of.
        reservation: Is in force.
        prefixes: How references to placements begin that the caller may list: a rollout is held under the name of one.
        mine: It is the caller's own.
    """
    holder = reservation.holder
    if holder.startswith(_OF_ROLLOUTS) and not holder.removeprefix(_OF_ROLLOUTS).startswith(prefixes) and not mine:
        holder = _OF_ROLLOUTS.removesuffix("/")
    told = _document(reservation) | {
        "gate": thing.gate,
        "of": thing.name,
        "for": reservation.purpose,
        "holder": holder,
        "mine": mine,
    }
    return told if mine else {name: value for name, value in told.items() if name != "id"}


def _reservation(identifier: str, expires: datetime, granted: tuple[str, ...] | int) -> JsonObject:
    return {
        "id": identifier,
        "expires": format_time(expires),
        "granted": granted if isinstance(granted, int) else list(granted),
    }
