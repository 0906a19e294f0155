"""The agent's token for the hub: asked for with itself, kept in a Secret on the member, renewed for ever."""

import asyncio
import base64
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web

from scorer.api.kinds import NAMESPACE
from scorer.api.meta import format_time
from tests.loopback import on_loopback
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.client.api_server import ApiServer
from webhook.kube.login.kubeconfig import ConfigurationError
from webhook.kube.ports import ConflictError, ForbiddenError, Key, StoreError, UnavailableError
from webhook.member.membership.hub_secret import HUB_SECRET, SECRET, HubAccess, InvalidSecretError
from webhook.member.membership.hub_token import RETRY_SECONDS, SHORTEST_LIFE_SECONDS, HubToken, read_access

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEY = Key(HUB_SECRET, "harbormaster-system")


class Hub:
    """Gives tokens to holders of the last ones, in its own time."""

    def __init__(self):
        self.accepted = {"first"}
        self.asked = []
        self.life = timedelta(days=7)
        self.times = True
        self.refuses = 0
        self.url = ""

    async def answer(self, request):
        if self.refuses:
            return web.json_response({"message": "away"}, status=self.refuses)
        token = request.headers["Authorization"].removeprefix("Bearer ")
        if token not in self.accepted:
            return web.json_response({"message": "Unauthorized"}, status=401)
        self.asked.append((request.path, (await request.json())["spec"]["expirationSeconds"]))
        given = f"token-{len(self.asked)}"
        self.accepted.add(given)
        made = {"creationTimestamp": format_time(START)} if self.times else {}
        status = {"token": given, "expirationTimestamp": format_time(START + self.life)}
        return web.json_response({"metadata": made, "status": status}, status=201)


@pytest.fixture
async def hub():
    found = Hub()
    app = web.Application()
    app.router.add_post("/{path:.*}", found.answer)
    async with on_loopback(app, shutdown_seconds=0.1) as found.url:
        yield found


@pytest.fixture
async def member():
    found = EmbeddedStore.open(None)
    await found.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KEY.namespace}})
    return found


def access_to(hub, token="first"):
    return HubAccess("berlin", "uid-of-the-hub", "harbormaster-system", "member-berlin", token, hub.url)


async def write(member, access):
    metadata = {"name": KEY.name, "namespace": KEY.namespace}
    data = {**access.data(), "note": "of somebody else"}
    document = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    return await member.create(SECRET, document)


async def kept(member):
    return HubAccess.read(await member.get(SECRET, KEY)).token


def make_token(member, hub, **how):
    how = {"life_seconds": 604_800, "renewal_seconds": 3600} | how
    return HubToken(member, KEY, access_to(hub), **how)


class EndError(Exception):
    """Ends what would go on for ever."""


async def waits_of(token, server, *doings):
    """Renew until *doings*, called at one wait each, are over; return how long the waits were."""
    waits, left = [], list(doings)

    async def sleep(seconds):
        waits.append(seconds)
        if not left:
            raise EndError
        await left.pop(0)()

    with pytest.raises(EndError):
        await token.keep_valid(server, sleep)
    return waits


async def nothing():
    pass


@pytest.mark.parametrize(
    ("life", "seconds"),
    [
        pytest.param(timedelta(days=7), 3600, id="every-hour"),
        pytest.param(timedelta(minutes=10), 200, id="a-third-of-what-the-hub-grants"),
    ],
)
async def test_a_token_is_renewed_at_the_start_and_then_in_time(hub, member, life, seconds):
    hub.life = life
    await write(member, access_to(hub))
    token = make_token(member, hub)
    async with ApiServer(token.login()) as server:
        assert await waits_of(token, server, nothing, nothing) == [seconds] * 3
        assert (await server.login.credentials())["Authorization"] == "Bearer token-3"
    path = "/api/v1/namespaces/harbormaster-system/serviceaccounts/member-berlin/token"
    assert hub.asked == [(path, 604_800)] * 3
    assert await kept(member) == "token-3"
    assert (await member.get(SECRET, KEY))["data"]["note"] == "of somebody else"


