"""Requests to an API server: bytes out, decoded JSON in, every failure a `StoreError`.

kubernetes-asyncio provides credentials (`webhook.kube.login.credentials`), but its client is not used, because objects
are plain documents here. Further differences:

- Every request has a timeout. In kubernetes-asyncio, an explicit timeout disables the timeout.
- The status of a watch is checked before its lines are read.
- orjson writes the bodies. It refuses lone surrogates, which are sent as U+FFFD.
- No session reads a netrc file in a thread before every request. Proxies from the environment are still used.

Source: docs/specifications/serving.md 7.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final, Self

import aiohttp
from yarl import URL

from scorer.api.unstructured.json_object import JsonObject, dump_json
from webhook.kube.client.paths import ApiPath
from webhook.kube.client.reachability import Contact, is_about_certificates
from webhook.kube.client.responses import PASSING, REQUEST_SECONDS, decode, error_of, retry_after
from webhook.kube.login.connection import Login
from webhook.kube.login.kubeconfig import ConfigurationError
from webhook.kube.ports import ExpiredError, StoreError, UnavailableError
from webhook.kube.transport.sessions import LoopConnector
from webhook.kube.transport.write_guard import FencedBody, LeaseGuard

CONNECT_SECONDS: Final = 5.0
SILENCE_SECONDS: Final = 90.0
"""A watch that has sent nothing for this long, not even a bookmark, counts as dead."""
CONNECTIONS: Final = 200
"""Maximum number of concurrent requests. Watches do not count, so they never delay a request."""
LONGEST_EVENT_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of a watch event. No object is larger: etcd accepts 1.5 MiB."""
ASKING_SECONDS: Final = 5.0
"""Timeout of a probe of the server."""
REREAD_SECONDS: Final = 5.0
"""Minimum time between two reads of a login that is refused."""
READING_SECONDS: Final = 30.0
"""Timeout of one read: a credential plugin may hang, or the Secret may be on a member that does not respond."""

_log = logging.getLogger(__name__)


