"""Sockets of a listener, counted from accept on, and the choice of victims when there are too many.

A socket costs memory before its TLS handshake is done, and a client that never starts a handshake costs as much as an
honest caller. So the limit applies from accept on, and handshakes have another limit per address.

The API server may share its address with an attacker (a proxy, konnectivity), so no client is refused because of other
clients at its address. A new connection closes another one instead:

- At the limit per address: the oldest silent socket of that address, or its oldest handshake. An honest handshake takes
  milliseconds.
- At the limit of the listener: the oldest silent socket if more than a quarter of that limit are silent, otherwise the
  oldest handshake if more than a quarter are handshakes. In all other cases, an unauthenticated client, preferably the
  one that has been idle longest. *Vouched-for* clients, which have authenticated, come last, and are closed only while
  they are idle.

CPU time is limited as well. A handshake costs more than a review, so each address may start `HANDSHAKES_PER_SECOND`. A
handshake above that rate is delayed, unless a vouched-for client is connected from that address. All unauthenticated
clients share `UNAUTHENTICATED_PER_SECOND` messages. Every message that arrives is handled. A client that exceeds the
limit with its message is throttled: nothing is read from that client for a while.

Source: docs/specifications/serving.md 8, "Slow clients".
"""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

from aiohttp.web_protocol import RequestHandler

from webhook.endpoints.http.rate_limits import TokenBuckets
from webhook.server.sockets import LISTENED_ON, listening_on

ACCEPTS_PER_EVENT: Final = 16
"""Sockets accepted before other work has its turn on the event loop."""
PAUSE_SECONDS: Final = 0.5
"""Pause of accepting after the system has run out of sockets or memory."""
SHORTEST_SECONDS: Final = 0.05
"""Minimum timeout of a handshake, even if it starts late."""
HANDSHAKES_PER_SECOND: Final = 50.0
"""Rate limit of handshakes per address. Each takes about 1.5 ms of CPU time."""
HANDSHAKE_BURST: Final = 200.0
HANDSHAKE_AGAIN_SECONDS: Final = 0.1
"""Retry interval of a throttled handshake."""
SHUTDOWN_SECONDS: Final = 3.0
"""Timeout for the client to close its side of TLS."""
UNAUTHENTICATED_PER_SECOND: Final = 200.0
UNAUTHENTICATED_BURST: Final = 400.0
NOT_HEARD_SECONDS: Final = 1.0
"""Time that nothing is read from an unauthenticated client after too many messages."""
_LOOKED_AT: Final = 32
"""Maximum number of connections searched for an idle one: the cost of making room must not grow with their number."""
_SELF: Final = "this process"
"""Address of connections from this process itself."""

_log = logging.getLogger(__name__)


