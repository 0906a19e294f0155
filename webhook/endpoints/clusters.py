"""``/v1/clusters``: the fleet as the engine sees it."""

from aiohttp import web

from webhook.endpoints.answers import tagged
from webhook.endpoints.api import Api
from webhook.endpoints.problems import Problem, ProblemError


def add_routes(api: Api) -> None:
    """Serve the list and the single cluster."""
    advisor = api.services.advisor

    async def every(request: web.Request) -> web.Response:
        document = advisor.clusters()
        return tagged(request, document, str(document["fleetRevision"]))

    async def one(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        document = advisor.cluster(name)
        if document is None:
            raise ProblemError(Problem.NOT_FOUND, f"there is no member cluster {name[:253]!r}")
        return tagged(request, document, advisor.fleet_revision)

    api.get("/v1/clusters", "/v1/clusters", every)
    api.get("/v1/clusters/{name}", "/v1/clusters/*", one)
