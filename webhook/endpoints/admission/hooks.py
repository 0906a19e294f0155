"""``/validate`` and ``/mutate``: all steps before and after the verdict on a review.

The HTTP checks are in the order of the table in serving.md 1.8 part A. `webhook.admission.review` judges the review
itself. `webhook.admission.enforcement` has a path of its own and queries the API server.
A review that `webhook.endpoints.admission.authentication` cannot attribute to the API server may be forged. It is
judged by the rules alone, without queries or reservations on its behalf. Errors are Kubernetes ``Status`` objects,
because the API server passes nothing else on to the user.

This is the hot path of the server, hence prepared headers, no middleware, and plain functions.

Source: docs/specifications/serving.md 1.3 and 1.8.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, Final, Literal
from urllib.parse import parse_qs

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from certs.context import StaleClientError
from scorer.api.kinds import OUR_KINDS
from scorer.api.meta import JsonObject
from scorer.api.node_class import NODE_CLASSES
from scorer.api.unstructured.documents import text_at
from webhook.access.rights import UNDISPUTED, Reviewed
from webhook.access.user import UserInfo
from webhook.access.vouching import mark_authenticated, mark_client_authenticated
from webhook.admission.authorization import is_enforced, weighed
from webhook.admission.judge import Judgement, as_warnings
from webhook.admission.registration import ENFORCEMENT_PATH
from webhook.admission.removal_effects import removal_losses
from webhook.admission.removal_rights import confirmation_rights
from webhook.admission.removals import NOTHING_REMOVED, RemovalVerdict, lacking_right, removal_verdict
from webhook.admission.review import InvalidReviewError, answer, parse_review, respond
from webhook.endpoints.admission.authentication import (
    ApiServerVerifier,
    TooManyUnverifiedReviewsError,
    UnverifiedReviewLimiter,
)
from webhook.endpoints.admission.fast_path import FAST_PATH, Called
from webhook.endpoints.http.bodies import (
    SHORT_BYTES,
    THREAD_BYTES,
    Bodies,
    BodyMemoryError,
    BodyTimeoutError,
    BodyTooLargeError,
    BrokenBodyError,
)
from webhook.endpoints.http.responses import REQUEST_ID, has_json_body, headers, request_id
from webhook.endpoints.http.services import Services
from webhook.endpoints.refusals import note_review
from webhook.kube.transport.serialization import encode
from webhook.settings.listener import LimitSettings
from webhook.settings.secret_files import ROOT
from webhook.telemetry.health import Health
from webhook.telemetry.metrics import Metrics
from webhook.telemetry.tracing import NO_HEADERS, Tracing
from webhook.validation.framework.context import Context

Hook = Literal["validate", "mutate"]
Handler = Callable[[web.Request], Awaitable[web.Response]]
Judge = Callable[[JsonObject, float], Awaitable[Judgement]]
"""Evaluates ``request`` of a review within the deadline, and returns the verdict."""

HOOKS: Final[tuple[Hook, ...]] = ("validate", "mutate")
_TIMED_OUT: Final = "timed out: the caller's time limit has passed"
BUDGET_SECONDS: Final = 4.0
BUDGET_MARGIN_SECONDS: Final = 0.5
"""Time between our deadline and the API server's, so that the response arrives before its timeout."""
RIGHTS_MARGIN_SECONDS: Final = 0.5
"""Time left for the response if the review of the user's rights, or a reservation, times out."""
LONG_REVIEW_CONCURRENCY: Final = 2
"""Maximum concurrent reviews larger than `THREAD_BYTES`: parsed, a review takes many times its bytes."""
LONGEST_QUERY: Final = 256
"""Maximum number of parsed characters of the query."""

_TIMEOUT: Final = re.compile(r"([0-9]{1,6})s", re.ASCII)
_JSON: Final = headers(Content_Type="application/json")
_AGAIN: Final = headers(Content_Type="application/json", Retry_After="1")
_ONLY_POST: Final = headers(Content_Type="application/json", Allow="POST")
_REASONS: Final = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "Timeout",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    500: "InternalError",
    503: "ServiceUnavailable",
}
STRANGER: Final = "the caller could not be identified as the API server"
REFUSED_STRANGER: Final = (
    "only the API server may call this path: with its client certificate, or on the secret path that "
    "`harbormaster webhook-configuration` registers"
)
_HEADERS: Final = {405: _ONLY_POST, 503: _AGAIN}

