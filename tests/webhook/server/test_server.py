"""Listeners, and a shutdown that loses nothing."""

import asyncio
import socket

import pytest
from aiohttp import web

from certs.authority import Authority
from certs.source import OwnLeaves
from tests.webhook.services import make_server, make_services
from webhook.server.listening import ListenError
from webhook.server.server import Server
from webhook.settings.programs import ServerSettings


def another(port, **settings) -> Server:
    """Make another server over the same fleet."""
    services = make_services(advisor=port.harbour, changes=port.harbour, synced=lambda: True, now=port.clock)
    return make_server(services, ServerSettings(**({"https_port": 0, "http_port": 0} | settings)))


async def test_port_0_is_any_free_port(port):
    addresses = port.server.addresses
    assert addresses.https[1] not in {0, addresses.http[1]}
    assert addresses.https_url == f"https://127.0.0.1:{addresses.https[1]}"


async def test_nothing_stays_open_when_one_listener_cannot_open(port):
    with socket.create_server(("127.0.0.1", 0)) as free:
        https = free.getsockname()[1]
    taken = port.server.addresses.http[1]
    with pytest.raises(ListenError):
        await another(port, https_port=https, http_port=taken).start()
    socket.create_server(("127.0.0.1", https)).close()


async def test_a_listener_that_fails_its_own_handshake_is_noticed(port):
    assert await port.server.check_listener()
    stranger = Authority.new(port.clock())
    port.server.certificates.leaves = OwnLeaves(stranger, ("localhost",), ())
    assert not await port.server.check_listener()
    port.server._listener_seen -= 16
    assert port.server.health.readiness()["listener"]


async def test_the_oldest_idle_connection_makes_room(launch, review_bytes):
    body = review_bytes()
    members = f"Host: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    async with launch(connections=3) as port:
        await port.until(lambda: not port.server._connections())  # the handshake with itself at the start
        async with port.dial() as busy, port.dial() as idle, port.dial() as younger:
            await busy.send(f"POST /validate HTTP/1.1\r\n{members}\r\n\r\n".encode() + body[:5])
            await port.until(lambda: port.bodies_bytes)
            async with port.dial() as newcomer:
                assert (await newcomer.post("/validate", body)).status == 200
                assert await idle.ended()
                assert (await younger.post("/validate", body)).status == 200
                await busy.send(body[5:])
                assert (await busy.answer()).status == 200


@pytest.mark.parametrize("plain", [True, False], ids=["http", "https"])
@pytest.mark.parametrize("before", [False, True], ids=["at-the-start", "after-a-request"])
async def test_who_sends_half_a_request_head_is_not_waited_for(launch, plain, before):
    async with launch(keepalive_seconds=0.2) as port, port.dial(plain=plain) as slow:
        if before:
            await slow.get("/livez")
        await slow.send(b"GET /livez HTTP/1.1\r\nHost: a\r\nSlow: ")
        assert await slow.ended()


async def test_while_draining_everything_is_answered_and_every_connection_is_closed(launch, review_bytes):
    body = review_bytes()
    members = f"Host: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    async with launch(drain_limit_seconds=20) as port, port.dial() as kept, port.dial() as flying:
        assert "Connection" not in (await kept.post("/validate", body)).headers
        await flying.send(f"POST /validate HTTP/1.1\r\n{members}\r\n\r\n".encode() + body[:5])
        await port.until(lambda: port.bodies_bytes)
        draining = asyncio.create_task(port.server.drain())
        await port.until(port.server.health.draining.is_set)
        async with port.dial(plain=True) as probe:
            answer = await probe.get("/readyz")
            assert (answer.status, b"[-]not-draining" in answer.body) == (503, True)
            assert answer.headers["Connection"] == "close"
        async with port.dial() as late:
            answer = await late.post("/validate", body)
            assert (answer.status, answer.headers["Connection"]) == (200, "close")
            assert await late.ended()
        answer = await kept.post("/validate", body)
        assert (answer.status, answer.headers["Connection"]) == (200, "close")
        assert not draining.done()
        await flying.send(body[5:])
        answer = await flying.answer()
        assert (answer.status, answer.headers["Connection"]) == (200, "close")
        await draining
        with pytest.raises(OSError):
            async with port.dial():
                pass


async def test_an_idle_connection_is_left_to_its_client_until_the_limit(launch, review_bytes):
    async with launch(drain_limit_seconds=0.2) as port, port.dial() as idle:
        await idle.post("/validate", review_bytes())
        await port.server.drain()
        assert await idle.ended()


async def test_the_listener_stays_open_for_the_grace_period(launch, review_bytes):
    async with launch(drain_seconds=0.3, drain_limit_seconds=20) as port:
        draining = asyncio.create_task(port.server.drain())
        await port.until(port.server.health.draining.is_set)
        async with port.dial() as late:
            assert (await late.post("/validate", review_bytes())).status == 200
        assert not draining.done()
        await draining


async def test_a_request_in_flight_is_finished_after_the_listener_is_closed(launch):
    """With no grace at all."""
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_request):
        began.set()
        await go_on.wait()
        return web.Response(text="done")

    async with launch(extend=lambda app: app.router.add_get("/slow", slow)) as port, port.dial() as connection:
        asking = asyncio.create_task(connection.get("/slow"))
        await began.wait()
        stopping = asyncio.create_task(port.server.drain())
        await port.until(lambda: not port.server._https.sites)
        with pytest.raises(OSError):
            async with port.dial():
                pass
        go_on.set()
        answer = await asking
        assert (answer.status, answer.body, answer.headers["Connection"]) == (200, b"done", "close")
        await stopping


async def test_routes_of_others_can_be_added(launch):
    async def hello(_request):
        return web.Response(text="hello")

    extended = launch(extend=lambda app: app.router.add_get("/api/v1/namespaces", hello))
    async with extended as port, port.dial() as connection:
        answer = await connection.get("/api/v1/namespaces")
        assert (answer.status, answer.body) == (200, b"hello")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert (await connection.get("/api/v1/pods")).status == 404
