"""Servers, and what their handlers are handed: as the programs compose them, over an empty hub unless one is given."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from aiohttp import web

from certs.client_authorities import ClientAuthorities
from certs.source import LeafSource
from scorer.api.event import Event
from scorer.api.meta import JsonObject
from tests.waiting import PATIENCE_SECONDS
from webhook.access.front_proxy import FrontProxy
from webhook.access.ports import AccessReviewer, Authenticator, Authorizer
from webhook.admission.rights import AuthorRights, Rights, UndisputedRights
from webhook.embedded.api_server.owner_token import OwnerToken
from webhook.endpoints.admission.authentication import Calls
from webhook.endpoints.http.services import Admittance, Services
from webhook.history.record import RecordSource
from webhook.history.service import EventSinks, HistoryService, Record, history_of
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import Store
from webhook.processes.services import answers_of, services_of
from webhook.runtime.clock import utc_now
from webhook.server.certificates import Certificates, own_leaves
from webhook.server.place import WorkerSockets
from webhook.server.server import Server
from webhook.settings.programs import ServerSettings
from webhook.sign_in.people import SignIn
from webhook.telemetry.metrics import Metrics
from webhook.telemetry.tracing import Tracing
from webhook.validation.framework.context import Context

TOKEN = "the-token-of-the-owner"
"""Lets its holder do everything, as that of a data folder does."""
OWNER = OwnerToken(TOKEN)
LISTENERS: Final[dict[str, Any]] = {
    "https_port": 0,
    "http_port": 0,
    "drain_seconds": 0,
    "drain_limit_seconds": 0,
    "shutdown_seconds": 1,
    "handshake_seconds": PATIENCE_SECONDS,
    "body_seconds": PATIENCE_SECONDS,
    "live_seconds": PATIENCE_SECONDS,
}
"""Settings of a server under test: any free port, no drain, and time-outs that only the tests about them reach.

Client and server share an event loop, so on a loaded machine a time-out of seconds fires before the loop reads what has
arrived in time.
"""


class Unread(Store):
    """A hub that nobody reads: the cache over it stays as it was made."""


def unheard(_document: JsonObject, _event: Event) -> None:
    """Take an event that nobody asks for."""


class Admitted(NamedTuple):
    """Whom a server admits, and what authors may place there."""

    admittance: Admittance
    rights: Rights


def admit(
    authenticator: Authenticator = OWNER,
    authorizer: Authorizer = OWNER,
    access: AccessReviewer | None = None,
    sign_in: SignIn | None = None,
    front_proxy: FrontProxy | None = None,
) -> Admitted:
    """Let in whom these know; without *access* nobody's rights are disputed."""
    rights = UndisputedRights() if access is None else AuthorRights(access)
    names = None if front_proxy is None else lambda: front_proxy
    return Admitted(Admittance(authenticator, authorizer, sign_in, names), rights)


def make_services(
    *,
    admittance: Admitted | None = None,
    cache: Cache | None = None,
    store: Store | None = None,
    settings: ServerSettings | None = None,
    admission: Callable[[], Context] = Context,
    now: Callable[[], datetime] = utc_now,
    recorded: HistoryService | None = None,
    record: Record = unheard,
    **answers: Any,
) -> Services:
    """Make what the handlers of a server need; *answers* take the place of what would answer below ``/v1``."""
    store = store or Unread()
    cache = cache or Cache(store)
    settings = settings or ServerSettings()
    recorded = recorded or history_of(store, settings.namespace, settings, RecordSource.SERVER, "test", now)
    admitted, rights = admittance or admit()
    made = replace(answers_of(cache, store, admission, rights, now), **answers)
    return services_of(made, admitted, cache, store, settings, Metrics(), EventSinks(record, recorded))


def make_server(
    services: Services,
    settings: ServerSettings,
    *,
    leaves: LeafSource | None = None,
    client_authorities: ClientAuthorities | None = None,
    proxy_authorities: ClientAuthorities | None = None,
    extend: Callable[[web.Application], None] | None = None,
    tracing: Tracing | None = None,
    place: WorkerSockets | None = None,
    calls: Calls | None = None,
) -> Server:
    """Make a server; its certificates are of an authority made now unless others are given."""
    metrics, now = Metrics(), services.answers.now
    leaves = leaves or own_leaves(settings, now)
    check_seconds = settings.certificate_check_seconds
    certificates = Certificates(leaves, client_authorities, metrics, now, check_seconds, None, proxy_authorities)
    return Server(services, settings, certificates, metrics, extend=extend, tracing=tracing, place=place, calls=calls)
