"""The page over the real server: what a newcomer sees after ``harbormaster up``."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import expect

from scorer.api.kinds import APPROVAL_REQUEST, KINDS, PLACEMENT, STAGED_RUN, STAGED_STRATEGY
from scorer.api.unstructured.documents import with_spec
from scorer.staged_update.orders import approved_conditions
from tests.builders.placement import make_placement
from tests.waiting import until
from tests.webhook.controllers.world import CONFIG_MAP, make_config_map, make_member, pick_n
from tests.webhook.edits import edit
from tests.webhook.page.axe import FINDINGS, script
from tests.webhook.page.conftest import LEGIBLE, MEASURE, PATIENCE, VIEWS, expect_address, show
from tests.webhook.page.fixture_clock import NOW, HubClock
from tests.webhook.services import LISTENERS
from webhook.embedded.simulation.annotations import status_in_annotation
from webhook.kube.ports import Key
from webhook.processes.up import Up
from webhook.settings.programs import UpSettings

pytestmark = pytest.mark.asyncio(loop_scope="session")


@asynccontextmanager
async def running_hub(data: Path) -> AsyncIterator[Up]:
    """Run a hub of five members and one placement, at rest."""
    settings = UpSettings(**LISTENERS)
    async with Up(settings, data, now=HubClock()) as running:
        for number, name in enumerate(("amsterdam", "bergen", "cork", "dover", "esbjerg"), start=1):
            member = status_in_annotation(make_member(name, nodes=number * 10, region="north"))
            await running.store.create(_kind("MemberCluster"), member)
        await running.store.create(
            _kind("Namespace"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        )
        await running.store.create(CONFIG_MAP, make_config_map("rates", value="1"))
        await until(lambda: sum(bool(member.status.properties) for member in running.cache.fleet.members) == 5)
        await running.store.create(PLACEMENT, make_placement("payments", pick_n(2)))
        assert await running.settled(PATIENCE / 1000)
        yield running


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Up]:
    """A hub for every test that leaves it as it was."""
    async with running_hub(tmp_path_factory.mktemp("hub") / "data") as running:
        yield running


def _kind(name):
    return next(kind for kind in KINDS.values() if kind.kind == name)


async def test_a_staged_update_is_followed_until_it_waits_for_an_approval(tmp_path, tabs):
    """The run is carried out by the loop of this hub, and the approval is given as the page says."""
    stage = {"name": "all", "labelSelector": {}, "maxConcurrency": "100%", "afterStageTasks": [{"type": "Approval"}]}
    strategy = {"metadata": {"name": "once"}, "spec": {"stages": [stage]}}
    spec = {"placementName": "ledger", "stagedRolloutStrategyName": "once", "state": "Run"}
    placement = make_placement("ledger", pick_n(2), home="ledger", strategy={"type": "External"})
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ledger"}}
    run = {"metadata": {"name": "ledger-1"}, "spec": spec}
    async with running_hub(tmp_path / "data") as up, tabs.open() as page:
        await up.store.create(_kind("Namespace"), namespace)
        await up.store.create(PLACEMENT, placement)
        assert await up.settled(PATIENCE / 1000)
        await page.goto(f"{up.http_url}/#placement/crp/ledger")
        await page.get_by_text("Changes of the next release").click()
        await expect(page.locator(".release > li > p").first).to_have_text("All 2 clusters: dover, esbjerg")
        await expect(page.locator(".diff")).to_contain_text("+kind: Namespace")
        await page.evaluate(script().read_text(encoding="utf-8"))
        assert await page.evaluate(FINDINGS) == []
        for kind, document in ((STAGED_STRATEGY, strategy), (STAGED_RUN, run)):
            await up.store.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **document})
        await page.goto(f"{up.http_url}/#csur/ledger-1")
        await expect(page.locator("#run .tl-bar.good")).to_have_count(2)
        await expect(page.locator("#run .command")).to_have_text("harbormaster approve ledger-1 --stage all")
        await page.goto(f"{up.http_url}/#placement/crp/ledger")
        await expect(page.locator("#placement-panel .own-runs")).to_have_text("Update runs: ledger-1 waiting")
        await page.go_back()
        request = await up.store.get(APPROVAL_REQUEST, Key("ledger-1-after-all"))
        said = approved_conditions(request, "by the test", NOW)
        await up.store.replace_status(APPROVAL_REQUEST, {**request, "status": {"conditions": said}})
        await expect(page.locator("#run-sub .pill")).to_have_text("succeeded")
        await expect(page.locator("#run .waits")).to_be_hidden()


async def test_a_cluster_shows_its_day_and_what_would_go_with_it(up, tabs):
    async with tabs.open() as page:
        await page.goto(f"{up.http_url}/#cluster/esbjerg")
        await expect(page.locator("#cluster-title")).to_have_text("esbjerg")
        nodes = page.locator(".properties tr", has_text="node-count")
        await expect(nodes.locator("td").first).to_have_text("50")
        await expect(nodes.locator("td").nth(1)).to_have_text(re.compile("^since [A-Z]"))
        await expect(nodes.locator("td").nth(2)).to_have_text("50, unchanged")
        await page.get_by_role("button", name="Show the effect").click()
        row = page.locator(".whatif-rows li")
        await expect(row).to_contain_text("crp/payments")
        await expect(row.locator(".lost")).to_have_text(re.compile("esbjerg"))
        await expect(row.locator(".gained")).to_have_text(re.compile("cork"))


async def test_the_toleration_that_would_help_has_a_link_to_its_plan(tmp_path, tabs):
    kind, taint = _kind("MemberCluster"), {"key": "gpu", "value": "true", "effect": "NoSchedule"}
    async with running_hub(tmp_path / "data") as up, tabs.open() as page:
        await edit(up.store, kind, Key("cork"), partial(with_spec, taints=[taint]))
        await up.store.create(PLACEMENT, make_placement("audit", {"placementType": "PickAll"}))
        assert await up.settled(PATIENCE / 1000)
        await page.goto(f"{up.http_url}/#placement/crp/audit?q=audit")
        note = page.get_by_role("note", name=re.compile("^Suggestions"))
        await expect(note).to_contain_text("cork would pass with: a toleration for taint gpu=true:NoSchedule.")
        await expect(note.get_by_role("link", name="cork", exact=True)).to_have_attribute("href", "#cluster/cork")
        await note.get_by_role("link", name="Plan this toleration", exact=True).click()
        await expect_address(page, "#placement/crp/audit?q=audit&tolerate=gpu%3Dtrue%3ANoSchedule")
        await expect(page.get_by_label("it tolerated the taint")).to_have_value("gpu=true:NoSchedule")
        row = page.locator(".whatif-rows li")
        await expect(row.locator(".gained")).to_have_text(re.compile("cork"))
        for width, scheme in (*VIEWS, (390, "dark")):
            await show(page, width, scheme)
            assert (await page.evaluate(MEASURE))["overflow"] == 0, (width, scheme)
        await page.evaluate(script().read_text(encoding="utf-8"))
        assert await page.evaluate(FINDINGS) == []
        await show(page)
        await page.get_by_label("it tolerated the taint").fill("gpu")
        await page.keyboard.press("Enter")
        await expect_address(page, "#placement/crp/audit?q=audit&tolerate=gpu")
        await expect(row.locator(".gained")).to_have_text(re.compile("cork"))
        assert "tolerations" not in (await up.store.get(PLACEMENT, Key("audit")))["spec"]["policy"]


async def test_what_if_a_placement_wanted_another_number(up, tabs):
    """The engine plans it, and nothing is written."""
    async with tabs.open() as page:
        await page.goto(f"{up.http_url}/#placement/crp/payments")
        await page.get_by_label("it requested").fill("4")
        await page.get_by_role("button", name="Show the plan").click()
        row = page.locator(".whatif-rows li")
        await expect(row).to_contain_text("2 → 4 of 4")
        await expect(row.locator(".gained")).to_have_text(re.compile("bergen, cork"))
        stored = await up.store.get(PLACEMENT, Key("payments"))
        assert stored["spec"]["policy"]["numberOfClusters"] == 2
        await page.get_by_label("it requested").fill("2")
        await page.get_by_role("button", name="Show the plan").click()
        await expect(page.locator(".whatif-result p.callout")).to_have_text("Nothing would change.")


async def test_what_is_behind_a_placement_is_read_when_it_is_unfolded(up, tabs):
    async with tabs.open() as page:
        await page.goto(f"{up.http_url}/#placement/crp/payments")
        await page.get_by_text("Earlier decisions").click()
        await expect(page.locator(".decisions .log > li").last).to_contain_text("+ esbjerg, dover")
        await page.get_by_text("Objects on a cluster").click()
        await page.locator(".below-clusters summary", has_text="esbjerg").click()
        await expect(page.locator(".objects li", has_text="Namespace")).to_contain_text("available")
        await page.get_by_text("YAML", exact=True).click()
        await expect(page.locator(".yaml")).to_contain_text("numberOfClusters: 2")


async def test_what_admission_refuses_is_in_the_timeline(up, tabs):
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
    async with tabs.open() as page:
        await page.goto(f"{up.http_url}/#timeline?type=refusal")
        entry = page.locator(".log > li", has_text="wrong")
        await expect(entry).to_contain_text("create ClusterResourcePlacement by")
        await expect(entry).to_contain_text("numberOfClusters")
        await expect(entry.locator("a.term").first).to_have_text(re.compile("^[A-Z]+-[0-9]+$"))


async def test_it_is_legible_and_follows_an_edit(up, tabs):
    """Nothing overlaps, nothing is faint, and a placement edited on the hub changes on the page by itself."""
    complaints: list[str] = []

    def note(message) -> None:
        if message.type == "error":
            complaints.append(message.text)

    async with tabs.open() as page:
        page.on("console", note)
        await page.goto(f"{up.http_url}/#crp/payments")
        row = page.locator("#placement-body")
        await expect(row).to_contain_text("esbjerg")
        await expect(row).to_contain_text("wanted 2")
        for width, scheme in VIEWS:
            await show(page, width, scheme)
            measured = await page.evaluate(MEASURE)
            seen = {key: measured[key] for key in LEGIBLE}
            assert seen == LEGIBLE, f"{width} px, {scheme}"
        for number in (3, 2):
            await edit(up.store, PLACEMENT, Key("payments"), partial(with_spec, policy=pick_n(number)))
            await expect(row).to_contain_text(f"wanted {number}")
        assert complaints == []
        assert await page.evaluate("window.violations") == []
        page.remove_listener("console", note)
    assert await up.settled(PATIENCE / 1000)
