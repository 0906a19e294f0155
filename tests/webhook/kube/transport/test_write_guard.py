"""The write fence, on real sockets and with a process that is really stopped (SIGSTOP) and goes on (SIGCONT).

Whether we may write is a file here and no clock, so nothing depends on how fast this machine is.
"""

import os
import signal
import socket
import ssl
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from certs.authority import Authority
from tests.loopback import on_loopback
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.paths import ApiPath
from webhook.kube.login.connection import Login
from webhook.kube.ports import StoreError, UnavailableError

WRITER = Path(__file__).with_name("fenced_writer.py")
ROOT = Path(__file__).parents[4]
PATIENCE = 60
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n" + b'{"a": true}'


class ShutError(StoreError):
    pass


class Gate:
    """A fence that shuts after it has been asked *passes* times."""

    def __init__(self, passes):
        self.passes = passes
        self.asked = 0

    def __call__(self):
        self.asked += 1
        if self.asked > self.passes:
            raise ShutError("shut")


@pytest.fixture(params=["asyncio", "uvloop"])
def loop_name(request):
    return request.param


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as found:
        found.settimeout(PATIENCE)
        yield found


@pytest.fixture
def closed(tmp_path):
    """The file that closes the fence."""
    return tmp_path / "closed"


@pytest.fixture
def start_writer(listener, closed, loop_name):
    """Starts the process; it is killed at the end, stopped or not."""
    started = []

    def start(*, scheme="http", size=100, holders=0):
        url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        process = subprocess.Popen(
            [sys.executable, WRITER, url, closed, str(size), loop_name, str(holders)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        started.append(process)
        assert process.stdout.readline() == "begun\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def serving(tmp_path):
    """How a server shows itself."""
    authority = Authority.new(datetime.now(UTC))
    leaf = authority.issue(("localhost",), ("127.0.0.1",), datetime.now(UTC))
    (tmp_path / "tls.crt").write_bytes(leaf.chain_pem)
    (tmp_path / "tls.key").write_bytes(leaf.key_pem)
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    return found


def stop(process):
    """Stop the process, and return once it stands."""
    process.send_signal(signal.SIGSTOP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)


def accept(listener):
    connection, _ = listener.accept()
    connection.settimeout(PATIENCE)
    return connection


def read_all(connection):
    """Everything that comes until the other side closes."""
    found = bytearray()
    try:
        while piece := connection.recv(1 << 20):
            found += piece
    except (ConnectionResetError, ssl.SSLError):
        pass
    return bytes(found)


def outcome(process):
    return process.communicate(timeout=PATIENCE)[0].strip()


def test_stopped_in_a_handshake_it_sends_nothing_when_it_goes_on(listener, closed, start_writer, serving):
    """The connection is there only after the process may not write any more."""
    process = start_writer(scheme="https")
    with accept(listener) as connection:
        assert connection.recv(1, socket.MSG_PEEK)  # it says hello and waits
        stop(process)
        closed.touch()
        process.send_signal(signal.SIGCONT)
        with serving.wrap_socket(connection, server_side=True, suppress_ragged_eofs=True) as secured:
            assert read_all(secured) == b""
    assert outcome(process) == "refused: the fence is closed"


def test_stopped_while_all_connections_are_taken_it_sends_nothing_when_it_goes_on(listener, closed, start_writer):
    process = start_writer(holders=1)
    with accept(listener) as connection:
        assert connection.recv(1 << 16).startswith(b"GET /hold")
        stop(process)
        closed.touch()
        connection.sendall(ANSWER)
        process.send_signal(signal.SIGCONT)
        listener.settimeout(0.5)
        assert read_all(connection) == b""
        with pytest.raises(TimeoutError):
            listener.accept()
    assert outcome(process) == "refused: the fence is closed"


def test_stopped_in_a_long_body_it_never_finishes_it(listener, closed, start_writer):
    """What has left by then is no whole request, so no server takes it for one."""
    size = 32 << 20  # more than any socket buffer
    process = start_writer(size=size)
    with accept(listener) as connection:
        begun = connection.recv(1 << 16)
        assert begun.startswith(b"POST /write")
        stop(process)
        closed.touch()
        process.send_signal(signal.SIGCONT)
        assert 0 < len(begun) + len(read_all(connection)) < size
    assert outcome(process) == "refused: the fence is closed"


def test_stopped_and_going_on_in_time_it_writes(listener, start_writer):
    """The counterpart: the fence stays open, so the same process gets its write through."""
    process = start_writer(size=1 << 20)
    with accept(listener) as connection:
        stop(process)
        process.send_signal(signal.SIGCONT)
        got = bytearray()
        while not got.endswith(b'x"}'):
            got += connection.recv(1 << 20)
        connection.sendall(ANSWER)
        assert outcome(process) == "written: {'a': True}"


@pytest.mark.parametrize("size", [100, 200 << 10, 900 << 10])
def test_bodies_of_any_length_get_through_tls(listener, start_writer, serving, size):
    process = start_writer(scheme="https", size=size)
    with accept(listener) as connection, serving.wrap_socket(connection, server_side=True) as secured:
        got = bytearray()
        while not got.endswith(b'x"}'):
            got += secured.recv(1 << 20)
        secured.sendall(ANSWER)
        assert outcome(process) == "written: {'a': True}"


@pytest.fixture
async def echo():
    """A server that counts what it was sent; ``/busy`` asks for patience."""
    seen = []

    async def take(request):
        seen.append(await request.read())
        return web.json_response({"length": len(seen[-1])})

    async def busy(request):
        query = request.query
        headers = {"Retry-After": query["after"]} if "after" in query else {}
        details = {"details": {"retryAfterSeconds": int(query["details"])}} if "details" in query else {}
        return web.json_response({"message": "not now", **details}, status=int(query["code"]), headers=headers)

    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/take", take)
    app.router.add_route("*", "/busy", busy)
    async with on_loopback(app) as address, ApiServer(Login(address)) as server:
        yield server, seen


@pytest.mark.parametrize(
    "body", [None, {}, {"a": "x"}, {"a": "x" * (900 << 10)}], ids=["none", "empty", "short", "long"]
)
async def test_an_open_fence_changes_nothing(echo, body):
    server, seen = echo
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        plain = await server.request(method, "/take", body)
        assert await server.request(method, "/take", body, fence=Gate(1 << 10)) == plain
    assert len(set(seen)) == 1


async def test_a_fence_that_shuts_at_the_last_moment_keeps_all_of_it_back(echo):
    """It is asked before the connection is made and again before the bytes leave; the pool survives that."""
    server, seen = echo
    await server.request("POST", ApiPath("take"), {"first": 1})  # there is an idle connection now
    for _ in range(3):
        with pytest.raises(ShutError):
            await server.request("POST", ApiPath("take"), {"second": 2}, fence=Gate(1))
    with pytest.raises(ShutError):
        await server.request("POST", ApiPath("take"), {"second": 2}, fence=Gate(0))
    with pytest.raises(ShutError):
        await server.request("POST", ApiPath("take"), {"second": "x" * (1 << 20)}, fence=Gate(3))
    await server.request("POST", ApiPath("take"), {"third": 3}, fence=Gate(2))
    assert seen[0] == b'{"first":1}'
    assert seen[-1] == b'{"third":3}'
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        pytest.param({"code": "429", "after": "3"}, 3.0, id="429-header"),
        pytest.param({"code": "503", "after": "1"}, 1.0, id="503-header"),
        pytest.param({"code": "504", "details": "2"}, 2.0, id="504-details"),
        pytest.param({"code": "429", "after": "2", "details": "9"}, 2.0, id="the-header-wins"),
        pytest.param({"code": "429"}, None, id="429-without"),
        pytest.param({"code": "408"}, None, id="408"),
        pytest.param({"code": "500"}, None, id="500"),
        pytest.param({"code": "503", "after": "Fri, 01 Jan 2027 00:00:00 GMT"}, None, id="a-date"),
        pytest.param({"code": "503", "after": "-1"}, None, id="negative"),
        pytest.param({"code": "503", "after": "300"}, 300.0, id="as-much-as-is-taken-by-its-word"),
        pytest.param({"code": "503", "after": "301"}, None, id="one-more"),
        pytest.param({"code": "503", "after": "1e9"}, None, id="out-of-all-bounds"),
    ],
)
async def test_a_server_that_asks_for_patience_is_told_as_such(echo, query, seconds):
    server, _ = echo
    with pytest.raises(UnavailableError, match="not now") as error:
        await server.request("GET", ApiPath("busy"), query=query)
    assert error.value.retry_after == seconds
