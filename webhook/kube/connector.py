"""Connections that belong to the event loop alone.

aiohttp connects a socket of its own and hands it to the event loop. Under uvloop, the socket object and the loop then
both own the descriptor. When connections break or are given up in the midst of that, as they do by the hundred while an
API server restarts, a descriptor is closed twice, and the second time it may be that of another connection, which hangs
from then on, or receives what is not for it ("File descriptor 14 is used by transport"). uvloop 0.23 mends only a part
of it. Source: uvloop issues 645 and 738.
"""

import asyncio
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler


class LoopConnector(aiohttp.TCPConnector):
    """Has the event loop make each connection, from the addresses that were resolved, until one of them answers."""

    async def _wrap_create_connection(
        self, *args: Any, addr_infos: list[Any], **kwargs: Any
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        # The library would call this again after a failure, but without the next address of every family: a name with
        # one IPv6 and one IPv4 address would be given up after the first.
        while True:
            host, port, *_ = addr_infos[0][4]
            try:
                return await self._wrap_existing_connection(*args, host=host, port=port, **kwargs)
            except (aiohttp.ClientConnectorError, TimeoutError):
                if len(addr_infos) == 1:
                    raise
                del addr_infos[0]
