"""Every state, verdict and reason links to its paragraph, beside the links of the rows and not in their way."""

import json
import re
from collections.abc import Iterator

import pytest
from playwright.async_api import Page, expect

from tests.webhook.page.axe import FINDINGS, script
from tests.webhook.page.conftest import LEGIBLE, MEASURE, Opener, expect_address, show, texts
from tests.webhook.page.conftest import VIEWS as LAYOUTS
from tests.webhook.page.fixture_hub import ENTRY, PAGE, FixtureHub, Json
from tests.webhook.page.fixture_objects import made_object, tree_on
from tests.webhook.page.fixture_runs import sample_runs

pytestmark = pytest.mark.asyncio(loop_scope="session")

TERMS = json.loads((PAGE / "reference.json").read_bytes())
SCHEMAS = json.loads((PAGE.parent / "openapi.json").read_bytes())["components"]["schemas"]


def words_of(schema: str, member: str) -> list[str]:
    """Return the values that a member of an answer can have."""
    found = SCHEMAS[schema]["properties"][member]
    return [word for part in (found, *found.get("anyOf", ())) for word in part.get("enum", ())]


@pytest.mark.parametrize(
    ("schema", "member"),
    [
        ("Placement", "state"),
        ("PlacedCluster", "state"),
        ("Cluster", "state"),
        ("UpdateRun", "state"),
        ("TimelineBand", "state"),
    ],
)
async def test_every_state_of_the_api_has_a_paragraph(schema: str, member: str) -> None:
    explained = {term["id"] for term in TERMS if term["group"] == "state"}
    assert words_of(schema, member)
    assert set(words_of(schema, member)) <= explained


async def test_every_term_is_explained_once() -> None:
    keys = [(term["group"], term["id"]) for term in TERMS]
    assert sorted({*keys}) == sorted(keys)


async def test_every_verdict_has_a_paragraph() -> None:
    explained = {term["id"] for term in TERMS if term["group"] == "verdict"}
    text = (PAGE / "explanation.js").read_text(encoding="utf-8")
    checks = re.findall(r"(\w+): \"\w+\"", text.partition("const CHECK = {")[2].partition("};")[0])
    assert len(checks) > 5
    assert {*checks, "Picked", "Kept", "ScoreTooLow", "TargetNotFound", "refused", "warned"} <= explained


def everything(hub: FixtureHub) -> None:
    """Put something with a state into every view."""
    hub.runs = sample_runs()
    hub.log = [ENTRY, ENTRY | {"type": "Warning", "reason": "Warned", "message": "update: odd"}]
    hub.trees["smartfish"] = tree_on("smartfish", [made_object("Deployment", "front", "failed")])


async def pills(page: Page) -> Iterator[tuple[str, str]]:
    """Return text and target of every pill that is shown outside a control."""
    found = await page.locator("main .pill:visible").evaluate_all(
        "(all) => all.filter((one) => !one.closest('summary')).map((one) => [one.innerText, one.getAttribute('href')])"
    )
    return iter(found)


VIEWS = {
    "fleet": 12,
    "fleet?group=env": 4,
    "placement/crp/network-policies": 11,
    "placement/crp/network-policies?tab=graph": 11,
    "placement/crp/network-policies?section=objects&on=smartfish": 12,
    "cluster/oldwhale": 1,
    "runs/csur/payments-9": 3,
    "timeline?type=admission": 2,
}


@pytest.mark.parametrize("view", VIEWS)
async def test_every_state_links_to_its_paragraph(hub: FixtureHub, open_page: Opener, view: str) -> None:
    everything(hub)
    opened = await open_page(view, motion="reduce")
    page = opened.page
    if "section=objects" in view:
        await expect(page.locator(".on-cluster .objects .pill")).to_have_text("failed")
    ids = {term["id"] for term in TERMS}
    shown = list(await pills(page))
    assert len(shown) >= VIEWS[view]
    for text, target in shown:
        assert target is not None, text
        word = target.removeprefix("#reference/").replace("%20", " ")
        assert word in ids
        assert word in text
    await page.evaluate(script().read_text(encoding="utf-8"))
    assert await page.evaluate(FINDINGS) == []
    await opened.assert_quiet()


async def test_a_state_of_a_row_is_a_link_of_its_own(hub: FixtureHub, open_page: Opener) -> None:
    """A click on the row selects it, and one on the state leads to its paragraph."""
    page = (await open_page("placement/crp/audit")).page
    row = page.locator(".placements li", has_text="gpu-batch")
    await row.get_by_text("1 of 3 found").click()
    await expect(page.locator("#placement-title")).to_have_text("gpu-batch")
    await row.get_by_role("link", name="short", exact=True).click()
    await expect_address(page, "#reference/short")
    await expect(page.locator(".term-named")).to_contain_text("fewer clusters than requested")
    await page.go_back()
    await expect(page.locator("#placement-title")).to_have_text("gpu-batch")


