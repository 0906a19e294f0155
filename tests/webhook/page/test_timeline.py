"""The timeline of the fleet: who did what, by day, filtered and paged by the server, with links that last."""

import re
from datetime import timedelta

import pytest
from playwright.async_api import Locator, Page, expect

from scorer.api.meta import format_time
from tests.webhook.page.conftest import Opener, expect_address, expect_texts, texts
from tests.webhook.page.fixture_clock import NOW
from tests.webhook.page.fixture_hub import ENTRY, FixtureHub, Json
from tests.webhook.page.fixture_runs import sample_runs

pytestmark = pytest.mark.asyncio(loop_scope="session")


def entry(number: int, hours: float = 0, **more: object) -> Json:
    """Return an entry some hours before `NOW`. Later ones have higher numbers, as in the history."""
    return {**ENTRY, "id": f"pod-{number:010}", "time": format_time(NOW - timedelta(hours=hours)), **more}


RUN = {"kind": "StagedUpdateRun", "name": "cart-1", "namespace": "shop"}
PAYMENTS = {"kind": "ClusterResourcePlacement", "name": "payments"}
APPROVED: Json = {
    "type": "Action",
    "reason": "ApprovalGiven",
    "object": RUN,
    "message": "approved cart-1-after-canary of stage canary: looks good",
    "by": "jane",
}
WHAT = {
    "decision": {"type": "Decision", "reason": "ClustersPicked", "object": PAYMENTS, "message": "picked bravelion",
                 "by": ""},
    "approved": APPROVED,
    "run": {"type": "Rollout", "reason": "UpdateRunWaiting", "object": RUN, "message": "canary: waits", "by": ""},
    "rollout": {"type": "Rollout", "reason": "PlacementRolloutStalled", "object": PAYMENTS, "message": "-", "by": ""},
    "refused": {},
    "denied": {"type": "Gate", "reason": "Budget", "object": {"kind": "NodePool", "name": "general"}, "message": "no"},
    "event": {"type": "Event", "reason": "RoleUpdated", "object": {"kind": "MemberCluster", "name": "bravelion"},
              "message": "repaired", "by": ""},
}  # fmt: skip
"""An entry per pill."""


def shown(page: Page) -> Locator:
    """Return the entries that are shown."""
    return page.locator("#history-body .log > li")


async def test_every_entry_says_what_by_whom_and_leads_to_its_object(hub: FixtureHub, open_page: Opener) -> None:
    hub.log = [entry(number, number, **more) for number, more in enumerate(WHAT.values())]
    opened = await open_page("timeline")
    page = opened.page
    assert await texts(shown(page).locator(".pill")) == list(WHAT)
    links = shown(page).locator(".log-head > a:not(.pill)")
    assert await links.evaluate_all("(all) => all.map((one) => one.getAttribute('href'))") == [
        "#placement/crp/payments",
        "#runs/sur/shop/cart-1",
        "#runs/sur/shop/cart-1",
        "#placement/crp/payments",
        "#placement/crp/web",
        "#budgets?q=general",
        "#cluster/bravelion",
    ]
    await expect(shown(page).nth(1)).to_contain_text("StagedUpdateRun by jane")
    await expect(shown(page).nth(1)).to_contain_text("approved cart-1-after-canary of stage canary: looks good")
    await expect(shown(page).nth(2)).to_contain_text("StagedUpdateRun · UpdateRunWaiting")
    await expect(shown(page).nth(4)).to_contain_text(
        re.compile(r"create ClusterResourcePlacement by alice.*numberOfClusters.*by rule P-25", re.DOTALL)
    )
    await opened.assert_quiet()


@pytest.mark.parametrize(
    ("message", "tone"),
    [
        pytest.param("picked bravelion; found all clusters needed: 1 cluster", "good", id="all"),
        pytest.param("picked bravelion; found 1 of 1,000 clusters needed", "warn", id="fewer"),
        pytest.param("found 0 of 1 cluster needed", "warn", id="none"),
        pytest.param("found 11 of 11 clusters", "good", id="as-many"),
    ],
)
async def test_a_decision_that_found_too_few_clusters_is_not_green(
    hub: FixtureHub, open_page: Opener, message: str, tone: str
) -> None:
    hub.log = [entry(0, 0, **WHAT["decision"] | {"message": message})]
    page = (await open_page("timeline")).page
    await expect(shown(page).locator(".pill")).to_have_class(f"pill {tone}")


