"""A query endpoint as Prometheus has it, on the loopback address: it answers what a test tells it to."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.virtual_time import loop_now


class QueryServer:
    """What the endpoint answers, and what it was asked.

    Args:
        now: Its clock.
    """

    def __init__(self, now: Callable[[], datetime] = loop_now) -> None:
        self.now = now
        self.value: str | None = "0"
        """The one number that every query gives; None: no series."""
        self.answer: Callable[[], Any] | None = None
        """Makes another answer."""
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.elsewhere = 0
        """Requests to any other address of this server."""
        self.url = ""

    async def query(self, request: web.Request) -> web.StreamResponse:
        """Answer an instant query."""
        self.asked.append(request.query["query"])
        self.headers.append(dict(request.headers))
        if self.answer is not None:
            made = self.answer()
            found: web.StreamResponse = await made if asyncio.iscoroutine(made) else made
            return found
        sample = [self.now().timestamp(), self.value]
        result = [] if self.value is None else [{"metric": {}, "value": sample}]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})

    async def other(self, _: web.Request) -> web.StreamResponse:
        """Count a request that should never come."""
        self.elsewhere += 1
        return web.Response(text=json.dumps({"status": "success"}))


@asynccontextmanager
async def query_server(now: Callable[[], datetime] = loop_now, ssl: Any = None) -> AsyncIterator[QueryServer]:
    """Run an endpoint; its address is in ``url``."""
    found = QueryServer(now)
    app = web.Application()
    app.router.add_get("/prom/api/v1/query", found.query)
    app.router.add_route("*", "/{any:.*}", found.other)
    server = TestServer(app, scheme="https" if ssl else "http")
    await server.start_server(ssl=ssl)
    found.url = str(server.make_url("/prom"))
    try:
        yield found
    finally:
        await server.close()
