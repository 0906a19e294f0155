"""``/v1/placements``: what is placed where, and how far along it is."""

from aiohttp import web

from scorer.api.family import placement_ref
from scorer.api.references import PlacementRef, ref_prefixes, unknown_placement
from webhook.endpoints.answers import tagged
from webhook.endpoints.api import Api
from webhook.endpoints.pages import page_of
from webhook.endpoints.problems import Problem, ProblemError


def ref_in_path(request: web.Request) -> PlacementRef:
    """Return the placement that the path names by ``{name}`` and, if it has one, ``{namespace}``."""
    return placement_ref(request.match_info["name"], request.match_info.get("namespace", ""))


def add_routes(api: Api) -> None:
    """Serve the list of the placements that the caller may list, and the single placement by its reference."""
    advisor = api.answers.advisor

    async def every(request: web.Request) -> web.Response:
        prefixes = ref_prefixes(await api.readable_kinds(request))
        refs = {text: ref for ref in advisor.placement_refs() if (text := str(ref)).startswith(prefixes)}
        page = page_of(request, list(refs), "ref")
        return tagged(request, page.document(advisor.placements(refs[text] for text in page.names)))

    async def one(request: web.Request) -> web.Response:
        ref = ref_in_path(request)
        await api.require_placement(request, ref)
        document = advisor.placement(ref)
        if document is None:
            raise ProblemError(Problem.NOT_FOUND, unknown_placement(ref))
        return tagged(request, document)

    api.get("/v1/placements", "/v1/placements", every)
    api.get("/v1/placements/crp/{name}", "/v1/placements/*", one)
    api.get("/v1/placements/rp/{namespace}/{name}", "/v1/placements/*", one)
