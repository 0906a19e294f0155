"""Opens listeners, and runs a server until a signal stops it.

Source: docs/specifications/serving.md 1.10, 1.14, 4.2.
"""

import asyncio
import errno
import os
import signal
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from aiohttp import web

from webhook.server.connections import Connections, Listener
from webhook.server.http_protocol import posts_of, protocol_of, refuse_other_versions
from webhook.server.sockets import LISTENED_ON, listening_on
from webhook.settings.environment import PREFIX
from webhook.settings.listener import ListenerSettings


class ListenError(Exception):
    """A listener could not be opened. The message names the address and the setting."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses of the server, with the actual ports, even for port 0.

    Without an HTTPS listener, *https* is None.
    """

    https: tuple[str, int] | None
    http: tuple[str, int]

    @property
    def https_url(self) -> str:
        """URL of the HTTPS listener, empty without one."""
        return _url("https", self.https) if self.https is not None else ""

    @property
    def dialled(self) -> tuple[str, int] | None:
        """Address at which this machine reaches the HTTPS listener, even if it listens on every address.

        None without an HTTPS listener.
        """
        if self.https is None:
            return None
        host, port = self.https
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port  # noqa: S104 - compared, not listened on

    @property
    def dialled_url(self) -> str:
        """`dialled` as a URL. Empty without an HTTPS listener."""
        return _url("https", self.dialled) if self.dialled is not None else ""

    @property
    def http_url(self) -> str:
        """The plain listener as a URL."""
        return _url("http", self.http)


def _url(scheme: str, address: tuple[str, int]) -> str:
    host, port = address
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class Running(Protocol):
    """A server that starts, runs, and stops without losing a request."""

    async def start(self) -> Addresses:
        """Start. Raises `ListenError`."""
        ...

    async def wait(self) -> None:
        """Wait until the server stops by itself, which is a bug. Raises its error."""
        ...

    async def drain(self, hurry: asyncio.Event | None = None) -> None:
        """Finish active requests, then stop. Stop immediately once *hurry* is set."""
        ...

    async def stop(self) -> None:
        """Close the listeners, let requests in flight finish, and stop."""
        ...


async def serve(
    server: Running, on_start: Callable[[Addresses], None] = lambda _: None, abandonment: asyncio.Event | None = None
) -> None:
    """Run *server* until SIGTERM or SIGINT, then drain it. A second signal aborts the drain.

    If *server* stops by itself, its error is raised.

    Args:
        server: Not started yet.
        on_start: Called with the addresses once the listeners are open.
        abandonment: Closes the listeners immediately when it is set. Requests in flight are answered.

    Raises:
        ListenError: A listener could not be opened.
    """
    loop = asyncio.get_running_loop()
    stop, hurry = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            hurry.set()
        stop.set()

    on_start(await server.start())
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, on_signal)
    leave_task = asyncio.create_task(_set_after(abandonment or asyncio.Event(), stop, hurry))
    try:
        stop_task = asyncio.create_task(stop.wait())
        running = asyncio.create_task(server.wait())
        await asyncio.wait((stop_task, running), return_when=asyncio.FIRST_COMPLETED)
        stop_task.cancel()
        if running.done():  # stopped by a bug, so a drain is impossible
            await server.stop()
            await running
        else:
            await server.drain(hurry)
            await asyncio.wait([running])
    finally:
        leave_task.cancel()
        for number in signals:
            loop.remove_signal_handler(number)


async def _set_after(first: asyncio.Event, *others: asyncio.Event) -> None:
    await first.wait()
    for other in others:
        other.set()


class Site(web.BaseSite):
    """A listener that counts its sockets from accept on, see `webhook.server.connections`."""

    __slots__ = ("_connections", "_host", "_listener", "_port", "_posts", "_settings", "_sockets", "address")

    def __init__(
        self,
        runner: web.AppRunner,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        settings: ListenerSettings,
        connections: Connections,
        sockets: Sequence[socket.socket] = (),
    ) -> None:
        super().__init__(runner, ssl_context=tls)
        self._host = host
        self._port = port
        self._settings = settings
        self._connections = connections
        self._sockets = sockets
        self._posts = posts_of(runner.app)
        self._listener: Listener | None = None
        self.address = (host, port)

    @property
    def name(self) -> str:
        """URL of the listener."""
        return _url("https" if self._ssl_context else "http", self.address)

    async def start(self) -> None:
        """Open the listener. Raises `OSError` if that fails."""
        server = self._runner.server
        assert server is not None
        refuse_other_versions(server)
        self._listener = Listener(
            self._host,
            self._port,
            self._connections,
            partial(protocol_of, server, self._posts),
            tls=self._ssl_context,
            handshake_seconds=self._settings.handshake_seconds,
            sockets=self._sockets,
        )
        await self._listener.start()
        await super().start()
        self.address = (self._host, self._listener.port)

    def connected(self) -> socket.socket:
        """Return the client end of a new connection to this process. The listener must be open."""
        assert self._listener is not None
        return self._listener.connected()

    async def stop(self) -> None:
        """Close the listener. Connections remain open."""
        if self._listener is not None:
            self._listener.close()
        await super().stop()


async def listen(
    runner: web.AppRunner,
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    settings: ListenerSettings,
    setting: str,
    connections: Connections | None = None,
    sockets: Sequence[socket.socket] = (),
) -> Site:
    """Open a listener for a runner that is set up.

    Args:
        runner: Runner of the application.
        host: Address to listen on.
        port: Port to listen on. 0: any free one.
        tls: TLS context. None: disabled.
        settings: Limits of the listener.
        setting: Name of the setting with the port.
        connections: Open connections, shared with other parts of the process. None if not shared.
        sockets: Inherited listening sockets. Empty: open new ones.

    Raises:
        ListenError: The listener could not be opened. The message names *setting*.
    """
    if connections is None:
        connections = Connections(settings.connections, settings.handshakes_per_address)
    site = Site(runner, host, port, tls, settings, connections, sockets)
    try:
        await site.start()
    except OSError as error:
        raise ListenError(_listen_trouble(error, host, port, setting)) from error
    return site


def open_sockets(host: str, port: int, setting: str) -> list[socket.socket]:
    """Open the sockets of a listener, for processes that inherit them.

    Args:
        host: Address to listen on.
        port: Port to listen on. 0: any free one.
        setting: Name of the setting with the port.

    Raises:
        ListenError: The sockets could not be opened. The message names *setting*.
    """
    try:
        return listening_on(socket.getaddrinfo(host, port, **LISTENED_ON))
    except OSError as error:
        raise ListenError(_listen_trouble(error, host, port, setting)) from error


def _listen_trouble(error: OSError, host: str, port: int, setting: str) -> str:
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    setting_name = f"--{setting.replace('_', '-')}, or {PREFIX}{setting.upper()}"
    if isinstance(error, socket.gaierror):
        host_setting = "host" if setting == "https_port" else "http_host"
        return f"cannot listen on {address}: no such host (setting {host_setting}, {PREFIX}{host_setting.upper()})"
    if error.errno == errno.EADDRINUSE:
        return f"cannot listen on {address}: the port is in use by another program. Choose another with {setting_name}"
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    return f"cannot listen on {address}: {reason} ({setting_name})"
