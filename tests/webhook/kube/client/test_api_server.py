"""The client of a real API server, against a server that answers what it was sent."""

import asyncio
import socket
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import aiohappyeyeballs
import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver

from scorer.api.kinds import BINDING, POD, WORK
from tests.loopback import on_loopback
from tests.waiting import PATIENCE_SECONDS
from webhook.kube.client import api_server, hub_store
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.discovery import Discovery
from webhook.kube.client.hub_store import HubStore
from webhook.kube.client.paths import ApiPath
from webhook.kube.login.connection import Login
from webhook.kube.ports import (
    InvalidObjectError,
    Key,
    NotFoundError,
    NotServedError,
    StoreError,
    UnavailableError,
)


@pytest.fixture
async def address():
    """Where a server listens that sends every document back, and is as strict about UTF-8 as an API server."""

    async def echo(request):
        return web.json_response({"got": (await request.read()).decode("utf-8")})

    app = web.Application()
    app.router.add_post("/echo", echo)
    async with on_loopback(app) as found:
        yield found


async def test_a_lone_surrogate_goes_out_as_a_replacement_character(address):
    """It comes from JSON that a client wrote, such as the name of a user, and UTF-8 has no place for it."""
    async with ApiServer(Login(address)) as server:
        answer = await server.request("POST", ApiPath("echo"), {"user": "a\ud800"})
    assert answer == {"got": '{"user":"a\N{REPLACEMENT CHARACTER}"}'}


@asynccontextmanager
async def answering(respond, connections=8):
    """Yield the client of a server that answers everything by *respond*."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", respond)
    async with (
        on_loopback(app, shutdown_seconds=0.1) as address,
        ApiServer(Login(address), connections=connections) as server,
    ):
        yield server


@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("localhost", id="of which the first address may be ::1")])
async def test_connections_are_made_by_the_event_loop(monkeypatch, host):
    def handed_over(*_, **__):
        raise AssertionError("two owners of one descriptor")

    monkeypatch.setattr(aiohappyeyeballs, "start_connection", handed_over)

    async def answer(request):
        return web.json_response({"ok": True})

    async with answering(answer) as server:
        _, _, port = server.address.rpartition(":")
        async with ApiServer(Login(f"http://{host}:{port}")) as other:
            assert await other.request("GET", ApiPath("x")) == {"ok": True}


class Both(AbstractResolver):
    """Knows one address of each family for every name, that of IPv6 first."""

    async def resolve(self, host, port=0, family=socket.AF_INET):
        addresses = (("::1", socket.AF_INET6), ("127.0.0.1", socket.AF_INET))
        return [
            {"hostname": host, "host": address, "port": port, "family": found, "proto": 0, "flags": 0}
            for address, found in addresses
        ]

    async def close(self):
        """Hold nothing."""


async def test_a_server_on_one_address_of_its_name_is_found(monkeypatch):
    async def answer(request):
        return web.json_response({"ok": True})

    monkeypatch.setattr(aiohttp.connector, "DefaultResolver", lambda **_: Both())
    async with answering(answer) as server:
        _, _, port = server.address.rpartition(":")
        async with ApiServer(Login(f"http://hub.example:{port}")) as other:
            assert await other.request("GET", ApiPath("x")) == {"ok": True}


async def test_a_server_that_is_not_there_is_no_answer():
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        async with ApiServer(Login(f"http://localhost:{nobody.getsockname()[1]}")) as server:
            with pytest.raises(UnavailableError, match="Connect"):
                await server.request("GET", ApiPath("x"))


async def test_nobody_is_followed_elsewhere_and_no_token_goes_there(address):
    async def away(_):
        raise web.HTTPTemporaryRedirect(f"{address}/echo")

    async with answering(away) as server:
        with pytest.raises(StoreError) as refused:
            await server.request("POST", ApiPath("echo"), {"user": "a"})
    assert "got" not in str(refused.value)


async def test_the_environment_names_no_proxy_and_no_credentials(address, monkeypatch, tmp_path):
    """What is asked by way of a proxy is decided with the login, where NO_PROXY and loopback count."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login ann password secret", encoding="ascii")
    seen = []

    async def note(request):
        seen.append(request.headers.get("Authorization"))
        return web.json_response({})

    async with answering(note) as server:
        await server.request("POST", ApiPath("echo"), {})
    assert seen == [None]


