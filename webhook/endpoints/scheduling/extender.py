"""``/extender/v1``: calls of kube-scheduler.

kube-scheduler reads the body of a response only if its status is 200. So ``filter`` puts human-readable errors into
``Error``, which kube-scheduler shows in the pod's event. The other verbs have no such member, and fail with an HTTP
status.

Source: docs/specifications/serving.md 2.3, 2.5 to 2.7.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from scorer.api.meta import JsonObject
from scorer.api.values.quoting import printable
from scorer.extender.filtering import NOT_SYNCED, filter_error
from scorer.extender.preemption import BIND_REFUSED
from scorer.extender.protocol import ExtenderFilterResult, ExtenderPreemptionResult, HostPriority
from scorer.extender.question import ExtenderRequest, PreemptionArgs
from scorer.extender.reading import MalformedArgsError
from webhook.admission.review import InvalidReviewError, parse_object
from webhook.answers.extender import HubExtender
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.bodies import off_loop
from webhook.endpoints.http.problems import Problem, ProblemError
from webhook.endpoints.http.responses import JSON
from webhook.kube.transport.serialization import encode
from webhook.telemetry.metrics import BUCKETS
from webhook.telemetry.tracing import Tracing

BUDGET_SECONDS: Final = 1.0
"""Time limit of a response, counted from the end of the request body."""
MOST_CANDIDATES: Final = 20_000
"""Maximum candidates in a call: four times the nodes of the largest cluster that Kubernetes supports. All are judged in
one step, which blocks the event loop for all other requests."""
NODES: Final = (1, 5, 10, 50, 100, 500, 1000, 2500, 5000, 10000)
VERBS: Final = ("filter", "prioritize", "preempt", "bind")
RESULTS: Final = ("answered", "error", "refused")
"""An answer, an answer with an ``Error``, or a problem instead of an answer."""
REFUSAL_CODES: Final = tuple(sorted({int(problem.status) for problem in Problem}))
"""The statuses of all problems."""

_HEADERS: Final = {"Content-Type": JSON}


Handler = Callable[[web.Request], Awaitable[web.Response]]


class ExtenderMetrics:
    """Counts the calls of schedulers.

    Args:
        registry: Registry for the metrics.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        requests = Counter(
            "harbormaster_extender_requests",
            "Number of calls of schedulers, by outcome.",
            ("verb", "result"),
            registry=registry,
        )
        seconds = Histogram(
            "harbormaster_extender_duration_seconds",
            "Duration of a call, from its headers to the response.",
            ("verb",),
            buckets=BUCKETS,
            registry=registry,
        )
        nodes = Histogram(
            "harbormaster_extender_nodes",
            "Number of candidates in a call.",
            ("verb",),
            buckets=NODES,
            registry=registry,
        )
        refusals = Counter(
            "harbormaster_extender_refusals",
            "Number of calls answered with a status other than 200, which schedulers treat as a failed call.",
            ("code",),
            registry=registry,
        )
        refused_at = Gauge(
            "harbormaster_extender_refusal_timestamp_seconds",
            "Time of the last call answered with that status. 0: never.",
            ("code",),
            registry=registry,
        )
        self.refusals = {code: (refusals.labels(str(code)), refused_at.labels(str(code))) for code in REFUSAL_CODES}
        self.requests = {(verb, result): requests.labels(verb, result) for verb in VERBS for result in RESULTS}
        self.seconds = {verb: seconds.labels(verb) for verb in VERBS}
        self.nodes = {verb: nodes.labels(verb) for verb in VERBS}

    def refused(self, code: int, now: datetime) -> None:
        """Count one call that a scheduler treats as unanswered."""
        total, last = self.refusals[code]
        total.inc()
        last.set(now.timestamp())


def add_routes(api: Api, extender: HubExtender, tracing: Tracing | None = None) -> None:
    """Serve filter, prioritize, preempt and bind."""
    handlers = _ExtenderHandlers(extender, api)
    for verb in VERBS:
        path = f"/extender/v1/{verb}"
        handle = handlers.handler(verb)
        if tracing is not None:
            handle = _traced(handle, verb, tracing)
        api.post(path, path, handle, surface="extender", when_synced=False, on_refusal=handlers.refused)


def _traced(handle: Handler, verb: str, tracing: Tracing) -> Handler:
    async def handle_within(request: web.Request) -> web.Response:
        return await tracing.within(f"extender.{verb}", request.headers, handle(request))

    return handle_within