_log = logging.getLogger(__name__)


def add_routes(
    app: web.Application,
    services: Services,
    settings: LimitSettings,
    health: Health,
    metrics: Metrics,
    doorkeeper: ApiServerVerifier,
    bodies: Bodies,
    tracing: Tracing | None,
) -> None:
    """Serve both hooks on their bare paths and on one path per kind, and the same again below the secret path."""
    handler = ReviewHandler(app, services, settings, health, metrics, doorkeeper, bodies, tracing)
    app[FAST_PATH] = handler
    metrics.watch_in_flight("admission", lambda: handler.in_flight)
    below: dict[str, Handler] = {}

    def add(path: str, hook: Hook, judge: Judge | None = None) -> None:
        app.router.add_route("*", path, handler.handler(hook, judge))
        if judge is None:
            handler.hooks[path] = hook
        below[path.removeprefix("/")] = handler.handler(hook, judge, by_secret=True)

    for hook in HOOKS:
        add(f"/{hook}", hook)
        if hook == "validate":
            add(ENFORCEMENT_PATH, hook, services.disruption.enforcement.judge)
        for kind in (*OUR_KINDS, *NODE_CLASSES):
            add(f"/{hook}/{kind.group}/{kind.plural}", hook)
        app.router.add_route("*", f"/{hook}/{{rest:.*}}", _unknown_path)

    async def handle(request: web.Request) -> web.Response:
        is_known = await doorkeeper.learns_secret(request.match_info["secret"])
        return await (below.get(request.match_info["path"], _unknown_path) if is_known else _unknown_path)(request)

    app.router.add_route("*", f"{ROOT}/{{secret}}/{{path:.*}}", handle)


async def _not_enforced(_request: JsonObject, _deadline: float) -> Judgement:
    """Allow the review of an unverified caller without reading budgets or reserving anything."""
    return Judgement(warnings=as_warnings([f"disruption budgets are not enforced: {STRANGER}"]))


async def _unknown_path(request: web.Request) -> web.Response:
    if request.method != "POST":
        return _status(405, f"method {request.method} is not allowed, only POST")
    return _status(404, "path not found: the path of a hook ends in /<group>/<plural> of a kind with rules")


def _status(code: int, message: str) -> web.Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS[code],
        "code": code,
    }
    response = web.Response(status=code, body=encode(body), headers=_HEADERS.get(code, _JSON))
    if code in {403, 408, 413, 503}:  # the rest of the body is not read, and a retry may reach another replica
        response.force_close()
    return response


@lru_cache(maxsize=64)
def _budget(query: str) -> float:
    """Return the time limit of a review in seconds: at most `BUDGET_SECONDS`, and less than the timeout in *query*."""
    match = _TIMEOUT.fullmatch(parse_qs(query[:LONGEST_QUERY]).get("timeout", [""])[0])
    return min(int(match[1]) - BUDGET_MARGIN_SECONDS, BUDGET_SECONDS) if match else BUDGET_SECONDS


