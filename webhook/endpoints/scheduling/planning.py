"""``/v1/plan`` and ``/v1/render``: effects of a set of changes on placements, and on their objects.

Source: docs/specifications/serving.md 3; docs/specifications/scheduling.md 22.
"""

from collections.abc import Collection

from aiohttp import web

from scorer.api.family import PLACEMENTS, family_in
from scorer.api.kinds import Kind
from scorer.what_if.state import ObjectKey
from webhook.admission.limited import OPEN, compared_kinds, shown_with
from webhook.answers.proposal import CONTENT_SNAPSHOTS, SHOWN_KINDS, Audience, Proposal
from webhook.answers.proposed_objects import kinds_named
from webhook.answers.update_runs import unknown_run
from webhook.endpoints.http.access_control import caller_of
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.problems import Mistake, ProblemError
from webhook.endpoints.http.responses import unstored
from webhook.endpoints.scheduling.plan_request import (
    ChangesModel,
    PlanModel,
    RenderModel,
    plan_problems,
    read_proposal,
    requested_placements,
    requested_runs,
    requested_scope,
)


def add_routes(api: Api) -> None:
    """Serve ``/v1/plan`` and ``/v1/render``."""

    async def plan(request: web.Request) -> web.Response:
        body = await api.read(request, PlanModel)
        proposal = read_proposal(body, api.answers.admission().kinds)
        kinds = await api.readable_kinds(request, SHOWN_KINDS)
        audience = await _audience(api, request, kinds, requested_runs(body), proposal, body)
        with plan_problems():
            document = await api.answers.planner.plan(proposal, caller_of(request), audience)
        return unstored(document)

    async def render(request: web.Request) -> web.Response:
        body = await api.read(request, RenderModel)
        proposal = read_proposal(body, api.answers.admission().kinds)
        if body.run is not None:
            kind, name, namespace = family_in(body.run.namespace).run, body.run.name, body.run.namespace
            if not await api.may_get(request, kind, name, namespace):
                raise ProblemError.of_mistakes([Mistake("/run", "unknown", unknown_run(name, namespace))])
        kinds = await api.readable_kinds(request, PLACEMENTS)
        kinds |= {*SHOWN_KINDS} - {*PLACEMENTS}
        audience = await _audience(api, request, kinds, (), proposal, body)
        with plan_problems():
            document = await api.answers.planner.render(proposal, caller_of(request), audience, requested_scope(body))
        return unstored(document)

    api.post("/v1/plan", "/v1/plan", plan, of_page=True)
    api.post("/v1/render", "/v1/render", render, of_page=True)


async def _audience(
    api: Api,
    request: web.Request,
    kinds: Collection[Kind],
    runs: Collection[ObjectKey] | None,
    proposal: Proposal,
    body: ChangesModel,
) -> Audience:
    """Return the visibility of the caller, who may see placements and runs of *kinds*."""
    contents = await api.readable_kinds(request, CONTENT_SNAPSHOTS)
    selectable = await api.readable_kinds(request, api.answers.planner.content_kinds())
    selected = {kind.group_kind for kind in selectable}
    comparable = await _compared(api, request, proposal, body)
    return Audience(kinds, requested_placements(body), runs, contents, comparable, selected)


async def _compared(
    api: Api, request: web.Request, proposal: Proposal, body: ChangesModel
) -> frozenset[tuple[str, str]]:
    """Return the kinds whose objects the verdicts of admission may be about, by group and kind."""
    known_kinds = api.answers.admission().kinds
    kinds_to_compare = compared_kinds((item.document for item in proposal.objects), known_kinds)
    kinds_to_compare |= {item.kind for item in proposal.objects}
    kinds_to_compare |= {kind for deletion in body.deleted for kind in kinds_named(deletion.kind, known_kinds)}
    return frozenset(
        kind.group_kind for kind in shown_with(await api.readable_kinds(request, kinds_to_compare - {OPEN}))
    )
