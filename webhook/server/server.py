"""The server: listeners, housekeeping, and a shutdown that loses no request.

Source: docs/specifications/serving.md 1.10, 1.14, 4.2, 4.4, 6.4.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from webhook.endpoints.admission.authentication import Calls
from webhook.endpoints.http.continue_tokens import Continuation, sealing_key
from webhook.endpoints.http.services import Services
from webhook.server.app import AppDependencies, make_app, make_probe_app
from webhook.server.certificates import Certificates
from webhook.server.connections import Connections
from webhook.server.listening import Addresses, ListenError, Site, listen
from webhook.server.place import WorkerSockets
from webhook.server.plain import add_last_route
from webhook.settings.programs import ServerSettings
from webhook.telemetry.allocator import keep_trimming
from webhook.telemetry.crew import WorkerGroup
from webhook.telemetry.health import Health
from webhook.telemetry.metrics import Metrics
from webhook.telemetry.tracing import Tracing

LISTENER_CHECK_SECONDS: Final = 5.0
LISTENER_SILENCE_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.05

_log = logging.getLogger(__name__)


class Server:
    """HTTPS and plain HTTP listeners over one set of services.

    Args:
        services: Services of the handlers.
        settings: Settings of the server.
        certificates: Certificates of the HTTPS listener.
        metrics: Metrics of the process.
        extend: Adds more routes to the HTTPS application.
        tracing: Makes a span of every review and of every scheduler call. None: disabled.
        place: Place among the workers that share the listeners. None if they are not shared.
        calls: Observed calls of the API server. None: unknown, only the settings count.

    Raises:
        SettingsError: A file with secrets, of the hooks or of upgraders, is invalid.
    """

    def __init__(
        self,
        services: Services,
        settings: ServerSettings,
        certificates: Certificates,
        metrics: Metrics,
        *,
        extend: Callable[[web.Application], None] | None = None,
        tracing: Tracing | None = None,
        place: WorkerSockets | None = None,
        calls: Calls | None = None,
    ) -> None:
        self.services = services
        self.settings = settings
        self.certificates = certificates
        self.health = Health()
        self.metrics = metrics
        self._listener_seen = float("-inf")
        self._addresses: Addresses | None = None
        self._site: Site | None = None
        self._place = place
        self._crew = None if place is None else WorkerGroup(place.seat, self.health, metrics)
        self._meeting: asyncio.Task[None] | None = None
        self._housekeeping: asyncio.Task[None] | None = None
        continuation = Continuation(lambda: sealing_key(certificates.common_key_pem))
        self._callers = Connections(settings.connections, settings.handshakes_per_address, is_paced=True)
        parts = AppDependencies(
            services, settings, self.health, self.metrics, continuation, self._callers, tracing, self._crew, calls
        )
        app, probes = make_app(parts), make_probe_app(parts)
        if extend is not None:
            extend(app)
        add_last_route(app)
        add_last_route(probes)
        self._https = self._runner(app)
        self._http = self._runner(probes)
        self.metrics.watch_lag(lambda: self.health.lag_seconds)
        self.health.require("certs", certificates.problem, certificates.describe)
        self.health.require("listener", self._check_listener)
        self.health.require("caches", lambda: "" if services.answers.synced() else "not synced yet")

    def _runner(self, app: web.Application) -> web.AppRunner:
        return web.AppRunner(
            app,
            access_log=None,
            keepalive_timeout=self.settings.keepalive_seconds,
            auto_decompress=False,
            shutdown_timeout=self.settings.shutdown_seconds,
            lingering_time=2.0,
        )

    @property
    def addresses(self) -> Addresses:
        """Addresses of the server. Raises `RuntimeError` before `start`."""
        if self._addresses is None:
            raise RuntimeError("the server has not been started")
        return self._addresses

    async def start(self) -> Addresses:
        """Open both listeners and start housekeeping.

        Raises:
            ListenError: A listener could not be opened. Then both are closed.
        """
        settings, place = self.settings, self._place
        await self.certificates.renew_client_authorities()
        await self.certificates.renew_proxy_authorities()
        await self._join()
        try:
            await self._https.setup()
            self._site = await listen(
                self._https,
                settings.host,
                settings.https_port,
                self.certificates.context,
                settings,
                "https_port",
                self._callers,
                () if place is None else place.https,
            )
            await self._http.setup()
            plain = await listen(
                self._http,
                settings.http_host,
                settings.http_port,
                None,
                settings,
                "http_port",
                sockets=() if place is None else place.http,
            )
        except ListenError:
            await self._close()
            raise
        self._addresses = Addresses(self._site.address, plain.address)
        await self.check_listener()
        self._housekeeping = asyncio.create_task(self._keep_house(), name="housekeeping")
        return self._addresses

    async def _join(self) -> None:
        """Join the other workers.

        A restarted worker leaves callers to the others until its cache is filled.
        """
        if self._place is None or self._crew is None:
            return
        self._meeting = asyncio.create_task(self._crew.run(), name="crew")
        while self._place.seat.restarts and not self.services.answers.synced():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(_POLL_SECONDS)

    async def wait(self) -> None:
        """Wait until housekeeping, or answering other workers, stops by itself, which is a bug. Raises its error."""
        tasks = [task for task in (self._housekeeping, self._meeting) if task is not None]
        if tasks:
            ended_tasks, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended_tasks:
                await task

    async def drain(self, hurry: asyncio.Event | None = None) -> None:
        """Stop without losing a request, then close.

        The listener remains open, because callers keep connecting until they have noticed that this replica is not
        ready. Every answer closes its connection. Idle connections are left for their clients to close: closing them
        here could hit the client's next request.

        Args:
            hurry: Aborts the wait when set.
        """
        loop = asyncio.get_running_loop()
        start = loop.time()
        self.health.draining.set()  # readiness fails from here on
        _log.info("draining", extra={"connections": len(self._connections())})
        while not (hurry and hurry.is_set()):
            elapsed = loop.time() - start
            if elapsed >= self.settings.drain_limit_seconds:
                break
            if elapsed >= self.settings.drain_seconds and not self._connections():
                break
            await asyncio.sleep(_POLL_SECONDS)
        await self.stop()

    async def stop(self) -> None:
        """Close the listeners, let requests in flight finish, and stop housekeeping."""
        self.health.draining.set()
        if self._housekeeping is not None:
            self._housekeeping.cancel()
            await asyncio.wait([self._housekeeping])
            self._housekeeping = None
        await self._close()
        _log.info("stopped")

    async def _close(self) -> None:
        await self._https.cleanup()  # first: requests in flight are still answered, and probes, too
        self.health.closed = True
        await self._http.cleanup()
        if self._meeting is not None:
            self._meeting.cancel()
            await asyncio.wait([self._meeting])

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def check_listener(self) -> bool:
        """Return whether a TLS handshake with this server's own listener succeeds.

        The client of the handshake trusts only the server's authority. The time of a success is recorded for readiness.
        """
        trust = ssl.create_default_context(cadata=self.certificates.trust_pem.decode())
        trust.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a trusted certificate from a file need not be a root
        name = next(iter((*self.settings.dns_names, *self.settings.ip_addresses)))
        try:
            async with asyncio.timeout(LISTENER_CHECK_SECONDS):
                _, writer = await asyncio.open_connection(**self._dialled(), ssl=trust, server_hostname=name)
        except (OSError, TimeoutError) as error:
            _log.warning("own listener not responding", extra={"reason": str(error)})
            return False
        writer.transport.abort()
        self._listener_seen = asyncio.get_running_loop().time()
        return True

    def _dialled(self) -> dict[str, Any]:
        """Return connection arguments that reach this process, although other workers share its port."""
        if self._crew is not None:
            assert self._site is not None
            return {"sock": self._site.connected()}
        assert self.addresses.dialled is not None
        host, port = self.addresses.dialled
        return {"host": host, "port": port}

    def _check_listener(self) -> str:
        silence = asyncio.get_running_loop().time() - self._listener_seen
        return "" if silence <= LISTENER_SILENCE_SECONDS else "no TLS handshake with the own listener in the last 15 s"

    def _connections(self) -> list[RequestHandler]:
        server = self._https.server
        return server.connections if server is not None else []

    async def _keep_house(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.certificates.run())
            tasks.create_task(self._keep_checking())
            tasks.create_task(self.health.keep_measuring())
            tasks.create_task(keep_trimming())

    async def _keep_checking(self) -> None:
        while not self.health.draining.is_set():
            await asyncio.sleep(LISTENER_CHECK_SECONDS)
            await self.check_listener()
