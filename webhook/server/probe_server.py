"""The plain listener of a process that serves only its probes and metrics.

Source: docs/specifications/serving.md 6.1 and 6.4.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from aiohttp import web

from webhook.endpoints import probes
from webhook.server.listening import Addresses, listen
from webhook.server.plain import add_last_route, make_plain_app
from webhook.settings.listener import ListenerSettings
from webhook.telemetry.allocator import keep_trimming
from webhook.telemetry.health import Health
from webhook.telemetry.process_metrics import ProcessMetrics

KEEPALIVE_SECONDS: Final = 120.0
"""Maximum time of a connection without a complete request, as for the server."""


class ProbeServer:
    """Serves ``/livez``, ``/readyz``, ``/healthz`` and ``/metrics`` alongside other work.

    `webhook.server.listening.serve` runs it.

    Args:
        settings: Address to listen on.
        health: Answers the probes.
        metrics: Metrics of the process.
        work: Work of the process. Runs until cancelled.
    """

    def __init__(
        self,
        settings: ListenerSettings,
        health: Health,
        metrics: ProcessMetrics,
        work: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._settings = settings
        self._health = health
        self._work = work
        self._running: asyncio.Task[None] | None = None
        app = make_plain_app(health)
        probes.add_routes(app, health, metrics)
        add_last_route(app)
        self._runner = web.AppRunner(app, access_log=None, keepalive_timeout=KEEPALIVE_SECONDS, shutdown_timeout=1.0)
        metrics.watch_lag(lambda: health.lag_seconds)

    async def start(self) -> Addresses:
        """Open the listener and start the work.

        Raises:
            ListenError: The listener could not be opened.
        """
        settings = self._settings
        await self._runner.setup()
        try:
            site = await listen(self._runner, settings.http_host, settings.http_port, None, settings, "http_port")
        except BaseException:
            await self._runner.cleanup()
            raise
        self._running = asyncio.create_task(self._run(), name="work")
        return Addresses(None, site.address)

    async def wait(self) -> None:
        """Wait until the work ends. Raises its error if it failed."""
        if self._running is not None:
            await asyncio.wait((self._running,))
            if not self._running.cancelled():
                self._running.result()

    async def drain(self, hurry: asyncio.Event | None = None) -> None:  # noqa: ARG002 - it waits for no caller
        """Stop immediately: probes have nothing to lose."""
        await self.stop()

    async def stop(self) -> None:
        """Stop the work, then close the listener, so that probes are answered until then."""
        self._health.draining.set()
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait((self._running,))
        await self._runner.cleanup()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._health.keep_measuring())
            tasks.create_task(keep_trimming())
            tasks.create_task(self._work())
