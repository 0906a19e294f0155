"""``/v1/openapi.json``: the machine-readable description of the API, which the page ``/docs`` renders.

``python -m webhook.description`` generates the document from the models, and the server sends the file as it is. So
file, server and page cannot differ, and the server does not load the generator.

It is the largest response without authentication. So it is compressed once, and each address has a rate limit for the
whole document. Responses that report an unchanged document (304) have no limit.

Source: docs/specifications/serving.md 3.1.
"""

import asyncio
import gzip
import hashlib
from importlib.resources import files
from typing import Final

from aiohttp import web

from webhook.endpoints.http.api import Api
from webhook.endpoints.http.problems import Problem, ProblemError
from webhook.endpoints.http.rate_limits import TokenBuckets
from webhook.endpoints.http.responses import JSON, accepts_gzip, matches_etag

PER_SECOND: Final = 2.0
"""Rate limit of the whole document per address, on average."""
BURST: Final = 20


def add_routes(api: Api) -> None:
    """Serve ``/v1/openapi.json``, to callers without credentials as well."""
    document = (files("webhook") / "openapi.json").read_bytes()
    digest = hashlib.sha256(document).hexdigest()[:16]
    common = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    plain = {**common, "ETag": f'"{digest}"'}
    gzip_headers = {**common, "ETag": f'"{digest}-gzip"'}
    answers = {
        False: (document, plain, {**plain, "Content-Type": JSON}),
        True: (
            gzip.compress(document, mtime=0),
            gzip_headers,
            {**gzip_headers, "Content-Type": JSON, "Content-Encoding": "gzip"},
        ),
    }
    buckets = TokenBuckets(PER_SECOND, BURST)

    async def describe(request: web.Request) -> web.Response:
        body, unchanged, full = answers[accepts_gzip(request)]
        if matches_etag(request, unchanged["ETag"]):
            return web.Response(status=304, headers=unchanged)
        address = request.remote or ""
        if request.method != "HEAD" and (wait := buckets.take(address, asyncio.get_running_loop().time())):
            api.metrics.rejected("api", "rate")
            raise ProblemError(Problem.RATE_LIMITED, f"rate limit of {address} exceeded", retry_after=wait)
        return web.Response(body=body, headers=full)

    api.get("/v1/openapi.json", "/v1/openapi.json", describe, when_synced=False, open_to_all=True)
