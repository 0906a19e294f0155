"""The sockets of a listener, which one process opens and several may accept from.

Workers inherit the socket that their parent has opened, instead of opening one each with SO_REUSEPORT. The next free
worker then accepts a waiting connection, even if another worker dies. A port in use is an error, and not shared with
another program. With port 0, all workers share one port.
"""

import socket
from collections.abc import Iterable
from typing import Any, Final

BACKLOG: Final = 128
"""Maximum number of connections that the system queues before accept."""
LISTENED_ON: Final[dict[str, Any]] = {"type": socket.SOCK_STREAM, "flags": socket.AI_PASSIVE}
"""Arguments of `getaddrinfo`."""


def listening_on(addresses: Iterable[tuple[Any, ...]]) -> list[socket.socket]:
    """Listen on addresses as returned by `getaddrinfo`.

    Raises:
        OSError: Listening on one of them failed. All are closed.
    """
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            listener = socket.socket(family, kind, protocol)
            sockets.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
            listener.setblocking(False)
    except OSError:
        for listener in sockets:
            listener.close()
        raise
    return sockets
