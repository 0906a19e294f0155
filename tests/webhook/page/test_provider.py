"""The page where people may sign in with a provider: what it offers, what it says, and who is signed in."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.webhook.endpoints.callers_known import EVERYBODY, roster
from tests.webhook.endpoints.conftest import Harbour
from tests.webhook.page.axe import COLOURS, FINDINGS, script
from tests.webhook.page.conftest import LEGIBLE, MEASURE, VIEWS, Tabs, show
from tests.webhook.page.fixture_clock import NOW, HubClock
from tests.webhook.services import LISTENERS, admit, make_server, make_services
from tests.webhook.sign_in.lying_provider import options
from webhook.access.user import UserInfo
from webhook.endpoints.http.access_control import SESSION
from webhook.settings.programs import ServerSettings
from webhook.sign_in.people import SignIn
from webhook.sign_in.sessions import Session
from webhook.sign_in.trouble import SignInFailure

pytestmark = pytest.mark.asyncio(loop_scope="session")

WORDS = (Path(__file__).parents[3] / "webhook/page/coming_back.js").read_text(encoding="utf-8")
RIGHTS = ("get /v1/clusters", "get /v1/placements", "get /v1/events", "get /v1/runs", "get /v1/budgets")


@asynccontextmanager
async def offering(folder: Path, *users: str) -> AsyncIterator[tuple[str, SignIn]]:
    """A server that offers to sign in with a provider that is not there, and lets users read."""
    harbour, known, clock = Harbour(), roster(), HubClock()
    known.rights = {(user, right) for user in users for right in RIGHTS}
    sign_in = SignIn(options(folder, "https://accounts.example.com"), clock, lambda: 0.0)
    admittance = admit(known, known, sign_in=sign_in)
    services = make_services(advisor=harbour, changes=harbour, synced=lambda: True, admittance=admittance, now=clock)
    async with make_server(services, ServerSettings(**LISTENERS)) as server:
        yield server.addresses.https_url, sign_in


def cookie_of(user: str, sign_in: SignIn, address: str) -> dict[str, Any]:
    """Return the cookie of a viewer who has signed in."""
    session = Session(UserInfo(user, frozenset({EVERYBODY})), NOW + timedelta(hours=1))
    return {"name": SESSION, "value": sign_in.sessions.close(session), "url": address, "secure": True}


@asynccontextmanager
async def opened(tabs: Tabs, address: str, user: str = "", sign_in: SignIn | None = None) -> AsyncIterator[Page]:
    """Open the page, for a viewer who has signed in where *user* is given."""
    async with tabs.open() as page:
        if sign_in is not None:
            await page.context.add_cookies([cookie_of(user, sign_in, address)])
        await page.goto(address)
        yield page
        assert await page.evaluate("window.violations") == []


async def assert_legible(page: Page) -> None:
    """Nothing overlaps or is faint, whatever width and scheme."""
    for width, scheme in (*VIEWS, (390, "light")):
        await show(page, width, scheme)
        measured = await page.evaluate(MEASURE)
        seen = {key: measured[key] for key in LEGIBLE}
        assert seen == LEGIBLE, f"{width} px, {scheme}"


async def assert_accessible(page: Page) -> None:
    """Axe finds nothing, in either scheme."""
    await page.evaluate(script().read_text(encoding="utf-8"))
    assert await page.evaluate(FINDINGS) == []
    await page.emulate_media(color_scheme="dark")
    assert await page.evaluate(FINDINGS, COLOURS) == []


async def test_a_stranger_is_offered_the_provider_and_may_show_a_token_still(tmp_path, tabs):
    async with offering(tmp_path, "ann") as (address, _), opened(tabs, f"{address}/?sign-in=clock") as page:
        await expect(page.get_by_role("button", name="Sign in with Example")).to_be_focused()
        await expect(page.get_by_role("alert").first).to_contain_text("clock")
        await assert_legible(page)
        await assert_accessible(page)
        await page.get_by_label("Token").fill("t-ann")
        await page.get_by_role("button", name="Sign in", exact=True).click()
        await expect(page.locator("#fleet-body")).to_contain_text("oslo")
        await expect(page.locator("#who")).to_be_hidden()
        await expect(page.get_by_role("button", name="Sign out")).to_be_visible()


async def test_what_has_become_of_a_sign_in_is_said_and_leaves_the_address(tmp_path, tabs):
    async with offering(tmp_path) as (address, _), opened(tabs, address) as page:
        said = {}
        for word in ("denied", "busy", "made-up", "constructor", "done"):
            await page.evaluate("sessionStorage.setItem('harbormaster.shown', '#runs?q=eu')")
            await page.goto(f"{address}/?sign-in={word}")
            await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
            said[word] = await page.locator("#sign-in-trouble").inner_text()
            await expect(page).to_have_url(f"{address}/#runs?q=eu")
            assert await page.evaluate("sessionStorage.length") == 0
        assert said.pop("done") == ""
        assert said.pop("made-up") == said.pop("constructor") == "You are not signed in."
        assert said["denied"] == "The provider did not sign you in: you or the provider denied the request."
        assert said["busy"] == "Too many users are signing in at the same time. Try again in a moment."
        assert set(re.findall(r"^  (\w+): \"", WORDS, re.MULTILINE)) == set(SignInFailure)
        await page.evaluate("sessionStorage.setItem('harbormaster.shown', '//evil.example.com')")
        await page.goto(f"{address}/?sign-in=done")
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        await expect(page).to_have_url(re.compile(f"^{re.escape(address)}/#fleet"))


@pytest.mark.parametrize("name", ["ann", "https://accounts.example.com#" + "a" * 200])
async def test_who_has_signed_in_is_shown_and_in_nobodys_way(tmp_path, tabs, name):
    async with (
        offering(tmp_path, name) as (address, sign_in),
        opened(tabs, address, name, sign_in) as page,
    ):
        await expect(page.locator("#who")).to_have_text(name)
        await expect(page.locator("#who")).to_have_attribute("title", f"Signed in as {name}")
        await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        await expect(page.locator("#live")).to_have_attribute("data-state", "live")
        await assert_legible(page)
        if name != "ann":  # the same elements
            await assert_accessible(page)
        await expect(page.locator("#signed-in")).to_have_text(f"Signed in as {name}")
        assert await page.locator(".bar").evaluate("(e) => e.offsetHeight") <= 94  # two rows at most


async def test_whoever_another_tab_has_signed_in_is_named(tmp_path, tabs):
    async with (
        offering(tmp_path, "ann", "bob") as (address, sign_in),
        opened(tabs, address, "ann", sign_in) as page,
    ):
        await expect(page.locator("#who")).to_have_text("ann")
        await expect(page.locator("#live")).to_have_attribute("data-state", "live")
        await page.context.add_cookies([cookie_of("bob", sign_in, address)])
        await page.evaluate("dispatchEvent(new Event('online'))")  # the stream ends every few minutes, too
        await expect(page.locator("#who")).to_have_text("bob")


async def test_who_has_signed_out_leaves_nothing_behind_on_the_page(tmp_path, tabs):
    """The provider may not answer, and the way back in the history may lead to the page as it was left."""
    async with (
        offering(tmp_path, "ann") as (address, sign_in),
        opened(tabs, address, "ann", sign_in) as page,
    ):
        await expect(page.locator("#fleet-body")).to_contain_text("oslo")
        await page.route("**/sign-out", lambda route: route.fulfill(json={"location": f"{address}/end"}))
        await page.route("**/end", lambda route: route.fulfill(status=204))  # which leaves a browser where it is
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        await expect(page.locator("#fleet-body")).to_be_hidden()
        await expect(page.locator("#who")).to_be_hidden()
        await expect(page.locator("#sign-in-trouble")).to_have_text("")
