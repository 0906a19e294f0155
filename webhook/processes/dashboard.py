"""The page over the hub of a kubeconfig, for its owner: nothing is installed on the hub, and nothing is written there.

It listens on loopback alone, and shows nothing without a key that only its owner is told.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from webhook.history.desk import HistoryDesk
from webhook.kube.client import ApiServer
from webhook.processes.hub_reading import HubReading
from webhook.server.app import make_dashboard_app
from webhook.settings.clock import utc_now
from webhook.settings.programs import ServerSettings

HOST = "127.0.0.1"
_KEY_BYTES = 24
_END_SECONDS = 1.0


@asynccontextmanager
async def dashboard(hub: ApiServer, settings: ServerSettings, port: int) -> AsyncIterator[tuple[str, list[str]]]:
    """Serve the page until the block ends; yield its address, and the kinds that could not be read.

    Args:
        hub: The API server.
        settings: Those that its `harbormaster serve` has.
        port: On loopback; 0: any free one.

    Raises (on entering):
        NotReadableError: The hub does not let us read what the page needs.
        OSError: The port is taken.
    """
    key = secrets.token_urlsafe(_KEY_BYTES)
    reading = await HubReading.begin(hub, settings, utc_now, of_nodes=True)
    assert reading.disruption is not None
    history = HistoryDesk(reading.store, settings.namespace, None, utc_now, is_kept=True)
    made = make_dashboard_app(reading.answers, reading.disruption, history, settings, key)
    async with reading.running():
        runner = web.AppRunner(made.app, access_log=None, shutdown_timeout=_END_SECONDS)
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, port).start()
            yield f"http://{HOST}:{runner.addresses[0][1]}/?key={key}", reading.cache.unread()
        finally:
            made.health.draining.set()
            await runner.cleanup()
