"""The HTTP protocol of aiohttp ("the library" below), with one-line log entries for errors and a fast path for reviews.

Responses have no ``Server`` header. A message that is not HTTP never reaches an application, so the response lacks the
application's headers.

Through the library and the regular handler, a review takes two and a half times the CPU time of the fast path. An API
server writes every review in the same few lines and sends it in one go. So a message of exactly that form is answered
where it arrives, if the hooks (`webhook.endpoints.admission.hooks`) can answer without waiting. Everything else is
passed to the library unchanged.

Both must agree on message boundaries, or a client could smuggle a request through a proxy that it shares with others.
So the fast path is open only while the library waits for a new message, and is closed permanently on a connection that
has sent a message of any other form. If the library lacks the attributes that show whether it waits, the fast path is
disabled.

A general parser cannot replace this one. It accepts more forms than the library does, and each of them would be a place
where the two may disagree. Nor does it know whether the library waits.
"""

import asyncio
import logging
import re
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import HttpVersion10, HttpVersion11
from aiohttp.http_exceptions import BadStatusLine
from aiohttp.web_protocol import RequestHandler

from webhook.access.front_proxy import MOST_VALUES
from webhook.endpoints.admission.fast_path import FAST_PATH, Called, FastPath
from webhook.endpoints.http.responses import new_id

VERSIONS: Final = (HttpVersion10, HttpVersion11)
LONGEST_HEAD: Final = 1024
MOST_HEADS: Final = 256
"""Maximum number of cached heads. One API server sends a few, by hook and kind."""
MOST_DIGITS: Final = 8
MOST_HEADERS: Final = 128
"""Maximum number of headers of a request, besides those of the front proxy about its user."""
LONGEST_HELD: Final = 16 * 1024
"""Maximum size in bytes of a held partial review: an API server sends its head, or 4 KiB, first."""
HELD_SECONDS: Final = 0.05
"""Maximum time to hold a partial review. An API server sends the rest immediately."""

OF_THE_LIBRARY: Final = (
    "_close",
    "_force_close",
    "_keepalive_handle",
    "_keepalive_timeout",
    "_next_keepalive_close_time",
    "_paused",
    "_process_keepalive",
    "_request_count",
    "_waiter",
)
"""Private attributes of the library's protocol that the fast path needs."""

_REQUEST: Final = re.compile(rb"POST (/[!-~]*) HTTP/1\.1")
_HEADER: Final = re.compile(rb"(Host|User-Agent|Accept|Accept-Encoding|Content-Type): ([ -~]*)")
_LENGTH: Final = b"\r\nContent-Length: "

_log = logging.getLogger(__name__)


class _Anonymous(web.Response):
    """A response without a ``Server`` header."""

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        self.headers.popall("Server", None)


@dataclass(frozen=True, slots=True)
class _Post:
    """A head of the form that API servers write.

    Args:
        called: Hook to call. None if no fast answer is possible.
    """

    called: Called | None


class Posts:
    """Parses message heads, and sends answers.

    Args:
        fast_path: Answers reviews.
    """

    def __init__(self, fast_path: FastPath) -> None:
        self.fast_path = fast_path
        self.find = lru_cache(maxsize=MOST_HEADS)(self._read)
        self._unsent: list[tuple[asyncio.WriteTransport, bytes]] = []

    def send(self, transport: asyncio.WriteTransport, answer: bytes) -> None:
        """Send an answer together with those to all clients that were read in this iteration of the event loop.

        Evaluating all reviews before sending takes a third less time than alternating. Data that arrives in the next
        iteration is handled after this.
        """
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self.send_all)
        self._unsent.append((transport, answer))

    def send_all(self) -> None:
        """Send the queued answers."""
        answers, self._unsent = self._unsent, []
        for transport, answer in answers:
            if not transport.is_closing():
                transport.write(answer)

    def _read(self, before: bytes, after: bytes) -> _Post | None:
        """Parse a head. Return None if it has another form.

        Args:
            before: Bytes before its ``Content-Length``.
            after: Bytes after the line with it.
        """
        first, *lines = before.split(b"\r\n")
        if after:
            lines += after.split(b"\r\n")
        request = _REQUEST.fullmatch(first)
        headers = {match[1]: match[2] for line in lines if (match := _HEADER.fullmatch(line))}
        if request is None or len(headers) < len(lines) or b"Host" not in headers:
            return None
        if headers.get(b"Content-Type") != b"application/json":
            return _Post(None)
        return _Post(self.fast_path.find(request[1].decode("ascii")))


