"""``/v1/plan`` and ``/v1/render``: effects of a set of changes on placements, and on their objects.

Source: serving.md 3; scheduling.md 22, property 10.
"""

from collections.abc import Set as AbstractSet
from typing import Final

from aiohttp import web

from scorer.api.family import FAMILIES, PLACEMENTS
from scorer.api.kinds import Kind
from webhook.admission.limited import OPEN, compared_kinds, shown_with
from webhook.answers.proposal import RESOURCE_SNAPSHOTS, SHOWN_KINDS, Audience, Proposal, kinds_named
from webhook.endpoints.http.access_control import caller_of
from webhook.endpoints.http.api import Api
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
    """Serve the question."""

    async def plan(request: web.Request) -> web.Response:
        body = await api.read(request, PlanModel)
        proposal = read_proposal(body, api.answers.admission().kinds)
        contents = await api.readable_kinds(request, RESOURCE_SNAPSHOTS)
        kinds = await api.readable_kinds(request, SHOWN_KINDS)
        comparable = await _compared(api, request, proposal, body)
        audience = Audience(kinds, requested_placements(body), requested_runs(body), contents, comparable)
        with plan_problems():
            document = await api.answers.planner.plan(proposal, caller_of(request), audience)
        return unstored(document)

    async def render(request: web.Request) -> web.Response:
        body = await api.read(request, RenderModel)
        proposal = read_proposal(body, api.answers.admission().kinds)
        kinds = await api.readable_kinds(request, PLACEMENTS)
        comparable = await _compared(api, request, proposal, body)
        snapshots = await api.readable_kinds(request, _SNAPSHOTS)
        selectable = await api.readable_kinds(request, api.answers.planner.content_kinds())
        selected = {kind.group_kind for kind in selectable}
        kinds |= {*SHOWN_KINDS} - {*PLACEMENTS}
        audience = Audience(kinds, requested_placements(body), (), compared=comparable, selected=selected)
        scope = requested_scope(body, hidden=_hidden_kinds(snapshots))
        with plan_problems():
            document = await api.answers.planner.render(proposal, caller_of(request), audience, scope)
        return unstored(document)

    api.post("/v1/plan", "/v1/plan", plan, of_page=True)
    api.post("/v1/render", "/v1/render", render, of_page=True)


_OVERRIDE_SNAPSHOTS: Final = frozenset(family.override_snapshot for family in FAMILIES)
_SNAPSHOTS: Final = (*RESOURCE_SNAPSHOTS, *_OVERRIDE_SNAPSHOTS)
"""Kinds that hold the content of placements."""


def _hidden_kinds(readable: AbstractSet[Kind]) -> frozenset[str]:
    """Return the kinds of placements whose objects are hidden from a caller who may list the *readable* kinds.

    Overrides of both scopes may apply to the objects of any placement.
    """
    shows_overrides = readable >= _OVERRIDE_SNAPSHOTS
    return frozenset(
        family.placement.kind for family in FAMILIES if not shows_overrides or family.resource_snapshot not in readable
    )


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
