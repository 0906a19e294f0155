"""The library's HTTP protocol, with errors that are one line in the log and name no version to the caller.

A message that is not HTTP never reaches an application, so these answers are not finished there as all others are.
"""

import asyncio
import logging
from http import HTTPStatus

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from scorer.api.quoting import printable

LONGEST_REASON = 200
"""Characters of the library's message that are logged: it quotes what was sent."""

_log = logging.getLogger(__name__)


class _Anonymous(web.Response):
    """An answer without the name and version of the library, which adds them to every answer."""

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        self.headers.popall("Server", None)


class _Protocol(RequestHandler):
    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a message that the library cannot hand to a handler, or a request whose handler has failed."""
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            _log.error("request failed", extra={"status": status, "remote": request.remote}, exc_info=exc)
        else:
            reason = printable(str(message or exc or "").replace("\n", " ")[:LONGEST_REASON])
            _log.info("no HTTP request", extra={"status": status, "remote": request.remote, "reason": reason})
        if request.writer.output_size > 0:  # a second status line would pass for a part of the first answer
            raise ConnectionError("a part of the answer has been sent already")
        response = _Anonymous(status=status, text=f"{status} {HTTPStatus(status).phrase}\n")
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.force_close()
        return response


def protocol_of(server: web.Server) -> RequestHandler:
    """Make the protocol of a new connection to *server*, with the settings of its runner."""
    return _Protocol(server, loop=asyncio.get_running_loop(), **server._kwargs)
