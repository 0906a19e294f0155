"""The sockets of a listener, which one process opens and several may accept from.

Workers inherit the one socket that their parent has opened, rather than open one each with SO_REUSEPORT. Then a
connection that waits is accepted by whichever worker has time, also when another one dies; a port that is in use is an
error, and not shared with a stranger; and port 0 is one port.
"""

import socket
from collections.abc import Iterable
from typing import Any, Final

BACKLOG: Final = 128
"""How many connections the system holds that are not accepted yet."""
LISTENED_ON: Final[dict[str, Any]] = {"type": socket.SOCK_STREAM, "flags": socket.AI_PASSIVE}
"""What `getaddrinfo` is asked for."""


def listening_on(addresses: Iterable[tuple[Any, ...]]) -> list[socket.socket]:
    """Listen on addresses, as `getaddrinfo` returns them.

    Raises:
        OSError: One of them cannot be listened on; then none is.
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
