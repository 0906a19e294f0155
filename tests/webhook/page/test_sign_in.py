"""Signing in to the page over HTTPS: a token of a real hub, a wrong one, one that counts no more, and rights."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from scorer.api.kinds import KINDS, PLACEMENT
from scorer.api.unstructured.documents import with_spec
from tests.builders.placement import make_placement
from tests.webhook.controllers.world import make_member, pick_n
from tests.webhook.edits import edit
from tests.webhook.endpoints.callers_known import roster
from tests.webhook.endpoints.conftest import Harbour
from tests.webhook.page.conftest import LEGIBLE, MEASURE, VIEWS, Tabs, show
from tests.webhook.page.fixture_clock import HubClock
from tests.webhook.services import LISTENERS, admit, make_server, make_services
from webhook.embedded.simulation.annotations import status_in_annotation
from webhook.kube.ports import Key
from webhook.processes.up import Up
from webhook.settings.programs import ServerSettings, UpSettings

pytestmark = pytest.mark.asyncio(loop_scope="session")

OPEN_TO_ALL = "Every user of this machine can see this page"


@asynccontextmanager
async def running(data: Path, https_port: int = 0) -> AsyncIterator[Up]:
    async with Up(UpSettings(**(LISTENERS | {"https_port": https_port})), data, now=HubClock()) as up:
        yield up


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Up]:
    """A hub of two members and one placement."""
    async with running(tmp_path_factory.mktemp("hub") / "data") as found:
        for name in ("amsterdam", "bergen"):
            await found.store.create(
                KINDS["cluster.kubernetes-fleet.io", "MemberCluster"], status_in_annotation(make_member(name, nodes=3))
            )
        await found.store.create(PLACEMENT, make_placement("payments", pick_n(1)))
        yield found


@asynccontextmanager
async def opened(tabs: Tabs, address: str, **options) -> AsyncIterator[Page]:
    """Open the page for a viewer who has not signed in."""
    errors: list[str] = []

    def note(error) -> None:
        errors.append(str(error))

    async with tabs.open(**options) as page:
        page.on("pageerror", note)
        try:
            await page.goto(address)
            yield page
            assert errors == []
            assert await page.evaluate("window.violations") == []
        finally:
            page.remove_listener("pageerror", note)


async def sign_in(page: Page, token: str) -> None:
    await page.get_by_label("Token").fill(token)
    await page.get_by_role("button", name="Sign in").click()


def token_of(up: Up) -> str:
    return up.token_file.read_text(encoding="ascii")


async def expect_fleet(page: Page) -> None:
    await expect(page.locator("#fleet-body")).to_contain_text("amsterdam")
    await expect(page.locator(".card", has_text="Placements")).to_contain_text("1")
    await expect(page.locator("#live")).to_have_attribute("data-state", "live")
    await expect(page.locator("#sign-in")).to_be_hidden()


async def expect_sign_in(page: Page) -> None:
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    await expect(page.locator("#fleet-panel")).to_be_hidden()
    await expect(page.locator("#placements")).to_be_hidden()
    await expect(page.locator("#live-text")).to_have_text("not signed in")


async def test_a_stranger_is_asked_for_a_token_and_told_where_one_is(up, tabs):
    async with opened(tabs, up.https_url) as page:
        await expect_sign_in(page)
        await expect(page.locator("#sign-in-how")).to_contain_text("is in the file token of its data folder")
        await expect(page.get_by_label("Token")).to_be_focused()
        assert "amsterdam" not in await page.content()


async def test_the_page_that_asks_nobody_says_who_may_look(up, tabs):
    async with opened(tabs, up.http_url) as page:
        await expect_fleet(page)
        await expect(page.get_by_text(OPEN_TO_ALL)).to_be_visible()
        await expect(page.get_by_role("button", name="Sign out")).to_be_hidden()
    async with opened(tabs, up.https_url) as page:
        await sign_in(page, token_of(up))
        await expect_fleet(page)
        await expect(page.get_by_text(OPEN_TO_ALL)).to_be_hidden()


async def test_a_wrong_token_is_refused_and_the_right_one_opens_the_page(up, tabs):
    async with opened(tabs, up.https_url) as page:
        await sign_in(page, "wrong")
        await expect(page.get_by_role("alert")).to_have_text("The token is not accepted.")
        await expect_sign_in(page)
        assert await page.evaluate("sessionStorage.length") == 0
        await sign_in(page, f"  Bearer {token_of(up)}\n")
        await expect_fleet(page)
        assert await page.evaluate("Object.values(sessionStorage)") == [token_of(up)]
        assert await page.evaluate("localStorage.length + document.cookie.length") == 0
        assert await page.get_by_label("Token").input_value() == ""


async def test_what_can_be_no_token_is_not_sent(up, tabs):
    async with opened(tabs, up.https_url) as page:
        await expect_sign_in(page)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for text, words in (
            ("", "Paste a token."),
            ("a b", "Not a valid token"),
            ("   ", "Paste a token."),
            ("é", "Not a valid token"),
        ):
            await sign_in(page, text)
            await expect(page.get_by_role("alert")).to_contain_text(words)
        assert asked == []


async def test_who_has_signed_in_follows_the_hub_and_stays_signed_in(up, tabs):
    async with opened(tabs, up.https_url) as page:
        await sign_in(page, token_of(up))
        await expect_fleet(page)
        await edit(up.store, PLACEMENT, Key("payments"), partial(with_spec, policy=pick_n(2)))
        bindings = page.locator(".card:has(.card-name:text-is('Bindings')) .card-value")
        await expect(bindings).to_have_text("2")
        await page.reload()
        await expect_fleet(page)
        await page.get_by_role("button", name="Sign out").click()
        await expect_sign_in(page)
        assert await page.evaluate("sessionStorage.length") == 0


async def test_the_way_out_is_in_nobodys_way(up, tabs):
    async with opened(tabs, up.https_url) as page:
        await sign_in(page, token_of(up))
        await expect_fleet(page)
        for width in (1280, 390):
            await show(page, width)
            await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
            assert await page.locator(".bar").evaluate("(e) => e.offsetHeight") <= 94  # two rows at most
            measured = await page.evaluate(MEASURE)
            assert (measured["overflow"], measured["overlaps"], measured["outside"]) == (0, [], [])


async def test_a_link_to_the_json_shows_what_was_read_for_the_viewer(up, tabs):
    async with opened(tabs, up.https_url) as page:
        await sign_in(page, token_of(up))
        await expect_fleet(page)
        async with page.expect_navigation():
            await page.locator("#fleet-panel a.json").click()
        shown = json.loads(await page.locator("body").inner_text())
        assert [item["name"] for item in shown["items"]] == ["amsterdam", "bergen"]
        await page.go_back()
        await expect_fleet(page)


async def test_a_token_that_counts_no_more_leads_back_to_the_form(tmp_path, tabs):
    """The hub comes back with another token: the page says so, shows nothing, and goes on once it has that one."""
    data = tmp_path / "data"
    async with running(data) as first:
        await first.store.create(
            KINDS["cluster.kubernetes-fleet.io", "MemberCluster"],
            status_in_annotation(make_member("amsterdam", nodes=3)),
        )
        await first.store.create(PLACEMENT, make_placement("payments", pick_n(1)))
        port = first.server.addresses.https[1]
        async with opened(tabs, first.https_url) as page:
            await sign_in(page, token_of(first))
            await expect_fleet(page)
            await first.__aexit__(None, None, None)
            await expect(page.locator("#live")).to_have_attribute("data-state", "disconnected")
            (data / "token").write_text("the-next-one", encoding="ascii")
            async with running(data, port):
                await expect(page.get_by_role("alert").first).to_contain_text("is no longer accepted")
                await expect_sign_in(page)
                await sign_in(page, "the-next-one")
                await expect_fleet(page)


async def test_the_form_is_legible(up, tabs):
    async with opened(tabs, up.https_url) as page:
        await sign_in(page, "wrong")
        await expect(page.get_by_role("alert")).to_have_text("The token is not accepted.")
        for width, scheme in VIEWS:
            await show(page, width, scheme)
            measured = await page.evaluate(MEASURE)
            seen = {key: measured[key] for key in LEGIBLE}
            assert seen == LEGIBLE, f"{width} px, {scheme}"


@asynccontextmanager
async def serving(*rights: str, **settings) -> AsyncIterator[tuple[str, object]]:
    """A server whose tokens have an audience and whose callers have rights."""
    harbour, known = Harbour(), roster(*rights)
    services = make_services(
        advisor=harbour, changes=harbour, synced=lambda: True, admittance=admit(known, known), now=HubClock()
    )
    async with make_server(services, ServerSettings(**(LISTENERS | settings))) as server:
        yield server.addresses.https_url, known


async def test_the_form_says_how_to_get_a_token_for_this_audience(tabs):
    async with serving() as (address, _), opened(tabs, address, width=390) as page:
        await expect(page.locator("#sign-in-how code")).to_have_text(
            "kubectl create token NAME --namespace NAMESPACE --audience harbormaster.test.svc"
        )
        assert (await page.evaluate(MEASURE))["overflow"] == 0


async def test_what_one_may_not_read_is_said(tabs):
    async with serving("get /v1/clusters", "get /v1/events") as (address, known), opened(tabs, address) as page:
        known.rights.discard(("ann", "get /v1/clusters"))
        await sign_in(page, "t-ann")
        problem = page.locator("#problems .problem")
        await expect(problem.locator("p").first).to_have_text(
            '"ann" may not read this fleet (403). '
            "Missing rights: get /v1/budgets, get /v1/clusters, get /v1/placements, get /v1/runs."
        )
        await expect(problem).to_have_count(1)
        await expect(problem).not_to_contain_text("out of date")
        await expect(page.locator("#fleet-body")).to_have_text("You have no right to list these objects.")
        await expect(page.locator("#live-text")).to_have_text("no access")
        await expect(page.locator("#sign-in")).to_be_hidden()


async def test_too_many_wrong_tokens_are_said_too(tabs):
    async with serving(failed_logins_per_second=0.01) as (address, _), opened(tabs, address) as page:
        await expect_sign_in(page)
        await sign_in(page, "wrong")
        await expect(page.get_by_role("alert")).to_have_text("The token is not accepted.")
        await sign_in(page, "worse")
        await expect(page.get_by_role("alert")).to_contain_text("429")
        await expect(page.get_by_role("alert")).to_contain_text("too many invalid credentials")


async def test_a_hub_that_cannot_say_who_it_is_lets_nobody_in(tabs):
    async with serving("get /v1/clusters") as (address, known), opened(tabs, address) as page:
        await expect_sign_in(page)
        known.down = True
        await sign_in(page, "t-ann")
        await expect(page.get_by_role("alert")).to_contain_text("Not signed in: 503")
        assert await page.evaluate("sessionStorage.length") == 0
        known.down = False
        await sign_in(page, "t-ann")
        await expect(page.locator("#fleet-body")).to_contain_text("oslo")
