"""Listeners that cannot be opened, what is no HTTP, and signals."""

import asyncio
import os
import signal
import socket

import pytest

from tests.waiting import PATIENCE_SECONDS
from tests.webhook.services import make_server, make_services
from webhook.server.listening import Addresses, ListenError, open_sockets, serve
from webhook.server.place import WorkerSockets
from webhook.server.server import Server
from webhook.settings.programs import ServerSettings
from webhook.telemetry.crew import Seat


def another(port, **settings) -> Server:
    """Make another server over the same fleet."""
    services = make_services(advisor=port.harbour, changes=port.harbour, synced=lambda: True, now=port.clock)
    return make_server(services, ServerSettings(**({"https_port": 0, "http_port": 0} | settings)))


@pytest.mark.parametrize(
    ("host", "dialled"),
    [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("10.0.0.7", "10.0.0.7")],
)
def test_a_listener_on_every_address_is_reached_on_this_machine(host, dialled):
    """No certificate is for the address that stands for all of them."""
    addresses = Addresses((host, 9443), ("127.0.0.1", 8081))
    assert addresses.dialled_url == f"https://{dialled}:9443"


@pytest.mark.parametrize("setting", ["https_port", "http_port"])
async def test_a_port_in_use_is_one_clear_line(port, setting):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        server = another(port, **{setting: number})
        with pytest.raises(ListenError) as caught:
            await server.start()
    text = str(caught.value)
    assert f"127.0.0.1:{number}" in text
    assert f"--{setting.replace('_', '-')}" in text
    assert f"HARBORMASTER_{setting.upper()}" in text
    assert "in use" in text
    assert "\n" not in text


async def test_an_address_of_another_machine_is_one_clear_line(port):
    with pytest.raises(ListenError, match=r"203\.0\.113\.1:0: .*assign.*--https-port"):
        await another(port, host="203.0.113.1").start()
    with pytest.raises(ListenError, match=r"no such host \(setting host, HARBORMASTER_HOST\)"):
        await another(port, host="no-such-host.invalid").start()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_and_ends(port, number):
    server = another(port, drain_seconds=0, drain_limit_seconds=0)
    started = asyncio.Event()
    running = asyncio.create_task(serve(server, lambda _: started.set()))
    await started.wait()
    os.kill(os.getpid(), number)
    await running
    assert server.health.closed


async def test_a_second_signal_ends_the_draining(port):
    server = another(port, drain_seconds=60, drain_limit_seconds=60)
    started = asyncio.Event()
    running = asyncio.create_task(serve(server, lambda _: started.set()))
    await started.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await port.until(server.health.draining.is_set)
    os.kill(os.getpid(), signal.SIGTERM)
    await running


@pytest.mark.parametrize("plain", [True, False], ids=["http", "https"])
@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"\x16\x03\x01 no http\r\n\r\n", id="no-http"),
        pytest.param(b"GET / HTTP/9.9\r\nHost: a\r\n\r\n", id="version"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nBad Header: \x00\r\n\r\n", id="header"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nLong: " + b"x" * 100_000 + b"\r\n\r\n", id="long"),
        pytest.param(b"POST /validate HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", id="length"),
    ],
)
async def test_what_is_no_http_is_one_line_in_the_log_and_hears_no_version(port, caplog, sent, plain):
    caplog.set_level("INFO")
    async with port.dial(plain=plain) as connection:
        await connection.send(sent)
        answer = await connection.answer()
    assert (answer.status, answer.body) == (400, b"400 Bad Request\n")
    assert "Server" not in answer.headers
    (record,) = [record for record in caplog.records if record.name.startswith(("aiohttp", "webhook.server.http"))]
    assert record.exc_info is None
    assert (record.getMessage(), record.reason.isidentifier()) == ("malformed request refused", True)


REQUEST_LINES = {
    "without-a-version": b"GET %b",
    "without-a-version-and-a-space": b"GET %b ",
    "post-without-a-version": b"POST %b",
    "options-without-a-version": b"OPTIONS %b",
    "version-in-the-path": b"GET %b/HTTP/1.1",
    "the-first-version": b"GET %b HTTP/0.9",
    "the-second-version": b"GET %b HTTP/2.0",
    "no-such-version": b"GET %b HTTP/1.2",
    "half-a-version": b"GET %b HTTP/1",
    "padded-version": b"GET %b HTTP/01.1",
    "lower-case-version": b"GET %b http/1.1",
    "lower-case-method": b"get %b HTTP/1.1",
    "lower-case-without-a-version": b"get %b",
    "space-before": b" GET %b HTTP/1.1",
    "space-behind": b"GET %b HTTP/1.1 ",
    "spaces-between-without-a-version": b"GET  %b",
    "tabs": b"GET\t%b\tHTTP/1.1",
    "empty-line-before": b"\r\nGET %b",
}
SECRET = "s" * 32


