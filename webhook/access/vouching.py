"""When there are too many connections, those whose client has shown who it is are closed last."""

from typing import Final, Protocol

from aiohttp import web
from aiohttp.web_protocol import RequestHandler


class AuthenticatedConnections(Protocol):
    """The connections of a listener."""

    def mark_authenticated(self, handler: RequestHandler) -> None:
        """Take note that the client behind *handler* has shown who it is."""
        ...


CONNECTIONS: Final = web.AppKey("CONNECTIONS", AuthenticatedConnections)
"""Those of the listener that an application answers on."""


def mark_authenticated(request: web.Request) -> None:
    """Take note that the client of *request* has shown who it is: its connection is among the last to be closed."""
    mark_client_authenticated(request.app, request.protocol)


def mark_client_authenticated(app: web.Application, handler: RequestHandler) -> None:
    """Take note that the client behind *handler*, a connection to *app*, has shown who it is."""
    connections = app.get(CONNECTIONS)
    if connections is not None:
        connections.mark_authenticated(handler)
