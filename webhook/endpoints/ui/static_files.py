"""The page's static files, read and compressed once, with a content security policy.

The files hold no data, so they are served without authentication.
"""

import gzip
import hashlib
import html
from collections.abc import Awaitable, Callable
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from aiohttp import web

from webhook.endpoints.http.responses import SMALLEST, accepts_gzip, matches_etag
from webhook.endpoints.http.services import PageFacts

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

PAGES: Final = {"index.html": "/", "docs.html": "/docs"}
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}


_META: Final = '<meta name="{}" content="{}">'


def add_routes(
    app: web.Application,
    facts: PageFacts,
    folder: Traversable | None = None,
    *,
    provider: str = "",
    open_to: str = "",
    has_actions: bool = False,
) -> None:
    """Serve the files of *folder* with a known type: those of `PAGES` at their paths, the rest below ``/ui/``.

    Args:
        app: Gets the routes.
        facts: Facts about the server.
        folder: The folder. None means that of the project's own page.
        provider: Display name of the sign-in provider, empty if unset.
        open_to: ``machine`` if every user of this machine may see the page without credentials, else empty.
        has_actions: Whether the page offers actions.
    """
    contents = {
        "sign-in": provider,
        "open-to": open_to,
        "program": facts.program,
        "hub-options": facts.hub_options,
        "members": "simulated" if facts.simulated else "",
        "actions": "on" if has_actions else "",
    }
    for file in sorted((folder or files("webhook") / "page").iterdir(), key=lambda entry: entry.name):
        content_type = _TYPES.get("." + file.name.rpartition(".")[2])
        if content_type and file.is_file():
            body = file.read_bytes()
            if file.name in PAGES:
                for name, content in contents.items():
                    body = body.replace(
                        _META.format(name, "").encode(), _META.format(name, html.escape(content)).encode()
                    )
            app.router.add_get(PAGES.get(file.name) or f"/ui/{file.name}", _static(body, content_type))


def _static(body: bytes, content_type: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    digest = hashlib.sha256(body).hexdigest()[:16]
    common = {
        "Cache-Control": "no-cache",
        "Vary": "Accept-Encoding",
        "Content-Security-Policy": POLICY,
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    plain, gzip_headers = {**common, "ETag": f'"{digest}"'}, {**common, "ETag": f'"{digest}-gzip"'}
    answers = {False: (body, plain, {**plain, "Content-Type": content_type})}
    if len(body) >= SMALLEST:
        gzip_content_headers = {**gzip_headers, "Content-Type": content_type, "Content-Encoding": "gzip"}
        answers[True] = (gzip.compress(body, mtime=0), gzip_headers, gzip_content_headers)

    async def handle(request: web.Request) -> web.Response:
        content, unchanged, full = answers[accepts_gzip(request) and True in answers]
        if matches_etag(request, unchanged["ETag"]):
            return web.Response(status=304, headers=unchanged)
        return web.Response(body=content, headers=full)

    return handle
