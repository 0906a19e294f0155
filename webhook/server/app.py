"""The web applications: HTTPS for everything, plain HTTP for probes and, on a user's own machine, the page.

There is no middleware on the HTTPS application: admission is the busy path, and one signal handler does what every
answer needs.

Source: serving.md 0 (D1) and 3.3.
"""

import hashlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from webhook.access.vouching import CONNECTIONS
from webhook.endpoints import (
    admission,
    budgets,
    clusters,
    events,
    extender,
    gate,
    history,
    member_gates,
    openapi,
    page,
    placements,
    planning,
    probes,
    rehearsal,
    runs,
    scoring,
    sign_in,
    update_runs,
    upgrade_orders,
    upgrade_plans,
    upgrade_reports,
)
from webhook.endpoints.api import Api, Handler
from webhook.endpoints.bodies import Bodies
from webhook.endpoints.callers import SURFACES, Callers
from webhook.endpoints.continuation import Continuation
from webhook.endpoints.doorkeeper import Calls, Doorkeeper
from webhook.endpoints.problems import Problem, ProblemError, problem_response
from webhook.endpoints.services import Answers, Services
from webhook.gate.assembly import Disruption
from webhook.history.desk import HistoryDesk
from webhook.kube.addresses import is_loopback
from webhook.server.connections import Connections
from webhook.server.plain import add_last_route, make_plain_app
from webhook.settings.hook_secrets import SecretFile, read_secrets
from webhook.settings.programs import ServerSettings
from webhook.telemetry.crew import Crew
from webhook.telemetry.health import Health
from webhook.telemetry.metrics import Metrics
from webhook.telemetry.tracing import Tracing


