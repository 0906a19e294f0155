"""Requests of commands, over real sockets."""

import asyncio
import contextlib
import gzip
import socket
import ssl
import threading
from datetime import UTC, datetime

import pytest
from aiohttp import web

from certs.authority import Authority
from certs.context import ServerContext
from tests.loopback import on_loopback
from tests.waiting import PATIENCE_SECONDS
from webhook.kube.client.cli_client import MAX_CONCURRENT_REQUESTS, HubHttp
from webhook.kube.login.connection import Login
from webhook.kube.ports import UnavailableError

NOW = datetime.now(UTC)
AUTHORITY = Authority.new(NOW)


@contextlib.asynccontextmanager
async def serving(handler, tls=False):
    """Serve *handler* at every path; yield the address."""
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", handler)
    context = ServerContext(AUTHORITY.issue(("hub",), (), NOW)).listener if tls else None
    async with on_loopback(app, tls=context, shutdown_seconds=0.1) as address:
        yield address


async def echo(request):
    body = gzip.compress(f"{request.method} {request.raw_path}".encode())
    headers = {"Content-Encoding": "gzip", "Warning": '299 - "a"'}
    return web.Response(body=body, headers=headers, status=418)


async def shown():
    return {"Authorization": "Bearer t"}


def trusting(login_authority):
    return ssl.create_default_context(cadata=login_authority.pem.decode())


async def test_an_answer_comes_whole_whatever_it_says():
    async with serving(echo) as address:
        with HubHttp(Login(f"{address}/base/", credentials=shown)) as hub:
            answer = await hub.send("POST", "/a%2Fb/%2E%2E?x=1", b"{}", {"y": "ü"}, "application/json", 10)
    assert answer.content == b"POST /base/a%2Fb/%2E%2E?x=1&y=%C3%BC"  # nothing on the way has read the path anew
    assert (answer.status, answer.warnings) == (418, ('299 - "a"',))


@pytest.mark.parametrize(("method", "requests"), [("GET", 2), ("POST", 1)])
async def test_a_read_without_a_response_is_repeated_once_and_a_write_never(method, requests):
    seen = []

    async def close_first(request):
        seen.append(request.method)
        if len(seen) == 1:
            request.transport.close()
        return web.Response(text="{}")

    async with serving(close_first) as address:
        refusal = pytest.raises(UnavailableError) if method == "POST" else contextlib.nullcontext()
        with HubHttp(Login(address, credentials=shown)) as hub, refusal:
            answer = await hub.send(method, "/a", None, None, "application/json", 10)
            assert (answer.status, answer.content) == (200, b"{}")
    assert seen == [method] * requests


@pytest.mark.parametrize(
    ("authority", "name", "said"),
    [
        pytest.param(AUTHORITY, "hub", "", id="trusted"),
        pytest.param(AUTHORITY, "elsewhere", "certificate verify failed", id="another-name"),
        pytest.param(Authority.new(NOW), "hub", "certificate verify failed", id="another-authority"),
    ],
)
async def test_only_the_server_that_is_meant_is_told_anything(authority, name, said):
    async with serving(echo, tls=True) as address:
        login = Login(address, trusting(authority), shown, server_name=name)
        with HubHttp(login) as hub:
            if not said:
                assert (await hub.send("GET", "/", None, None, "", 10)).status == 418
                return
            with pytest.raises(UnavailableError, match=said) as raised:
                await hub.send("GET", "/", None, None, "", 10)
    assert isinstance(raised.value.__cause__, ssl.SSLCertVerificationError)


async def test_a_proxy_is_asked_for_the_tunnel_with_its_password():
    asked = asyncio.get_running_loop().create_future()

    async def proxy(reader, writer):
        asked.set_result((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.close()

    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    address = f"http://me:p%40ss@127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with HubHttp(Login("https://hub.example:6443", True, proxy=address)) as hub, pytest.raises(UnavailableError):
        await hub.send("GET", "/", None, None, "", 10)
    server.close()
    first, *headers = (await asked).splitlines()
    assert first.startswith("CONNECT hub.example:6443 ")
    assert "proxy-authorization: Basic bWU6cEBzcw==" in headers  # me:p@ss


async def test_what_does_not_answer_in_time_is_given_up_and_keeps_no_process():
    before = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hub = HubHttp(Login(f"http://127.0.0.1:{silent.getsockname()[1]}"))
        with hub, pytest.raises(UnavailableError, match=r"does not answer GET /: timed out after 0\.2 s"):
            await hub.send("GET", "/", None, None, "", 0.2)
    assert all(each.daemon for each in set(threading.enumerate()) - before)


async def test_a_stream_comes_part_by_part_and_ends_with_its_reader():
    gone = asyncio.Event()

    async def endless(request):
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(b"0\n")
                await asyncio.sleep(0)
        gone.set()
        return response

    async with serving(endless) as address:
        with HubHttp(Login(address)) as hub:
            async with hub.stream("/", {}) as answer:
                async for part in answer.parts:
                    assert part.startswith(b"0\n")
                    break
        async with asyncio.timeout(PATIENCE_SECONDS):
            await gone.wait()
    assert answer.status == 200


@pytest.mark.parametrize(("address", "said"), [("http://127.0.0.1:1", "connection refused"), ("http://no.invalid", "")])
async def test_nobody_there(address, said):
    hub = HubHttp(Login(address))
    with hub, pytest.raises(UnavailableError, match=f"^{address} does not answer GET /a: .*{said}"):
        await hub.send("GET", "/a", None, None, "", 10)


async def test_many_requests_at_once_take_turns_and_nobody_is_warned(caplog):
    """The library would tell the user of a command that it does not keep a connection."""
    under_way, most, full = 0, 0, asyncio.Event()

    async def slow(_request):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == MAX_CONCURRENT_REQUESTS:
            full.set()
        await full.wait()
        await asyncio.sleep(0.02)  # for one request too many
        under_way -= 1
        return web.Response(body=b"done")

    async with serving(slow) as address:
        with HubHttp(Login(address)) as hub:
            asked = (
                hub.send("GET", "/a", None, None, "application/json", 10) for _ in range(3 * MAX_CONCURRENT_REQUESTS)
            )
            answers = await asyncio.gather(*asked)
    assert {answer.content for answer in answers} == {b"done"}
    assert most == MAX_CONCURRENT_REQUESTS
    assert caplog.messages == []