class ReviewHandler:
    """Receives reviews, and counts those in progress.

    Attributes:
        hooks: The hook of each plain path, without the path of `webhook.admission.enforcement`.
    """

    def __init__(
        self,
        app: web.Application,
        services: Services,
        settings: LimitSettings,
        health: Health,
        metrics: Metrics,
        doorkeeper: ApiServerVerifier,
        bodies: Bodies,
        tracing: Tracing | None,
    ) -> None:
        self.in_flight = 0
        self.hooks: dict[str, Hook] = {}
        self._app = app
        self._tracing = tracing
        self._doorkeeper = doorkeeper
        self._bodies = bodies
        self._strangers = UnverifiedReviewLimiter(settings.admission_in_flight // 2)
        self._long = asyncio.Semaphore(LONG_REVIEW_CONCURRENCY)
        answers = services.answers
        self._history = services.history
        self._context = answers.admission
        self._rights = answers.rights
        self._removals = services.removals
        self._synced = answers.synced
        self._has_been_synced = False
        self._settings = settings
        self._health = health
        self._metrics = metrics

    def find(self, target: str) -> Called | None:
        """See `FastPath.find`."""
        path, _, query = target.partition("?")
        by_secret = path.startswith(f"{ROOT}/")
        if by_secret:
            secret, slash, path = path.removeprefix(f"{ROOT}/").partition("/")
            if not self._doorkeeper.has_secret(secret):
                return None
            path = slash + path
        hook = self.hooks.get(path)
        return None if hook is None or "%" in target or "#" in target else Called(hook, by_secret, _budget(query))

    def answer_synchronously(self, call: Called, client: RequestHandler, body: bytes) -> bytes | None:
        """See `FastPath.answer_synchronously`. Reviews that it declines are for `handler`."""
        health, settings = self._health, self._settings
        if (
            self._tracing is not None
            or health.closed
            or health.draining.is_set()
            or not self._is_ready()
            or self.in_flight >= settings.admission_in_flight
            or len(body) > min(SHORT_BYTES, settings.admission_body_bytes)
        ):
            return None
        start = asyncio.get_running_loop().time()
        try:
            if not self._doorkeeper.knows(client.transport, by_secret=call.by_secret):
                return None
            review = parse_review(body)
            request, context, user = review["request"], self._context(), None
            rights_review = UNDISPUTED
            if call.hook == "validate":
                user = UserInfo.read(request.get("userInfo"))
                cached_review = self._rights.cached(user, self._rights.needed(request, user, context))
                if cached_review is None:
                    return None
                rights_review, with_user = cached_review, context.with_user(user)
                if removal_losses(request, with_user) or confirmation_rights(request, with_user):
                    return None
            verdict = answer(review, call.hook, context, user, rights_review, size=len(body))
        except Exception:  # noqa: BLE001 - `handler` meets the same error again, and reports it
            return None
        seconds = asyncio.get_running_loop().time() - start
        if seconds > call.budget:
            return None
        mark_client_authenticated(self._app, client)
        self._record(call.hook, request, verdict["response"], seconds)
        note_review(self._history, call.hook, request, verdict["response"])
        return encode(verdict)

    def handler(self, hook: Hook, judge: Judge | None = None, *, by_secret: bool = False) -> Handler:
        """Return the handler of one hook.

        Args:
            hook: The hook.
            judge: Evaluates reviews instead of the registry's rules. None: unset.
            by_secret: Whether the handler serves a path below the secret one.
        """

        async def handle(request: web.Request) -> web.Response:
            if request.method != "POST":
                return _status(405, f"method {request.method} is not allowed, only POST")
            if not has_json_body(request):
                return self._refuse(415, "media_type", "the body must be uncompressed application/json")
            try:
                is_known = await self._doorkeeper.learns(request.transport, by_secret=by_secret)
            except StaleClientError as error:  # the certificate has expired, and a new connection needs a valid one
                return self._refuse(503, "stale", str(error))
            if not is_known and self._doorkeeper.refuses:
                return self._refuse(403, "stranger", REFUSED_STRANGER)
            if is_known and self._doorkeeper.verifies_callers:
                mark_authenticated(request)
            if self._health.closed:
                return self._refuse(503, "draining", "this replica has shut down")
            if not self._is_ready():
                return self._refuse(503, "not_ready", "this replica is starting")
            review = self._review(hook, request, judge, is_known=is_known)
            if self._tracing is not None:
                headers_of_caller = request.headers if is_known else NO_HEADERS
                review = self._tracing.within(f"admission.{hook}", headers_of_caller, review)
            try:
                response = await review
            except Exception:  # noqa: BLE001 - an unforeseen error must obey failurePolicy
                return self._fail(hook, request, "")
            # The certificate may have expired during the review. Its answer still counts, but the API server keeps
            # connections open: the next review on this one would be refused unless it is closed.
            try:
                self._doorkeeper.knows(request.transport, by_secret=by_secret)
            except StaleClientError:
                response.force_close()
            return response

        return handle

    def _is_ready(self) -> bool:
        """Return whether all caches have been filled once. True is cached, because it never reverts."""
        self._has_been_synced = self._has_been_synced or self._synced()
        return self._has_been_synced

    async def _review(self, hook: Hook, request: web.Request, judge: Judge | None, *, is_known: bool) -> web.Response:
        """Read the body, then take a slot, so that a slow or waiting sender occupies none."""
        start = asyncio.get_running_loop().time()  # before the body: the API server's timeout includes sending it
        limit = (
            self._settings.admission_body_bytes if is_known else min(THREAD_BYTES, self._settings.admission_body_bytes)
        )
        try:
            async with self._bodies.read(request, limit, self._settings.body_seconds, vouched=is_known) as body:
                if is_known:
                    return await self._judge_in_place(hook, request, body, judge, start, is_known=True)
                async with self._strangers.acquire():
                    # The wait may have used up the caller's time. Judging now would take from the API server's share,
                    # for an answer that the caller does not read.
                    if asyncio.get_running_loop().time() > start + _budget(request.query_string):
                        return self._refuse(503, "deadline", _TIMED_OUT)
                    return await self._judge_in_place(hook, request, body, judge, start, is_known=False)
        except BodyTooLargeError as error:
            return self._refuse(413, "size", str(error))
        except BodyTimeoutError as error:
            return self._refuse(408, "timeout", str(error))
        except (BodyMemoryError, TooManyUnverifiedReviewsError) as error:
            return self._refuse(503, "overload", str(error))
        except BrokenBodyError as error:
            return self._refuse(400, "malformed", str(error))

    async def _judge_in_place(
        self, hook: Hook, request: web.Request, body: bytes, judge: Judge | None, start: float, *, is_known: bool
    ) -> web.Response:
        # Checked here and not on arrival, and with no await before the count: reviews whose bodies arrive together
        # would otherwise all pass the check.
        if self.in_flight >= self._settings.admission_in_flight:
            return self._refuse(503, "overload", "this replica is busy")
        self.in_flight += 1
        try:
            return await self._judge(hook, request, body, judge, start, is_known=is_known)
        finally:
            self.in_flight -= 1

    async def _judge(
        self, hook: Hook, request: web.Request, body: bytes, judge: Judge | None, start: float, *, is_known: bool
    ) -> web.Response:
        if len(body) <= THREAD_BYTES:
            return await self._answer(hook, request, body, judge, start, is_known=is_known)
        try:
            async with asyncio.timeout_at(start + _budget(request.query_string)):
                await self._long.acquire()
        except TimeoutError:
            return self._refuse(503, "deadline", _TIMED_OUT)
        try:
            return await self._answer(hook, request, body, judge, start, is_known=is_known)
        finally:
            self._long.release()

    async def _answer(
        self, hook: Hook, request: web.Request, body: bytes, judge: Judge | None, start: float, *, is_known: bool
    ) -> web.Response:
        loop = asyncio.get_running_loop()
        deadline = start + _budget(request.query_string)
        try:
            if len(body) > THREAD_BYTES:
                async with asyncio.timeout_at(deadline):
                    review = await asyncio.to_thread(parse_review, body)
            else:
                review = parse_review(body)
        except InvalidReviewError as error:
            return self._refuse(error.code, "malformed", error.message)
        except TimeoutError:
            return self._refuse(503, "deadline", _TIMED_OUT)
        if is_known:
            mark_authenticated(request)
        try:
            if judge is not None:
                judgement = judge if is_known else _not_enforced
                verdict = respond(
                    await judgement(review["request"], deadline - RIGHTS_MARGIN_SECONDS), review["request"]
                )
            else:
                context, user, rights_review, removals = self._context(), None, UNDISPUTED, NOTHING_REMOVED
                context = context if is_known else context.for_unverified_caller()
                if hook == "validate":  # defaults do not depend on the user
                    user = UserInfo.read(review["request"].get("userInfo"))
                    rights_review = await self._reviewed(review["request"], user, context, deadline, is_known=is_known)
                    removals = await self._removed(
                        review["request"], context.with_user(user), deadline, is_known=is_known
                    )
                if rights_review.unanswered and is_enforced(rights_review, context.settings.placement_authorization):
                    return self._refuse(
                        503, "rights", f"the rights of the user are unknown: {rights_review.unanswered}"
                    )
                verdict = answer(review, hook, context, user, rights_review, removals=removals, size=len(body))
        except Exception:  # noqa: BLE001 - an unforeseen error must obey failurePolicy
            return self._fail(hook, request, review["request"]["uid"])
        now = loop.time()
        # Past the deadline, the API server may already have applied failurePolicy: a verdict sent now would be counted
        # here although it had no effect.
        if now > deadline:
            return self._refuse(503, "deadline", _TIMED_OUT)
        self._record(hook, review["request"], verdict["response"], now - start)
        if is_known:  # names that unauthenticated callers claim are not recorded
            note_review(self._history, hook, review["request"], verdict["response"])
        return web.Response(body=encode(verdict), headers=_JSON)

    async def _reviewed(
        self, request: JsonObject, user: UserInfo, context: Context, deadline: float, *, is_known: bool
    ) -> Reviewed:
        """Review an author's rights to placed objects. Unknown after a timeout, or if the caller is unverified."""
        if not is_known:
            return Reviewed((), STRANGER) if self._rights.may_need(request, user, context) else UNDISPUTED
        if not (accesses := self._rights.needed(request, user, context)):
            return UNDISPUTED
        try:
            async with asyncio.timeout_at(deadline - RIGHTS_MARGIN_SECONDS):
                return await self._rights.review(user, accesses)
        except TimeoutError:
            return weighed(Reviewed((), "timed out"), accesses)

    async def _removed(
        self, request: JsonObject, context: Context, deadline: float, *, is_known: bool
    ) -> RemovalVerdict:
        """Determine the content that a write removes from clusters, and whether its author may confirm that."""
        losses, rights = removal_losses(request, context), confirmation_rights(request, context)
        if not losses and not rights:
            return NOTHING_REMOVED
        if not is_known:
            return lacking_right(rights, context, f": {STRANGER}") if rights else removal_verdict(request, losses, ())
        try:
            async with asyncio.timeout_at(deadline - RIGHTS_MARGIN_SECONDS):
                verdict = await self._removals.review_confirmation(rights, context) if rights else NOTHING_REMOVED
                return (
                    verdict if verdict.message or not losses else await self._removals.review(request, losses, context)
                )
        except TimeoutError:
            return lacking_right(rights, context, ": timed out") if rights else removal_verdict(request, losses, ())

    def _fail(self, hook: Hook, request: web.Request, uid: str) -> web.Response:
        identity = request_id(request)
        _log.exception("admission review failed", extra={"request": identity, "hook": hook, "uid": uid})
        self._metrics.reviews.failed(hook)
        response = _status(500, f"internal error: see request {identity} in the log of harbormaster")
        response.headers[REQUEST_ID] = identity
        return response

    def _refuse(self, code: int, reason: str, message: str) -> web.Response:
        self._metrics.rejected("admission", reason)
        return _status(code, message)

    def _record(self, hook: Hook, request: JsonObject, response: JsonObject, seconds: float) -> None:
        allowed = response["allowed"]
        code = "200" if allowed else str(response["status"]["code"])
        self._metrics.reviews.decided(
            hook,
            text_at(request, "operation"),
            text_at(request, "resource", "resource"),
            "allowed" if allowed else "denied",
            code,
            seconds,
        )
        if self._tracing is not None:
            self._tracing.annotate(
                uid=request["uid"],
                operation=text_at(request, "operation"),
                resource=text_at(request, "resource", "resource"),
                decision="allowed" if allowed else "denied",
            )
        level = logging.DEBUG if allowed else logging.INFO
        if _log.isEnabledFor(level):
            _log.log(level, "admission review", extra=_fields(hook, request, response, code, seconds))


def _fields(hook: Hook, request: JsonObject, response: JsonObject, code: str, seconds: float) -> dict[str, Any]:
    kind, user = request.get("kind"), request.get("userInfo")
    details = response.get("status", {}).get("details", {})
    return {
        "uid": request["uid"],
        "hook": hook,
        "operation": request.get("operation"),
        "gvk": "/".join(str(kind.get(part, "")) for part in ("group", "version", "kind"))
        if isinstance(kind, dict)
        else "",
        "object": "/".join(str(request[part]) for part in ("namespace", "name") if request.get(part)),
        "user": user.get("username") if isinstance(user, dict) else None,
        "decision": "allowed" if response["allowed"] else "denied",
        "code": int(code),
        "causes": len(details.get("causes", ())),
        "seconds": round(seconds, 6),
    }
