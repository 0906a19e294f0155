"""The listener of a process with nothing but probes and metrics, on a real socket."""

import asyncio

import aiohttp
import pytest

from webhook.server.listening import ListenError, serve
from webhook.server.probe_server import ProbeServer
from webhook.settings.listener import ListenerSettings
from webhook.telemetry.health import Health
from webhook.telemetry.metrics import Metrics


def make_server(work, **settings):
    health = Health()
    return ProbeServer(ListenerSettings(http_port=0, **settings), health, Metrics(), work), health


async def for_ever():
    await asyncio.sleep(1e6)


async def test_probes_and_metrics_are_answered_and_everything_else_is_a_problem():
    server, health = make_server(for_ever)
    trouble = "no"
    health.require("caches", lambda: trouble)
    addresses = await server.start()
    assert addresses.https is None
    async with aiohttp.ClientSession(addresses.http_url) as session:
        for path, status in (("/livez", 200), ("/readyz", 503), ("/metrics", 200), ("/v1/clusters", 404)):
            async with session.get(path) as answer:
                assert answer.status == status, path
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
        trouble = ""
        async with session.get("/readyz") as answer:
            assert answer.status == 200
    await server.stop()


async def test_who_sends_half_a_request_head_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("webhook.server.probe_server.KEEPALIVE_SECONDS", 0.2)
    server, _ = make_server(for_ever)
    host, port = (await server.start()).http
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET /livez HTTP/1.1\r\nHost: a\r\nSlow: ")
    assert await reader.read() == b""
    writer.close()
    await server.stop()


async def test_the_work_is_cancelled_and_waited_for_and_probes_are_answered_until_then():
    steps = []

    async def work():
        try:
            await for_ever()
        finally:
            await asyncio.sleep(0)
            async with aiohttp.ClientSession(addresses.http_url) as session, session.get("/readyz") as answer:
                steps.append(answer.status)

    server, _ = make_server(work)
    addresses = await server.start()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await server.stop()
    assert steps == [503]


async def test_an_error_of_the_work_ends_the_process():
    async def work():
        raise ValueError("a bug")

    server, _ = make_server(work)
    with pytest.raises(ExceptionGroup) as caught:
        await serve(server)
    assert caught.group_contains(ValueError, match="a bug")


async def test_a_port_in_use_is_named():
    first, _ = make_server(for_ever)
    addresses = await first.start()
    second = ProbeServer(ListenerSettings(http_port=addresses.http[1]), Health(), Metrics(), for_ever)
    with pytest.raises(ListenError, match=rf"127\.0\.0\.1:{addresses.http[1]}.*HARBORMASTER_HTTP_PORT"):
        await second.start()
    await first.stop()