@dataclass(frozen=True, slots=True)
class _Verb:
    """Steps of one verb: read the decoded body, count its candidates, decide."""

    read: Callable[[JsonObject], Any]
    count: Callable[[Any], int]
    decide: Callable[[Any], object]


class _ExtenderHandlers:
    """Receives the calls, and counts them."""

    def __init__(self, extender: HubExtender, api: Api) -> None:
        self._extender = extender
        self._api = api
        self._metrics = api.metrics
        self._counts = ExtenderMetrics(api.metrics.registry)
        self._verbs = {
            "filter": _Verb(extender.read_args, _candidates, self._filter),
            "prioritize": _Verb(extender.read_args, _candidates, self._prioritize),
            "preempt": _Verb(extender.read_preemption, lambda args: len(args.victims), self._preempt),
            "bind": _Verb(lambda document: document, lambda _: 1, lambda _: BIND_REFUSED),
        }

    def refused(self, code: int) -> None:
        """Count a call that was refused, here or before it reached its handler."""
        self._counts.refused(code, self._api.answers.now())

    def handler(self, verb: str) -> Handler:
        """Return the handler of one verb."""
        requests, seconds = self._counts.requests, self._counts.seconds[verb]

        async def handle(request: web.Request) -> web.Response:
            loop = asyncio.get_running_loop()
            start, result = loop.time(), "refused"
            try:
                answer = await self._answer(verb, request)
                result = "error" if isinstance(answer.value, dict) and answer.value.get("Error") else "answered"
                return web.Response(body=answer.text, headers=_HEADERS)
            finally:
                requests[verb, result].inc()
                seconds.observe(loop.time() - start)

        return handle

    async def _answer(self, verb: str, request: web.Request) -> "_Answer":
        async with self._api.body(request, self._api.settings.extender_body_bytes, "extender") as body:
            return await self._answer_to(verb, body)

    async def _answer_to(self, verb: str, body: bytes) -> "_Answer":
        loop = asyncio.get_running_loop()
        deadline = loop.time() + BUDGET_SECONDS
        try:
            async with asyncio.timeout_at(deadline):
                answer = await self._decide(verb, body)
        except (InvalidReviewError, MalformedArgsError) as error:
            self._metrics.rejected("extender", "malformed")
            raise ProblemError(Problem.MALFORMED_REQUEST, printable(str(error))) from error
        except TimeoutError:
            answer = None
        # The timeout takes effect only at an await. A decision in one step may have run past the deadline unnoticed.
        if answer is None or loop.time() > deadline:
            self._metrics.rejected("extender", "deadline")
            detail = f"timed out after {BUDGET_SECONDS:g} s"
            raise ProblemError(Problem.DEADLINE_EXCEEDED, detail, retry_after=1)
        return answer

    async def _decide(self, verb: str, body: bytes) -> "_Answer":
        format_ = self._verbs[verb]
        args, count = await off_loop(len(body), lambda: _read(format_, body))
        self._counts.nodes[verb].observe(count)
        if count > MOST_CANDIDATES:
            self._metrics.rejected("extender", "size")
            detail = f"the call has {count} candidates, more than {MOST_CANDIDATES}: lower percentageOfNodesToScore"
            raise ProblemError(Problem.PAYLOAD_TOO_LARGE, detail)
        value = format_.decide(args)
        return _Answer(value, await off_loop(len(body), lambda: encode(value)))

    def _filter(self, args: ExtenderRequest) -> ExtenderFilterResult:
        return self._extender.filter(args) if self._extender.synced else filter_error(NOT_SYNCED)

    def _prioritize(self, args: ExtenderRequest) -> list[HostPriority]:
        self._check_synced()
        return self._extender.prioritize(args)

    def _preempt(self, args: PreemptionArgs) -> ExtenderPreemptionResult:
        self._check_synced()
        return self._extender.preempt(args)

    def _check_synced(self) -> None:
        if not self._extender.synced:
            self._metrics.rejected("extender", "not_ready")
            raise ProblemError(Problem.NOT_READY, "the caches have not synced yet", retry_after=1)


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer: the value, and the bytes of the response."""

    value: object
    text: bytes


def _read(format_: _Verb, body: bytes) -> tuple[Any, int]:
    args = format_.read(parse_object(body))
    return args, format_.count(args)


def _candidates(args: ExtenderRequest) -> int:
    return len(args.candidates or ())
