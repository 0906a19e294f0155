"""``/v1/placements``: placements, their progress, and their last scheduling decisions."""

from typing import Final

import yaml
from aiohttp import web
from typing_extensions import TypedDict

from scorer.api.family import PlacementRef, UnknownObjectError, placement_ref, ref_prefixes, unknown_placement
from scorer.api.values.answer import ContinueToken
from scorer.placement.past_run import PastRun
from scorer.rollout.views.removals import PlacementRemovals
from webhook.answers.placements import Placement
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.problems import Problem, ProblemError
from webhook.endpoints.http.query_parameters import page_of, whole_number
from webhook.endpoints.http.responses import tagged
from webhook.kube.ports import StoreError

YAML: Final = "application/yaml"
OLDER_THAN: Final = "olderThanSeconds"
OLDEST: Final = 10 * 365 * 24 * 3600
"""Maximum age in a query, in seconds."""


_PlacementList = TypedDict("_PlacementList", {"items": list[Placement], "continue": ContinueToken})


class PlacementList(_PlacementList, TypedDict):
    """Placements, by reference."""


_RemovalList = TypedDict("_RemovalList", {"items": list[PlacementRemovals], "continue": ContinueToken})


class RemovalList(_RemovalList, TypedDict):
    """Placements whose removals wait for confirmation, by reference."""


class RunList(TypedDict):
    """The last decisions on a placement, the latest first."""

    placement: str
    """Reference of the placement."""
    items: list[PastRun]


def _older(item: PlacementRemovals, seconds: int) -> PlacementRemovals:
    """Return *item* with only the removals that have waited for at least *seconds*, or since an unknown time."""
    older = [each for each in item["removals"] if each["ageSeconds"] is None or each["ageSeconds"] >= seconds]
    return {"placement": item["placement"], "removals": older}


def ref_in_path(request: web.Request) -> PlacementRef:
    """Return the placement that the path names with ``{name}`` and, optionally, ``{namespace}``."""
    return placement_ref(request.match_info["name"], request.match_info.get("namespace", ""))


def add_routes(api: Api) -> None:
    """Serve the placements that the caller may list with their removals, and details of a single placement."""
    advisor = api.answers.advisor

    async def every(request: web.Request) -> web.Response:
        prefixes = ref_prefixes(await api.readable_kinds(request))
        refs = {text: ref for ref in advisor.placement_refs() if (text := str(ref)).startswith(prefixes)}
        page = page_of(request, list(refs), "ref")
        items = advisor.placements(refs[text] for text in page.names)
        answer: PlacementList = {"items": items, "continue": page.next}
        return tagged(request, answer)

    async def removals(request: web.Request) -> web.Response:
        prefixes = ref_prefixes(await api.readable_kinds(request))
        refs = {text: ref for ref in advisor.pending_removal_refs() if (text := str(ref)).startswith(prefixes)}
        page = page_of(request, list(refs), "ref", [OLDER_THAN])
        seconds = whole_number(request, OLDER_THAN, 0, OLDEST) if OLDER_THAN in request.query else 0
        items = [_older(item, seconds) for item in advisor.removals(refs[text] for text in page.names)]
        answer: RemovalList = {"items": [item for item in items if item["removals"]], "continue": page.next}
        return tagged(request, answer)

    async def one(request: web.Request) -> web.Response:
        ref = ref_in_path(request)
        await api.require_placement(request, ref)
        document = advisor.placement(ref)
        if document is None:
            raise ProblemError(Problem.NOT_FOUND, unknown_placement(ref))
        return tagged(request, document)

    async def tree(request: web.Request) -> web.Response:
        ref = ref_in_path(request)
        await api.require_placement(request, ref)
        try:
            document = await api.answers.trees.tree(ref, request.match_info["cluster"])
        except StoreError as error:
            raise ProblemError(Problem.NOT_READY, f"the request to the hub failed: {error}", retry_after=5) from error
        if document is None:
            raise ProblemError(Problem.NOT_FOUND, unknown_placement(ref))
        return tagged(request, document)

    async def stored(request: web.Request) -> web.Response:
        ref = ref_in_path(request)
        await api.require_placement(request, ref)
        document = advisor.placement_object(ref)
        if document is None:
            raise ProblemError(Problem.NOT_FOUND, unknown_placement(ref))
        if YAML not in request.headers.get("Accept", ""):
            return tagged(request, document)
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
        return web.Response(text=text, content_type=YAML, charset="utf-8", headers={"Vary": "Accept"})

    async def runs(request: web.Request) -> web.Response:
        ref = ref_in_path(request)
        await api.require_placement(request, ref)
        items = api.answers.history.runs(ref)
        if items is None:
            raise UnknownObjectError(unknown_placement(ref))
        answer: RunList = {"placement": str(ref), "items": items}
        return tagged(request, answer)

    api.get("/v1/placements", "/v1/placements", every)
    api.get("/v1/removals", "/v1/removals", removals)
    for path in ("/v1/placements/crp/{name}", "/v1/placements/rp/{namespace}/{name}"):
        api.get(f"{path}/tree/{{cluster}}", "/v1/placements/*/tree/*", tree)
        api.get(f"{path}/object", "/v1/placements/*/object", stored)
    api.get("/v1/placements/crp/{name}", "/v1/placements/*", one)
    api.get("/v1/placements/rp/{namespace}/{name}", "/v1/placements/*", one)
    api.get("/v1/placements/crp/{name}/runs", "/v1/placements/*/runs", runs)
    api.get("/v1/placements/rp/{namespace}/{name}/runs", "/v1/placements/*/runs", runs)
