"""A server over a whole hub in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from certs.client_authorities import ClientAuthorities
from tests.webhook.controllers.world import World
from tests.webhook.endpoints.conftest import Clock, Port
from tests.webhook.services import LISTENERS, OWNER, admit, make_server, make_services, unheard
from webhook.access.front_proxy import FrontProxy
from webhook.access.ports import AccessReviewer, Authenticator, Authorizer
from webhook.admission.cached import CachedContext
from webhook.history.service import HistoryService, Record
from webhook.runtime.clock import utc_now
from webhook.settings.programs import ServerSettings


@asynccontextmanager
async def serving(
    world: World,
    *,
    authorizer: Authorizer = OWNER,
    access: AccessReviewer | None = None,
    caller: Authenticator = OWNER,
    record: Record = unheard,
    front_proxy: FrontProxy | None = None,
    client_authorities: ClientAuthorities | None = None,
    proxy_authorities: ClientAuthorities | None = None,
    recorded: HistoryService | None = None,
    **settings: Any,
) -> AsyncIterator[Port]:
    """Run a server over the world."""
    chosen = ServerSettings(**(LISTENERS | settings))
    admission = CachedContext(world.cache, chosen.admission(), utc_now)
    services = make_services(
        cache=world.cache,
        store=world.store,
        settings=chosen,
        admission=admission,
        admittance=admit(caller, authorizer, access, front_proxy=front_proxy),
        record=record,
        recorded=recorded,
    )
    server = make_server(services, chosen, client_authorities=client_authorities, proxy_authorities=proxy_authorities)
    await server.start()
    try:
        yield Port(server, None, Clock(behind=utc_now() - utc_now()))
    finally:
        await server.stop()
