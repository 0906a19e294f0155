"""The resources of the aggregated API: answers about the placements of one namespace.

The API server has authenticated the user and authorized the request. The rights are reviewed again here, so that the
front proxy alone grants nothing. An answer has only objects that the user may read in the namespace. Objects of other
namespaces and cluster-scoped objects are never part of it, regardless of the rights of the user elsewhere.

Source: docs/specifications/serving.md 3.6.
"""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace

from aiohttp import web

from scorer.api.family import NAMESPACED, PlacementRef, UnknownObjectError, unknown_placement
from scorer.api.kinds import NAMESPACED_OVERRIDE, OUR_KINDS, SECRET, Kind
from scorer.api.values.quoting import quote
from webhook.access.front_proxy import (
    EXPLANATIONS,
    GROUP,
    HISTORIES,
    PAST_DECISIONS,
    PLACEMENT_PLANS,
    RENDERINGS,
    VERSION,
)
from webhook.admission.limited import compared_kinds, shown_with
from webhook.answers.proposal import CONTENT_SNAPSHOTS, SHOWN_KINDS, Audience, Proposal
from webhook.answers.proposed_objects import kinds_named
from webhook.endpoints.aggregated.questions import HistoryModel, PastDecisionsModel
from webhook.endpoints.fleet.history import History
from webhook.endpoints.fleet.placements import RunList
from webhook.endpoints.http.access_control import caller_of
from webhook.endpoints.http.api import Api, Handler
from webhook.endpoints.http.problems import Mistake, Problem, ProblemError
from webhook.endpoints.http.request_models import PlacementModel
from webhook.endpoints.http.responses import AggregatedResource, unstored
from webhook.endpoints.scheduling.plan_request import (
    PlanModel,
    RenderModel,
    plan_problems,
    read_proposal,
    requested_placements,
    requested_runs,
    requested_scope,
)
from webhook.endpoints.scheduling.request_bodies import ExplainModel
from webhook.history.service import HistoryService
from webhook.kube.ports import StoreError
from webhook.validation.framework.context import HubKinds


def add_routes(api: Api, history: HistoryService) -> None:
    """Serve all resources."""

    async def explain(request: web.Request) -> web.Response:
        body = await api.read(request, ExplainModel)
        await _own_placement(api, request, body.placement)
        document = await asyncio.to_thread(api.answers.advisor.explaining(body.question()))
        return unstored(document)

    async def past_decisions(request: web.Request) -> web.Response:
        body = await api.read(request, PastDecisionsModel)
        ref = await _own_placement(api, request, body.placement)
        items = api.answers.history.runs(ref)
        if items is None:
            raise UnknownObjectError(unknown_placement(ref))
        answer: RunList = {"placement": str(ref), "items": items}
        return unstored(answer)

    async def plan(request: web.Request) -> web.Response:
        body, namespace = await api.read(request, PlanModel), request.match_info["namespace"]
        hub_kinds = api.answers.admission().kinds
        proposal = read_proposal(body, hub_kinds)
        if mistakes := list(outside(body, proposal, namespace, hub_kinds)):
            raise ProblemError.of_mistakes(mistakes)
        audience = await _audience(api, request, body, proposal, namespace)
        with plan_problems():
            document = await api.answers.planner.plan(proposal, caller_of(request), audience)
        return unstored(document)

    async def render(request: web.Request) -> web.Response:
        body, namespace = await api.read(request, RenderModel), request.match_info["namespace"]
        hub_kinds = api.answers.admission().kinds
        proposal = read_proposal(body, hub_kinds)
        if mistakes := list(outside(body, proposal, namespace, hub_kinds)):
            raise ProblemError.of_mistakes(mistakes)
        audience = await _audience(api, request, body, proposal, namespace)
        # Snapshots of an override have its values, so the right to list overrides is enough.
        if NAMESPACED_OVERRIDE in await _readable(api, request, {NAMESPACED_OVERRIDE}, namespace):
            audience = replace(audience, contents={*audience.contents, NAMESPACED.override_snapshot})
        with plan_problems():
            document = await api.answers.planner.render(proposal, caller_of(request), audience, requested_scope(body))
        return unstored(document)

    async def past_events(request: web.Request) -> web.Response:
        body, namespace = await api.read(request, HistoryModel), request.match_info["namespace"]
        readable = await _readable(api, request, OUR_KINDS, namespace)
        try:
            page = await history.find(body.query(namespace, readable))
        except StoreError as error:
            raise ProblemError(Problem.NOT_READY, f"reading the history failed: {error}") from error
        answer: History = {**page.document(), "kept": history.is_kept, "continue": page.token}
        return unstored(answer)

    handlers: dict[str, Handler] = {
        EXPLANATIONS: explain,
        HISTORIES: past_events,
        PAST_DECISIONS: past_decisions,
        PLACEMENT_PLANS: plan,
        RENDERINGS: render,
    }
    for resource, handler in handlers.items():
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{{namespace}}/{resource}"
        api.aggregate(path, AggregatedResource(GROUP, resource), handler)


