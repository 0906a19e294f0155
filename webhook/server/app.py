"""The web applications: HTTPS for everything, plain HTTP for probes and, on a user's own machine, the page.

The HTTPS application has no middleware: admission is the hot path, and one signal handler sets the headers of every
answer.

Source: docs/specifications/serving.md 0 (D1) and 3.3.
"""

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from webhook.access.vouching import CONNECTIONS
from webhook.actions.page_actions import PageActions
from webhook.admission.registry import load_all
from webhook.endpoints import probes
from webhook.endpoints.admission import dry_run, hooks
from webhook.endpoints.admission.authentication import ApiServerVerifier, Calls
from webhook.endpoints.aggregated import answers as aggregated_answers
from webhook.endpoints.aggregated import discovery
from webhook.endpoints.fleet import budgets, clusters, event_stream, history, placements, runs, status
from webhook.endpoints.gate import members as member_gate
from webhook.endpoints.gate import nodes as node_gate
from webhook.endpoints.http.access_control import SURFACES, Callers
from webhook.endpoints.http.api import Api, Handler
from webhook.endpoints.http.bodies import Bodies
from webhook.endpoints.http.continue_tokens import Continuation
from webhook.endpoints.http.problems import Problem, ProblemError
from webhook.endpoints.http.responses import problem_response
from webhook.endpoints.http.services import Answers, PageFacts, Services
from webhook.endpoints.scheduling import extender, planning, scoring
from webhook.endpoints.ui import actions, openapi, sign_in, static_files
from webhook.endpoints.upgrades import actions as upgrade_actions
from webhook.endpoints.upgrades import plans as upgrade_plans
from webhook.endpoints.upgrades import status_reports
from webhook.gate.assembly import DisruptionGate
from webhook.history.service import HistoryService
from webhook.kube.transport.addresses import is_loopback
from webhook.server.connections import Connections
from webhook.server.plain import add_last_route, make_plain_app
from webhook.settings.programs import ServerSettings
from webhook.settings.secret_files import SecretFile, read_secrets
from webhook.telemetry.crew import WorkerGroup
from webhook.telemetry.health import Health
from webhook.telemetry.metrics import Metrics
from webhook.telemetry.tracing import Tracing