class ApiServer:
    """Client of one API server, closed by ``async with``. Must be constructed inside the event loop, see `connect`.

    Args:
        login: Address, trust and credentials.
        connections: Maximum number of concurrent requests.
        reread: Reads the login again when certificates or credentials are refused. Raises `ConfigurationError`. None:
            disabled.

    Attributes:
        login: The login in use.
        contact: The outcome of its requests.
    """

    def __init__(
        self,
        login: Login,
        *,
        connections: int = CONNECTIONS,
        reread: Callable[[], Awaitable[Login]] | None = None,
    ) -> None:
        self.login = login
        self.contact = Contact()
        self._reread = reread
        self._next_reread = float("-inf")
        self._rereading = asyncio.Lock()
        self.address = login.address.rstrip("/")
        self._root = str(URL(self.address)).rstrip("/")  # may raise, so before anything that must be closed
        self._turns = asyncio.Semaphore(connections)
        self._dated: tuple[str, float] | None = None  # Date header of the last response, and when it arrived
        self._session = aiohttp.ClientSession(
            connector=LoopConnector(limit=0),  # requests use the semaphore, watches are unlimited
            read_bufsize=LONGEST_EVENT_BYTES // 2,
        )

    @classmethod
    async def connect(
        cls, kubeconfig: Path | None = None, context: str | None = None, *, connections: int = CONNECTIONS
    ) -> Self:
        """Return the API server of a kubeconfig, or of this process's pod.

        At most *connections* requests run concurrently. No request is sent yet. Tokens are renewed
        (`webhook.kube.login.token_renewal`). If the server refuses the login or cannot be verified, the login is read
        again, except for its address.

        Raises:
            ConfigurationError: The file is unusable, or there is no file and this is not a pod.
        """
        from webhook.kube.login.credentials import read_login  # see `webhook.kube.login.connection`

        login = await read_login(kubeconfig, context)
        try:
            return cls(login, connections=connections, reread=lambda: read_login(kubeconfig, context))
        except ValueError as error:
            raise ConfigurationError(f"kubeconfig {kubeconfig}: {error}") from error

    def time_of_day(self) -> datetime | None:
        """Return the server's time, accurate to a second or two, extrapolated from its last response.

        None: unknown, no response has had a date yet, or the last date is invalid. The clock of this machine has no
        influence.
        """
        if self._dated is None:
            return None
        date_text, received_at = self._dated
        try:
            then = parsedate_to_datetime(date_text)
        except ValueError:
            return None
        elapsed = timedelta(seconds=asyncio.get_running_loop().time() - received_at)
        return then + elapsed if then.tzinfo is not None else None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def request(
        self,
        method: str,
        path: ApiPath,
        body: JsonObject | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        seconds: float = REQUEST_SECONDS,
        fence: LeaseGuard | None = None,
    ) -> JsonObject:
        """Send one request and return the document of the response.

        Args:
            method: HTTP method.
            path: Path on the server, sent without decoding or normalization.
            body: Sent as JSON.
            query: Parameters.
            content_type: Media type of *body*.
            accept: Accepted media type.
            seconds: Timeout, including the wait for other requests.
            fence: Called right before the request is sent, after all waits. Its error is raised here, and the server
                has then not received the complete request.

        Raises:
            StoreError: The subclass that matches the refusal. `UnavailableError` if there was no answer, or if the
                server is overloaded, with the seconds of its Retry-After.
        """
        content = None if body is None else dump_json(body)
        data: bytes | FencedBody | None = content
        if fence is not None:
            fence()  # early exit: the check that counts is that of the body when it is sent
            data = FencedBody(content or b"", fence)
        start = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(seconds):
                await self._turns.acquire()
        except TimeoutError as error:
            raise UnavailableError(f"{method} {path} waited {seconds:g} s for other requests to be answered") from error
        try:
            patience = _patience(max(0.001, start + seconds - asyncio.get_running_loop().time()))
            async with self.send(method, path, data, query, content_type, patience, accept) as response:
                content = await response.read()
                document = decode(content)
                if response.status >= 300:
                    raise _refusal(response, document, content)
                return document
        finally:
            self._turns.release()

    async def probe(self) -> None:
        """Send a small request whenever no request has been answered for a while, until cancelled.

        This keeps `contact` accurate for an idle server, and for one whose watches are silent.
        """
        while True:
            await asyncio.sleep(max(1.0, self.contact.seconds_to_probe))
            if self.contact.seconds_to_probe <= 0:
                with suppress(StoreError):
                    await self.request("GET", ApiPath("version"), seconds=ASKING_SECONDS)

    async def read_text(self, path: ApiPath, seconds: float) -> str:
        """Return a response that is not a document, such as that of a program behind the API server's proxy.

        Raises:
            StoreError: The subclass that matches the refusal. `UnavailableError` if there was no answer.
        """
        async with self.send("GET", path, None, None, "text/plain", _patience(seconds), "*/*") as response:
            content = await response.read()
            if response.status >= 300:
                raise _refusal(response, decode(content), content)
            return content.decode(errors="replace")

    async def watch(self, path: ApiPath, query: Mapping[str, str]) -> AsyncIterator[tuple[JsonObject, bool]]:
        """Yield each event of one watch request, and whether more have already arrived, until the server ends it.

        At most `LONGEST_EVENT_BYTES` are read ahead. Beyond that, the server is throttled until events are consumed.

        Raises:
            ExpiredError: The start version is too old, or an event is too long to be read: list again.
            StoreError: The server refused, or the connection broke.
        """
        silence = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
        async with self.send("GET", path, None, query, "application/json", silence) as response:
            if response.status >= 300:
                content = await response.read()
                raise _refusal(response, decode(content), content)
            received_bytes = 0
            try:
                async for line in response.content:
                    received_bytes += len(line)
                    event = decode(line)
                    if event.get("type") == "ERROR":
                        status = event.get("object") or {}
                        raise error_of(int(status.get("code") or 500), status, line, None)
                    if not isinstance(event.get("object"), dict):
                        raise UnavailableError(f"{self.address} sent no event on {path}: {line[:200]!r}")
                    yield event, response.content.total_bytes > received_bytes
            except ValueError as error:  # a line longer than the buffer
                raise ExpiredError(f"{path}: an event cannot be read: {error}") from error

    @asynccontextmanager
    async def send(
        self,
        method: str,
        path: str,
        data: bytes | FencedBody | None,
        query: Mapping[str, str] | None,
        content_type: str,
        patience: aiohttp.ClientTimeout,
        accept: str = "application/json",
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send one request and yield the response, regardless of its status.

        Args:
            method: HTTP method.
            path: An `ApiPath` for objects. For requests to our own server any quoted path, optionally with a query.
            data: The body, if any.
            query: Parameters, besides those in *path*.
            content_type: Media type of *data*.
            patience: Timeouts.
            accept: Accepted media type.

        Raises:
            UnavailableError: There is no answer.
        """
        headers = {"Accept": accept, "Content-Type": content_type, "User-Agent": "harbormaster"}

        async def attempt(login: Login) -> aiohttp.ClientResponse:
            return await stack.enter_async_context(
                self._session.request(
                    method,
                    URL(f"{self._root}{path}", encoded=True),
                    params=query,
                    data=data,
                    headers={**headers, **await login.credentials()},
                    timeout=patience,
                    allow_redirects=False,
                    ssl=login.trust,  # does not reuse connections of another login
                    proxy=login.proxy,
                    server_hostname=login.server_name,
                )
            )

        try:
            async with AsyncExitStack() as stack:
                response = await self._accepted(attempt)
                self._note(response)
                yield response
        except (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError, OSError) as error:
            # The library wraps errors of the body into connection errors. The refusal is the reason.
            if isinstance(data, FencedBody) and data.refusal is not None:
                raise data.refusal from None
            reason = str(error) or type(error).__name__
            self.contact.failed(reason, is_refused=is_about_certificates(error))
            raise UnavailableError(f"{self.address} does not answer {method} {path}: {reason}") from error

    async def _accepted(self, attempt: Callable[[Login], Awaitable[aiohttp.ClientResponse]]) -> aiohttp.ClientResponse:
        """Return the response to *attempt*, retried with a fresh login if certificates or credentials are refused."""
        login = self.login
        try:
            response = await attempt(login)
        except (aiohttp.ClientError, OSError) as error:
            if not is_about_certificates(error) or not await self._is_replaced(login):
                raise
        else:
            if response.status != 401 or not await self._is_replaced(login):
                return response
        return await attempt(self.login)

    async def _is_replaced(self, login: Login) -> bool:
        """Return whether *login* has been replaced, after reading it again if that is due."""
        async with self._rereading:  # deduplicates reads of requests that fail together
            time = asyncio.get_running_loop().time
            if self.login is login and self._reread is not None and time() >= self._next_reread:
                try:
                    async with asyncio.timeout(READING_SECONDS):
                        fresh = await self._reread()
                except (ConfigurationError, TimeoutError) as error:
                    reason = str(error) or f"not read within {READING_SECONDS:g} s"
                    _log.warning("login not reloaded", extra={"server": self.address, "reason": reason})
                    return False
                finally:  # counted from the end: otherwise each waiting request would start another slow read
                    self._next_reread = time() + REREAD_SECONDS
                if fresh.address.rstrip("/") != self.address:  # its credentials must not be sent to this server
                    extra = {"server": self.address, "named": fresh.address}
                    _log.warning("login not reloaded: server address changed, restart required", extra=extra)
                    return False
                self.login = fresh
                _log.info("login reloaded", extra={"server": self.address})
        return self.login is not login

    def _note(self, response: aiohttp.ClientResponse) -> None:
        if date := response.headers.get("Date"):
            self._dated = date, asyncio.get_running_loop().time()
        if response.status == 401 or response.status in PASSING or response.status >= 500:
            self.contact.failed(f"HTTP {response.status}", is_refused=response.status == 401)
        else:
            self.contact.answered()


def _patience(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)


def _refusal(response: aiohttp.ClientResponse, status: JsonObject, content: bytes) -> StoreError:
    return error_of(response.status, status, content, retry_after(response.headers.get("Retry-After"), status))