@pytest.mark.parametrize("headers", [b"", b"Host: a\r\n"], ids=["bare", "host"])
@pytest.mark.parametrize("line", REQUEST_LINES.values(), ids=REQUEST_LINES)
async def test_a_request_line_of_no_version_that_we_speak_is_refused_on_every_path(launch, tmp_path, line, headers):
    file = tmp_path / "secret"
    file.write_text(SECRET, encoding="ascii")
    async with launch(webhook_secret_file=file) as port:
        for plain, path in ((False, f"/hooks/{SECRET}/validate"), (False, "/validate"), (True, "/livez")):
            sent = line % path.encode() + b"\r\n" + headers + b"\r\n"
            async with port.dial(plain=plain) as connection:
                await connection.send(sent)
                answer = await connection.answer()
                assert (answer.status, answer.body) == (400, b"400 Bad Request\n")
                assert await connection.ended()
            async with port.dial(plain=plain) as connection:  # behind a request that is well, and in pieces
                assert (await connection.get("/livez" if plain else "/v1/openapi.json")).status == 200
                await connection.send(sent[:5])
                await connection.send(sent[5:])
                assert (await connection.answer()).status == 400


async def test_the_oldest_version_that_we_speak_is_answered(port):
    async with port.dial(plain=True) as connection:
        await connection.send(b"GET /livez HTTP/1.0\r\n\r\n")
        assert (await connection.answer()).status == 200


CANARY = b"c4n4ry"
HEADERS = (b"Authorization: Bearer ", b"Cookie: __Host-session=", b"X-Signature: ", b"User-Agent: ", b"Host: ", b"")


def malformed_heads():
    """Yield heads that no parser accepts, with the canary in every part that may hold a secret."""
    yield b"POST /%b/validate HTTP/9.9\r\nHost: a" % CANARY
    yield b"POST /%b/va lidate HTTP/1.1\r\nHost: a" % CANARY
    yield b"POST /%b/\x00 HTTP/1.1\r\nHost: a" % CANARY
    yield b"PO\x01ST /%b HTTP/1.1\r\nHost: a" % CANARY
    yield CANARY
    yield b"POST /%b HTTP/1.1\r\nHost: a\r\nContent-Length: %b" % (CANARY, CANARY)
    for header in HEADERS:
        line = header + CANARY
        for spoiled in (line + b"\x00", line + b"\x01\r", b"Bad Name" + line, line + b"x" * 100_000):
            yield b"GET / HTTP/1.1\r\nHost: a\r\n%b" % spoiled


async def test_a_malformed_request_leaves_nothing_of_itself_in_the_log(port, caplog):
    caplog.set_level("INFO")
    heads = list(malformed_heads())
    for head in heads:
        async with port.dial() as connection:
            await connection.send(head + b"\r\n\r\n")
            assert (await connection.answer()).status == 400, head[:100]
    assert len(caplog.records) == len(heads)
    assert not [record for record in caplog.records if CANARY.decode() in record.getMessage() + str(vars(record))]


SECRET_HEADERS = (
    b"Authorization: Bearer %b",
    b"Proxy-Authorization: %b",
    b"Cookie: a;;%b=\x80;[%b]=1; =%b",
    b"Content-Encoding: %b",
    b"Transfer-Encoding: %b",
    b"Content-Type: application/json; charset=%b",
    b"Upgrade: %b\r\nConnection: upgrade",
    b"Expect: %b",
    b"Host: %b",
    b"Traceparent: 00-%b",
    b"X-%b: 1",
)
BODIES = {
    "chunk-extension": b"Transfer-Encoding: chunked\r\n\r\n2;%b=1\r\n{}\r\n0\r\n\r\n",
    "chunk-size": b"Transfer-Encoding: chunked\r\n\r\n%b\r\n{}\r\n0\r\n\r\n",
    "chunk-too-long": b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}%b\r\n0\r\n\r\n",
    "trailer": b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-T: %b\r\n\r\n",
    "malformed-trailer": b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-T: %b\x00\r\n\r\n",
    "no-json": b"Content-Length: 6\r\n\r\n%b",
    "no-gzip": b"Content-Encoding: gzip\r\nContent-Length: 6\r\n\r\n%b",
    "half": b"Content-Length: 9\r\n\r\n{%b",
}


