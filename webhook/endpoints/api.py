"""What the endpoints below ``/v1`` share: methods, limits, strict bodies, problems, metrics.

Source: serving.md 3.1 to 3.3.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import pydantic
from aiohttp import web
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from scorer.api.field_path import json_pointer
from scorer.api.meta import JsonObject, dump_json, without_nulls
from webhook.admission.review import BadReviewError, parse_object
from webhook.endpoints.answers import has_json_body, request_id
from webhook.endpoints.bodies import BodyTimeoutError, BodyTooLargeError, BrokenBodyError, read_body
from webhook.endpoints.problems import Mistake, Problem, ProblemError, problem_response
from webhook.metrics import Metrics
from webhook.services import InvalidQuestionError, Services, UnknownObjectError
from webhook.settings import Settings
from webhook.validation.field import quote

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ModelT = TypeVar("ModelT", bound=BaseModel)

_READ: Final = frozenset({"GET", "HEAD"})
_log = logging.getLogger(__name__)


class RequestModel(BaseModel):
    """Base of request bodies: camelCase, unknown members refused, nothing coerced; null counts as absent."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Api:
    """Registers endpoints and surrounds each with what all of them do."""

    def __init__(self, app: web.Application, services: Services, settings: Settings, metrics: Metrics) -> None:
        self.app = app
        self.services = services
        self.settings = settings
        self._metrics = metrics
        self._in_flight = 0

    @property
    def in_flight(self) -> int:
        """Requests being handled, streams included."""
        return self._in_flight

    def get(self, path: str, route: str, handler: Handler) -> None:
        """Serve GET and HEAD on *path*."""
        self.app.router.add_route("*", path, self._wrap(_READ, route, handler))

    def post(self, path: str, route: str, handler: Handler) -> None:
        """Serve POST on *path*."""
        self.app.router.add_route("*", path, self._wrap(frozenset({"POST"}), route, handler))

    def _wrap(self, methods: frozenset[str], route: str, handler: Handler) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            loop = asyncio.get_running_loop()
            started = loop.time()
            response: web.StreamResponse
            self._in_flight += 1
            try:
                self._check(request.method, methods)
                response = await handler(request)
            except ProblemError as error:
                response = problem_response(request, error)
            except UnknownObjectError as error:
                response = problem_response(request, ProblemError(Problem.NOT_FOUND, str(error)))
            except InvalidQuestionError as error:
                mistake = Mistake(error.pointer, "invalid", error.detail)
                response = problem_response(
                    request, ProblemError(Problem.VALIDATION_FAILED, error.detail, mistakes=[mistake])
                )
            except Exception:  # noqa: BLE001 - whatever it is, the caller gets an id and the log the rest
                identity = request_id(request)
                _log.exception("request failed", extra={"request": identity, "route": route})
                detail = f"the log of harbormaster has more under {identity}"
                response = problem_response(request, ProblemError(Problem.INTERNAL, detail, request_id=identity))
            finally:
                self._in_flight -= 1
            self._metrics.answered(route, response.status, loop.time() - started)
            return response

        return handle

    def _check(self, method: str, methods: frozenset[str]) -> None:
        if method not in methods:
            allowed = ", ".join(sorted(methods))
            raise ProblemError(
                Problem.METHOD_NOT_ALLOWED,
                f"{method} is not understood here, only {allowed}",
                headers={"Allow": allowed},
            )
        if not self.services.synced():
            raise ProblemError(Problem.NOT_READY, "the caches are not filled yet", retry_after=1)

    async def read(self, request: web.Request, model: type[ModelT]) -> ModelT:
        """Read the request body as *model*.

        Raises:
            ProblemError: Not JSON, too large, too slow, or not of the model; every mistake is named.
        """
        if not has_json_body(request):
            self._metrics.rejected("api", "media_type")
            raise ProblemError(Problem.UNSUPPORTED_MEDIA_TYPE, "declare the body as application/json")
        try:
            body = await read_body(request, self.settings.api_body_bytes, self.settings.body_seconds)
            value = parse_object(body)
        except BodyTooLargeError as error:
            self._metrics.rejected("api", "size")
            raise ProblemError(Problem.PAYLOAD_TOO_LARGE, str(error), headers=_CLOSE) from error
        except BodyTimeoutError as error:
            self._metrics.rejected("api", "timeout")
            raise ProblemError(Problem.REQUEST_TIMEOUT, str(error), headers=_CLOSE) from error
        except (BrokenBodyError, BadReviewError) as error:
            self._metrics.rejected("api", "malformed")
            raise ProblemError(Problem.MALFORMED_REQUEST, str(error)) from error
        return read_model(model, value)


_CLOSE: Final = {"Connection": "close"}


def read_model(model: type[ModelT], value: JsonObject) -> ModelT:
    """Check a request body against *model*.

    Raises:
        ProblemError: Every mistake with its pointer.
    """
    try:
        return model.model_validate_json(dump_json(without_nulls(value)), extra="forbid")
    except pydantic.ValidationError as error:
        mistakes = [_mistake(detail) for detail in error.errors(include_url=False)]
        first = mistakes[0]
        raise ProblemError(
            Problem.VALIDATION_FAILED, f"{first.pointer or '/'}: {first.detail}", mistakes=mistakes
        ) from error


_CODES: Final = {"missing": "required", "extra_forbidden": "unknown", "too_long": "too-many", "too_short": "too-few"}


def _mistake(detail: Any) -> Mistake:
    kind = detail["type"]
    pointer = json_pointer(part for part in detail["loc"] if part != "[key]")
    message = detail["msg"].removeprefix("Value error, ")
    words = message[:1].lower() + message[1:]
    code = _CODES.get(kind) or ("type" if kind.endswith("_type") else "invalid")
    if kind == "missing":
        return Mistake(pointer, code, "must be given")
    if kind == "extra_forbidden":
        return Mistake(pointer, code, "there is no such member")
    if isinstance(detail["input"], dict | list):
        return Mistake(pointer, code, words)
    return Mistake(pointer, code, f"{quote(detail['input'])}: {words}")
