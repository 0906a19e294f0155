"""Registration of endpoints below `/v1`, and the steps around each handler.

Access control, methods, body limits, problem details, metrics.

Source: docs/specifications/serving.md 3.1 to 3.4.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final

from aiohttp import web

from scorer.api.family import PlacementRef, UnknownObjectError, unknown_placement
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from webhook.access.rights import Access
from webhook.admission.review import MOST_VALUES, InvalidReviewError, parse_object
from webhook.answers.questions import InvalidQuestionError
from webhook.endpoints.http.access_control import PLACEMENT_KINDS, SURFACES, Callers, Surface, caller_of
from webhook.endpoints.http.bodies import (
    Bodies,
    BodyMemoryError,
    BodyTimeoutError,
    BodyTooLargeError,
    BrokenBodyError,
    off_loop,
)
from webhook.endpoints.http.continue_tokens import Continuation
from webhook.endpoints.http.problems import Mistake, Problem, ProblemError
from webhook.endpoints.http.request_models import ModelT, read_model
from webhook.endpoints.http.responses import (
    AggregatedResource,
    has_json_body,
    problem_response,
    request_id,
    status_response,
)
from webhook.endpoints.http.services import Answers
from webhook.settings.listener import LimitSettings
from webhook.telemetry.metrics import AGGREGATED_ROUTES, API_ROUTES, Metrics

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_READ: Final = frozenset({"GET", "HEAD"})
_NONE: Final[frozenset[str]] = frozenset()
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """The fixed properties of an endpoint. See `Api.get`."""

    methods: frozenset[str]
    route: str
    surface: Surface
    when_synced: bool
    open_to_all: bool
    by_session: frozenset[str]
    refused: Callable[[int], object] | None = None
    writes: bool = False
    aggregated: AggregatedResource | None = None
    """The resource, if the endpoint is part of the aggregated API."""


class Api:
    """Registers endpoints, and wraps each in the common steps.

    Args:
        app: Gets the routes.
        answers: Services for the handlers.
        settings: Limits.
        metrics: Counts the requests.
        callers: Authenticates and authorizes. None: disabled, callers are not identified and may read everything.
        continuation: Seals continue tokens. None: unset, with a key of this Api alone.
        bodies: The memory for bodies. None means memory of this Api alone.
    """

    def __init__(
        self,
        app: web.Application,
        answers: Answers,
        settings: LimitSettings,
        metrics: Metrics,
        *,
        callers: Callers | None = None,
        continuation: Continuation | None = None,
        bodies: Bodies | None = None,
    ) -> None:
        self.app = app
        self._bodies = bodies or Bodies(settings.bodies_bytes)
        self.answers = answers
        self.settings = settings
        self.continuation = continuation or Continuation.with_new_key()
        self._callers = callers
        self.metrics = metrics
        self._in_flight: dict[Surface, int] = dict.fromkeys(SURFACES, 0)

    def in_flight(self, surface: Surface) -> int:
        """Return the number of requests in progress, streams included."""
        return self._in_flight[surface]

    def get(
        self,
        path: str,
        route: str,
        handler: Handler,
        *,
        surface: Surface = "api",
        when_synced: bool = True,
        open_to_all: bool = False,
    ) -> None:
        """Serve GET and HEAD on *path*.

        Args:
            path: Path in the router's syntax.
            route: Its template, such as ``/v1/clusters/*``: the path that RBAC rules name, and a metrics label.
            handler: Handles the requests.
            surface: Determines the limits, and the label of the metrics.
            when_synced: Whether requests are refused until the caches are filled.
            open_to_all: Whether the response holds no data, so callers need not authenticate.
        """
        endpoint = _Endpoint(_READ, route, surface, when_synced, open_to_all, _READ if _is_question(path) else _NONE)
        self.app.router.add_route("*", path, self._wrap(endpoint, handler))

    def post(
        self,
        path: str,
        route: str,
        handler: Handler,
        *,
        surface: Surface = "api",
        when_synced: bool = True,
        open_to_all: bool = False,
        of_page: bool = False,
        on_refusal: Callable[[int], object] | None = None,
    ) -> None:
        """Serve POST on *path*. The other arguments are those of `get`.

        An endpoint that is open to all authenticates the caller itself. If *of_page*, the session of the page counts:
        the page sends the request, which changes nothing. *on_refusal* is called with each status from 400 on.
        """
        posts = frozenset({"POST"})
        endpoint = _Endpoint(posts, route, surface, when_synced, open_to_all, posts if of_page else _NONE, on_refusal)
        self.app.router.add_route("*", path, self._wrap(endpoint, handler))

    def act(self, path: str, route: str, handler: Handler) -> None:
        """Serve POST on *path*, which changes the hub. The session of the page counts for requests of its scripts."""
        posts = frozenset({"POST"})
        endpoint = _Endpoint(posts, route, "api", True, False, posts, writes=True)
        self.app.router.add_route("*", path, self._wrap(endpoint, handler))

    def serve(
        self,
        path: str,
        route: str,
        handlers: Mapping[str, Handler],
    ) -> None:
        """Serve several methods on *path*, each with its own handler. The other arguments are those of `get`."""
        methods = frozenset(handlers)
        endpoint = _Endpoint(methods, route, "api", True, False, methods & _READ if _is_question(path) else _NONE)

        async def handle(request: web.Request) -> web.StreamResponse:
            return await handlers[request.method](request)

        self.app.router.add_route("*", path, self._wrap(endpoint, handle))

    def aggregate(self, path: str, resource: AggregatedResource, handler: Handler) -> None:
        """Serve *path* to the front proxy of the hub, for the users that it names.

        The right to create the resource in the namespace in *path* is required. Without the name of a resource, *path*
        is a discovery document, which has no data. Refusals are ``Status`` objects, as for all resources of the hub.
        """
        methods = frozenset({"POST"}) if resource.name else _READ
        template = path.replace("{namespace}", "*")
        endpoint = _Endpoint(methods, template, "api", bool(resource.name), False, _NONE, aggregated=resource)
        self.app.router.add_route("*", path, self._wrap(endpoint, handler))

    async def require_placement(self, request: web.Request, ref: PlacementRef) -> None:
        """Require that the caller may read a placement. Otherwise the placement is reported as missing.

        Raises:
            ProblemError: 404, as for a missing placement, or 503 if the hub does not respond.
        """
        if self._callers is not None and not await self._callers.may_read(caller_of(request), ref):
            raise ProblemError(Problem.NOT_FOUND, unknown_placement(ref))

    async def may_get(self, request: web.Request, kind: Kind, name: str, namespace: str) -> bool:
        """Return whether the caller may get an object. Raises `ProblemError` if the hub does not respond."""
        return self._callers is None or await self._callers.may_get(caller_of(request), kind, name, namespace)

    async def readable_kinds(
        self, request: web.Request, of: Collection[Kind] = PLACEMENT_KINDS, namespace: str = ""
    ) -> frozenset[Kind]:
        """Return the kinds of *of* that the caller may list, in one namespace or, without one, everywhere.

        Raises:
            ProblemError: The hub does not respond.
        """
        if self._callers is None:
            return frozenset(of)
        return await self._callers.readable_kinds(caller_of(request), of, namespace)

    def invalid_signature(self, request: web.Request, detail: str) -> ProblemError:
        """Return the refusal of a request with a bad signature, or of one beyond the limit of its address."""
        if self._callers is not None:
            return self._callers.invalid_signature(request, detail)
        return ProblemError(Problem.UNAUTHENTICATED, detail)

    def _wrap(self, endpoint: "_Endpoint", handler: Handler) -> Handler:
        route, surface, aggregated = endpoint.route, endpoint.surface, endpoint.aggregated
        is_api_route = route in API_ROUTES or route in AGGREGATED_ROUTES
        refusal = problem_response if aggregated is None else partial(status_response, resource=aggregated)

        async def handle(request: web.Request) -> web.StreamResponse:
            loop = asyncio.get_running_loop()
            start = loop.time()
            response: web.StreamResponse
            self._in_flight[surface] += 1
            try:
                await self._admit(request, endpoint)
                response = await handler(request)
            except ProblemError as error:
                response = refusal(request, error)
            except UnknownObjectError as error:
                response = refusal(request, ProblemError(Problem.NOT_FOUND, str(error)))
            except InvalidQuestionError as error:
                mistake = Mistake(error.pointer, "invalid", error.detail)
                response = refusal(request, ProblemError(Problem.VALIDATION_FAILED, error.detail, mistakes=[mistake]))
            except Exception:  # noqa: BLE001 - a bug: the caller gets an id, the log gets the traceback
                identity = request_id(request)
                _log.exception("request failed", extra={"request": identity, "route": route})
                detail = f"see request {identity} in the log of harbormaster"
                response = refusal(request, ProblemError(Problem.INTERNAL, detail, request_id=identity))
            finally:
                self._in_flight[surface] -= 1
            if endpoint.refused is not None and response.status >= HTTPStatus.BAD_REQUEST:
                endpoint.refused(response.status)
            if is_api_route:
                self.metrics.answered(route, response.status, loop.time() - start)
            return response

        return handle

    async def _admit(self, request: web.Request, endpoint: "_Endpoint") -> None:
        """Check that a request may proceed to its handler.

        Raises:
            ProblemError: The request must not proceed, or not now.
        """
        callers, aggregated = None if endpoint.open_to_all else self._callers, endpoint.aggregated
        if aggregated is not None:
            if callers is None:  # without access control, the resources of a namespace would be open to all
                raise ProblemError(Problem.NOT_FOUND, f"no route for {request.method} {request.path[:200]!r}")
            callers.recognize_proxied(request)
        elif callers is not None:
            by_session = request.method in endpoint.by_session
            await callers.recognize(request, endpoint.surface, by_session=by_session, writes=endpoint.writes)
        if request.method not in endpoint.methods:
            allowed = ", ".join(sorted(endpoint.methods))
            raise ProblemError(
                Problem.METHOD_NOT_ALLOWED,
                f"method {request.method} is not allowed, only {allowed}",
                headers={"Allow": allowed},
            )
        if callers is not None and aggregated is None:
            await callers.authorize(request, endpoint.surface, endpoint.route)
        elif callers is not None and aggregated is not None and aggregated.name:
            namespace = request.match_info["namespace"]
            access = Access("create", aggregated.group, aggregated.name, namespace=namespace)
            await callers.authorize_access(request, access)
        if endpoint.when_synced and not self.answers.synced():
            raise ProblemError(Problem.NOT_READY, "the caches have not synced yet", retry_after=1)

    async def read(self, request: web.Request, model: type[ModelT]) -> ModelT:
        """Read the request body as *model*.

        Raises:
            ProblemError: The body is not JSON, too large, too slow, or not valid for the model. Lists every error.
        """
        return await self.read_as(request, lambda _: model)

    async def read_as(self, request: web.Request, model_of: Callable[[JsonObject], type[ModelT]]) -> ModelT:
        """Read the request body as the model that *model_of* selects for it. Raises as `read`."""

        def read(body: bytes) -> ModelT:
            document = parse_object(body, MOST_VALUES)
            return read_model(model_of(document), document)

        try:
            async with self.body(request, self.settings.api_body_bytes) as body:
                return await off_loop(len(body), partial(read, body))
        except InvalidReviewError as error:
            is_large = error.code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            self.metrics.rejected("api", "size" if is_large else "malformed")
            problem = Problem.PAYLOAD_TOO_LARGE if is_large else Problem.MALFORMED_REQUEST
            raise ProblemError(problem, str(error)) from error

    @asynccontextmanager
    async def body(
        self, request: web.Request, limit: int, surface: Surface = "api", *, vouched: bool = True
    ) -> AsyncIterator[bytes]:
        """Read a body that is declared as JSON, of at most *limit* bytes. Count its memory until the context exits.

        Args:
            request: A request whose body is unread.
            limit: Bytes.
            surface: Surface, for the counts.
            vouched: Whether the sender has authenticated.

        Raises:
            ProblemError: The body has another media type, is too large, too slow or incomplete, or no memory is left.
        """
        if not has_json_body(request):
            self.metrics.rejected(surface, "media_type")
            raise ProblemError(Problem.UNSUPPORTED_MEDIA_TYPE, "the body must have Content-Type application/json")
        try:
            async with self._bodies.read(request, limit, self.settings.body_seconds, vouched=vouched) as body:
                yield body
        except BodyTooLargeError as error:
            self.metrics.rejected(surface, "size")
            raise ProblemError(Problem.PAYLOAD_TOO_LARGE, str(error), headers=_CLOSE) from error
        except BodyTimeoutError as error:
            self.metrics.rejected(surface, "timeout")
            raise ProblemError(Problem.REQUEST_TIMEOUT, str(error), headers=_CLOSE) from error
        except BodyMemoryError as error:
            self.metrics.rejected(surface, "overload")
            raise ProblemError(Problem.NOT_READY, str(error), headers=_CLOSE, retry_after=1) from error
        except BrokenBodyError as error:
            self.metrics.rejected(surface, "malformed")
            raise ProblemError(Problem.MALFORMED_REQUEST, str(error)) from error


_CLOSE: Final = {"Connection": "close"}


def _is_question(path: str) -> bool:
    """Return whether the page may GET *path*, so that its session counts."""
    return path.startswith("/v1/")
