"""``/v1/placements``: what is placed where, and how far along it is."""

from aiohttp import web

from webhook.endpoints.answers import tagged
from webhook.endpoints.api import Api
from webhook.endpoints.problems import Problem, ProblemError
from webhook.services import PlacementRef


def add_routes(api: Api) -> None:
    """Serve the list, and the single placement by its reference."""
    advisor = api.services.advisor

    async def every(request: web.Request) -> web.Response:
        document = advisor.placements()
        return tagged(request, document, str(document["fleetRevision"]))

    async def one(request: web.Request) -> web.Response:
        namespace = request.match_info.get("namespace", "")
        kind = "ResourcePlacement" if namespace else "ClusterResourcePlacement"
        ref = PlacementRef(kind, request.match_info["name"], namespace)
        document = advisor.placement(ref)
        if document is None:
            raise ProblemError(Problem.NOT_FOUND, f"there is no placement {str(ref)[:320]!r}")
        return tagged(request, document, advisor.fleet_revision)

    api.get("/v1/placements", "/v1/placements", every)
    api.get("/v1/placements/crp/{name}", "/v1/placements/*", one)
    api.get("/v1/placements/rp/{namespace}/{name}", "/v1/placements/*", one)