async def test_entries_are_in_days_the_latest_first(hub: FixtureHub, open_page: Opener) -> None:
    hub.log = [entry(3, 1), entry(2, 24 * 2), entry(1, 24 * 2 + 1)]
    page = (await open_page("timeline")).page
    days = page.locator("#history-body .days section")
    await expect_texts(days.locator("h3"), ["Mon 23 Nov", "Sat 21 Nov"])
    assert [await days.nth(place).locator("li").count() for place in (0, 1)] == [1, 2]


async def test_an_impossible_time_in_a_refusal_is_shown_as_it_is(hub: FixtureHub, open_page: Opener) -> None:
    """A refusal quotes what a user wrote, and must not hide the entries after it."""
    words = "update: spec.startTime: Invalid value: 2026-13-01T00:00:00Z, Inv 05 Dec 99:99 UTC: not a time"
    hub.log = [entry(2, 1, message=words), entry(1, 2, **APPROVED)]
    opened = await open_page("timeline")
    await expect(shown(opened.page).locator(".log-messages")).to_have_text(
        [words.removeprefix("update: "), APPROVED["message"]]
    )
    await opened.assert_quiet()


@pytest.mark.parametrize(
    ("label", "value", "address", "found"),
    [
        pytest.param("Entries", "action", "type=action", ["approved"], id="type"),
        pytest.param("Entries", "admission", "type=admission", ["refused"], id="two-types"),
        pytest.param("Namespace", "shop", "ns=shop", ["approved", "run"], id="namespace"),
        pytest.param("User", "jane", "by=jane", ["approved"], id="user"),
        pytest.param("Kind", "NodePool", "kind=NodePool", ["denied"], id="kind"),
        pytest.param("Rule or reason", "P-25", "reason=P-25", ["refused"], id="rule"),
        pytest.param("Search the timeline", "Canary jane", "q=Canary+jane", ["approved"], id="words"),
    ],
)
async def test_a_filter_is_in_the_address_and_found_by_the_server(
    hub: FixtureHub, open_page: Opener, label: str, value: str, address: str, found: list[str]
) -> None:
    """A link with it shows the same entries, even those far behind the first page."""
    hub.log = [entry(number, number, **more) for number, more in enumerate(WHAT.values())]
    opened = await open_page("timeline")
    page = opened.page
    field = page.get_by_label(label, exact=True)
    if await field.evaluate("(one) => one.localName") == "select":
        await field.select_option(value)
    else:
        await field.fill(value)
    await expect(shown(page)).to_have_count(len(found))
    await expect_address(page, f"#timeline?{address}")
    recent = [entry(100 + number, 0.001 * number, message=f"create: {number}") for number in range(500)]
    hub.log = [one | {"by": "mallory", "reason": "X-01", "type": "Warning"} for one in recent] + hub.log
    if value != "admission":
        await page.reload()
        await expect(page.locator("#history-body .pill")).to_have_text(found)
    await page.get_by_role("button", name="clear").click()
    await expect(shown(page)).to_have_count(200)


async def test_labels_of_placements_filter_what_has_been_read(hub: FixtureHub, open_page: Opener) -> None:
    """Also runs, by the placement that they roll out."""
    hub.runs = sample_runs()
    hub.placement("rp/shop/cart")["labels"] = {"team": "web"}
    hub.log = [entry(number, number, **more) for number, more in enumerate(WHAT.values())]
    page = (await open_page("timeline?label=team%3Dweb")).page
    await expect(page.locator("#history-body .pill")).to_have_text(["approved", "run"])
    await page.get_by_label("Label", exact=True).fill("team=none")
    await expect(page.locator("#history-body")).to_contain_text("None of the entries that have been read (7)")


async def test_older_entries_follow_and_new_ones_come_by_themselves(hub: FixtureHub, open_page: Opener) -> None:
    hub.log = [entry(1000 - number, number / 60, message=f"create: number {number}") for number in range(250)]
    page = (await open_page("timeline")).page
    await expect(shown(page)).to_have_count(200)
    await page.get_by_role("button", name="Show older entries").click()
    await expect(shown(page)).to_have_count(250)
    await expect(page.get_by_role("button", name="Show older entries")).to_be_hidden()
    hub.log = [entry(1001, message="create: <b>new</b>"), *hub.log]
    await expect(shown(page)).to_have_count(251)  # it has no events: the page asks again
    await expect(shown(page).first).to_contain_text("<b>new</b>")
    await expect(page.locator("#history-sub")).to_have_text("251 entries")


