"""What-if answers on the page: everything that a plan says, and everything that it does not cover."""

import copy
import json

import pytest
from playwright.async_api import Route, expect

from tests.waiting import until
from tests.webhook.page.axe import FINDINGS, script
from tests.webhook.page.conftest import Opener, expect_address, expect_texts
from tests.webhook.page.fixture_hub import PAGE, FixtureHub, Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

OPERATION = json.loads((PAGE.parent / "openapi.json").read_bytes())["paths"]["/v1/plan"]["post"]
EXAMPLE: Json = OPERATION["responses"]["200"]["content"]["application/json"]["example"]
UPGRADE: Json = {
    "name": "kubernetes-1-31",
    "strategy": "waves",
    "type": "Full",
    "kubernetesVersion": "1.31.2",
    "state": "Run",
    "phase": "UnderWay",
    "finding": None,
    "next": ["quickfox"],
    "plan": {
        "eta": "2026-11-24T09:00:00Z",
        "members": [{"name": "bravelion", "action": "Blocked", "reason": "WindowNeverOpens"}],
    },
    "assumptions": ["an approval is assumed to be given when it is requested"],
    "changed": True,
}


def plan() -> Json:
    """Return a plan with something of everything."""
    made = copy.deepcopy(EXAMPLE)
    made["runs"][0]["changed"] = True
    made["upgrades"] = [UPGRADE]
    made["placements"][0]["rollout"]["contentRemovals"] = [
        {"kind": "Object", "effect": "Namespace shop and 12 objects in it", "verdict": "Pending", "objects": 13,
         "digest": "5f3a9c1e"},
    ]  # fmt: skip
    made["outcomes"] = [
        {"kind": "ClusterApprovalRequest", "namespace": "", "name": "web-1-after-try", "reason": "ApprovalAccepted",
         "message": "the run accepts the approval"},
    ]  # fmt: skip
    made["assumed"] = [{"kind": "ClusterResourcePlacement", "namespace": "", "name": "audit"}]
    made["complete"] = False
    made["notJudged"] = [{"kind": "Widget", "count": 2}]
    made["hidden"] = [{"kind": "Secret", "namespace": "shop", "name": "keys"}]
    made["unread"] = ["clusterresourcesnapshots"]
    return made


async def test_the_answer_shows_runs_upgrades_removals_and_what_is_not_judged(
    hub: FixtureHub, open_page: Opener
) -> None:
    hub.plan = plan()
    opened = await open_page("cluster/bravelion", motion="reduce")
    page = opened.page
    await page.get_by_role("button", name="Show the effect").click()
    result = page.locator("#cluster-panel .whatif-result")
    placement, run, upgrade, outcome = (result.locator(".whatif-rows li").nth(place) for place in range(4))
    await expect(result.locator("p.callout")).to_have_text(
        "1 placement would change, 1 binding would be removed; 1 update run would change; 1 upgrade run would change."
    )
    await expect(placement).to_contain_text(
        "kept until the removal is confirmed: Namespace shop and 12 objects in it (digest 5f3a9c1e)"
    )
    await expect(run).to_contain_text("approval after stage canary: storefront-1-after-canary")
    await expect(upgrade).to_contain_text("next: quickfox")
    await expect(upgrade).to_contain_text("bravelion can never start: WindowNeverOpens")
    await expect(outcome).to_have_text("ClusterApprovalRequest web-1-after-try: the run accepts the approval")
    await expect_texts(
        result.locator("div.callout p"),
        [
            "This plan is incomplete.",
            "not judged: Widget (2)",
            "left out, as you may not list its kind or its snapshots: Secret shop/keys",
            "not read, as these kinds cannot be listed: clusterresourcesnapshots",
        ],
    )
    await expect(result).to_contain_text(
        "Assumed to be rolled out, as the hub has no resource snapshots of them: crp/audit"
    )
    await page.evaluate(script().read_text(encoding="utf-8"))
    assert await page.evaluate(FINDINGS) == []
    await opened.assert_quiet()


# Whether the text and the placeholder of a field fit between its paddings, beside the arrows of a number.
FITS = """(field) => {
  const { font, paddingLeft: left, paddingRight: right } = getComputedStyle(field);
  const context = document.createElement("canvas").getContext("2d");
  context.font = font;
  const room = field.clientWidth - parseFloat(left) - parseFloat(right) - (field.type === "number" ? 16 : 0);
  return [field.value, field.placeholder].every((text) => context.measureText(text).width <= room);
}"""


@pytest.mark.parametrize("width", [1280, 390])
async def test_the_largest_number_and_a_taint_fit_into_their_fields(open_page: Opener, width: int) -> None:
    page = (await open_page("crp/payments", width=width)).page
    await page.get_by_label("it requested").fill("2147483647")
    for field in ("it requested", "it tolerated the taint"):
        assert await page.get_by_label(field).evaluate(FITS)


