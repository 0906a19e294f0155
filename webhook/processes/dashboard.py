"""The page over the hub of a kubeconfig, for its owner: nothing is installed on the hub, and nothing is written there.

It listens on loopback alone, and shows nothing without a key that only its owner gets, and that counts once.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from webhook.admission.cached import CachedContext
from webhook.admission.rights import UndisputedRights
from webhook.gate.assembly import disruption_of
from webhook.gate.pools import COUNTED
from webhook.history.desk import HistoryService
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
    hub: ApiServer, settings: ServerSettings, port: int, on_renewal: Callable[[str], None]
) -> AsyncIterator[tuple[str, list[str]]]:
    """Serve the page until the block ends; yield its address, and the kinds that could not be read.

    Args:
        hub: The API server.
        settings: Those that its `harbormaster serve` has.
        port: On loopback; 0: any free one.
        on_renewal: Called with the next address when one has been opened: each counts once.

    Raises (on entering):
        NotReadableError: The hub does not let us read what the page needs.
        OSError: The port is taken.
    """
    address = ""

    def address_with(key: str) -> str:
        return f"{address}/?key={key}"

    entrance = Entrance(lambda key: on_renewal(address_with(key)))
    await read_owner(hub)  # fails early, and in words, where the API server does not accept them
    store = HubStore(hub)
    cache = Cache(store)
    admission = CachedContext(cache, settings.admission(), utc_now)
    answers = answers_of(cache, store, admission, UndisputedRights(), utc_now)
    disruption = disruption_of(cache, store, settings, utc_now)
    history = HistoryService(store, settings.namespace, None, utc_now, is_kept=True)
    app = make_dashboard_app(answers, disruption, history, settings, entrance)
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