class _Protocol(RequestHandler):
    """The protocol of one connection.

    Args:
        server: Handles the messages that the library parses.
        posts: Fast path. None: disabled.
        most_headers: Maximum number of headers of a request.
    """

    __slots__ = ("_ahead", "_held", "_is_plain", "_patience", "_posts")

    def __init__(self, server: web.Server, posts: Posts | None, most_headers: int) -> None:
        settings = {**server._kwargs, "max_headers": most_headers}
        super().__init__(server, loop=asyncio.get_running_loop(), **settings)
        self._posts = posts
        self._is_plain = posts is not None
        """Whether the start of the next message is known."""
        self._ahead = 0
        """Outstanding bytes of a message that the library reads."""
        self._held = b""
        """Held part of a review that the library has not received yet."""
        self._patience: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """Answer a review immediately, hold its first part for a moment, or pass the data to the library."""
        held_bytes, self._held = self._held, b""
        posts = self._posts
        body = self._answer(held_bytes + data, posts) if posts is not None and self._is_plain and data else None
        if self._held:
            return
        self._stop_waiting()
        if posts is None or body is None or self.transport is None:
            if held_bytes:  # separately: the library does not answer a partial request
                super().data_received(held_bytes)
            super().data_received(data)
            return
        posts.send(
            self.transport,
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Request-Id: %b\r\n"
            b"X-Content-Type-Options: nosniff\r\nContent-Length: %d\r\nDate: %b\r\n\r\n%b"
            % (new_id().encode("ascii"), len(body), rfc822_formatted_time().encode("ascii"), body),
        )
        self._stay_open()

    def _stay_open(self) -> None:
        """Restart the library's keepalive timer."""
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(self._next_keepalive_close_time, self._process_keepalive)

    async def shutdown(self, timeout: float | None = 15.0) -> None:  # noqa: ASYNC109 - the library's
        """Close the connection after sending queued answers."""
        if self._posts is not None:
            self._posts.send_all()
        await super().shutdown(timeout)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Drop held data."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _let_go(self) -> None:
        """Pass held data to the library, which has its own timeout for the rest."""
        self._patience = None
        data, self._held = self._held, b""
        if self._posts is not None and self._is_plain:
            self._answer(data, self._posts, may_hold=False)
        super().data_received(data)

    def _answer(self, data: bytes, posts: Posts, *, may_hold: bool = True) -> bytes | None:
        """Return the body of the answer to the message in *data*.

        None if *data* is the held first part of such a message, or the library must read it.
        """
        if self._ahead:
            self._ahead -= len(data)
            if self._ahead < 0:
                self._is_plain = False
            return None
        head, end, body = data.partition(b"\r\n\r\n")
        before, separator, after = head.partition(_LENGTH)
        digits, _, after = after.partition(b"\r\n")
        is_framed = end and separator and len(head) <= LONGEST_HEAD and len(digits) <= MOST_DIGITS and digits.isdigit()
        post = posts.find(before, after) if is_framed else None
        self._ahead = int(digits) - len(body) if post is not None else -1
        if post is None or self._ahead < 0:
            self._is_plain = False
            return None
        if post.called is None or not self._is_waiting():
            return None
        if self._ahead:
            if may_hold and len(data) + self._ahead <= LONGEST_HELD:
                self._ahead, self._held = 0, data
                self._stay_open()
                if self._patience is None:  # one timer per message, not per piece
                    self._patience = self._loop.call_later(HELD_SECONDS, self._let_go)
            return None
        return posts.fast_path.answer_synchronously(post.called, self, body)

    def _is_waiting(self) -> bool:
        """Return whether the library is waiting for a message on an open, writable connection."""
        waits = self._request_count == 0 or (self._waiter is not None and not self._waiter.done())
        return waits and not (self._close or self._force_close or self._paused)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 # the library's text, which quotes the request
    ) -> web.StreamResponse:
        """Answer a message that the library cannot parse, or a request whose handler has failed.

        Raises:
            ConnectionError: A part of the response has already been sent.
        """
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            _log.error("request failed", extra={"status": status, "remote": request.remote}, exc_info=exc)
        else:
            # Never log the text of the error, which quotes the request: bearer tokens, cookies, the secret path.
            fields = {"status": status, "remote": request.remote, "reason": type(exc).__name__ if exc else ""}
            _log.info("malformed request refused", extra=fields)
        if request.writer.output_size > 0:  # a second status line would look like a part of the first answer
            raise ConnectionError("part of the response has already been sent")
        response = _Anonymous(status=status, text=f"{status} {HTTPStatus(status).phrase}\n")
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.force_close()
        return response


def posts_of(app: web.Application) -> Posts | None:
    """Return the fast path for *app*. None: disabled."""
    fast_path = app.get(FAST_PATH)
    is_supported = all(hasattr(RequestHandler, name) for name in OF_THE_LIBRARY)
    return Posts(fast_path) if fast_path is not None and is_supported else None


def refuse_other_versions(server: web.Server) -> None:
    """Make *server* answer every version other than HTTP/1.0 and HTTP/1.1 with 400.

    The library takes a request line without a version for HTTP/0.9 and hands it to the application. A proxy in front
    may read the same bytes differently.
    """
    handle = server.request_handler

    async def handle_known(request: web.BaseRequest) -> web.StreamResponse:
        if request.version in VERSIONS:
            return await handle(request)
        request._version = HttpVersion10  # version of the answer: the client must not get back the one it made up
        return request.protocol.handle_error(request, HTTPStatus.BAD_REQUEST, BadStatusLine())

    server.request_handler = handle_known


def protocol_of(
    server: web.Server, posts: Posts | None, transport: asyncio.BaseTransport | None = None
) -> RequestHandler:
    """Create the protocol of a new connection to *server*, with the settings of its runner.

    Only a client with a verified certificate may send a header for each group of a user, because it may be the front
    proxy. Unfinished headers of other clients take memory before they are authenticated.
    """
    is_verified = transport is not None and bool(transport.get_extra_info("peercert"))
    return _Protocol(server, posts, MOST_HEADERS + MOST_VALUES if is_verified else MOST_HEADERS)