@dataclass(frozen=True, slots=True)
class Parts:
    """What the applications of one server share."""

    services: Services
    settings: ServerSettings = field(default_factory=ServerSettings)
    health: Health = field(default_factory=Health)
    metrics: Metrics = field(default_factory=Metrics)
    continuation: Continuation = field(default_factory=Continuation.with_new_key)
    connections: Connections = field(default_factory=lambda: Connections(1000, 200))
    """Of the HTTPS listener."""
    tracing: Tracing | None = None
    crew: Crew | None = None
    """The workers that share the listeners; None: this process has them for itself."""
    calls: Calls | None = None
    """How the API server calls the hooks. None: unknown, the settings alone count."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """The page for one viewer.

    Args:
        app: The application.
        health: Told when it ends, so that streams of changes do.
    """

    app: web.Application
    health: Health


PARTS: Final = web.AppKey("PARTS", Parts)


def make_app(parts: Parts) -> web.Application:
    """Make the HTTPS application: admission, ``/v1``, the extender and the page.

    Admission tells strangers only what the rules make of their own words, so its callers need no credentials. All other
    paths require them, except those without data: the files of the page and the description of the interface.

    Raises:
        webhook.settings.environment.SettingsError: A file with secrets, of the hooks or of upgraders, cannot be used.
    """
    app = _application(parts)
    app[CONNECTIONS] = parts.connections
    services, settings = parts.services, parts.settings
    doorkeeper = Doorkeeper(settings, read_secrets(settings.webhook_secret_file), services.answers.now, parts.calls)
    bodies = Bodies(settings.bodies_bytes)
    parts.metrics.watch_bodies(lambda: bodies.held)
    admission.add_routes(app, services, settings, parts.health, parts.metrics, doorkeeper, bodies, parts.tracing)
    api = Api(
        app,
        services.answers,
        settings,
        parts.metrics,
        callers=Callers(services.answers, settings, parts.metrics),
        continuation=parts.continuation,
        bodies=bodies,
    )
    for surface in SURFACES:
        parts.metrics.watch_in_flight(surface, partial(api.in_flight, surface))
    _add_questions(api)
    _add_views(api, services.disruption)
    add_disruption(api, services.disruption, services.history)
    upgrade_plans.add_routes(api, services.upgrades.planner)
    upgrade_orders.add_routes(api, services.upgrades.orders)
    hand_off = SecretFile(settings.handoff_secret_file, "HANDOFF_SECRET_FILE")
    hand_off.read()
    upgrade_reports.add_routes(api, services.upgrades.reports, hand_off, unbound=settings.handoff_unbound_reports)
    extender.add_routes(api, services.extender, parts.tracing)
    if settings.metrics_auth:
        api.get("/metrics", "/metrics", probes.exposition(parts.metrics, parts.crew), when_synced=False)
    history.add_routes(api, services.history)
    offered = services.answers.admittance.sign_in
    if offered is not None:
        sign_in.add_routes(api, offered, settings)
    _add_page(api, parts.health, "" if offered is None else offered.name)
    return app


def make_answering_api(answers: Answers, settings: ServerSettings) -> Api:
    """Make an application that only answers below ``/v1``, on a listener that only its own process can reach.

    It does not answer about node pools and gates, unless `add_disruption` adds them.
    """
    metrics = Metrics()
    app = make_plain_app(Health(), settings.admission_body_bytes)
    api = Api(app, answers, settings, metrics, callers=Callers(answers, settings, metrics))
    _add_questions(api)
    _add_views(api)
    return api


def make_dashboard_app(
    answers: Answers, disruption: Disruption, kept: HistoryDesk, settings: ServerSettings, key: str
) -> Dashboard:
    """Make an application that shows the page to whoever has *key*, and answers what the page asks; it only reads.

    The key is in the address that its owner opens, and from then on in a cookie: another user of this machine, and
    another page in the same browser, have neither. Every request must name this machine as its host, as above.
    """
    health = Health()
    app = make_plain_app(health, settings.admission_body_bytes)
    app.middlewares.extend((_only_this_machine, _only_with(key)))
    api = Api(app, answers, settings, Metrics())
    _add_page_and_its_questions(api, disruption, kept, health)
    add_last_route(app)
    return Dashboard(app, health)


def _only_with(key: str) -> Middleware:
    cookie = f"harbormaster-{hashlib.sha256(key.encode()).hexdigest()[:8]}"  # cookies know no ports

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.query.get("key", "") if request.path == "/" else ""
        if given and secrets.compare_digest(given.encode(), key.encode()):
            response = web.Response(status=303, headers={"Location": "/", "Cache-Control": "no-store"})
            response.set_cookie(cookie, key, httponly=True, samesite="Strict")
            return response
        if not secrets.compare_digest(request.cookies.get(cookie, "").encode(), key.encode()):
            detail = "open the address that harbormaster dashboard has printed, with its key"
            return problem_response(request, ProblemError(Problem.FORBIDDEN, detail))
        return await handler(request)

    return guard


def make_probe_app(parts: Parts) -> web.Application:
    """Make the plain HTTP application: probes and metrics; with ``page_on_http`` also all that the page needs.

    With the page on it, every request must name this machine as its host: else a foreign web page could read it under a
    host name of its own that it points at 127.0.0.1.
    """
    app = _application(parts)
    probes.add_routes(app, parts.health, parts.metrics, parts.crew)
    if parts.settings.page_on_http:
        app.middlewares.append(_only_this_machine)
        api = Api(app, parts.services.answers, parts.settings, parts.metrics)
        _add_page_and_its_questions(api, parts.services.disruption, parts.services.history, parts.health)
    return app


def _add_page_and_its_questions(api: Api, disruption: Disruption, kept: HistoryDesk, health: Health) -> None:
    """Serve the page, and all that it asks and nothing else, where no caller has to say who it is."""
    scoring.add_routes(api, explain_only=True)
    planning.add_routes(api)
    _add_views(api, disruption)
    budgets.add_routes(api, disruption.budgets)
    history.add_routes(api, kept)
    _add_page(api, health)


def add_disruption(api: Api, disruption: Disruption, history: HistoryDesk) -> None:
    """Serve the questions about node pools, gates and reservations; *history* gets what is refused."""
    gate.add_routes(api, disruption.desk, history)
    member_gates.add_routes(api, disruption.desk, history)
    budgets.add_routes(api, disruption.budgets)


def _add_questions(api: Api) -> None:
    scoring.add_routes(api)
    rehearsal.add_routes(api)
    planning.add_routes(api)


def _add_views(api: Api, disruption: Disruption | None = None) -> None:
    clusters.add_routes(api, None if disruption is None else disruption.members.holds.of)
    placements.add_routes(api)
    runs.add_routes(api)
    update_runs.add_routes(api)


def _add_page(api: Api, health: Health, provider: str = "") -> None:
    events.add_routes(api, health)
    openapi.add_routes(api)
    page.add_routes(api.app, provider=provider)


def _application(parts: Parts) -> web.Application:
    app = make_plain_app(parts.health, parts.settings.admission_body_bytes)
    app[PARTS] = parts
    return app


@web.middleware
async def _only_this_machine(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    if not is_this_machine(request.headers.get("Host", "")):
        return problem_response(
            request, ProblemError(Problem.FORBIDDEN, "this address answers only to localhost, 127.0.0.1 and [::1]")
        )
    return await handler(request)


def is_this_machine(host: str) -> bool:
    """Say whether a ``Host`` header names the loopback interface, with or without a port."""
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name = host
    elif not (port.isascii() and port.isdigit()):
        return False
    return is_loopback(name.removeprefix("[").removesuffix("]"))