class Connection(asyncio.Protocol):
    """One accepted socket, between the transport and the HTTP protocol.

    Args:
        socket_: The accepted socket.
        address: Address of the client.
        connections: Counts the connection.
        make_handler: Makes the HTTP protocol on first use, for the transport after the handshake.
        on_end: Called if it is closed before its handshake is done.
    """

    __slots__ = ("_connections", "_handler", "_make_handler", "_on_end", "_socket", "_waiting", "address", "transport")

    def __init__(
        self,
        socket_: socket.socket,
        address: str,
        connections: "Connections",
        make_handler: Callable[[asyncio.Transport | None], RequestHandler],
        on_end: Callable[["Connection"], None],
    ) -> None:
        self._socket = socket_
        self._connections = connections
        self._make_handler = make_handler
        self._on_end = on_end
        self._handler: RequestHandler | None = None
        self.address = address
        self.transport: asyncio.Transport | None = None
        self._waiting: asyncio.TimerHandle | None = None

    @property
    def accepted(self) -> socket.socket:
        """The socket."""
        return self._socket

    @property
    def handler(self) -> RequestHandler:
        """The HTTP protocol."""
        if self._handler is None:
            self._handler = self._make_handler(self.transport)
        return self._handler

    @property
    def is_idle(self) -> bool:
        """Whether no request is being handled."""
        return self.handler._current_request is None  # the library has no public attribute for it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle the end of the handshake."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's class does not declare it
        self._connections.opened(self)
        self.handler.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Handle bytes from the client."""
        if not self._connections.record_data(self) and self._waiting is None and self.transport is not None:
            self.transport.pause_reading()
            self._waiting = asyncio.get_running_loop().call_later(NOT_HEARD_SECONDS, self.resume_reading)
        self.handler.data_received(data)

    def resume_reading(self) -> None:
        """Read from the client again, if reading is paused."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
            if self.transport is not None and not self.transport.is_closing():
                self.transport.resume_reading()

    def eof_received(self) -> None:
        """Handle the end of the client's stream."""
        self.handler.eof_received()

    def pause_writing(self) -> None:
        """Handle a client that is slow to read."""
        self.handler.pause_writing()

    def resume_writing(self) -> None:
        """Handle a client that has caught up."""
        self.handler.resume_writing()

    def connection_lost(self, error: BaseException | None) -> None:
        """Handle the end of the connection."""
        if self._waiting is not None:
            self._waiting.cancel()
        self._connections.closed(self)
        self.handler.connection_lost(error)

    def end(self) -> None:
        """Close immediately, without waiting for a client that may never close its side."""
        if self.transport is not None:
            self.transport.abort()
            return
        self._on_end(self)
        with contextlib.suppress(OSError):  # already closed
            self._socket.shutdown(socket.SHUT_RDWR)


