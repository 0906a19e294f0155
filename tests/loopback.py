"""Serves an application of a test on a free port of the loopback address."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def on_loopback(
    app: web.Application, *, tls: ssl.SSLContext | None = None, port: int = 0, shutdown_seconds: float = 60.0
) -> AsyncIterator[str]:
    """Serve *app* until the block ends; yield the address, without a slash at its end.

    Args:
        app: Application to serve.
        tls: TLS context of the server. None: disabled.
        port: Port to listen on. 0: a free one.
        shutdown_seconds: Limit for requests that are under way at the end.
    """
    listener = socket.create_server(("127.0.0.1", port))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=shutdown_seconds)
    await runner.setup()
    try:
        await web.SockSite(runner, listener, ssl_context=tls).start()
        yield f"{'https' if tls else 'http'}://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        # A connection that outlives the loop fails a later test with a ResourceWarning. asyncio leaves a connection
        # open if its server closes two turns after accept(), and a TLS connection until the client agrees to close.
        asyncio.get_running_loop().remove_reader(listener)
        await _turns()
        connections = runner.server.connections if runner.server else ()
        transports = [connection.transport for connection in connections if connection.transport]
        await runner.cleanup()
        for transport in transports:
            transport.abort()
        await _turns()


async def _turns() -> None:
    """Let the loop finish what is ready. An accepted connection takes two turns, a failed handshake a few more."""
    for _ in range(10):
        await asyncio.sleep(0)
