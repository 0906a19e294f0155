"""``/v1/status``: objects that need attention, of the kinds that the caller may list."""

from aiohttp import web

from webhook.answers.status.hub_status import RESTRICTED_KINDS, HubStatus
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.query_parameters import check_names
from webhook.endpoints.http.responses import tagged


def add_routes(api: Api) -> None:
    """Serve ``/v1/status``."""
    status = HubStatus(api.answers.advisor, api.answers.runs)

    async def current(request: web.Request) -> web.Response:
        check_names(request, "namespace")
        kinds = await api.readable_kinds(request, RESTRICTED_KINDS)
        return tagged(request, await status.status(kinds, namespace=request.query.get("namespace", "")))

    api.get("/v1/status", "/v1/status", current)
