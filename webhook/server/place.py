"""Inheritance of a server worker from its parent process."""

import socket
from dataclasses import dataclass

from webhook.telemetry.crew import Seat


@dataclass(frozen=True, slots=True)
class WorkerSockets:
    """Sockets and place of a worker.

    Args:
        seat: Place among the workers.
        https: Sockets of the HTTPS listener, which all workers accept from.
        http: Sockets of the plain listener.
    """

    seat: Seat
    https: tuple[socket.socket, ...]
    http: tuple[socket.socket, ...]
