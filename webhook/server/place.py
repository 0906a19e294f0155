"""What a worker of a server inherits from the process that has started it."""

import socket
from dataclasses import dataclass

from webhook.telemetry.crew import Seat


@dataclass(frozen=True, slots=True)
class WorkerSockets:
    """A worker's place.

    Args:
        seat: Its place among the others.
        https: The sockets of the HTTPS listener, which all workers accept from.
        http: Those of the plain listener.
    """

    seat: Seat
    https: tuple[socket.socket, ...]
    http: tuple[socket.socket, ...]