def well_formed_heads():
    """Yield requests that are refused behind the parser, with the canary in every part of them."""
    for path in (b"/hooks/%b/validate", b"/v1/%b", b"//%b", b"/validate?timeout=%b", b"/v1/clusters?%b=1", b"/%%ff%b"):
        for target in (path, b"http://a" + path):
            yield b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n" % (target % CANARY)
    yield b"CONNECT %b:443 HTTP/1.1\r\nHost: a\r\n\r\n" % CANARY
    yield b"X%b / HTTP/1.1\r\nHost: a\r\n\r\n" % CANARY
    for path in (b"/validate", b"/v1/validate", b"/extender/v1/filter", b"/livez"):
        for header in SECRET_HEADERS:
            filled = header % ((CANARY,) * header.count(b"%b"))
            yield b"POST %b HTTP/1.1\r\nHost: a\r\n%b\r\n\r\n" % (path, filled)
        for body in BODIES.values():
            yield b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n%b" % (path, body % CANARY)


@pytest.mark.parametrize("plain", [False, True], ids=["https", "http"])
async def test_a_refused_request_leaves_nothing_of_itself_in_the_log(port, caplog, plain):
    """Whatever refuses it: the parser of bodies, the router, the library's reading of cookies."""
    caplog.set_level("DEBUG")
    for sent in well_formed_heads():
        async with port.dial(plain=plain) as connection:
            await connection.send(sent)
            if not sent.endswith(b"{" + CANARY):  # the rest of which never comes
                assert (await connection.answer()).status >= 200
    async with port.dial(plain=plain) as connection:  # all before it has been handled
        assert (await connection.get("/livez" if plain else "/v1/openapi.json")).status == 200
    assert not [each for each in caplog.records if CANARY.decode() in (each.getMessage() + str(vars(each))).lower()]


@pytest.mark.parametrize("line", REQUEST_LINES.values(), ids=REQUEST_LINES)
async def test_nothing_is_answered_behind_a_request_line_that_is_refused(launch, tmp_path, line):
    file = tmp_path / "secret"
    file.write_text(SECRET, encoding="ascii")
    path = f"/hooks/{SECRET}/validate".encode()
    second = b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}" % path
    async with launch(webhook_secret_file=file) as port, port.dial() as connection:
        await connection.send(line % path + b"\r\nHost: a\r\n\r\n" + second)
        assert (await connection.answer()).status == 400
        assert await connection.ended()


async def test_two_servers_answer_at_one_port_that_they_inherit(port):
    """Each finds itself, though the other may be first to accept; what one closes stays open for the other."""
    https, http = open_sockets("127.0.0.1", 0, "https_port"), open_sockets("127.0.0.1", 0, "http_port")
    meetings = [socket.socket(socket.AF_UNIX) for _ in range(2)]
    for meeting in meetings:
        meeting.bind(b"")
        meeting.listen()
        meeting.setblocking(False)
    addresses = {number: meeting.getsockname() for number, meeting in enumerate(meetings, 1)}
    services = make_services(advisor=port.harbour, changes=port.harbour, synced=lambda: True, now=port.clock)
    servers = []
    for number, meeting in enumerate(meetings, 1):
        shared = [tuple(each.dup() for each in sockets) for sockets in (https, http)]
        place = WorkerSockets(Seat(number, meeting, addresses, 0), *shared)
        servers.append(make_server(services, ServerSettings(https_port=0, http_port=0), place=place))
    first, second = servers
    try:
        assert await first.start() == await second.start()
        for server in servers:
            server._listener_seen = float("-inf")
            assert await server.check_listener()
            assert server.health.readiness()["listener"] == ""
        await first.stop()
        assert await second.check_listener()
        async with asyncio.timeout(PATIENCE_SECONDS):
            reader, writer = await asyncio.open_connection(*second.addresses.http)
            writer.write(b"GET /livez HTTP/1.0\r\n\r\n")
            assert b" 503 " in await reader.readline()  # the first has gone, as far as the second knows
            writer.close()
    finally:
        await second.stop()
        for each in (*https, *http, *meetings):
            each.close()
