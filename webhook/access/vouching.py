"""Who has shown who they are is the last to go when there are too many connections."""

from typing import Final, Protocol

from aiohttp import web
from aiohttp.web_protocol import RequestHandler


class Vouching(Protocol):
    """The connections of a listener."""

    def vouch(self, handler: RequestHandler) -> None:
        """Take note that whoever is behind *handler* has shown who it is."""
        ...


CONNECTIONS: Final = web.AppKey("CONNECTIONS", Vouching)
"""Those of the listener that an application answers on."""


def vouch_for(request: web.Request) -> None:
    """Take note that who has sent *request* has shown who it is: when there are too many, it is the last to go."""
    connections = request.app.get(CONNECTIONS)
    if connections is not None:
        connections.vouch(request.protocol)
