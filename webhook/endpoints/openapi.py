"""``/v1/openapi.json``: the interface described, for programs; the page ``/docs`` shows it to people.

The document is made of the models by ``python -m webhook.description`` and served as it is kept: nothing about it can
differ between the file, the server and the page, and serving needs none of what makes it.

Source: serving.md 3.1.
"""

import hashlib
from importlib.resources import files

from aiohttp import web

from webhook.endpoints.answers import JSON, is_known
from webhook.endpoints.api import Api


def add_routes(api: Api) -> None:
    """Serve the description."""
    body = (files("webhook") / "openapi.json").read_bytes()
    unchanged = {"ETag": f'"{hashlib.sha256(body).hexdigest()[:16]}"', "Cache-Control": "no-cache"}
    full = {**unchanged, "Content-Type": JSON}

    async def describe(request: web.Request) -> web.Response:
        if is_known(request, unchanged["ETag"]):
            return web.Response(status=304, headers=unchanged)
        return web.Response(body=body, headers=full)

    api.get("/v1/openapi.json", "/v1/openapi.json", describe, when_synced=False, open_to_all=True)
