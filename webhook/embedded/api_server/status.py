"""Kubernetes ``Status`` bodies: how the embedded API server reports failure or success."""

import logging
from collections.abc import Iterable
from typing import Any, Final

from aiohttp import web

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.api.values.quoting import printable
from webhook.embedded.patches.managed_fields import FieldConflictError
from webhook.embedded.storage.lifecycle import InvalidMetadataError
from webhook.embedded.storage.store import NamespaceTerminatingError
from webhook.kube.ports import (
    AlreadyExistsError,
    ConflictError,
    ExpiredError,
    InvalidObjectError,
    NotFoundError,
    StoreError,
)
from webhook.kube.transport.serialization import encode
from webhook.validation.framework.field import FieldError

_LOG: Final = logging.getLogger(__name__)

_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    500: "InternalError",
}


class ApiError(Exception):
    """A refused request, answered with a ``Status`` body.

    Args:
        code: HTTP status.
        message: Message for the user.
        reason: Machine-readable. Defaults to that of *code*.
        details: ``details`` of the body.
        warnings: Warnings for the user.
        headers: Headers of the response.
    """

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str = "",
        details: JsonObject | None = None,
        warnings: tuple[str, ...] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason or _REASONS[code]
        self.details = details
        self.warnings = warnings
        self.headers = headers

    def body(self) -> JsonObject:
        """Return the ``Status`` object."""
        return failure(self.code, self.reason, self.message, self.details)


def failure(code: int, reason: str, message: str, details: JsonObject | None = None) -> JsonObject:
    """Return the ``Status`` of a refusal."""
    status: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    lines = "\n".join(printable(line) for line in message.split("\n"))
    status |= {"message": lines, "reason": reason, "code": code}
    return status | {"details": details} if details else status


def success(kind: Kind, name: str, uid: str) -> JsonObject:
    """Return the ``Status`` of a completed deletion."""
    details = {"name": name, "group": kind.group, "kind": kind.plural, "uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def causes(errors: Iterable[FieldError]) -> list[JsonObject]:
    """Return field errors as ``details.causes``."""
    return [
        {"reason": error.cause.value, "message": error.text(), "field": printable(str(error.field))} for error in errors
    ]


def of_conflicts(error: FieldConflictError) -> ApiError:
    """Return the error for fields that a server-side apply would take from other managers."""
    reason = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, path in error.conflicts
    ]
    return ApiError(409, str(error), details={"causes": reason})


def of_store(error: StoreError, kind: Kind, name: str) -> ApiError:
    """Return an error of the store as that of an API server. An unexpected one is logged and becomes a 500."""
    resource = {"name": name, "group": kind.group, "kind": kind.plural}
    message = str(error)
    match error:
        case NotFoundError():
            return ApiError(404, message, details=resource)
        case AlreadyExistsError():
            return ApiError(409, message, reason="AlreadyExists", details=resource)
        case ConflictError():
            return ApiError(409, message, details=resource)
        case ExpiredError():
            return ApiError(410, message)
        case InvalidMetadataError():
            details = {"name": name, "group": kind.group, "kind": kind.kind, "causes": causes(error.errors)}
            return ApiError(422, message, details=details)
        case InvalidObjectError():
            return ApiError(422, message, details=resource)
        case NamespaceTerminatingError():
            reason = {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
            return ApiError(403, message, details=resource | {"causes": [reason]})
        case _:
            _LOG.error("the embedded store failed", extra={"error": message})
            return ApiError(500, message)


def json_response(
    body: Any, *, code: int = 200, warnings: Iterable[str] = (), headers: dict[str, str] | None = None
) -> web.Response:
    """Return a JSON response, with a ``Warning`` header for every unique warning."""
    answer = web.Response(body=encode(body), status=code, content_type="application/json", headers=headers)
    for warning in dict.fromkeys(warnings):
        text = printable(warning).replace("\\", "\\\\").replace('"', '\\"')
        answer.headers.add("Warning", f'299 - "{text}"')
    return answer