async def test_an_incomplete_plan_does_not_say_that_nothing_changes(hub: FixtureHub, open_page: Opener) -> None:
    hub.plan = plan() | {"placements": [], "runs": [], "upgrades": [], "outcomes": []}
    page = (await open_page("cluster/bravelion")).page
    await page.get_by_role("button", name="Show the effect").click()
    await expect(page.locator("#cluster-panel .whatif-result p.callout")).to_have_text("No changes found.")


async def test_a_question_is_in_the_address_which_asks_it_again(hub: FixtureHub, open_page: Opener) -> None:
    hub.plan = plan()
    opened = await open_page("placement/crp/payments?state=available")
    page, asked = opened.page, []
    page.on("request", lambda request: asked.append(request.post_data_json) if "/v1/plan" in request.url else None)
    await page.get_by_label("it requested").fill("7")
    await page.get_by_label("this cluster were lost").select_option("bravelion")
    await page.get_by_role("button", name="Show the plan").click()
    await expect(page.locator(".whatif-result p.callout")).to_be_visible()
    await expect_address(page, "#placement/crp/payments?state=available&n=7&lost=bravelion")
    await page.reload()
    await expect(page.locator(".whatif-result p.callout")).to_be_visible()
    await expect(page.get_by_label("it requested")).to_have_value("7")
    await expect(page.get_by_label("this cluster were lost")).to_have_value("bravelion")
    await expect(page.locator("#placement-panel .whatif")).to_be_in_viewport()
    assert len(asked) == 2
    assert asked[0] == asked[1]
    hub.publish("crp/payments")
    await opened.heard()
    assert len(asked) == 2, "an answer is of its time, and is not asked for again by a change"
    await page.locator(".placements a", has_text="telemetry").click()
    await expect_address(page, "#placement/crp/telemetry?state=available")
    await expect(page.locator(".whatif-result p.callout")).to_have_count(0)


async def test_an_answer_stays_in_view_when_the_explanation_above_it_comes_later(
    hub: FixtureHub, open_page: Opener
) -> None:
    hub.plan = plan()
    held: list[Route] = []
    routes = {"**/v1/explain": lambda route: held.append(route)}
    page = (await open_page("placement/crp/payments?lost=bravelion", settle=False, routes=routes)).page
    await expect(page.locator(".whatif-result p.callout")).to_have_count(1)
    await until(lambda: held)
    for route in held:
        await route.continue_()
    await expect(page.locator("#placement-panel .whatif-result p.callout")).to_be_in_viewport()


async def test_a_link_may_lose_a_cluster_that_the_placement_has_left(hub: FixtureHub, open_page: Opener) -> None:
    hub.plan = plan()
    page = (await open_page("placement/crp/payments?lost=oldwhale")).page
    await expect(page.locator("#placement-panel .whatif-result p.callout")).to_be_visible()
    await expect(page.get_by_label("this cluster were lost")).to_have_value("oldwhale")


async def test_the_loss_of_a_cluster_has_a_link(hub: FixtureHub, open_page: Opener) -> None:
    hub.plan = plan()
    page = (await open_page("cluster/bravelion")).page
    await page.get_by_role("button", name="Show the effect").click()
    await expect_address(page, "#cluster/bravelion?lost=true")
    await page.reload()
    await expect(page.locator("#cluster-panel .whatif-result p.callout")).to_be_visible()


async def test_an_answer_below_the_screen_is_brought_into_view(hub: FixtureHub, open_page: Opener) -> None:
    hub.plan = plan()
    page = (await open_page("placement/crp/payments", sized=True)).page
    await page.set_viewport_size({"width": 1280, "height": 300})
    button = page.get_by_role("button", name="Show the plan")
    await button.evaluate("(button) => button.scrollIntoView({ block: 'end' })")
    await button.click()
    await expect(page.locator("#placement-panel .whatif-result p.callout")).to_be_in_viewport()


async def test_a_linked_answer_is_shown_from_its_heading(hub: FixtureHub, open_page: Opener) -> None:
    """Not behind the bar that remains at the top, even if the answer is longer than the screen."""
    hub.plan = plan()
    opened = await open_page("placement/crp/payments", sized=True)
    page = opened.page
    await page.set_viewport_size({"width": 1280, "height": 300})
    await page.goto(f"{opened.address}/#placement/crp/payments?lost=bravelion")
    await page.wait_for_function(
        """() => {
          const headings = [...document.querySelectorAll("#placement-panel h3")];
          const heading = headings.find((one) => one.innerText === "What if");
          const bar = document.querySelector(".bar").getBoundingClientRect();
          const { top } = heading?.getBoundingClientRect() ?? { top: -1 };
          return document.querySelector(".whatif-result p.callout") && top >= bar.bottom && top < innerHeight;
        }"""
    )
