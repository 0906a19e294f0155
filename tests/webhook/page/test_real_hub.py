"""The page over the real server: what a newcomer sees after ``harbormaster up``."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import expect

from scorer.api.kinds import APPROVAL_REQUEST, PLACEMENT, STAGED_RUN, STAGED_STRATEGY
from scorer.staged_update.orders import approved_conditions
from tests.builders.placement import make_placement
from tests.webhook.controllers.world import CONFIG_MAP, make_config_map, make_member, pick_n
from tests.webhook.page.conftest import REMEMBER_VIOLATIONS, VIEWS
from webhook.embedded.simulation import keep_status
from webhook.kube.ports import Key
from webhook.processes.up import Up
from webhook.settings.programs import UpSettings

pytestmark = pytest.mark.asyncio(loop_scope="session")

MEASURE = (Path(__file__).parent / "layout.js").read_text(encoding="utf-8")


@pytest_asyncio.fixture(loop_scope="session")
async def up(tmp_path: Path) -> AsyncIterator[Up]:
    """A hub of five members and one placement, at rest."""
    settings = UpSettings(https_port=0, http_port=0, drain_seconds=0, drain_limit_seconds=0, shutdown_seconds=1)
    async with Up(settings, tmp_path / "data") as running:
        for number, name in enumerate(("amsterdam", "bergen", "cork", "dover", "esbjerg"), start=1):
            member = keep_status(make_member(name, nodes=number * 10, region="north"))
            await running.store.create(_kind("MemberCluster"), member)
        await running.store.create(
            _kind("Namespace"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        )
        await running.store.create(CONFIG_MAP, make_config_map("rates", value="1"))
        async with asyncio.timeout(20):
            while sum(bool(member.status.properties) for member in running.cache.fleet.members) < 5:
                await asyncio.sleep(0.05)
        await running.store.create(PLACEMENT, make_placement("payments", pick_n(2)))
        assert await running.settled(20)
        yield running


def _kind(name):
    from scorer.api.kinds import KINDS

    return next(kind for kind in KINDS.values() if kind.kind == name)


async def test_a_staged_update_is_followed_until_it_waits_for_an_approval(up, browser):
    """The run is carried out by the loop of this hub, and the approval is given as the page says."""
    stage = {"name": "all", "labelSelector": {}, "maxConcurrency": "100%", "afterStageTasks": [{"type": "Approval"}]}
    strategy = {"metadata": {"name": "once"}, "spec": {"stages": [stage]}}
    spec = {"placementName": "ledger", "stagedRolloutStrategyName": "once", "state": "Run"}
    await up.store.create(_kind("Namespace"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ledger"}})
    placement = make_placement("ledger", pick_n(2), home="ledger", strategy={"type": "External"})
    await up.store.create(PLACEMENT, placement)
    assert await up.settled(20)
    for kind, document in ((STAGED_STRATEGY, strategy), (STAGED_RUN, {"metadata": {"name": "ledger-1"}, "spec": spec})):
        await up.store.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **document})
    page = await browser.new_page()
    await page.goto(f"{up.http_url}/#csur/ledger-1")
    await expect(page.locator("#run .tl-bar.good")).to_have_count(2)
    await expect(page.locator("#run .command")).to_have_text("harbormaster approve ledger-1 --stage all")
    await page.goto(f"{up.http_url}/#placement/crp/ledger")
    await expect(page.locator("#placement .own-runs")).to_have_text("Update runs: ledger-1 waiting")
    await page.go_back()
    request = await up.store.get(APPROVAL_REQUEST, Key("ledger-1-after-all"))
    said = approved_conditions(request, "by the test", datetime.now(UTC))
    await up.store.replace_status(APPROVAL_REQUEST, {**request, "status": {"conditions": said}})
    await expect(page.locator("#run-sub .pill")).to_have_text("succeeded")
    await expect(page.locator("#run .waits")).to_be_hidden()
    await page.close()


async def test_a_cluster_shows_its_day_and_what_would_go_with_it(up, browser):
    page = await browser.new_page()
    await page.goto(f"{up.http_url}/#cluster/esbjerg")
    await expect(page.locator("#cluster-title")).to_have_text("esbjerg")
    nodes = page.locator(".properties tr", has_text="node-count")
    await expect(nodes.locator("td").first).to_have_text("50")
    await expect(nodes.locator(".sparkline")).to_have_attribute("aria-label", re.compile("over the last day: 50"))
    await page.get_by_role("button", name="What would go?").click()
    row = page.locator(".whatif-rows li")
    await expect(row).to_contain_text("crp/payments")
    await expect(row.locator(".lost")).to_have_text(re.compile("esbjerg"))
    await expect(row.locator(".gained")).to_have_text(re.compile("cork"))
    await page.close()


async def test_what_if_a_placement_wanted_another_number(up, browser):
    """The engine plans it, and nothing is written."""
    page = await browser.new_page()
    await page.goto(f"{up.http_url}/#placement/crp/payments")
    await page.get_by_label("it wanted").fill("4")
    await page.get_by_role("button", name="Plan it").click()
    row = page.locator(".whatif-rows li")
    await expect(row).to_contain_text("2 → 4 of 4")
    await expect(row.locator(".gained")).to_have_text(re.compile("bergen, cork"))
    stored = await up.store.get(PLACEMENT, Key("payments"))
    assert stored["spec"]["policy"]["numberOfClusters"] == 2
    await page.get_by_label("it wanted").fill("2")
    await page.get_by_role("button", name="Plan it").click()
    await expect(page.locator(".whatif-result")).to_have_text("Nothing would change.")
    await page.close()


async def test_what_is_behind_a_placement_is_read_when_it_is_unfolded(up, browser):
    page = await browser.new_page()
    await page.goto(f"{up.http_url}/#placement/crp/payments")
    await page.get_by_text("Earlier decisions").click()
    await expect(page.locator(".decisions .log > li").last).to_contain_text("+ esbjerg, dover")
    await page.get_by_text("Objects on a cluster").click()
    await page.locator(".below-clusters summary", has_text="esbjerg").click()
    await expect(page.locator(".objects li", has_text="Namespace")).to_contain_text("available")
    await page.get_by_text("YAML", exact=True).click()
    await expect(page.locator(".yaml")).to_contain_text("numberOfClusters: 2")
    await page.close()


async def test_what_admission_refuses_is_in_the_log(up, browser):
    """Asked over the interface of the hub, as kubectl and `harbormaster apply` do."""
    headers = {"Authorization": f"Bearer {up.token_file.read_text(encoding='ascii')}"}
    path = "/apis/placement.kubernetes-fleet.io/v1/clusterresourceplacements"
    document = make_placement("wrong", {"placementType": "PickN"})
    document["apiVersion"] = "placement.kubernetes-fleet.io/v1"
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"{up.https_url}{path}", json=document, ssl=False) as answer,
    ):
        assert answer.status == 422
    page = await browser.new_page()
    await page.goto(f"{up.http_url}/#log")
    entry = page.locator(".log > li", has_text="wrong")
    await expect(entry).to_contain_text("create ClusterResourcePlacement by")
    await expect(entry).to_contain_text("numberOfClusters")
    await expect(entry.locator("code").first).to_have_text(re.compile("^[A-Z]+-[0-9]+$"))
    await page.close()


async def test_it_is_legible_and_follows_an_edit(up, browser):
    """Nothing overlaps, nothing is faint, and a placement edited on the hub changes on the page by itself."""
    context = await browser.new_context()
    await context.add_init_script(REMEMBER_VIOLATIONS)
    page = await context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    await page.goto(f"{up.http_url}/#crp/payments")
    row = page.locator("#placement-body")
    await expect(row).to_contain_text("esbjerg")
    await expect(row).to_contain_text("wanted 2")
    for width, scheme in VIEWS:
        await page.set_viewport_size({"width": width, "height": 844})
        await page.emulate_media(color_scheme=scheme)
        measured = await page.evaluate(MEASURE)
        seen = {key: measured[key] for key in ("overflow", "overlaps", "outside", "faint")}
        assert seen == {"overflow": 0, "overlaps": [], "outside": [], "faint": []}, f"{width} px, {scheme}"
    stored = await up.store.get(PLACEMENT, Key("payments"))
    await up.store.replace(PLACEMENT, {**stored, "spec": {**stored["spec"], "policy": pick_n(3)}})
    await expect(row).to_contain_text("wanted 3")
    assert complaints == []
    assert await page.evaluate("window.violations") == []
    await context.close()
