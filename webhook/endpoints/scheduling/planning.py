"""``/v1/plan``: effects of a set of changes on the hub.

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
        comparable = await _compared(api, request, proposal, body)
        audience = Audience(kinds, requested_placements(body), requested_runs(body), contents, comparable)
        with plan_problems():
            document = await api.answers.planner.plan(proposal, caller_of(request), audience)
        return unstored(document)

    api.post("/v1/plan", "/v1/plan", plan, of_page=True)


async def _compared(api: Api, request: web.Request, proposal: Proposal, body: PlanModel) -> frozenset[tuple[str, str]]:
    """Return the kinds whose objects the verdicts of admission may be about, by group and kind."""
    known_kinds = api.answers.admission().kinds
    kinds_to_compare = compared_kinds((item.document for item in proposal.objects), known_kinds)
    kinds_to_compare |= {item.kind for item in proposal.objects}
    kinds_to_compare |= {kind for deletion in body.deleted for kind in kinds_named(deletion.kind, known_kinds)}
    return frozenset(
        kind.group_kind for kind in shown_with(await api.readable_kinds(request, kinds_to_compare - {OPEN}))
    )