async def test_an_entry_has_a_link_of_its_own(hub: FixtureHub, open_page: Opener) -> None:
    hub.log = [entry(number, number) for number in (1, 2, 3)]
    page = (await open_page("timeline")).page
    await shown(page).nth(1).locator(".log-when a").click()
    await expect(shown(page)).to_have_count(1)
    await expect_address(page, "#timeline?id=pod-0000000002")
    await page.get_by_role("link", name="Show all").click()
    await expect(shown(page)).to_have_count(3)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("log", "#timeline?type=admission", ["warned", "refused"]),
        ("log?rule=P-25&q=web", "#timeline?q=web&type=admission&reason=P-25", ["refused"]),
        ("log?state=warned&kind=Work", "#timeline?type=warning&kind=Work", []),
    ],
)  # fmt: skip
async def test_links_to_the_log_of_earlier_releases_lead_to_the_timeline(
    hub: FixtureHub, open_page: Opener, old: str, new: str, found: list[str]
) -> None:
    hub.log = [entry(1), entry(2, type="Warning", reason="Warned"), entry(3, **APPROVED)]
    page = (await open_page(old)).page
    await expect_address(page, new)
    await expect(page.locator("#history-body .pill")).to_have_text(found)


async def test_a_placement_leads_to_its_own_entries(hub: FixtureHub, open_page: Opener) -> None:
    of_cart = {"kind": "ResourcePlacement", "name": "cart", "namespace": "shop"}
    hub.log = [entry(1, object=of_cart), entry(2, object=of_cart | {"namespace": "other"}), entry(3)]
    page = (await open_page("timeline?kind=ResourcePlacement&ns=shop&name=cart")).page
    await expect(shown(page)).to_have_count(1)
    await expect(page.locator("#history-body .callout")).to_contain_text(
        "Only entries about ResourcePlacement shop/cart."
    )
    await page.get_by_role("link", name="Show all").click()
    await expect(shown(page)).to_have_count(3)


async def test_steps_of_rollouts_are_shown_on_demand(hub: FixtureHub, open_page: Opener) -> None:
    reasons = ("PlacementRolloutStarted", "PlacementApplied", "PlacementAvailable", "PlacementRolloutCompleted")
    rollout = {"type": "Rollout", "object": PAYMENTS, "by": "", "message": "on 3 clusters"}
    hub.log = [entry(number, reason=reason, **rollout) for number, reason in enumerate(reasons)]
    page = (await open_page("timeline")).page
    await expect_texts(
        shown(page).locator(".log-head > .detail"),
        [
            "ClusterResourcePlacement · PlacementRolloutCompleted",
            "ClusterResourcePlacement · PlacementRolloutStarted",
        ],
    )
    await page.get_by_role("button", name="Show", exact=True).click()
    await expect(shown(page)).to_have_count(4)
    await expect_address(page, "#timeline?steps=all")
    await page.get_by_role("button", name="Hide", exact=True).click()
    await page.get_by_label("Rule or reason").select_option("PlacementApplied")
    await expect(shown(page)).to_have_count(1)


async def test_a_run_and_a_placement_lead_to_their_entries(hub: FixtureHub, open_page: Opener) -> None:
    hub.runs = sample_runs()
    hub.log = [entry(1, **APPROVED), entry(2)]
    page = (await open_page("runs/sur/shop/cart-1")).page
    await page.get_by_role("link", name="Who started, approved and stopped it").click()
    await expect_address(page, "#timeline?kind=StagedUpdateRun&ns=shop&name=cart-1")
    await expect(page.locator("#history-body .pill")).to_have_text(["approved"])
    await page.goto(page.url.partition("#")[0] + "#placement/rp/shop/cart")
    link = page.locator(".decisions a", has_text="Timeline of this placement")
    await page.route("**/v1/placements/rp/shop/cart/runs", lambda route: route.fulfill(json={"items": []}))
    await page.get_by_text("Earlier decisions").click()
    await expect(link).to_have_attribute("href", "#timeline?kind=ResourcePlacement&ns=shop&name=cart")


async def test_an_empty_timeline_says_so(hub: FixtureHub, open_page: Opener) -> None:
    page = (await open_page("timeline")).page
    await expect(page.locator("#history-body")).to_contain_text("Nothing has happened yet.")
    await page.get_by_role("searchbox").fill("nothing like it")
    await expect(page.locator("#history-body")).to_contain_text("No entry matches.")