async def _own_placement(api: Api, request: web.Request, placement: PlacementModel) -> PlacementRef:
    """Return the placement of a question. A placement of another namespace is reported as missing.

    Raises:
        ProblemError: The question has a policy instead, or the caller may not get the placement.
    """
    if placement.ref is None:
        detail = "must be set: only placements of the namespace are explained"
        raise ProblemError.of_mistakes([Mistake("/placement/ref", "required", detail)])
    ref = PlacementRef(placement.ref.kind, placement.ref.name, placement.ref.namespace)
    if ref.namespace != request.match_info["namespace"]:
        raise ProblemError(Problem.NOT_FOUND, unknown_placement(ref))
    await api.require_placement(request, ref)
    return ref


async def _readable(api: Api, request: web.Request, kinds: Iterable[Kind], namespace: str) -> frozenset[Kind]:
    """Return the namespaced kinds of *kinds* that the caller may list in the namespace.

    A review of a cluster-scoped kind in a namespace would count rights that have no effect on the API server.
    """
    return await api.readable_kinds(request, {kind for kind in kinds if kind.namespaced}, namespace)


async def _audience(
    api: Api, request: web.Request, body: PlanModel | RenderModel, proposal: Proposal, namespace: str
) -> Audience:
    hub_kinds = api.answers.admission().kinds
    compared = compared_kinds((item.document for item in proposal.objects), hub_kinds)
    compared |= {item.kind for item in proposal.objects}
    compared |= {kind for deletion in body.deleted for kind in kinds_named(deletion.kind, hub_kinds)}
    selected = await _readable(api, request, api.answers.planner.content_kinds() - {SECRET}, namespace)
    comparable = shown_with(await _readable(api, request, compared - {SECRET}, namespace))
    return Audience(
        kinds=await _readable(api, request, SHOWN_KINDS, namespace),
        only=requested_placements(body),
        runs=requested_runs(body) if isinstance(body, PlanModel) else (),
        contents=await _readable(api, request, CONTENT_SNAPSHOTS, namespace),
        compared={kind.group_kind for kind in comparable},
        selected={kind.group_kind for kind in selected},
        namespace=namespace,
    )


def outside(
    body: PlanModel | RenderModel, proposal: Proposal, namespace: str, hub_kinds: HubKinds
) -> Iterator[Mistake]:
    """Yield the parts of a proposal that are not in *namespace*."""
    for at, item in enumerate(proposal.objects):
        name = quote(item.identity.name)
        if not item.kind.namespaced:
            detail = f"{item.kind.kind} {name} is cluster-scoped: must be an object of namespace {quote(namespace)}"
            yield Mistake(f"/objects/{at}/kind", "invalid", detail)
        elif item.identity.namespace != namespace:
            yield _elsewhere(f"/objects/{at}/metadata", item.kind.kind, name, item.identity.namespace, namespace)
    for at, deletion in enumerate(body.deleted):
        kinds = kinds_named(deletion.kind, hub_kinds)
        if deletion.namespace != namespace or (kinds and not any(kind.namespaced for kind in kinds)):
            yield _elsewhere(f"/deleted/{at}", deletion.kind, quote(deletion.name), deletion.namespace, namespace)
    for at, ref in enumerate(body.placements or ()):
        if ref.namespace != namespace:
            yield _elsewhere(f"/placements/{at}", ref.kind, quote(ref.name), ref.namespace, namespace)
    if isinstance(body, RenderModel):
        runs = {"/run": body.run} if body.run else {}
    else:
        runs = {f"/runs/{at}": run for at, run in enumerate(body.runs or ())}
    for pointer, run in runs.items():
        if run.namespace != namespace:
            yield _elsewhere(pointer, "staged update run", quote(run.name), run.namespace, namespace)
    if isinstance(body, RenderModel):
        return
    for at, cluster in enumerate(body.drained):
        detail = f"member cluster {quote(cluster)} must not be drained: that evicts placements of all namespaces"
        yield Mistake(f"/drained/{at}", "invalid", detail)


def _elsewhere(pointer: str, kind: str, name: str, actual: str, namespace: str) -> Mistake:
    scope = f"is in namespace {quote(actual)}" if actual else "has no namespace"
    detail = f"{kind} {name} {scope}: must be in namespace {quote(namespace)}"
    return Mistake(f"{pointer}/namespace", "invalid", detail)
