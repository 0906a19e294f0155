"""``/v1/placements/…/runs``: the last decisions on a placement, each compared with the one before it.

Source: scheduling.md 22, property 9.
"""

from aiohttp import web

from scorer.api.references import UnknownObjectError, unknown_placement
from webhook.endpoints.answers import tagged
from webhook.endpoints.api import Api
from webhook.endpoints.placements import ref_in_path


def add_routes(api: Api) -> None:
    """Serve the list of one placement."""

    async def runs(request: web.Request) -> web.Response:
        ref = ref_in_path(request)
        await api.require_placement(request, ref)
        items = api.answers.history.runs(ref)
        if items is None:
            raise UnknownObjectError(unknown_placement(ref))
        return tagged(request, {"placement": str(ref), "items": items})

    api.get("/v1/placements/crp/{name}/runs", "/v1/placements/*/runs", runs)
    api.get("/v1/placements/rp/{namespace}/{name}/runs", "/v1/placements/*/runs", runs)
