"""``/v1/gate/disruption`` and ``/v1/gate/reservations``: whether nodes may be disrupted now.

Also reservations of nodes and members.

Source: serving.md 3.1 and 3.3; nodepool-disruption.md 14.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Final, NotRequired

from aiohttp import web
from typing_extensions import TypedDict

from scorer.api.family import family_in, ref_prefixes
from scorer.api.kinds import KINDS, UPGRADE_RUN
from scorer.api.meta import JsonObject, format_time
from scorer.api.unstructured.documents import text_at
from scorer.api.values.answer import Described, Instant, one_of
from scorer.api.values.quoting import printable, quote
from scorer.member_gate.answer import MemberGateAnswer
from scorer.member_gate.holds import rollout_holder
from scorer.node_budgets.answer import GateAnswer, ReservationGrant
from scorer.node_budgets.question import NodeGateQuestion
from scorer.reservations import DISRUPTION, MEMBER, ROLLOUT, Reservation, Thing, without_halves
from webhook.admission.enforcement import HOLDER
from webhook.endpoints.gate.members import UNNAMED, ClusterUpdateModel, RolloutModel, redact_answer, require_run
from webhook.endpoints.gate.request_bodies import (
    DisruptionBatchModel,
    DisruptionModel,
    RenewalModel,
    ReservationModel,
    problems,
    refusal,
)
from webhook.endpoints.http.access_control import DISRUPTING_KINDS, caller_of
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.problems import Mistake, ProblemError
from webhook.endpoints.http.request_models import ModelT, read_model
from webhook.endpoints.http.responses import tagged, unstored
from webhook.endpoints.refusals import note_nodes, note_reservation, without_pods
from webhook.gate.desk import GateService
from webhook.gate.errors import MemberHeldError, ReservationRefusedError
from webhook.gate.keeper import Claimant
from webhook.history.desk import HistoryService

QUESTION: Final = "/question"
PODS: Final = frozenset({KINDS["", "Pod"], KINDS["policy", "PodDisruptionBudget"]})
"""The kinds whose objects an answer about nodes may name."""
_REVISION: Final = "reservations"
_OF_ROLLOUTS: Final = rollout_holder("")


class TakenReservation(ReservationGrant, TypedDict):
    """A permission that has been taken."""

    granted: list[str] | int
    """Names of what may be disrupted: nodes, or the member cluster; where no nodes were named, how many."""


_ListedReservation = TypedDict(
    "_ListedReservation",
    {
        "gate": Annotated[
            str,
            one_of(DISRUPTION, ROLLOUT, MEMBER),
            Described("Whether it is of a NodePool, of a placement on a member cluster, or of a member cluster."),
        ],
        "of": Annotated[str, Described("The NodePool, the placement such as `crp/payments`, or the member cluster.")],
        "for": Annotated[str, Described("What it was granted for: the reason, or the kind of disruption.")],
    },
)


class ListedReservation(_ListedReservation, TypedDict):
    """A reservation that is in force."""

    holder: str
    """Who has taken it, in the caller's own words."""
    granted: list[str] | int
    """Names of nodes, or the member cluster; where no nodes were named, how many."""
    expires: Instant
    """It counts until this instant, unless it is renewed or released."""
    mine: bool
    """Whether it is the caller's own."""
    id: NotRequired[str]
    """Needed to renew or release it; present only if it is the caller's own."""


class ReservationList(TypedDict):
    """What is reserved now."""

    items: list[ListedReservation]
    unreadable: list[str]
    """Which reservation Leases cannot be read, and why; the gate grants nothing of what they stand for."""


class GateAnswers(TypedDict):
    """Answers to several questions, in their order."""

    answers: list[GateAnswer]


