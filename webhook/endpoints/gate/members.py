"""``/v1/gate/rollout`` and ``/v1/gate/cluster-update``: whether a member may be disrupted now.

Source: docs/specifications/serving.md 3.1 and 3.2.
"""

from typing import Final

from aiohttp import web

from scorer.api.family import family_in
from scorer.api.kinds import UPGRADE_RUN, Kind
from scorer.member_gate.answer import MemberDetail, MemberGateAnswer, MemberReason
from webhook.endpoints.gate.request_bodies import ClusterUpdateModel, RolloutModel, problems
from webhook.endpoints.http.access_control import DISRUPTING_KINDS, caller_of
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.problems import Problem, ProblemError
from webhook.endpoints.http.responses import unstored
from webhook.endpoints.refusals import note_member
from webhook.gate.service import MemberGateService
from webhook.history.service import HistoryService

OTHERS: Final = frozenset({MemberReason.MEMBER_HELD, MemberReason.PLACEMENT_GUARD})
"""Reasons whose messages may name an object of any kind that disrupts members."""
UNNAMED: Final = "the reason names objects that the caller may not list"
"""Replaces the message and the detail that would name objects."""


async def redact_answer(api: Api, request: web.Request, answer: MemberGateAnswer, runs: Kind) -> MemberGateAnswer:
    """Return the answer of a gate for the caller, without the names of objects that the caller may not list.

    Args:
        api: Determines the caller's rights.
        request: The caller's request.
        answer: The gate's answer.
        runs: The kind of run that the answer names in its detail.

    Raises:
        ProblemError: The hub does not respond.
    """
    detail = answer["detail"]
    if answer["reason"] in OTHERS:
        required_kinds = DISRUPTING_KINDS
    elif "run" in detail:
        required_kinds = frozenset({runs, UPGRADE_RUN} if "busyWith" in detail else {runs})
    else:
        return answer
    if required_kinds <= await api.readable_kinds(request, required_kinds):
        return answer
    redaction: MemberDetail = {"heldBy": {**detail["heldBy"], "by": ""}} if "heldBy" in detail else {}
    return {**answer, "message": UNNAMED, "detail": redaction}


async def require_run(api: Api, request: web.Request, run: str) -> None:
    """Check that the caller may get the upgrade run that a question names, if it names one.

    Raises:
        ProblemError: 404, as for a missing run, or 503 if the hub does not respond.
    """
    if run and not await api.may_get(request, UPGRADE_RUN, run, ""):
        raise ProblemError(Problem.NOT_FOUND, f"there is no ClusterUpgradeRun {run[:320]!r}")


def add_routes(api: Api, members: MemberGateService, history: HistoryService) -> None:
    """Serve ``/v1/gate/rollout`` and ``/v1/gate/cluster-update``."""

    async def rollout(request: web.Request) -> web.Response:
        body = await api.read(request, RolloutModel)
        with problems():
            members.require_synced()
        await api.require_placement(request, body.ref)
        answer = members.rollout(body.ref, body.cluster)
        note_member(history, body.cluster, answer, caller_of(request).username)
        return unstored(await redact_answer(api, request, answer.document(), family_in(body.ref.namespace).run))

    async def cluster_update(request: web.Request) -> web.Response:
        body = await api.read(request, ClusterUpdateModel)
        with problems():
            members.require_synced()
        await require_run(api, request, body.run or "")
        answer = members.cluster_update(body.cluster, body.run or "")
        note_member(history, body.cluster, answer, caller_of(request).username)
        return unstored(await redact_answer(api, request, answer.document(), UPGRADE_RUN))

    api.post("/v1/gate/rollout", "/v1/gate/rollout", rollout)
    api.post("/v1/gate/cluster-update", "/v1/gate/cluster-update", cluster_update)