@pytest.mark.parametrize("status", [{"conditions": []}, None], ids=["status", "none"])
@pytest.mark.parametrize(("kind", "whole"), [(WORK, False), (POD, True)], ids=["custom", "built-in"])
async def test_the_status_of_a_custom_object_is_sent_alone(kind, whole, status):
    """Of a built-in one, whose server may take labels along, all of it is."""
    sent = []

    async def note(request):
        sent.append((request.method, request.path, await request.json()))
        return web.json_response({"metadata": {}})

    identity = {"name": "a", "namespace": "shop", "uid": "u", "resourceVersion": "7"}
    head = {"apiVersion": kind.api_version, "kind": kind.kind}
    document = {**head, "metadata": {**identity, "labels": {"a": "b"}, "generation": 2}, "spec": {"c": "d"}}
    wanted = document if whole else {**head, "metadata": identity}
    if status is not None:
        document, wanted = {**document, "status": status}, {**wanted, "status": status}
    async with answering(note) as server:
        await HubStore(server).replace_status(kind, document)
    ((method, path, body),) = sent
    assert (method, body) == ("PUT", wanted)
    assert path.endswith(f"/namespaces/shop/{kind.plural}/a/status")


async def test_a_page_in_place_of_a_document_is_no_answer():
    """A proxy says that all is well, and means itself."""

    async def page(request):
        return web.Response(text="<html>under maintenance</html>", content_type="text/html")

    async with answering(page) as server:
        with pytest.raises(UnavailableError, match="not a document"):
            await HubStore(server).list(BINDING)
        with pytest.raises(UnavailableError, match="not a document"):
            await HubStore(server).get(BINDING, Key("a"))
        with pytest.raises(UnavailableError, match="no event"):
            await anext(HubStore(server).watch(BINDING, "1"))


async def test_only_an_api_server_can_say_that_an_object_is_not_there():
    async def answer(request):
        if request.path.endswith("/a"):
            return web.json_response(
                {"kind": "Status", "reason": "NotFound", "message": "no a", "code": 404}, status=404
            )
        return web.Response(text="default backend - 404", status=404)

    async with answering(answer) as server:
        with pytest.raises(NotFoundError) as missing:
            await HubStore(server).get(BINDING, Key("a"))
        assert not isinstance(missing.value, NotServedError)
        with pytest.raises(NotServedError):
            await HubStore(server).get(BINDING, Key("b"))


def failing(times, respond):
    """Return a handler that hands the first requests to *respond*, then answers; and the list of what was asked."""
    asked = []

    async def answer(request):
        asked.append(request.method)
        if len(asked) <= times:
            return await respond(request)
        return web.json_response({"metadata": {"name": "a", "resourceVersion": "1"}, "items": []})

    return answer, asked


async def busy(request):
    return web.Response(status=503)


async def gone_quiet(request):
    await asyncio.sleep(60)


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(hub_store, "READS", ((0.5, 0.0), (0.5, 0.0), (PATIENCE_SECONDS, 0.0)))


@pytest.mark.parametrize("respond", [pytest.param(busy, id="busy"), pytest.param(gone_quiet, id="never")])
async def test_a_read_that_fails_is_tried_twice_more(respond, hasty):
    answer, asked = failing(2, respond)
    async with answering(answer) as server:
        assert await HubStore(server).get(BINDING, Key("a"))
        assert len(asked) == 3
        del asked[:]
        assert not (await HubStore(server).list(BINDING)).items
        assert len(asked) == 3


async def test_a_read_fails_when_all_its_tries_have(hasty):
    answer, asked = failing(9, busy)
    async with answering(answer) as server:
        with pytest.raises(UnavailableError):
            await HubStore(server).get(BINDING, Key("a"))
    assert len(asked) == 3


async def test_a_write_is_never_repeated(hasty):
    """It may have taken place."""
    answer, asked = failing(1, busy)
    async with answering(answer) as server:
        with pytest.raises(UnavailableError):
            await HubStore(server).create(BINDING, {"metadata": {"name": "a"}})
    assert asked == ["POST"]


async def test_a_server_that_asks_for_a_long_pause_is_not_asked_again():
    async def later(request):
        return web.Response(status=429, headers={"Retry-After": "60"})

    answer, asked = failing(9, later)
    async with answering(answer) as server:
        with pytest.raises(UnavailableError) as refused:
            await HubStore(server).get(BINDING, Key("a"))
    assert refused.value.retry_after == 60
    assert len(asked) == 1


async def test_watches_leave_connections_for_everything_else():
    """A hub with more selected kinds than there are connections: their watches must not hold up every write."""
    watching, done = [], asyncio.Event()

    async def answer(request):
        if "watch" not in request.query:
            return web.json_response({"metadata": {"name": "a"}})
        response = web.StreamResponse()
        await response.prepare(request)
        watching.append(request)
        await done.wait()
        return response

    async with answering(answer, connections=2) as server, asyncio.timeout(PATIENCE_SECONDS):
        objects = HubStore(server)
        tasks = [asyncio.create_task(anext(objects.watch(BINDING, "1"))) for _ in range(4)]
        while len(watching) < len(tasks):
            await asyncio.sleep(0.01)
        assert await objects.get(BINDING, Key("a"))
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        done.set()


