"""An API server whose authority or credentials are replaced, and what the probes hear of one that does not answer."""

import asyncio
import json
import ssl
from base64 import b64encode
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from aiohttp import web

from certs.authority import Authority
from scorer.api.kinds import POD
from tests import waiting
from tests.loopback import on_loopback
from webhook.kube.client import api_server
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.paths import ApiPath, path_of
from webhook.kube.client.reachability import ASK_SECONDS, PATIENCE_SECONDS, Contact
from webhook.kube.login.kubeconfig import ConfigurationError
from webhook.kube.ports import ForbiddenError, UnavailableError

VERSION = ApiPath("version")


class Clock:
    """Seconds that a test moves on."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def contact(clock):
    return Contact(clock)


def test_silence_begins_a_minute_after_the_last_answer(contact, clock):
    clock.now += PATIENCE_SECONDS - 1
    assert contact.outage() == ""
    contact.answered()
    contact.failed("connection refused", is_refused=False)
    clock.now += PATIENCE_SECONDS
    assert contact.outage() == "no answer for 60 s: connection refused"
    contact.answered()
    assert contact.outage() == ""


def test_a_minute_of_refusals_is_reason_to_restart(contact, clock):
    contact.failed("certificate verify failed", is_refused=True)
    clock.now += PATIENCE_SECONDS - 1
    contact.failed("certificate verify failed", is_refused=True)
    assert contact.refusal() == ""
    clock.now += 1
    assert contact.refusal() == "refused for 60 s: certificate verify failed"
    contact.answered()
    assert contact.refusal() == ""


@pytest.mark.parametrize("reason", ["connection refused", "timeout", "HTTP 503"])
def test_an_outage_is_none_also_after_a_refusal(contact, clock, reason):
    contact.failed("certificate verify failed", is_refused=True)
    clock.now += PATIENCE_SECONDS / 2
    contact.failed(reason, is_refused=False)
    clock.now += 10 * PATIENCE_SECONDS
    contact.failed("certificate verify failed", is_refused=True)
    assert contact.refusal() == ""
    assert contact.outage() != ""


def test_a_request_is_due_when_no_other_was_answered(contact, clock):
    assert contact.seconds_to_probe == ASK_SECONDS
    clock.now += ASK_SECONDS - 1
    contact.answered()
    clock.now += ASK_SECONDS
    assert contact.seconds_to_probe == 0


class Hub:
    """An API server over TLS that knows tokens; its certificate is of an authority that can be replaced."""

    def __init__(self, folder):
        self._folder = folder
        self.tokens = {"first"}
        self.bodies = []
        self.address = ""
        self.renew()

    def renew(self):
        self.authority = Authority.new(datetime.now(UTC))
        leaf = self.authority.issue(("localhost",), ("127.0.0.1",), datetime.now(UTC))
        (self._folder / "tls.crt").write_bytes(leaf.chain_pem)
        (self._folder / "tls.key").write_bytes(leaf.key_pem)

    def write_kubeconfig(self, token="first", authority=None, server=""):
        authority = authority or self.authority
        cluster = {
            "server": server or self.address,
            "certificate-authority-data": b64encode(authority.pem).decode(),
        }
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = self._folder / "kubeconfig"
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    async def answer(self, request):
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens:
            return web.json_response({"message": "Unauthorized"}, status=401)
        self.bodies.append(await request.text())
        return web.json_response({"gitVersion": "v1"})

    @asynccontextmanager
    async def listening(self, port=0):
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / "tls.crt", self._folder / "tls.key")
        async with on_loopback(app, tls=context, port=port, shutdown_seconds=0.1) as self.address:
            yield int(self.address.rpartition(":")[2])


@pytest.fixture
def hub(tmp_path):
    return Hub(tmp_path)


async def test_an_authority_that_is_replaced_is_read_again(hub):
    async with hub.listening() as port:
        kubeconfig = hub.write_kubeconfig()
        server = await ApiServer.connect(kubeconfig)
        assert await server.request("GET", VERSION) == {"gitVersion": "v1"}
    hub.renew()
    async with server, hub.listening(port):
        hub.write_kubeconfig()
        assert await server.request("GET", VERSION) == {"gitVersion": "v1"}


async def test_a_foreign_authority_is_refused_however_often_it_is_tried(hub, monkeypatch):
    monkeypatch.setattr(api_server, "REREAD_SECONDS", 0.0)
    async with hub.listening():
        other = Authority.new(datetime.now(UTC))
        async with await ApiServer.connect(hub.write_kubeconfig(authority=other)) as server:
            for _ in range(3):
                with pytest.raises(UnavailableError, match="certificate verify failed"):
                    await server.request("GET", VERSION)
            assert server.contact._refused is not None
    assert hub.bodies == []


async def test_a_token_that_ends_is_read_again_and_the_body_sent_again(hub):
    """Also the body of a fenced write, which asks its fence again."""
    async with hub.listening(), await ApiServer.connect(hub.write_kubeconfig()) as server:
        hub.tokens = {"second"}
        hub.write_kubeconfig("second")
        asked = []
        await server.request("PUT", path_of(POD, "a", "b"), {"spec": 1}, fence=lambda: asked.append(1))
    assert hub.bodies == ['{"spec":1}']
    assert len(asked) >= 2


async def test_a_token_that_is_refused_afterwards_counts_as_refused(hub):
    async with hub.listening(), await ApiServer.connect(hub.write_kubeconfig("unknown")) as server:
        with pytest.raises(ForbiddenError):
            await server.request("GET", VERSION)
        assert server.contact._refused is not None


@pytest.mark.parametrize("broken", [pytest.param(True, id="half-written"), pytest.param(False, id="of-another-server")])
async def test_a_kubeconfig_of_no_use_changes_nothing(hub, broken):
    """A token for another server is never shown to this one."""
    async with hub.listening(), await ApiServer.connect(hub.write_kubeconfig()) as server:
        before = server.login
        hub.tokens = {"elsewhere"}
        kubeconfig = hub.write_kubeconfig("elsewhere", server="https://elsewhere.example:6443")
        if broken:
            kubeconfig.write_text('{"clusters": [', encoding="utf-8")
        with pytest.raises(ForbiddenError):
            await server.request("GET", VERSION)
        assert server.login is before
    assert hub.bodies == []


async def test_outages_are_no_refusal(hub):
    async with hub.listening():
        server = await ApiServer.connect(hub.write_kubeconfig())
    async with server:
        with pytest.raises(UnavailableError):
            await server.request("GET", VERSION)
        assert server.contact._refused is None


async def test_requests_that_fail_together_read_the_login_once(hub):
    async with hub.listening(), await ApiServer.connect(hub.write_kubeconfig("unknown")) as server:
        fresh = replace(server.login, credentials=server.login.credentials)
        readings = []

        async def reread():
            readings.append(1)
            hub.tokens = {"unknown"}
            return fresh

        server._reread = reread
        await asyncio.gather(*(server.request("GET", VERSION) for _ in range(8)))
    assert len(readings) == 1
    assert len(hub.bodies) == 8


@pytest.mark.parametrize("hangs", [False, True], ids=["slow", "hanging"])
async def test_requests_that_fail_together_wait_for_one_reading_that_fails(hub, monkeypatch, hangs):
    """Such as that of a credential plugin without a network."""
    monkeypatch.setattr(api_server, "READING_SECONDS", 1.0, raising=False)
    monkeypatch.setattr(api_server, "REREAD_SECONDS", 0.5)
    async with hub.listening(), await ApiServer.connect(hub.write_kubeconfig("unknown")) as server:
        readings = []

        async def reread():
            readings.append(1)
            await asyncio.sleep(3600 if hangs else 0.75)
            raise ConfigurationError("no plugin")

        server._reread = reread
        async with asyncio.timeout(waiting.PATIENCE_SECONDS):
            found = await asyncio.gather(*(server.request("GET", VERSION) for _ in range(8)), return_exceptions=True)
    assert [type(each) for each in found] == [ForbiddenError] * 8
    assert len(readings) == 1