class _Beginning:
    """Sockets without a finished handshake, oldest first, in total and by address."""

    def __init__(self) -> None:
        self._all: OrderedDict[Connection, None] = OrderedDict()
        self._same: dict[str, OrderedDict[Connection, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._all

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._all)

    def add(self, connection: Connection) -> None:
        self._all[connection] = None
        self._same.setdefault(connection.address, OrderedDict())[connection] = None

    def remove(self, connection: Connection) -> None:
        if self._all.pop(connection, _MISSING) is _MISSING:
            return
        of_address = self._same[connection.address]
        del of_address[connection]
        if not of_address:
            del self._same[connection.address]

    def of(self, address: str) -> OrderedDict[Connection, None]:
        return self._same.get(address, _NONE)


class Connections:
    """All connections of one listener.

    Args:
        limit: Maximum number of connections.
        handshakes: Maximum number of silent connections per address, and of running handshakes per address.
        is_paced: Whether unauthenticated clients share `UNAUTHENTICATED_PER_SECOND` messages.
    """

    def __init__(self, limit: int, handshakes: int, *, is_paced: bool = False) -> None:
        self._limit = limit
        self._handshakes = handshakes
        self._silent = _Beginning()
        self._begun = _Beginning()
        self._strangers: OrderedDict[Connection, None] = OrderedDict()
        self._vouched: OrderedDict[Connection, None] = OrderedDict()
        self._vouched_from: Counter[str] = Counter()
        self._turns = TokenBuckets(HANDSHAKES_PER_SECOND, HANDSHAKE_BURST)
        self._of: dict[RequestHandler, Connection] = {}
        self._paced = is_paced
        self._left, self._since = UNAUTHENTICATED_BURST, 0.0

    def __len__(self) -> int:
        return len(self._silent) + len(self._begun) + len(self._strangers) + len(self._vouched)

    def admit(self, connection: Connection) -> bool:
        """Count an accepted socket, and make room for it. Return False without room: the caller must then close it."""
        self._make_room_among(self._silent, connection.address)
        if len(self) >= self._limit:
            victim = self._victim()
            if victim is None:
                return False
            self._end(victim)
        self._silent.add(connection)
        return True

    def may_handshake(self, address: str, now: float) -> bool:
        """Return whether a handshake from an address may start now, and if so, count it.

        Args:
            address: Address of the client.
            now: Seconds on the clock of the event loop.
        """
        return address in self._vouched_from or not self._turns.take(address, now)

    def spoken(self, connection: Connection) -> bool:
        """Record that a client has started its handshake. Return False if its socket was closed to make room."""
        if connection not in self._silent:
            return False
        self._silent.remove(connection)
        self._make_room_among(self._begun, connection.address)
        self._begun.add(connection)
        return True

    def opened(self, connection: Connection) -> None:
        """Record that a handshake is done."""
        if connection not in self._begun:  # closed to make room while the last bytes of its handshake were in flight
            connection.end()
            return
        self._begun.remove(connection)
        self._strangers[connection] = None
        self._of[connection.handler] = connection

    def _make_room_among(self, group: _Beginning, address: str) -> None:
        of_address = group.of(address)
        if len(of_address) >= self._handshakes:
            self._end(next(iter(of_address)))

    def record_data(self, connection: Connection) -> bool:
        """Record that a client has sent bytes. Return whether to continue reading from it."""
        if connection in self._vouched:
            self._vouched.move_to_end(connection)
            return True
        if connection in self._strangers:
            self._strangers.move_to_end(connection)
        return not self._paced or self._take_one()

    def _take_one(self) -> bool:
        now = asyncio.get_running_loop().time()
        tokens = min(UNAUTHENTICATED_BURST, self._left + (now - self._since) * UNAUTHENTICATED_PER_SECOND)
        self._left, self._since = max(0.0, tokens - 1), now
        return tokens >= 1

    def mark_authenticated(self, handler: RequestHandler) -> None:
        """Record that the client of this HTTP protocol has authenticated."""
        connection = self._of.get(handler)
        if connection is not None and connection in self._strangers:
            del self._strangers[connection]
            self._vouched[connection] = None
            self._vouched_from[connection.address] += 1
            connection.resume_reading()

    def closed(self, connection: Connection) -> None:
        """Record that a socket is closed."""
        self._silent.remove(connection)
        self._begun.remove(connection)
        if connection in self._strangers or connection in self._vouched:
            self._strangers.pop(connection, None)
            if self._vouched.pop(connection, _MISSING) is not _MISSING:
                self._vouched_from[connection.address] -= 1
                if not self._vouched_from[connection.address]:
                    del self._vouched_from[connection.address]
            del self._of[connection.handler]

    def end_beginning(self) -> None:
        """Close all sockets without a finished handshake."""
        for connection in (*self._silent, *self._begun):
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        self.closed(connection)  # now, as `connection_lost` comes later, and its place is taken immediately
        connection.end()

    def _victim(self) -> Connection | None:
        """Return the connection to close. None if all are vouched for and no idle one was found."""
        for group in (self._silent, self._begun):
            if len(group) * 4 > self._limit:
                return next(iter(group))
        return (
            _idle_among(self._strangers)
            or next(iter(self._strangers), None)
            or next(iter(self._silent), None)
            or next(iter(self._begun), None)
            or _idle_among(self._vouched)
        )


def _idle_among(group: OrderedDict[Connection, None]) -> Connection | None:
    """Return the longest silent connection that is idle, None if none of the first `_LOOKED_AT` is."""
    return next((candidate for candidate, _ in zip(group, range(_LOOKED_AT), strict=False) if candidate.is_idle), None)


_MISSING: Final = object()
_NONE: Final[OrderedDict[Connection, None]] = OrderedDict()


class Listener:
    """Accepts sockets itself, so that they are counted before they cost anything.

    Args:
        host: Address to listen on.
        port: Port to listen on. 0: any free one.
        connections: The open connections.
        make_handler: Makes the HTTP protocol of a connection. None: its handshake is unfinished.
        tls: TLS context. None: disabled.
        handshake_seconds: Timeout of a handshake.
        sockets: Listening sockets that are shared with other processes. Empty: open new ones.
    """

    def __init__(
        self,
        host: str,
        port: int,
        connections: Connections,
        make_handler: Callable[[asyncio.Transport | None], RequestHandler],
        *,
        tls: ssl.SSLContext | None,
        handshake_seconds: float,
        sockets: Sequence[socket.socket] = (),
    ) -> None:
        self._where = host, port
        self._connections = connections
        self._make_handler = make_handler
        self._tls = tls
        self._handshake_seconds = handshake_seconds
        self._loop = asyncio.get_running_loop()
        self._sockets = list(sockets)
        # One at a time if other processes accept as well: the first one to wake would take all waiting connections.
        self._accepts_per_event = 1 if sockets else ACCEPTS_PER_EVENT
        self._silent: dict[Connection, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """The actual port."""
        return int(self._sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Start to accept connections.

        Raises:
            OSError: Listening on the address failed.
        """
        if not self._sockets:
            host, port = self._where
            self._sockets = listening_on(await self._loop.getaddrinfo(host, port, **LISTENED_ON))
        for listener in self._sockets:
            self._loop.add_reader(listener, self._accept, listener)

    def close(self) -> None:
        """Stop accepting. Open connections remain, unfinished handshakes are closed."""
        for listener in self._sockets:
            self._loop.remove_reader(listener)
            listener.close()
        self._sockets = []
        self._connections.end_beginning()

    def connected(self) -> socket.socket:
        """Return the client's end of a new connection to this process, even if others accept on its port."""
        ours, theirs = socket.socketpair()
        self._welcome(theirs, _SELF)
        return ours

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(self._accepts_per_event):
            try:
                client, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                _log.warning("accept failed", extra={"reason": error.strerror})
                self._loop.remove_reader(listener)
                self._loop.call_later(PAUSE_SECONDS, self._accept_again, listener)
                return
            self._welcome(client, str(address[0]))

    def _accept_again(self, listener: socket.socket) -> None:
        if listener in self._sockets:  # not closed during the pause
            self._loop.add_reader(listener, self._accept, listener)

    def _welcome(self, client: socket.socket, address: str) -> None:
        """Wait until the client sends something: until then it costs only the socket."""
        client.setblocking(False)
        connection = Connection(client, address, self._connections, self._make_handler, self._forget)
        if not self._connections.admit(connection):
            client.close()
            return
        began = self._loop.time()
        self._silent[connection] = self._loop.call_later(self._handshake_seconds, self._silent_too_long, connection)
        self._loop.add_reader(client, self._begin, connection, began)

    def _silent_too_long(self, connection: Connection) -> None:
        self._connections.closed(connection)
        connection.end()

    def _forget(self, connection: Connection) -> None:
        """Close a socket whose handshake has not started. Others are closed by their handshake."""
        timer = self._silent.pop(connection, None)
        if timer is not None:
            timer.cancel()
            self._loop.remove_reader(connection.accepted)
            connection.accepted.close()

    def _begin(self, connection: Connection, began: float) -> None:
        """Start the handshake, or delay it if throttled. A delayed client counts as silent."""
        if self._tls is not None and not self._connections.may_handshake(connection.address, self._loop.time()):
            # Without a reader during the delay: the socket remains readable, so the loop would call this repeatedly.
            self._loop.remove_reader(connection.accepted)
            self._loop.call_later(HANDSHAKE_AGAIN_SECONDS, self._look_again, connection, began)
            return
        timer = self._silent.pop(connection, None)
        if timer is None:
            return
        timer.cancel()
        self._loop.remove_reader(connection.accepted)
        if not self._connections.spoken(connection):
            connection.accepted.close()
            return
        timeout = max(SHORTEST_SECONDS, self._handshake_seconds - (self._loop.time() - began))
        task = self._loop.create_task(self._shake_hands(connection, connection.accepted, timeout))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _look_again(self, connection: Connection, began: float) -> None:
        if connection in self._silent:  # not closed during the delay
            self._loop.add_reader(connection.accepted, self._begin, connection, began)

    async def _shake_hands(self, connection: Connection, client: socket.socket, seconds: float) -> None:
        patience = {"ssl_handshake_timeout": seconds, "ssl_shutdown_timeout": SHUTDOWN_SECONDS}
        try:
            if client.family != socket.AF_UNIX:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(
                lambda: connection, client, ssl=self._tls, **(patience if self._tls is not None else {})
            )
        except (OSError, TimeoutError) as error:  # debug only: any client can cause these, e.g. by calling without TLS
            _log.debug("handshake failed", extra={"reason": str(error)})
        finally:
            if connection.transport is None:
                self._connections.closed(connection)
