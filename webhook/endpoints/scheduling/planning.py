"""``/v1/plan``: what a set of changes would cause on the hub.

Source: serving.md 3; scheduling.md 22, property 10.
"""

from aiohttp import web

from scorer.api.family import PLACEMENTS
from webhook.admission.limited import OPEN, compared_kinds, shown_with
from webhook.answers.proposal import RESOURCE_SNAPSHOTS, RUNS, Audience, Proposal, kinds_named
from webhook.endpoints.http.access_control import caller_of
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.responses import unstored
from webhook.endpoints.scheduling.plan_request import (
    PlanModel,
    plan_problems,
    read_proposal,
    requested_placements,
    requested_runs,
)


def add_routes(api: Api) -> None:
    """Serve the question."""

    async def plan(request: web.Request) -> web.Response:
        body = await api.read(request, PlanModel)
        proposal = read_proposal(body, api.answers.admission().kinds)
        contents = await api.readable_kinds(request, RESOURCE_SNAPSHOTS)
        kinds = await api.readable_kinds(request, (*PLACEMENTS, *RUNS))
        compared = await _compared(api, request, proposal, body)
        audience = Audience(kinds, requested_placements(body), requested_runs(body), contents, compared)
        with plan_problems():
            document = await api.answers.planner.plan(proposal, caller_of(request), audience)
        return unstored(document)

    api.post("/v1/plan", "/v1/plan", plan, of_page=True)


async def _compared(api: Api, request: web.Request, proposal: Proposal, body: PlanModel) -> frozenset[tuple[str, str]]:
    """Return the kinds whose objects the verdicts of admission may be about, by group and kind."""
    known = api.answers.admission().kinds
    asked = compared_kinds((each.document for each in proposal.objects), known)
    asked |= {each.kind for each in proposal.objects}
    asked |= {kind for each in body.deleted for kind in kinds_named(each.kind, known)}
    return frozenset(kind.group_kind for kind in shown_with(await api.readable_kinds(request, asked - {OPEN})))
