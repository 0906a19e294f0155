"""``/v1/gate/disruption`` and ``/v1/gate/reservations``: whether nodes may be disrupted now.

Also reservations of nodes and members.

Source: docs/specifications/serving.md 3.1 and 3.3; docs/specifications/nodepool-disruption.md 14.
"""

from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import web
from typing_extensions import TypedDict

from scorer.api.family import family_in, ref_prefixes
from scorer.api.kinds import KINDS, UPGRADE_RUN
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import text_at
from scorer.member_gate.answer import MemberGateAnswer
from scorer.node_budgets.answer import GateAnswer
from scorer.node_budgets.question import NodeGateQuestion
from webhook.endpoints.gate.members import UNNAMED, redact_answer, require_run
from webhook.endpoints.gate.request_bodies import (
    ClusterUpdateModel,
    DisruptionBatchModel,
    DisruptionModel,
    RenewalModel,
    ReservationModel,
    RolloutModel,
    problems,
)
from webhook.endpoints.gate.reservations import (
    TakenReservation,
    claimant_of,
    reservation_document,
    reservation_list,
    reserve_member,
    reserve_nodes,
)
from webhook.endpoints.http.access_control import DISRUPTING_KINDS, caller_of
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.problems import ProblemError
from webhook.endpoints.http.responses import tagged, unstored
from webhook.endpoints.refusals import note_nodes, note_reservation, without_pods
from webhook.gate.errors import MemberHeldError, ReservationRefusedError
from webhook.gate.keeper import Claimant
from webhook.gate.service import GateService
from webhook.history.service import HistoryService

PODS: Final = frozenset({KINDS["", "Pod"], KINDS["policy", "PodDisruptionBudget"]})
"""The kinds whose objects an answer about nodes may name."""
_REVISION: Final = "reservations"


class GateAnswers(TypedDict):
    """Answers to several questions, in their order."""

    answers: list[GateAnswer]


def add_routes(api: Api, service: GateService, history: HistoryService) -> None:
    """Serve questions about nodes, and the reservations of nodes and members."""

    async def disruption(request: web.Request) -> web.Response:
        body = await api.read_as(request, _one_or_many)
        identity = caller_of(request).username
        with problems(_place_in(body)):
            service.nodes.require_synced()
            questions = _questions(body)
            answers = await service.nodes.answer(questions, Claimant(identity, identity))
        for question, answer in zip(questions, answers, strict=True):
            note_nodes(history, question.pool, answer, identity)
        documents = [await told_of_nodes(request, answer.document()) for answer in answers]
        batch: GateAnswers = {"answers": documents}
        return unstored(batch if isinstance(body, DisruptionBatchModel) else documents[0])

    async def every(request: web.Request) -> web.Response:
        prefixes = ref_prefixes(await api.readable_kinds(request))
        return tagged(request, reservation_list(service.reservations, caller_of(request).username, prefixes), _REVISION)

    async def reserve(request: web.Request) -> web.Response:
        body = await api.read(request, ReservationModel)
        claimant = claimant_of(body, caller_of(request).username)
        try:
            return unstored(await reserve_for(request, body, claimant), 201)
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

    async def reserve_for(request: web.Request, body: ReservationModel, claimant: Claimant) -> TakenReservation:
        async def admit(question: RolloutModel | ClusterUpdateModel) -> None:
            if isinstance(question, RolloutModel):
                await api.require_placement(request, question.ref)
            else:
                await require_run(api, request, question.run or "")

        if body.gate == "disruption":
            return await reserve_nodes(service.nodes, body, claimant)
        return await reserve_member(service.members, body, claimant, admit)

    async def renew(request: web.Request) -> web.Response:
        body = await api.read(request, RenewalModel)
        with problems():
            reservation = await service.reservations.renew(
                request.match_info["id"], caller_of(request).username, body.ttl_seconds
            )
        return unstored(reservation_document(reservation))

    async def release(request: web.Request) -> web.Response:
        with problems():
            await service.reservations.release(request.match_info["id"], caller_of(request).username)
        return web.Response(status=204)

    api.post("/v1/gate/disruption", "/v1/gate/disruption", disruption)
    api.serve("/v1/gate/reservations", "/v1/gate/reservations", {"GET": every, "HEAD": every, "POST": reserve})
    api.serve("/v1/gate/reservations/{id}", "/v1/gate/reservations/*", {"PUT": renew, "DELETE": release})


def _one_or_many(body: JsonObject) -> type[DisruptionModel | DisruptionBatchModel]:
    return DisruptionBatchModel if "questions" in body else DisruptionModel


def _questions(body: DisruptionModel | DisruptionBatchModel) -> Sequence[NodeGateQuestion]:
    """Return the questions of a body.

    Raises:
        ProblemError: A question cannot be answered. Lists every error of the first such question.
    """
    if isinstance(body, DisruptionModel):
        return [body.question()]
    return [question.question("questions", position) for position, question in enumerate(body.questions)]


def _place_in(body: DisruptionModel | DisruptionBatchModel) -> Callable[[int], str]:
    """Return a function that returns the JSON Pointer of a question in the body."""
    return (lambda _: "") if isinstance(body, DisruptionModel) else (lambda position: f"/questions/{position}")
