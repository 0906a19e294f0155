"""Responses of an API server: documents, and the `StoreError` that matches a refusal.

Shared by all clients, regardless of their HTTP library.

Source: docs/specifications/serving.md 7.
"""

import math
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Final, Protocol

import orjson

from scorer.api.unstructured.json_object import JsonObject
from webhook.kube.client.paths import ApiPath
from webhook.kube.ports import (
    AlreadyExistsError,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidObjectError,
    NotFoundError,
    NotServedError,
    StoreError,
    UnavailableError,
)

REQUEST_SECONDS: Final = 30.0
"""Timeout of a request."""
LONGEST_RETRY_SECONDS: Final = 300.0
"""A longer Retry-After is ignored."""
PASSING: Final = frozenset({408, 425, 429})
"""Status codes of transient refusals, besides those from 500."""
_TOO_LARGE: Final = ("request is too large", "larger than max")
"""Messages of etcd, or of the API server's etcd client, that refuse an object for its size. The status is 500."""
_ERRORS: Final[Mapping[int, type[StoreError]]] = {
    400: InvalidObjectError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    413: InvalidObjectError,
    422: InvalidObjectError,
}
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


def warnings_in(headers: Iterable[str]) -> tuple[str, ...]:
    """Return the texts of all warnings in the values of ``Warning`` headers."""
    texts = (text for header in headers for text in _WARNING.findall(header))
    return tuple(re.sub(r"\\(.)", r"\1", text) for text in texts)


class ObjectRequests(Protocol):
    """Sends the requests of a store: `webhook.kube.client.api_server.ApiServer`, or the client of a command."""

    async def request(
        self,
        method: str,
        path: ApiPath,
        body: JsonObject | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        seconds: float = REQUEST_SECONDS,
        fence: Callable[[], None] | None = None,
    ) -> JsonObject:
        """Send one request and return the document of the response. Raises `StoreError`."""
        ...

    def watch(self, path: ApiPath, query: Mapping[str, str]) -> AsyncIterator[tuple[JsonObject, bool]]:
        """Yield the events of one watch, and whether more have already arrived. Raises `StoreError`."""
        ...


def decode(content: bytes) -> JsonObject:
    """Parse a body as a document. Anything else, such as the HTML page of a proxy, becomes an empty document."""
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def error_of(code: int, status: JsonObject, content: bytes, retry_after: float | None = None) -> StoreError:
    """Return the error of a refusal. *status* is the document parsed from the body *content*."""
    message = str(status.get("message") or content[:200].decode(errors="replace").strip() or f"HTTP {code}")
    if code == 409 and status.get("reason") == "AlreadyExists":
        return AlreadyExistsError(message)
    if code == 404 and status.get("reason") != "NotFound":
        return NotServedError(message)
    if code == 401:
        return ForbiddenError(f"the token or certificate is not accepted: {message}")
    if code == 403:
        return ForbiddenError(message)
    if code == 400 and status.get("reason") == "Expired":
        return ExpiredError(message)
    if code >= 500 and any(words in message for words in _TOO_LARGE):
        return InvalidObjectError(message)  # no retry succeeds
    if code in PASSING or code >= 500:
        return UnavailableError(message, retry_after)
    return _ERRORS.get(code, StoreError)(message)


def retry_after(header: str | None, status: JsonObject) -> float | None:
    """Return the delay that a response requests, in seconds. None: unset.

    Dates are ignored, because no API server sends them. So are delays that are not positive, or longer than
    `LONGEST_RETRY_SECONDS`.
    """
    seconds_text = header if header is not None else (status.get("details") or {}).get("retryAfterSeconds")
    try:
        seconds = float(seconds_text) if seconds_text is not None else math.nan
    except (TypeError, ValueError):
        return None
    return seconds if 0 < seconds <= LONGEST_RETRY_SECONDS else None