def add_routes(api: Api, desk: GateService, history: HistoryService) -> None:
    """Serve the questions."""

    async def disruption(request: web.Request) -> web.Response:
        body = await api.read_as(request, _one_or_many)
        identity = caller_of(request).username
        with problems(_place_in(body)):
            desk.require_nodes()
            questions = _questions(body)
            answers = await desk.answer(questions, Claimant(identity, identity))
        for question, answer in zip(questions, answers, strict=True):
            note_nodes(history, question.pool, answer, identity)
        documents = [await told_of_nodes(request, answer.document()) for answer in answers]
        batch: GateAnswers = {"answers": documents}
        return unstored(batch if isinstance(body, DisruptionBatchModel) else documents[0])

    async def every(request: web.Request) -> web.Response:
        with problems():
            desk.require_reservations()
        prefixes = ref_prefixes(await api.readable_kinds(request))
        listed, unreadable = desk.listed()
        identity = caller_of(request).username
        visible = [
            (thing, each)
            for thing, each in listed
            if each.identity == identity or thing.gate != ROLLOUT or thing.name.startswith(prefixes)
        ]
        remaining = {each.id for each in without_halves(each for _, each in visible)}
        items = [
            _listed(thing, each, prefixes, mine=each.identity == identity)
            for thing, each in visible
            if each.id in remaining
        ]
        document: ReservationList = {"items": items, "unreadable": [printable(text) for text in unreadable]}
        return tagged(request, document, _REVISION)

    async def reserve(request: web.Request) -> web.Response:
        body = await api.read(request, ReservationModel)
        if body.holder == HOLDER:
            raise refusal([Mistake("/holder", "invalid", f"{quote(HOLDER)} is what admission calls itself")])
        claimant = Claimant(body.holder, caller_of(request).username)
        try:
            return await reserve_for(request, body, claimant)
        except ProblemError as problem:
            cause = problem.__cause__
            if isinstance(cause, ReservationRefusedError):
                note_reservation(history, body.question, cause.answer, claimant.identity)
                answer = await told_of(request, body, cause.answer)
                raise ProblemError(
                    problem.problem, answer["message"], retry_after=problem.retry_after, answer=answer
                ) from cause
            if (
                isinstance(cause, MemberHeldError)
                and not await api.readable_kinds(request, DISRUPTING_KINDS) >= DISRUPTING_KINDS
            ):
                raise ProblemError(problem.problem, UNNAMED, retry_after=problem.retry_after) from cause
            raise

    async def told_of(
        request: web.Request, body: ReservationModel, answer: GateAnswer | MemberGateAnswer
    ) -> GateAnswer | MemberGateAnswer:
        if "verdict" in answer:
            return await told_of_nodes(request, answer)
        namespace = text_at(body.question, "placement", "ref", "namespace")
        return await redact_answer(
            api, request, answer, family_in(namespace).run if body.gate == "rollout" else UPGRADE_RUN
        )

    async def told_of_nodes(request: web.Request, answer: GateAnswer) -> GateAnswer:
        without = without_pods(answer)
        return answer if without == answer or await api.readable_kinds(request, PODS) >= PODS else without

    async def reserve_for(request: web.Request, body: ReservationModel, claimant: Claimant) -> web.Response:
        with problems(lambda _: QUESTION):
            if body.gate == "disruption":
                return await reserve_nodes(body, claimant)
            desk.require_members()
            if body.gate == "rollout":
                rollout = _read_question(RolloutModel, body)
                await api.require_placement(request, rollout.ref)
                reservation = await desk.reserve_rollout(rollout.ref, rollout.cluster, claimant, body.ttl_seconds)
            else:
                update = _read_question(ClusterUpdateModel, body)
                await require_run(api, request, update.run or "")
                reservation = await desk.reserve_update(update.cluster, update.run or "", claimant, body.ttl_seconds)
        return unstored(_taken(reservation.id, reservation.expires, reservation.granted), 201)

    async def reserve_nodes(body: ReservationModel, claimant: Claimant) -> web.Response:
        desk.require_nodes()
        question = _read_question(DisruptionModel, body).question("question")
        if question.reserve_seconds:
            raise refusal([Mistake(f"{QUESTION}/reserveSeconds", "invalid", "ttlSeconds says for how long")])
        answer = await desk.reserve_nodes(question, claimant, body.ttl_seconds)
        assert answer.reservation is not None
        identifier, expires = answer.reservation
        return unstored(_taken(identifier, expires, answer.granted), 201)

    async def renew(request: web.Request) -> web.Response:
        body = await api.read(request, RenewalModel)
        with problems():
            renewed = await desk.renew(request.match_info["id"], caller_of(request).username, body.ttl_seconds)
        return unstored(_taken(renewed.id, renewed.expires, renewed.granted))

    async def release(request: web.Request) -> web.Response:
        with problems():
            await desk.release(request.match_info["id"], caller_of(request).username)
        return web.Response(status=204)

    api.post("/v1/gate/disruption", "/v1/gate/disruption", disruption)
    api.serve("/v1/gate/reservations", "/v1/gate/reservations", {"GET": every, "HEAD": every, "POST": reserve})
    api.serve("/v1/gate/reservations/{id}", "/v1/gate/reservations/*", {"PUT": renew, "DELETE": release})


def _one_or_many(body: JsonObject) -> type[DisruptionModel | DisruptionBatchModel]:
    return DisruptionBatchModel if "questions" in body else DisruptionModel


def _questions(body: DisruptionModel | DisruptionBatchModel) -> Sequence[NodeGateQuestion]:
    """Return what is asked. Raises `ProblemError`."""
    if isinstance(body, DisruptionModel):
        return [body.question()]
    return [question.question("questions", position) for position, question in enumerate(body.questions)]


def _place_in(body: DisruptionModel | DisruptionBatchModel) -> Callable[[int], str]:
    """Return a function that tells where in the body a question is."""
    return (lambda _: "") if isinstance(body, DisruptionModel) else (lambda position: f"/questions/{position}")


def _read_question(model: type[ModelT], body: ReservationModel) -> ModelT:
    """Read the question inside a reservation. Raises `ProblemError`."""
    try:
        return read_model(model, body.question)
    except ProblemError as error:
        mistakes = [Mistake(QUESTION + mistake.pointer, mistake.code, mistake.detail) for mistake in error.mistakes]
        raise ProblemError(error.problem, f"{mistakes[0].pointer}: {mistakes[0].detail}", mistakes=mistakes) from error


def _listed(thing: Thing, reservation: Reservation, prefixes: tuple[str, ...], *, mine: bool) -> ListedReservation:
    """Return a reservation as it is listed; only its owner gets the id, which is needed to release it.

    Args:
        thing: What is reserved.
        reservation: One that is in force.
        prefixes: How references begin to the placements that the caller may list: the holder of a rollout names one.
        mine: It is the caller's own.
    """
    holder = reservation.holder
    if holder.startswith(_OF_ROLLOUTS) and not holder.removeprefix(_OF_ROLLOUTS).startswith(prefixes) and not mine:
        holder = _OF_ROLLOUTS.removesuffix("/")
    document: ListedReservation = {
        "gate": thing.gate,
        "of": thing.name,
        "for": reservation.purpose,
        "holder": holder,
        "granted": _granted(reservation.granted),
        "expires": format_time(reservation.expires),
        "mine": mine,
    }
    if mine:
        document["id"] = reservation.id
    return document


def _taken(identifier: str, expires: datetime, granted: tuple[str, ...] | int) -> TakenReservation:
    return {"id": identifier, "expires": format_time(expires), "granted": _granted(granted)}


def _granted(granted: tuple[str, ...] | int) -> list[str] | int:
    return granted if isinstance(granted, int) else list(granted)
