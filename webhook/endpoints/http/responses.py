"""Response headers and bodies: request ID, JSON, problem details, entity tags, compression.

Responses are compressed on request: none has a secret alongside content that the caller controls.

Source: docs/specifications/serving.md 3.2 and 3.3.
"""

import hashlib
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from webhook.endpoints.http.problems import PROBLEM_JSON, Problem, ProblemDetails, ProblemError
from webhook.kube.transport.serialization import encode

REQUEST_ID: Final = "X-Request-Id"
JSON: Final = "application/json; charset=utf-8"

SMALLEST: Final = 1024
"""Minimum bytes of a compressed response."""
_COMPRESSED_BESIDE: Final = 64 * 1024
"""Minimum bytes of a response that is compressed in a thread."""

_GIVEN_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


def request_id(request: web.BaseRequest) -> str:
    """Return an ID for a request: the caller's ``X-Request-Id`` if it is short and safe to log, else a new one.

    A handler that shows the ID in a body also sets the header. The server adds the header to all other responses.
    """
    header = request.headers.get(REQUEST_ID)
    return header if header is not None and _GIVEN_ID.fullmatch(header) else new_id()


def new_id() -> str:
    """Return a random UUID. Faster than the standard library, which reads randomness from the system each time."""
    digits = f"{random.getrandbits(128):032x}"  # identifies requests, protects nothing
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def headers(**members: str) -> CIMultiDictProxy[str]:
    """Build headers once, for use in many responses. ``_`` in a name stands for ``-``."""
    return CIMultiDictProxy(CIMultiDict({name.replace("_", "-"): value for name, value in members.items()}))


_UNSTORED: Final = headers(Content_Type=JSON, Cache_Control="no-store")


def unstored(document: Mapping[str, object], status: int = 200) -> web.Response:
    """Return a response with *document*, keys sorted, that no cache may store."""
    return web.Response(status=status, body=encode(document, sort=True), headers=_UNSTORED)


def tagged(request: web.Request, document: Mapping[str, object], revision: str = "") -> web.Response:
    """Return a response with *document*, keys sorted, and an entity tag, or 304 to a GET or HEAD with that tag.

    Args:
        request: The request.
        document: The response. It should have times instead of ages, which would change its tag every second.
        revision: Revision of the state that the response is based on, a prefix of the tag. If empty, the tag depends on
            *document* alone.
    """
    body = encode(document, sort=True)
    digest = hashlib.sha256(body).hexdigest()[:16]
    is_compressed = len(body) >= SMALLEST and accepts_gzip(request)
    tag = "-".join(part for part in (revision, digest, "gzip" if is_compressed else "") if part)
    members = {"ETag": f'"{tag}"', "Vary": "Accept-Encoding"}
    if request.method in {"GET", "HEAD"}:
        members["Cache-Control"] = "private, no-cache"
        if matches_etag(request, members["ETag"]):
            return web.Response(status=304, headers=members)
    headers = {"Content-Type": JSON, **members}
    response = web.Response(body=body, headers=headers, zlib_executor_size=_COMPRESSED_BESIDE)
    if is_compressed:
        response.enable_compression(web.ContentCoding.gzip)
    return response


def problem_response(request: web.Request, error: ProblemError) -> web.Response:
    """Return the response to *request* that reports *error*."""
    problem = error.problem
    identity = error.request_id or request_id(request)
    body: ProblemDetails = {
        "type": f"urn:harbormaster:problem:{problem.slug}",
        "title": problem.title,
        "status": int(problem.status),
        "detail": error.detail,
        "instance": f"urn:uuid:{identity}",
    }
    if error.audience:
        body["audience"] = error.audience
    if error.answer is not None:
        body["answer"] = error.answer
    headers = {"Content-Type": PROBLEM_JSON, "Cache-Control": "no-store", REQUEST_ID: identity, **error.headers}
    if error.mistakes:
        body["errors"] = [
            {"pointer": mistake.pointer, "code": mistake.code, "detail": mistake.detail} for mistake in error.mistakes
        ]
    if error.retry_after is not None:
        body["retryAfterSeconds"] = error.retry_after
        headers["Retry-After"] = str(error.retry_after)
    return web.Response(status=problem.status, body=encode(body), headers=headers)


