"""What viewers see who may not read the fleet, or not all of it."""

import re

import pytest
from playwright.async_api import expect

from tests.webhook.page.axe import FINDINGS, script
from tests.webhook.page.conftest import LEGIBLE, MEASURE, VIEWS, Opener, show
from tests.webhook.page.fixture_hub import PAGE, FixtureHub
from webhook.runtime.distribution import HOMEPAGE

pytestmark = pytest.mark.asyncio(loop_scope="session")

LISTS = ("/v1/clusters", "/v1/placements", "/v1/runs", "/v1/budgets")
NEXT_STEP = (
    "Ask an administrator of the hub to bind a ClusterRole with these rights to your user or group, such as "
    "placement-reader of Access to /v1. The page then continues by itself."
)


@pytest.mark.parametrize("view", ["fleet", "placement", "runs", "budgets"])
async def test_one_banner_names_all_missing_rights_and_the_next_step(
    hub: FixtureHub, open_page: Opener, view: str
) -> None:
    hub.failing = dict.fromkeys((*LISTS, "/v1/events"), 403)
    page = (await open_page(view, settle=False, motion="reduce")).page
    problem = page.get_by_role("alert")
    await expect(problem.locator("code")).to_have_text(
        [f"get {path}" for path in sorted((*LISTS, "/v1/events"))] + ["placement-reader"]
    )
    await expect(problem).to_have_count(1)
    await expect(problem.locator("p").first).to_contain_text('"ann" may not read this fleet (403). Missing rights: ')
    await expect(problem.locator("p").last).to_have_text(NEXT_STEP)
    await expect(page.locator("#live")).to_have_attribute("data-state", "no-access")
    await expect(page.locator("#live-text")).to_have_text("no access")
    for width, scheme in VIEWS:
        await show(page, width, scheme)
        measured = await page.evaluate(MEASURE)
        assert {key: measured[key] for key in LEGIBLE} == LEGIBLE, f"{width} px, {scheme}"
    await page.evaluate(script().read_text(encoding="utf-8"))
    assert await page.evaluate(FINDINGS) == []


@pytest.mark.parametrize("path", ["/v1/clusters", "/v1/clusters/bravelion"])
async def test_a_cluster_that_may_not_be_read_is_not_loading(hub: FixtureHub, open_page: Opener, path: str) -> None:
    hub.failing = {path: 403}
    page = (await open_page("cluster/bravelion", settle=False)).page
    await expect(page.locator("#cluster-body .nothing")).to_contain_text("You have no right to list these objects.")
    await expect(page.get_by_role("alert")).to_contain_text(f"Missing right: get {path}.")
    hub.failing.clear()
    hub.publish(clusters=True)
    await expect(page.locator("#cluster-title")).to_have_text("bravelion")


async def test_a_fleet_without_live_updates_is_not_live(hub: FixtureHub, open_page: Opener) -> None:
    """Until the rights are granted: then everything is read again without a reload."""
    hub.failing = {"/v1/runs": 403, "/v1/events": 403}
    page = (await open_page("fleet", settle=False)).page
    problem = page.get_by_role("alert")
    await expect(problem.locator("p").first).to_have_text(
        '"ann" may not read everything on this page (403). Missing rights: get /v1/events, get /v1/runs.'
    )
    await expect(problem).to_have_count(1)
    await expect(page.locator("#fleet-body")).to_contain_text("bravelion")
    await expect(page.locator("#live-text")).to_have_text("no live updates")
    hub.failing.clear()
    await problem.wait_for(state="detached")
    await expect(page.locator("#live")).to_have_attribute("data-state", "live")


@pytest.mark.parametrize("module", ["problems.js", "actions.js"])
async def test_the_guide_exists(module: str) -> None:
    """The documents are on the site of the project, under the path that they have in the repository."""
    text = (PAGE / module).read_text(encoding="utf-8")
    ((page, anchor),) = re.findall(rf"{re.escape(HOMEPAGE)}/(docs/\S+)\.html#([\w-]+)", text)
    headings = re.findall(r"^## (.+)$", (PAGE.parents[1] / f"{page}.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert anchor in {heading.lower().replace(" ", "-") for heading in headings}
