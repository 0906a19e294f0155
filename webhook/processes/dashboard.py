"""The page over the hub of a kubeconfig, for the kubeconfig's owner. Its only writes are the owner's own actions.

It listens only on loopback, and requires a one-time key that only its owner gets.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from webhook.actions.page_actions import PageActions
from webhook.actions.viewer_hub import OwnHubs
from webhook.admission.cached import CachedContext
from webhook.admission.rights import UndisputedRights
from webhook.endpoints.http.services import PageFacts
from webhook.gate.assembly import disruption_of
from webhook.gate.pools import COUNTED
from webhook.history.service import HistoryService
from webhook.kube.cache.informer import Cache
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.processes.hub_reading import read_owner, reading
from webhook.processes.services import answers_of
from webhook.runtime.clock import utc_now
from webhook.server.app import Entrance, make_dashboard_app
from webhook.server.connections import Connections
from webhook.server.listening import Site
from webhook.settings.programs import ServerSettings

HOST = "127.0.0.1"
_END_SECONDS = 1.0


@asynccontextmanager
async def dashboard(
    hub: ApiServer, settings: ServerSettings, port: int, on_renewal: Callable[[str], None], facts: PageFacts
) -> AsyncIterator[tuple[str, list[str]]]:
    """Serve the page until the block ends. Yield its address, and the kinds that could not be read.

    Args:
        hub: The API server.
        settings: Settings of its `harbormaster serve`.
        port: Port on loopback. 0: any free one.
        on_renewal: Called with the next address after one was opened: each is valid once.
        facts: Facts about this process for the page.

    Raises (on entering):
        NotReadableError: The hub denies a read that the page needs.
        OSError: The port is in use.
    """
    address = ""

    def address_with(key: str) -> str:
        return f"{address}/?key={key}"

    entrance = Entrance(lambda key: on_renewal(address_with(key)))
    owner = await read_owner(hub)  # fails early with a clear message if the API server rejects the credentials
    store = HubStore(hub)
    cache = Cache(store)
    admission = CachedContext(cache, settings.admission(), utc_now)
    answers = answers_of(cache, store, admission, UndisputedRights(), utc_now)
    disruption = disruption_of(cache, store, settings, utc_now)
    history = HistoryService(store, settings.namespace, None, utc_now, is_kept=True)
    actions = PageActions(OwnHubs(hub), utc_now, owner.username) if settings.page_actions else None
    app = make_dashboard_app(answers, disruption, history, settings, entrance, facts, actions)
    async with reading(cache, disruption.keeper.reservations, COUNTED):
        runner = web.AppRunner(app.app, access_log=None, shutdown_timeout=_END_SECONDS)
        await runner.setup()
        try:
            connections = Connections(settings.connections, settings.handshakes_per_address)
            site = Site(runner, HOST, port, None, settings, connections)
            await site.start()
            address = site.name
            yield address_with(entrance.key), cache.unread()
        finally:
            app.health.draining.set()
            await runner.cleanup()