@pytest.mark.parametrize(
    ("view", "row", "state"),
    [
        ("placement/crp/gpu-batch", ".placements .row-link[href*=gpu-batch]", "short"),
        ("fleet", ".cluster-name[href$=oldwhale]", "silent"),
    ],
)
async def test_the_arrow_keys_lead_from_a_row_to_its_state(
    hub: FixtureHub, open_page: Opener, view: str, row: str, state: str
) -> None:
    """States are no stops of the Tab key: a list of fifty rows would have a hundred."""
    page = (await open_page(view)).page
    await page.locator(row).focus()
    await page.keyboard.press("ArrowRight")
    await expect(page.locator(":focus")).to_have_text(state)
    await page.keyboard.press("ArrowLeft")
    await expect(page.locator(row)).to_be_focused()
    assert await page.locator(":is(.placements, .fleet) a.pill:not([tabindex='-1'])").count() == 0
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("Enter")
    await expect_address(page, f"#reference/{state}")


async def test_a_row_says_its_state_to_a_screen_reader(open_page: Opener) -> None:
    page = (await open_page("placement/crp/gpu-batch")).page
    row = page.locator(".placements .row-link[href*=gpu-batch]")
    assert re.search(r"available 1 short\b", (await texts(row))[0])


async def test_the_numbers_behind_a_row_link_to_the_verdict(open_page: Opener) -> None:
    page = (await open_page("placement/crp/payments")).page
    row = page.locator(".rows > li", has_text="jumpingcat")
    await row.locator("summary").click()
    await row.get_by_role("link", name="AffinityMismatch").click()
    await expect(page.locator(".term-named")).to_contain_text("do not match any required term")


async def test_a_failed_object_links_to_its_reason(hub: FixtureHub, open_page: Opener) -> None:
    everything(hub)
    page = (await open_page("placement/crp/network-policies?section=objects&on=smartfish")).page
    found: Json = next(term for term in TERMS if term["id"] == "Applied: ManifestApplyFailed")
    await page.get_by_role("link", name="ManifestApplyFailed").click()
    await expect(page.locator(".term-named")).to_contain_text(found["text"].split(".")[0])


@pytest.mark.parametrize("term", [term["id"] for term in TERMS if re.search(r"^\||^1\. ", term["text"], re.MULTILINE)])
async def test_tables_and_numbered_lists_of_the_reference_are_what_they_are(open_page: Opener, term: str) -> None:
    """At every width, without text that is cut off."""
    opened = await open_page(f"reference/{term.replace(' ', '%20')}", settle=False, motion="reduce")
    page = opened.page
    named = page.locator(".term-named")
    text = next(one["text"] for one in TERMS if one["id"] == term)
    rows = re.findall(r"^\|(?!--)", text, re.MULTILINE)
    await expect(named.locator("tr")).to_have_count(len(rows))
    await expect(named.locator("ol > li")).to_have_count(len(re.findall(r"^\d+\. ", text, re.MULTILINE)))
    assert re.search(r"[|]|\b1\. ", await named.inner_text()) is None
    for width, scheme in LAYOUTS:
        await show(page, width, scheme)
        measured = await page.evaluate(MEASURE)
        assert {key: measured[key] for key in LEGIBLE} == LEGIBLE, f"{width} px, {scheme}"
    await page.evaluate(script().read_text(encoding="utf-8"))
    assert await page.evaluate(FINDINGS) == []
    await opened.assert_quiet()


async def test_a_rollout_in_progress_is_neutral_until_it_stalls(hub: FixtureHub, open_page: Opener) -> None:
    """The banner links to the cluster that it names."""
    placement = next(one for one in hub.placements if one["ref"] == "crp/payments")
    reason = "bravelion: Deployment shop/api: Available is False"
    placement |= {"state": "rolling out", "why": reason, "available": 0}
    opened = await open_page("placement/crp/payments")
    page = opened.page
    row, banner = page.locator(".placements a[aria-current]"), page.locator("#placement-body > .callout:not([hidden])")
    await expect(row.locator(".why")).to_have_text(reason)
    await expect(row.locator(".why")).to_have_class("why at-work")
    await expect(row.locator(".lacking")).to_have_count(0)
    await expect(banner).to_have_class("callout busy")
    await expect(banner).to_have_text(reason)
    link = banner.get_by_role("link", name="bravelion", exact=True)
    await expect(link).to_have_attribute("href", "#cluster/bravelion")
    await page.evaluate(script().read_text(encoding="utf-8"))
    assert await page.evaluate(FINDINGS) == []
    placement |= {"state": "stalled"}
    hub.publish("crp/payments")
    await expect(row.locator(".why")).to_have_class("why")
    await expect(row.locator(".lacking")).to_have_count(1)
    await expect(banner).to_have_class("callout bad")
    await opened.assert_quiet()


async def test_the_map_has_a_legend(open_page: Opener) -> None:
    page = (await open_page()).page
    legend = page.get_by_role("list", name="Colors of the squares").get_by_role("listitem")
    await expect(legend).to_have_text(["eligible", "leaving", "silent", "not joined"])
    used = await page.locator(".squares i").evaluate_all(
        "(all) => [...new Set(all.map((one) => one.className))].sort()"
    )
    keys = await legend.locator("i").evaluate_all(
        "(all) => all.map((one) => one.className.replace('swatch ', '')).sort()"
    )
    assert keys == used
