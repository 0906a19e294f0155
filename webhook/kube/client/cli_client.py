"""Requests of a command to a hub, over urllib3: few, sequential, and with a fast start.

urllib3 loads in a quarter of aiohttp's time. Loading aiohttp would take longer than everything else in most commands.
Every request waits in its own daemon thread, so that Ctrl-C ends a command immediately.
"""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlencode, urlsplit

import urllib3
from urllib3.exceptions import HTTPError, InsecureRequestWarning
from urllib3.util import Timeout, make_headers

from webhook.kube.login.connection import Login
from webhook.kube.ports import UnavailableError

CONNECT_SECONDS: Final = 5.0
MAX_CONCURRENT_REQUESTS: Final = 16
"""Maximum number of concurrent requests. A hub may have a hundred groups to query."""
_MOST_KEPT: Final = 2 * MAX_CONCURRENT_REQUESTS
"""Size of the connection pool, streams included. The library warns the user about each connection beyond that."""
LARGEST_PART: Final = 64 * 1024
"""Bytes of one chunk of a stream."""

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete response.

    Args:
        status: HTTP status code.
        content: The body.
        warnings: Values of its ``Warning`` headers.
        retry_after: ``Retry-After`` header. None: unset.
    """

    status: int
    content: bytes
    warnings: tuple[str, ...] = ()
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """A streamed response.

    Args:
        status: HTTP status code.
        parts: Content, in parts of any size.
    """

    status: int
    parts: AsyncIterator[bytes]


class HubHttp:
    """Sends requests to one server, until closed by ``with`` or `close`.

    Args:
        login: Address, trust and credentials.

    Raises:
        ValueError: The address or the proxy is not a valid URL.
    """

    def __init__(self, login: Login) -> None:
        self._login = login
        self._turns = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)
        self.address = login.address.rstrip("/")
        tls = self.address.startswith("https:")
        trust: dict[str, Any] = {}
        if tls and not isinstance(login.trust, bool):
            trust = {"ssl_context": login.trust, "server_hostname": login.server_name}
            urllib3.disable_warnings(InsecureRequestWarning)  # the author of the kubeconfig chose this
        try:
            self._pool = _manager(login.proxy, trust).connection_from_url(self.address)
        except HTTPError as error:
            raise ValueError(str(error)) from error
        # Plain HTTP through a proxy needs the whole URL. In all other cases, no hop may rewrite the path.
        self._root = self.address if login.proxy and not tls else urlsplit(self.address).path

    def __enter__(self) -> "HubHttp":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.close()

    async def send(
        self,
        method: str,
        path: str,
        content: bytes | None,
        query: Mapping[str, str] | None,
        content_type: str,
        seconds: float,
        accept: str = "application/json",
    ) -> Reply:
        """Send one request and return the response, regardless of its status.

        Args:
            method: HTTP method.
            path: Path on the server, quoted, optionally with a query.
            content: The body, if any.
            query: Parameters, besides those in *path*.
            content_type: Media type of *content*.
            seconds: Timeout, starting when the request gets a slot.
            accept: Accepted media type.

        Raises:
            UnavailableError: There is no answer. The cause is the error of the operating system or TLS, if any.
        """
        headers = {"Accept": accept, "Content-Type": content_type, "Accept-Encoding": "gzip"}
        headers |= await self._login.credentials()
        timeout = Timeout(connect=min(CONNECT_SECONDS, seconds), read=seconds)

        def ask() -> Reply:
            try:
                response = self._begin(method, path, content, query, headers, timeout)
            except (HTTPError, OSError) as error:
                # The server has closed the connection without a response, for example an idle one before its reuse.
                if method != "GET" or not isinstance(_cause(error), (ssl.SSLEOFError, ConnectionResetError)):
                    raise
                response = self._begin(method, path, content, query, headers, timeout)
            body = response.read(decode_content=True)
            response.release_conn()
            warnings, retry_after = response.headers.getlist("Warning"), response.headers.get("Retry-After")
            return Reply(response.status, body, tuple(warnings), retry_after)

        try:
            async with self._turns, asyncio.timeout(seconds) as limit:
                return await _in_thread(ask)
        except (HTTPError, OSError) as error:
            if limit.expired():
                reason = f"timed out after {seconds:g} s"
                raise UnavailableError(f"{self.address} does not answer {method} {path}: {reason}") from error
            raise self._unavailable(method, path, error) from _cause(error)

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Stream]:
        """Start a streamed request. Raises `UnavailableError`, as do its parts."""
        headers = {"Accept-Encoding": "identity", **await self._login.credentials()}
        timeout = Timeout(connect=CONNECT_SECONDS, read=None)
        try:
            response = await _in_thread(lambda: self._begin("GET", path, None, query, headers, timeout))
        except (HTTPError, OSError) as error:
            raise self._unavailable("GET", path, error) from _cause(error)

        async def parts() -> AsyncIterator[bytes]:
            parts = response.stream(LARGEST_PART)
            try:
                while (part := await _in_thread(lambda: next(parts, None))) is not None:
                    yield part
            except (HTTPError, OSError) as error:
                raise self._unavailable("GET", path, error) from _cause(error)

        try:
            yield Stream(response.status, parts())
        finally:
            with suppress(ValueError, RuntimeError, OSError):  # it has already ended
                response.shutdown()  # unblocks a reader in a thread first
            response.close()

    def _begin(
        self,
        method: str,
        path: str,
        content: bytes | None,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str],
        timeout: Timeout,
    ) -> urllib3.BaseHTTPResponse:
        url = f"{path}{'&' if '?' in path else '?'}{urlencode(query)}" if query else path
        return self._pool.urlopen(
            method,
            self._root + url,
            body=content,
            headers={"Accept": "application/json", "User-Agent": "harbormaster", **headers},
            retries=False,
            redirect=False,
            timeout=timeout,
            preload_content=False,
        )

    def _unavailable(self, method: str, path: str, error: Exception) -> UnavailableError:
        cause = _cause(error)
        reason = (cause.strerror if isinstance(cause, OSError) else "") or str(cause) or type(cause).__name__
        return UnavailableError(f"{self.address} does not answer {method} {path}: {reason.lower()}")


def _manager(proxy: str | None, trust: Mapping[str, Any]) -> urllib3.PoolManager:
    if not proxy:
        return urllib3.PoolManager(maxsize=_MOST_KEPT, **trust)
    name, _, password = (urlsplit(proxy).netloc.rpartition("@")[0]).partition(":")
    proxy_headers = make_headers(proxy_basic_auth=f"{unquote(name)}:{unquote(password)}") if name else None
    return urllib3.ProxyManager(proxy, maxsize=_MOST_KEPT, proxy_headers=proxy_headers, **trust)


def _cause(error: BaseException) -> Exception:
    """Return the error of the operating system, TLS or the name service that *error* wraps, else *error*."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and not isinstance(cause, HTTPError):
            return cause
        inner = next((argument for argument in cause.args if isinstance(argument, BaseException)), None)
        cause = inner or cause.__cause__ or cause.__context__
    return error if isinstance(error, Exception) else OSError(str(error))


async def _in_thread(work: Callable[[], _Result]) -> _Result:
    """Return the result of *work*. Cancelling the caller abandons the thread."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Result] = loop.create_future()

    def hand_over(give: Callable[[Any], None], value: object) -> None:
        if not future.done():
            give(value)

    def run() -> None:
        try:
            result: tuple[Callable[[Any], None], object] = (future.set_result, work())
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            result = (future.set_exception, error)
        with suppress(RuntimeError):  # the loop has ended in the meantime
            loop.call_soon_threadsafe(hand_over, *result)

    threading.Thread(target=run, daemon=True).start()
    return await future
