"""``/v1/clusters``: the fleet as the engine sees it."""

from aiohttp import web

from scorer.api.meta import JsonObject
from scorer.api.references import ref_prefixes
from webhook.endpoints.answers import tagged
from webhook.endpoints.api import Api
from webhook.endpoints.problems import Problem, ProblemError


def add_routes(api: Api) -> None:
    """Serve the list and the single cluster, each with only those of its placements that the caller may list."""
    advisor = api.answers.advisor

    async def every(request: web.Request) -> web.Response:
        prefixes = ref_prefixes(await api.readable_kinds(request))
        document = advisor.clusters()
        document = document | {"items": [_shown(item, prefixes) for item in document["items"]]}
        return tagged(request, document, str(document["fleetRevision"]))

    async def one(request: web.Request) -> web.Response:
        prefixes = ref_prefixes(await api.readable_kinds(request))
        name = request.match_info["name"]
        document = advisor.cluster(name)
        if document is None:
            raise ProblemError(Problem.NOT_FOUND, f"there is no member cluster {name[:253]!r}")
        return tagged(request, _shown(document, prefixes), advisor.fleet_revision)

    api.get("/v1/clusters", "/v1/clusters", every)
    api.get("/v1/clusters/{name}", "/v1/clusters/*", one)


def _shown(cluster: JsonObject, prefixes: tuple[str, ...]) -> JsonObject:
    return cluster | {"placements": [ref for ref in cluster["placements"] if ref.startswith(prefixes)]}
