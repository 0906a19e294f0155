"""The client of a real API server, against a server that answers what it was sent."""

import pytest
from aiohttp import web
from kubernetes_asyncio.client import Configuration

from webhook.kube.client import ApiServer


@pytest.fixture
async def address():
    """Where a server listens that sends every document back, and is as strict about UTF-8 as an API server."""

    async def echo(request):
        return web.json_response({"got": (await request.read()).decode("utf-8")})

    app = web.Application()
    app.router.add_post("/echo", echo)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield "http://{}:{}".format(*runner.addresses[0])
    await runner.cleanup()


async def test_a_lone_surrogate_goes_out_as_a_replacement_character(address):
    """It comes from JSON that a client wrote, such as the name of a user, and UTF-8 has no place for it."""
    configuration = Configuration()
    configuration.host = address
    async with ApiServer(configuration) as server:
        answer = await server.request("POST", "/echo", {"user": "a\ud800"})
    assert answer == {"got": '{"user":"a\N{REPLACEMENT CHARACTER}"}'}