async def test_a_hub_that_does_not_say_how_long_a_token_lasts_is_asked_soon(hub, member):
    hub.times = False
    await write(member, access_to(hub))
    token = make_token(member, hub)
    async with ApiServer(token.login()) as server:
        assert await waits_of(token, server) == [SHORTEST_LIFE_SECONDS / 3]


async def test_while_the_hub_is_away_the_token_stays_and_is_asked_for_again(hub, member):
    await write(member, access_to(hub))
    token = make_token(member, hub)
    hub.refuses = 503

    async def back():
        assert token.problem == "away"
        hub.refuses = 0

    async with ApiServer(token.login()) as server:
        assert await waits_of(token, server, nothing, back) == [*RETRY_SECONDS[:2], 3600]
    assert token.problem == ""
    assert await kept(member) == "token-1"


async def test_when_the_token_has_ended_that_of_the_secret_is_tried(hub, member):
    written = await write(member, access_to(hub))
    token = make_token(member, hub)
    hub.accepted.clear()
    async with ApiServer(token.login()) as server:
        with pytest.raises(ForbiddenError):
            await token.renew(server)
        hub.accepted.add("by-join")
        data = {**written["data"], "token": base64.b64encode(b"by-join").decode()}
        await member.replace(SECRET, {**written, "data": data})
        await token.renew(server)
        assert (await server.login.credentials())["Authorization"] == "Bearer token-1"
    assert await kept(member) == "token-1"


async def test_a_spoilt_secret_spoils_no_token_that_is_good(hub, member):
    written = await write(member, access_to(hub))
    await member.replace(SECRET, {**written, "data": {"token": "no base64"}})
    token = make_token(member, hub)
    async with ApiServer(token.login()) as server:
        await token.renew(server)
        hub.accepted.clear()
        await member.replace(SECRET, {**await member.get(SECRET, KEY), "data": {}})
        with pytest.raises(StoreError, match=r"data\.member is missing"):
            await token.renew(server)


async def test_a_token_that_cannot_be_stored_is_used_and_stored_later(hub, member):
    token = make_token(member, hub)

    async def restore():
        assert token.problem.startswith("Secret harbormaster-system/harbormaster-hub on the member: ")
        assert (await token.login().credentials())["Authorization"] == "Bearer token-1"
        await write(member, access_to(hub))

    async with ApiServer(token.login()) as server:
        assert await waits_of(token, server, restore) == [RETRY_SECONDS[0], 3600]
    assert await kept(member) == "token-2"


async def test_of_two_agents_that_renew_at_once_none_writes_over_the_other(hub, member):
    """A Pod that goes and the next one, for a moment: one of them is told so, and comes again."""
    await write(member, access_to(hub))

    class Slow:
        """Lets another write happen between reading and writing."""

        async def get(self, kind, key):
            found = await member.get(kind, key)
            await other.renew(server)
            return found

        replace = staticmethod(member.replace)

    token, other = HubToken(Slow(), KEY, access_to(hub), life_seconds=600, renewal_seconds=60), make_token(member, hub)
    async with ApiServer(token.login()) as server:
        with pytest.raises(ConflictError):
            await token.renew(server)
    assert await kept(member) == "token-2"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param({"token": None}, "data.token is missing", id="no-token"),
        pytest.param({"server": ""}, "data.server is missing", id="no-address"),
        pytest.param({"token": "%"}, "data.token: must be base64-encoded text", id="no-base64"),
        pytest.param(
            {"token": base64.b64encode(b"a\nb").decode()}, "data.token: must be printable ASCII text", id="two-lines"
        ),
    ],
)
def test_a_secret_that_cannot_be_used_is_refused_by_key(change, complaint):
    access = HubAccess("berlin", "uid", "space", "account", "token", "https://hub:6443", authorities="a\nb\n")
    assert HubAccess.read({"data": access.data()}) == access
    with pytest.raises(InvalidSecretError, match=complaint):
        HubAccess.read({"data": access.data() | change})


