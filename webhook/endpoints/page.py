"""The page: static files, read once, with a Content-Security-Policy that allows nothing from other origins.

The files hold no data, so they are served without authentication.
"""

import hashlib
from collections.abc import Awaitable, Callable
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from aiohttp import web

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

PAGES: Final = {"index.html": "/", "docs.html": "/docs"}
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}


def add_routes(app: web.Application, folder: Traversable | None = None) -> None:
    """Serve every file of *folder* (the project's own page): those of `PAGES` there, the rest below ``/ui/``."""
    for file in sorted((folder or files("webhook") / "page").iterdir(), key=lambda entry: entry.name):
        content_type = _TYPES.get("." + file.name.rpartition(".")[2])
        if content_type and file.is_file():
            path = PAGES.get(file.name) or f"/ui/{file.name}"
            app.router.add_get(path, _static(file.read_bytes(), content_type))


def _static(body: bytes, content_type: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    unchanged = {
        "ETag": tag,
        "Cache-Control": "no-cache",
        "Content-Security-Policy": POLICY,
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    full = {**unchanged, "Content-Type": content_type}

    async def handle(request: web.Request) -> web.Response:
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=unchanged)
        return web.Response(body=body, headers=full)

    return handle
