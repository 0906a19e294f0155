"""Serves an application of a test on a free port of the loopback address."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def on_loopback(app: web.Application, *, shutdown_seconds: float = 60.0) -> AsyncIterator[str]:
    """Serve *app* until the block ends; yield the address, without a slash at its end.

    Args:
        app: What answers.
        shutdown_seconds: How long requests that are under way may still take at the end.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=shutdown_seconds)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