def group(name, kind, plural, *, freshness="Current"):
    resource = {"resource": plural, "responseKind": {"kind": kind}, "scope": "Namespaced", "verbs": ["list", "watch"]}
    version = {"version": "v1", "freshness": freshness, "resources": [resource] if kind else []}
    return {"metadata": {"name": name} if name else {}, "versions": [version]}


def groups(*items):
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": list(items)}


@pytest.fixture
async def served():
    """Yield the discovery of a server, and what it answers by path."""
    answers = {"/api": groups(group("", "ConfigMap", "configmaps")), "/apis": groups()}

    async def answer(request):
        return web.json_response(answers[request.path])

    async with answering(answer) as server:
        yield Discovery(server), answers


async def test_kinds_of_a_group_that_does_not_answer_stay_known(served):
    discovery, answers = served
    machines, robots = group("example.com", "Machine", "machines"), group("example.org", "Robot", "robots")
    answers["/apis"] = groups(machines, robots)
    await discovery.refresh()
    assert not discovery.silent
    answers["/apis"] = groups(group("example.com", "", "", freshness="Stale"))
    await discovery.refresh()
    assert ("example.com", "Machine") in discovery.kinds
    assert ("example.org", "Robot") not in discovery.kinds
    assert discovery.silent == {"example.com"}
    answers["/apis"] = groups(group("example.com", "", ""))
    await discovery.refresh()
    assert (("example.com", "Machine") in discovery.kinds, set(discovery.silent)) == (False, set())


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_an_answer_that_names_no_kinds_is_no_discovery(served, path):
    """What strips the Accept header gets the names of groups only: that must not look like a hub without kinds."""
    discovery, answers = served
    await discovery.refresh()
    before = discovery.kinds
    answers[path] = {"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "apps"}]}
    with pytest.raises(UnavailableError, match="APIGroupDiscoveryList"):
        await discovery.refresh()
    assert discovery.kinds == before


async def test_an_address_that_cannot_be_used_leaves_nothing_open(monkeypatch):
    made = []
    monkeypatch.setattr(api_server.aiohttp, "TCPConnector", made.append)
    with pytest.raises(ValueError, match="IPv6"):
        ApiServer(Login("https://[::1"))
    assert not made


@pytest.mark.parametrize(
    ("said", "found"),
    [
        pytest.param("Thu, 12 Feb 2026 10:00:00 GMT", datetime(2026, 2, 12, 10, tzinfo=UTC), id="a-time"),
        pytest.param("tomorrow", None, id="no-time"),
        pytest.param("Thu, 12 Feb 2026 10:00:00 -0000", None, id="no-zone"),
    ],
)
async def test_the_servers_clock_is_read_off_its_answers(said, found):
    async def respond(_):
        return web.json_response({"kind": "Status"}, status=404, headers={"Date": said})

    async with answering(respond) as server:
        assert server.time_of_day() is None
        with pytest.raises(NotServedError):
            await server.request("GET", ApiPath("echo"))
        if found is None:
            assert server.time_of_day() is None
        else:
            assert found <= server.time_of_day() < found + timedelta(minutes=1)
            server._dated = said, server._dated[1] - 3600
            assert found + timedelta(hours=1) <= server.time_of_day() < found + timedelta(hours=1, minutes=1)


@pytest.mark.parametrize(
    ("code", "message", "error"),
    [
        pytest.param(500, "etcdserver: request is too large", InvalidObjectError, id="etcd"),
        pytest.param(
            500,
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2097283 vs. 2097152)",
            InvalidObjectError,
            id="client-of-etcd",
        ),
        pytest.param(413, "Request entity too large: limit is 3145728", InvalidObjectError, id="api-server"),
        pytest.param(500, "etcdserver: request timed out", UnavailableError, id="passing"),
        pytest.param(429, "too many requests", UnavailableError, id="busy"),
    ],
)
async def test_an_object_that_is_too_large_is_no_outage(code, message, error):
    async def respond(_):
        return web.json_response({"kind": "Status", "message": message, "code": code}, status=code)

    async with answering(respond) as server:
        with pytest.raises(error) as raised:
            await HubStore(server).create(BINDING, {"metadata": {"name": "a"}})
    assert type(raised.value) is error
