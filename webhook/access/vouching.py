"""Priority of authenticated connections: at the connection limit, they are closed last."""

from typing import Final, Protocol

from aiohttp import web
from aiohttp.web_protocol import RequestHandler


class AuthenticatedConnections(Protocol):
    """The connections of a listener."""

    def mark_authenticated(self, handler: RequestHandler) -> None:
        """Record that the client behind *handler* is authenticated."""
        ...


CONNECTIONS: Final = web.AppKey("CONNECTIONS", AuthenticatedConnections)
"""The connections of an application's listener."""


def mark_authenticated(request: web.Request) -> None:
    """Record that the client of *request* is authenticated, so that its connection is closed last."""
    mark_client_authenticated(request.app, request.protocol)


def mark_client_authenticated(app: web.Application, handler: RequestHandler) -> None:
    """Record that the client behind *handler*, a connection to *app*, is authenticated."""
    connections = app.get(CONNECTIONS)
    if connections is not None:
        connections.mark_authenticated(handler)