@dataclass(frozen=True, slots=True)
class AppDependencies:
    """Shared dependencies of the applications of one server."""

    services: Services
    settings: ServerSettings = field(default_factory=ServerSettings)
    health: Health = field(default_factory=Health)
    metrics: Metrics = field(default_factory=Metrics)
    continuation: Continuation = field(default_factory=Continuation.with_new_key)
    connections: Connections = field(default_factory=lambda: Connections(1000, 200))
    """Open connections of the HTTPS listener."""
    tracing: Tracing | None = None
    crew: WorkerGroup | None = None
    """The workers that share the listeners. None: disabled, this process does not share them."""
    calls: Calls | None = None
    """How the API server calls the hooks. None: unknown, the settings alone count."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """The page for one viewer.

    Args:
        app: The application.
        health: Its ``draining`` event ends the event streams.
    """

    app: web.Application
    health: Health


PARTS: Final = web.AppKey("PARTS", AppDependencies)


def make_app(parts: AppDependencies) -> web.Application:
    """Create the HTTPS application: admission, ``/v1``, the extender and the page.

    Admission reveals to unverified callers only the rules applied to their own input, so its callers need no
    credentials. All other paths require them, except the files of the page, sign-in, the OpenAPI description, and the
    signed reports of upgraders.

    Raises:
        webhook.settings.environment.SettingsError: A file with secrets, of the hooks or of upgraders, is invalid.
    """
    app = _application(parts)
    app[CONNECTIONS] = parts.connections
    services, settings = parts.services, parts.settings
    doorkeeper = ApiServerVerifier(
        settings, read_secrets(settings.webhook_secret_file), services.answers.now, parts.calls
    )
    bodies = Bodies(settings.bodies_bytes)
    parts.metrics.watch_bodies(lambda: bodies.held)
    load_all()
    hooks.add_routes(app, services, settings, parts.health, parts.metrics, doorkeeper, bodies, parts.tracing)
    api = Api(
        app,
        services.answers,
        settings,
        parts.metrics,
        callers=Callers(services.admittance, services.answers.now, settings, parts.metrics),
        continuation=parts.continuation,
        bodies=bodies,
    )
    for surface in SURFACES:
        parts.metrics.watch_in_flight(surface, partial(api.in_flight, surface))
    scoring.add_routes(api)
    dry_run.add_routes(api)
    planning.add_routes(api)
    _add_views(api, services.disruption)
    node_gate.add_routes(api, services.disruption.service, services.history)
    member_gate.add_routes(api, services.disruption.service.members, services.history)
    budgets.add_routes(api, services.disruption.budgets)
    upgrade_plans.add_routes(api, services.upgrades.planner)
    upgrade_actions.add_routes(api, services.upgrades.orders)
    hand_off = SecretFile(settings.handoff_secret_file, "HANDOFF_SECRET_FILE")
    hand_off.read()
    status_reports.add_routes(api, services.upgrades.reports, hand_off, unbound=settings.handoff_unbound_reports)
    extender.add_routes(api, services.extender, parts.tracing)
    if settings.metrics_auth:
        api.get("/metrics", "/metrics", probes.exposition(parts.metrics, parts.crew), when_synced=False)
    history.add_routes(api, services.history)
    if services.admittance.front_proxy is not None:
        discovery.add_routes(api)
        aggregated_answers.add_routes(api, services.history)
    sign_in_service = services.admittance.sign_in
    if sign_in_service is not None:
        sign_in.add_routes(api, sign_in_service, settings)
    if services.actions is not None:
        sessions = None if sign_in_service is None else sign_in_service.sessions
        actions.add_routes(
            api, services.actions, audience=services.admittance.authenticator.audience, sessions=sessions
        )
    provider = "" if sign_in_service is None else sign_in_service.name
    _add_page(api, parts.health, services.page, provider=provider, has_actions=services.actions is not None)
    return app


class Entrance:
    """Access of the owner of a dashboard: a one-time key is exchanged for a token.

    Cookies do not isolate ports: a browser sends those of 127.0.0.1 to every server on this machine, which could use
    them here. So the token is not a cookie. The page keeps it in the session storage of its origin, which includes the
    port, and sends it in a header.

    Args:
        on_renewal: Called with the next key, for another tab or browser, after one has been used.
    """

    def __init__(self, on_renewal: Callable[[str], None]) -> None:
        self.key = secrets.token_urlsafe(_KEY_BYTES)
        self._token = secrets.token_urlsafe(_KEY_BYTES)
        self._renewed = on_renewal

    def exchange(self, key: str) -> str:
        """Return the token for the current key, which is then void. Empty for any other key."""
        if not _equal_in_constant_time(key, self.key):
            return ""
        self.key = secrets.token_urlsafe(_KEY_BYTES)
        self._renewed(self.key)
        return self._token

    def admits(self, request: web.Request) -> bool:
        """Return whether a request has the token, or is for the page or the OpenAPI description, which hold no data."""
        if request.path in _OPEN_PATHS or request.path.startswith("/ui/"):
            return True
        authorization = request.headers.get("Authorization", "")
        return _equal_in_constant_time(authorization, f"Bearer {self._token}")


def _equal_in_constant_time(actual: str, expected: str) -> bool:
    """Compare in constant time. *actual* may hold bytes that are not text."""
    return secrets.compare_digest(actual.encode(errors="surrogatepass"), expected.encode())


_KEY_BYTES: Final = 24
_OPEN_PATHS: Final = frozenset({*static_files.PAGES.values(), "/v1/openapi.json"})


def make_dashboard_app(
    answers: Answers,
    disruption: DisruptionGate,
    history_service: HistoryService,
    settings: ServerSettings,
    entrance: Entrance,
    facts: PageFacts,
    page_actions: PageActions | None = None,
) -> Dashboard:
    """Create an application with the page and the endpoints that it calls with the token.

    It is read-only, unless it has *page_actions*.

    The ``Host`` header of every request must name this machine, for the reason given in `make_probe_app`.
    """
    health = Health()
    app = make_plain_app(health, settings.admission_body_bytes)
    app.middlewares.extend((_only_this_machine, _only_through(entrance)))
    api = Api(app, answers, settings, Metrics())
    _add_questions_of_page(api, disruption, history_service)
    if page_actions is not None:
        actions.add_routes(api, page_actions)
    _add_page(api, health, facts, has_actions=page_actions is not None)
    add_last_route(app)
    return Dashboard(app, health)


def _only_through(entrance: Entrance) -> Middleware:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path == "/" and "key" in request.query:
            if token := entrance.exchange(request.query["key"]):
                # A browser does not send the fragment to any server.
                return web.Response(status=303, headers={"Location": f"/#token={token}", "Cache-Control": "no-store"})
            detail = "the key is no longer valid: open the last address that harbormaster dashboard printed"
        elif entrance.admits(request):
            return await handler(request)
        else:
            detail = "open the last address that harbormaster dashboard printed, with its key"
        return problem_response(request, ProblemError(Problem.FORBIDDEN, detail))

    return guard


def make_probe_app(parts: AppDependencies) -> web.Application:
    """Create the plain HTTP application: probes and metrics, and with ``page_on_http`` the page and its endpoints.

    With the page, the ``Host`` header of every request must name this machine. Otherwise, a foreign web site could read
    the page under a host name that resolves to 127.0.0.1.
    """
    app = _application(parts)
    probes.add_routes(app, parts.health, parts.metrics, parts.crew)
    if parts.settings.page_on_http:
        app.middlewares.append(_only_this_machine)
        api = Api(app, parts.services.answers, parts.settings, parts.metrics)
        _add_questions_of_page(api, parts.services.disruption, parts.services.history)
        page_actions = parts.services.actions
        if page_actions is not None:  # unlike the questions, they need the token of a viewer
            callers = Callers(parts.services.admittance, parts.services.answers.now, parts.settings, parts.metrics)
            guarded = Api(app, parts.services.answers, parts.settings, parts.metrics, callers=callers)
            actions.add_routes(guarded, page_actions, audience=parts.services.admittance.authenticator.audience)
        has_actions = page_actions is not None
        _add_page(api, parts.health, parts.services.page, open_to="machine", has_actions=has_actions)
    return app


def _add_questions_of_page(api: Api, disruption: DisruptionGate, history_service: HistoryService) -> None:
    """Serve only the endpoints that the page calls, without authentication."""
    scoring.add_routes(api, explain_only=True)
    planning.add_routes(api)
    _add_views(api, disruption)
    budgets.add_routes(api, disruption.budgets)
    history.add_routes(api, history_service)


def _add_views(api: Api, disruption: DisruptionGate) -> None:
    clusters.add_routes(api, disruption.members.holds.of)
    placements.add_routes(api)
    runs.add_routes(api)
    status.add_routes(api)


def _add_page(
    api: Api, health: Health, facts: PageFacts, *, provider: str = "", open_to: str = "", has_actions: bool = False
) -> None:
    event_stream.add_routes(api, health)
    openapi.add_routes(api)
    static_files.add_routes(api.app, facts, provider=provider, open_to=open_to, has_actions=has_actions)


def _application(parts: AppDependencies) -> web.Application:
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
    """Return whether a ``Host`` header names the loopback interface, with or without a port."""
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name = host
    elif not (port.isascii() and port.isdigit()):
        return False
    return is_loopback(name.removeprefix("[").removesuffix("]"))