async def test_the_secret_of_another_member_is_not_used(hub, member):
    with pytest.raises(ConfigurationError, match="run `harbormaster join berlin`"):
        await read_access(member, KEY, "berlin")
    hub.url = "https://hub:6443"
    await write(member, access_to(hub))
    assert await read_access(member, KEY, "berlin") == access_to(hub)
    with pytest.raises(ConfigurationError, match=r"data\.member: 'berlin': this is the agent of 'paris'"):
        await read_access(member, KEY, "paris")


@pytest.mark.parametrize(
    "server",
    [
        "http://hub:6443",
        "https://ann@hub",
        "https://hub/clusters/a?as=system:masters",
        "https://169.254.169.254/latest",
        "https://[fe80::1%eth0]:6443",
        "https://[::ffff:169.254.169.254]",
    ],
)
async def test_the_token_is_sent_to_no_address_but_that_of_an_api_server(hub, member, server):
    hub.url = server
    await write(member, access_to(hub))
    with pytest.raises(ConfigurationError, match=r"data\.server: '"):
        await read_access(member, KEY, "berlin")


async def test_nothing_in_the_secret_switches_off_a_check_or_runs_a_program(hub, member):
    """It has no such fields: what a kubeconfig could say beside them is not read."""
    hub.url = "https://hub:6443"
    written = await write(member, access_to(hub))
    more = {
        "insecure-skip-tls-verify": "true",
        "tokenFile": "/etc/shadow",
        "exec": "{command: /bin/sh}",
        "kubeconfig": "clusters: []",
    }
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in more.items()}
    await member.replace(SECRET, {**written, "data": {**written["data"], **encoded}})
    found = await read_access(member, KEY, "berlin")
    assert found == access_to(hub)
    login = make_token(member, hub).login()
    assert login.trust.verify_mode is ssl.CERT_REQUIRED
    assert login.trust.check_hostname
    assert await login.credentials() == {"Authorization": "Bearer first"}


async def test_authorities_that_are_no_certificates_are_named(hub, member):
    await write(member, access_to(hub))
    with pytest.raises(ConfigurationError, match="the authorities of https://hub must be certificates in PEM"):
        HubToken(
            member,
            KEY,
            HubAccess("a", "b", "c", "d", "e", "https://hub", authorities="none"),
            life_seconds=600,
            renewal_seconds=60,
        ).login()


async def test_a_hub_that_does_not_answer_is_a_problem_and_no_end(member):
    hub = Hub()
    hub.url = "http://127.0.0.1:1"
    token = make_token(member, hub)
    async with ApiServer(token.login()) as server:
        with pytest.raises(UnavailableError):
            await token.renew(server)
        task = asyncio.create_task(token.keep_valid(server))
        while not token.problem:
            await asyncio.sleep(0)
        task.cancel()


SECURE = "https://hub.example:6443"


async def test_read_again_the_login_is_that_of_the_secret_with_the_newest_token(hub, member):
    """A token that is in use but was not stored stays; one that `join` has written takes its place."""
    access = replace(access_to(hub), server=SECURE)
    written = await write(member, access)
    token = HubToken(member, KEY, access, life_seconds=604_800, renewal_seconds=3600)
    token._token = "not-stored"
    assert (await (await token.reread()).credentials())["Authorization"] == "Bearer not-stored"
    data = {**written["data"], **access.renewed("by-join").token_data()}
    await member.replace(SECRET, {**written, "data": data})
    assert (await (await token.reread()).credentials())["Authorization"] == "Bearer by-join"


async def test_the_token_of_a_secret_for_another_hub_is_not_shown_to_this_one(hub, member):
    access = replace(access_to(hub), server=SECURE)
    written = await write(member, access)
    token = HubToken(member, KEY, access, life_seconds=604_800, renewal_seconds=3600)
    elsewhere = replace(access.renewed("for-another"), server="https://another.example:6443")
    await member.replace(SECRET, {**written, "data": elsewhere.data()})
    login = await token.reread()
    assert login.address == elsewhere.server
    assert (await login.credentials())["Authorization"] == "Bearer first"
