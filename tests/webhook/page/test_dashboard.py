"""The page of `harbormaster dashboard` in a browser: its owner sees it, and no other server on this machine can."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import ClientSession, web
from playwright.async_api import expect
from yarl import URL

from tests.loopback import on_loopback
from tests.webhook.actions.hubs import KnownHubs
from tests.webhook.endpoints.conftest import Harbour
from tests.webhook.page.fixture_clock import HubClock
from tests.webhook.services import make_services
from webhook.actions.page_actions import PageActions
from webhook.endpoints.http.services import PageFacts
from webhook.server.app import Entrance, make_dashboard_app
from webhook.settings.programs import ServerSettings

pytestmark = pytest.mark.asyncio(loop_scope="session")


@dataclass
class Shown:
    """A dashboard: its origin, and the keys in the order in which they were given out."""

    origin: str
    keys: list[str] = field(default_factory=list)

    def address(self) -> str:
        return f"{self.origin}/?key={self.keys[-1]}"


@asynccontextmanager
async def shown(actions: PageActions | None = None) -> AsyncIterator[Shown]:
    harbour, found = Harbour(), Shown("")
    services = make_services(advisor=harbour, changes=harbour, synced=lambda: True, now=HubClock())
    entrance = Entrance(found.keys.append)
    found.keys.append(entrance.key)
    made = make_dashboard_app(
        services.answers, services.disruption, services.history, ServerSettings(), entrance, PageFacts(), actions
    )
    async with on_loopback(made.app, shutdown_seconds=0.1) as found.origin:
        try:
            yield found
        finally:
            made.health.draining.set()


async def exchanged(session: ClientSession, address: str) -> str:
    """Return the token for the key in an address."""
    async with session.get(address, allow_redirects=False) as answer:
        assert (answer.status, "Set-Cookie" in answer.headers) == (303, False)
        return answer.headers["Location"].removeprefix("/#token=")


async def test_no_other_server_of_this_machine_gets_what_lets_in(tabs):
    heard: list[str] = []

    async def listen(request: web.Request) -> web.Response:
        heard.append(f"{request.raw_path} {dict(request.headers)}")
        return web.Response(text="<!doctype html><title>elsewhere</title>", content_type="text/html")

    other = web.Application()
    other.router.add_get("/{path:.*}", listen)
    async with shown() as dashboard, on_loopback(other, shutdown_seconds=0.1) as elsewhere, tabs.open() as page:
        key = dashboard.keys[0]
        await page.goto(dashboard.address())
        await expect(page.locator("#fleet-body")).to_contain_text("oslo")
        await expect(page.locator("#open-to-all")).to_be_hidden()
        token = await page.evaluate("sessionStorage.getItem('harbormaster.token')")
        assert re.fullmatch(r"[\w-]{32}", token)
        assert token not in page.url
        assert key not in page.url
        assert await page.context.cookies() == []
        await page.reload()
        await expect(page.locator("#fleet-body")).to_contain_text("oslo")
        await page.goto(f"{elsewhere}/page")
        assert await page.evaluate("sessionStorage.length") == 0
        assert any("/page" in each for each in heard)
        assert not [each for each in heard if key in each or token in each or "Cookie" in each]


async def test_a_key_counts_once_and_another_one_is_given_out():
    async with shown() as dashboard, ClientSession() as session:
        first = dashboard.address()
        token = await exchanged(session, first)
        for spent in (first, f"{dashboard.origin}/?key=", f"{dashboard.origin}/?key={token}"):
            async with session.get(spent, allow_redirects=False) as answer:
                assert (answer.status, token in await answer.text()) == (403, False)
        assert len(set(dashboard.keys)) == 2
        assert await exchanged(session, dashboard.address()) == token


@pytest.mark.parametrize("key", ["", "x", "\u00e9", "\udcff"])
async def test_any_other_key_opens_nothing(key):
    renewed: list[str] = []
    assert Entrance(renewed.append).exchange(key) == ""
    assert renewed == []


@pytest.mark.parametrize("path", ["/v1/clusters", "/v1/placements", "/v1/events", "/v1/budgets", "/v1/nothing", "/x"])
async def test_only_the_token_in_the_header_lets_in(path):
    async with shown() as dashboard, ClientSession() as session:
        key, address = dashboard.keys[0], f"{dashboard.origin}{path}"
        token = await exchanged(session, dashboard.address())
        for query, headers in (
            ("", {}),
            ("", {"Authorization": f"Bearer {key}"}),
            ("", {"Authorization": f"Basic {token}"}),
            ("", {"Authorization": token}),
            ("", {"Authorization": "Bearer \u00e9"}),
            ("", {"Cookie": f"harbormaster={token}; token={token}; key={dashboard.keys[-1]}"}),
            (f"?key={dashboard.keys[-1]}", {}),
            (f"?token={token}", {}),
        ):
            async with session.get(address + query, headers=headers) as answer:
                assert answer.status == 403, (query, headers)
        async with session.get(address, headers={"Authorization": f"Bearer {token}"}) as answer:
            assert answer.status != 403


async def test_a_link_brings_no_token_to_another_server(tabs):
    """Or somebody could have a viewer sign in with a token of theirs."""
    async with shown() as dashboard, tabs.open() as page:
        await page.goto(f"{dashboard.origin.replace('127.0.0.1', 'localhost')}/#token=abc")
        await expect(page.locator("#problems")).to_contain_text("403")
        assert await page.evaluate("sessionStorage.length") == 0


ROUTES = [
    "/ui/../v1/clusters",
    "/ui/%2e%2e/v1/clusters",
    "/ui/..%2fv1%2fclusters",
    "/ui//v1/clusters",
    "//v1/clusters",
    "/v1/openapi.json/../clusters",
    "/v1/openapi.json/%2e%2e/clusters",
    "/v1/clusters#/ui/",
    "/v1/clusters?/ui/",
    "/V1/clusters",
    "/v1/clusters/",
    "/?path=/v1/clusters",
]


@pytest.mark.parametrize("path", ROUTES)
async def test_no_open_path_leads_to_what_needs_the_token(path):
    async with shown() as dashboard, ClientSession() as session:
        url = URL(dashboard.origin + path, encoded=True)
        for method in ("GET", "HEAD", "POST", "OPTIONS"):
            async with session.request(method, url, allow_redirects=False) as answer:
                text = await answer.text()
                assert (answer.status >= 300 or path.startswith("/?"), "oslo" in text) == (True, False), answer
                assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Origin": "http://127.0.0.1:1"}, id="another-port"),
        pytest.param({"Origin": "null"}, id="no-origin"),
        pytest.param({"Host": "evil.example.com"}, id="rebound-name"),
        pytest.param({"Host": "127.0.0.1.evil.example.com"}, id="name-that-begins-so"),
        pytest.param({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, id="image"),
    ],
)
async def test_another_site_learns_nothing_and_cannot_spend_the_key_for_its_owner(headers):
    """A page elsewhere can have a browser send requests; it knows neither the key nor the token."""
    async with shown() as dashboard, ClientSession() as session:
        for path in ("/v1/clusters", "/?key=x", "/?key", f"/?key=x&key={dashboard.keys[0]}"):
            async with session.get(dashboard.origin + path, headers=headers, allow_redirects=False) as answer:
                assert (answer.status, "Location" in answer.headers) == (403, False), path
        assert len(dashboard.keys) == 1
        assert await exchanged(session, dashboard.address())


async def test_the_address_with_the_key_is_told_to_nobody_else(tabs):
    """Neither by the history of the browser nor by the page: it has the next key from nowhere."""
    async with shown() as dashboard, tabs.open() as page:
        sent: list[str] = []
        page.on("request", lambda request: sent.append(f"{request.url} {request.headers.get('referer', '')}"))
        await page.goto(dashboard.address())
        await expect(page.locator("#fleet-body")).to_contain_text("oslo")
        first, *others = sent
        assert dashboard.keys[0] in first
        assert not [each for each in others for key in dashboard.keys if key in each]
        assert await page.evaluate("document.referrer") == ""
        answer = await page.goto(f"{dashboard.origin}/?key={dashboard.keys[0]}")
        assert answer is not None
        assert answer.status == 403


async def test_only_the_token_of_the_page_acts_and_it_is_never_forwarded():
    hubs = KnownHubs("")
    order = {"action": "cordon", "target": {"kind": "MemberCluster", "name": "east"}}
    async with shown() as dashboard, ClientSession() as session:
        owner = {"Authorization": f"Bearer {await exchanged(session, dashboard.address())}"}
        async with session.post(f"{dashboard.origin}/v1/actions", json=order, headers=owner) as answer:
            assert answer.status == 404
    async with shown(PageActions(hubs, HubClock(), "jane")) as dashboard, ClientSession() as session:
        address = f"{dashboard.origin}/v1/actions"
        owner = {"Authorization": f"Bearer {await exchanged(session, dashboard.address())}"}
        for headers in ({}, {"Authorization": "Bearer guessed"}, {**owner, "Host": "evil.example.com"}):
            async with session.post(address, json={**order, "dryRun": True}, headers=headers) as answer:
                assert answer.status == 403
        assert hubs.tokens == []
        async with session.post(address, json={**order, "dryRun": True}, headers=owner) as answer:
            preview = await answer.json()
        async with session.post(
            address, json={**order, "precondition": preview["precondition"]}, headers=owner
        ) as answer:
            assert (answer.status, (await answer.json())["executed"]) == (200, True)
    assert (len(hubs.written), set(hubs.tokens)) == (1, {""})
