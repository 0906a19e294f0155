"""No connection of a test's server outlives it: a later test would fail with the ResourceWarning of its transport."""

import asyncio
import gc
import socket
import ssl
import warnings
from datetime import UTC, datetime

import pytest
from aiohttp import web

from certs.authority import Authority
from certs.context import ServerContext
from tests.loopback import on_loopback

NOW = datetime.now(UTC)
AUTHORITY = Authority.new(NOW)


def connection(address):
    host, _, port = address.rpartition("/")[2].partition(":")
    return socket.create_connection((host, int(port)))


async def accepted(turns):
    """Stop a server *turns* of the loop after a client has connected."""
    async with on_loopback(web.Application()) as address:
        client = connection(address)
        for _ in range(turns):
            await asyncio.sleep(0)
    client.close()


async def idle_tls():
    """Stop a server while a client keeps an idle TLS connection, as every HTTP client with a pool does."""
    app = web.Application()
    tls = ServerContext(AUTHORITY.issue(("localhost",), (), NOW)).listener
    trusted = ssl.create_default_context(cadata=AUTHORITY.pem.decode())

    def asked():
        client = trusted.wrap_socket(connection(address), server_hostname="localhost")
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(64).startswith(b"HTTP/1.1 404")
        return client

    async with on_loopback(app, tls=tls) as address:
        client = await asyncio.to_thread(asked)
    client.close()


@pytest.mark.parametrize(
    "stopped",
    [*(pytest.param(lambda n=n: accepted(n), id=f"accepted-{n}") for n in range(5)), pytest.param(idle_tls, id="idle")],
)
def test_no_connection_outlives_its_server(stopped):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(stopped())
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