@dataclass(frozen=True, slots=True)
class AggregatedResource:
    """A resource of the aggregated API.

    Args:
        group: Its API group.
        name: Its plural. Empty for a discovery document.
    """

    group: str
    name: str = ""


_REASONS: Final[Mapping[Problem, str]] = {
    Problem.MALFORMED_REQUEST: "BadRequest",
    Problem.UNAUTHENTICATED: "Unauthorized",
    Problem.FORBIDDEN: "Forbidden",
    Problem.NOT_FOUND: "NotFound",
    Problem.METHOD_NOT_ALLOWED: "MethodNotAllowed",
    Problem.REQUEST_TIMEOUT: "Timeout",
    Problem.CONFLICT: "Conflict",
    Problem.CONTINUE_EXPIRED: "Expired",
    Problem.PAYLOAD_TOO_LARGE: "RequestEntityTooLarge",
    Problem.UNSUPPORTED_MEDIA_TYPE: "UnsupportedMediaType",
    Problem.VALIDATION_FAILED: "Invalid",
    Problem.RATE_LIMITED: "TooManyRequests",
    Problem.INTERNAL: "InternalError",
    Problem.NOT_READY: "ServiceUnavailable",
    Problem.DEADLINE_EXCEEDED: "ServiceUnavailable",
}
"""Reasons of Kubernetes."""


def status_response(request: web.Request, error: ProblemError, resource: AggregatedResource) -> web.Response:
    """Write *error* as a ``Status`` of Kubernetes, with the member `errors` of problem details for our own clients."""
    problem = error.problem
    details: dict[str, object] = {"group": resource.group, "kind": resource.name}
    headers = {
        "Content-Type": "application/json",
        "Cache-Control": "no-store",
        REQUEST_ID: error.request_id or request_id(request),
        **error.headers,
    }
    mistakes = [
        {"pointer": mistake.pointer, "code": mistake.code, "detail": mistake.detail} for mistake in error.mistakes
    ]
    if mistakes:
        details["causes"] = [
            {"reason": "FieldValueInvalid", "field": mistake.pointer, "message": mistake.detail}
            for mistake in error.mistakes
        ]
    if error.retry_after is not None:
        details["retryAfterSeconds"] = error.retry_after
        headers["Retry-After"] = str(error.retry_after)
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.detail,
        "reason": _REASONS[problem],
        "details": details,
        "code": int(problem.status),
        **({"errors": mistakes} if mistakes else {}),
    }
    return web.Response(status=problem.status, body=encode(body), headers=headers)


def accepts_gzip(request: web.Request) -> bool:
    """Return whether the caller accepts a response in gzip."""
    for choice in ",".join(request.headers.getall("Accept-Encoding", ())).split(","):
        coding, _, weight = choice.replace(" ", "").lower().partition(";")
        if coding == "gzip":
            return weight.removeprefix("q=").rstrip("0") not in {"", "0."} or not weight
    return False


def matches_etag(request: web.Request, tag: str) -> bool:
    """Return whether the caller already has the response with that entity tag."""
    header = request.headers.get("If-None-Match", "")
    return header == "*" or tag in (part.strip().removeprefix("W/") for part in header.split(","))


def has_json_body(request: web.Request) -> bool:
    """Return whether the request announces uncompressed JSON in UTF-8."""
    if "Content-Encoding" in request.headers and request.headers["Content-Encoding"].lower() != "identity":
        return False
    content_type: Any = request.headers.get("Content-Type")
    if content_type == "application/json":
        return True
    if content_type is None or request.content_type.lower() != "application/json":
        return False
    charset = request.charset
    return charset is None or charset.lower() == "utf-8"
