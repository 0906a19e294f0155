"""Search over everything, and the list of shortcuts, with the keyboard alone."""

import pytest
from playwright.async_api import Page, expect

from tests.webhook.page.axe import COLOURS, FINDINGS, script
from tests.webhook.page.conftest import LEGIBLE, MEASURE, VIEWS, Opener, expect_address, show
from tests.webhook.page.fixture_hub import FixtureHub, many, sample_pools
from tests.webhook.page.fixture_runs import sample_runs

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        pytest.param("calmheron", "#cluster/calmheron", id="cluster"),
        pytest.param("rp/shop", "#placement/rp/shop/cart", id="placement"),
        pytest.param("run payments-9", "#runs/csur/payments-9", id="run"),
        pytest.param("pool weekends", "#budgets?q=seed-weekends", id="pool"),
        pytest.param("rule p-25", "#reference/P-25", id="rule"),
        pytest.param("view budgets", "#budgets", id="view"),
    ],
)
async def test_the_search_finds_and_leads_to_everything(
    hub: FixtureHub, open_page: Opener, typed: str, address: str
) -> None:
    hub.runs, hub.pools = sample_runs(), sample_pools()
    page = (await open_page()).page
    await page.keyboard.press("/")
    await expect(page.get_by_role("combobox", name="Search everything")).to_be_focused()
    await page.keyboard.type(typed)
    await expect(page.locator(".search-found [aria-selected=true]")).to_have_attribute("data-to", address)
    await page.keyboard.press("Enter")
    await expect(page.locator("#search")).to_be_hidden()
    await expect_address(page, address)


async def test_arrow_keys_choose_and_escape_leads_back(open_page: Opener) -> None:
    page = (await open_page("fleet")).page
    button = page.locator("#search-button")
    await button.focus()
    await page.keyboard.press("Control+k")
    await page.keyboard.type("eligible")
    await page.keyboard.press("ArrowDown")
    chosen = page.locator(".search-found li").nth(1)
    await expect(chosen).to_have_attribute("aria-selected", "true")
    field = page.get_by_role("combobox", name="Search everything")
    await expect(field).to_have_attribute("aria-activedescendant", await chosen.get_attribute("id") or "")
    await page.keyboard.press("Escape")
    if await page.locator("#search").is_visible():  # the first Escape clears the field of a search
        await page.keyboard.press("Escape")
    await expect(page.locator("#search")).to_be_hidden()
    await expect(button).to_be_focused()


async def test_a_slash_in_a_field_is_text(open_page: Opener) -> None:
    page = (await open_page("fleet")).page
    await page.get_by_role("searchbox").first.focus()
    await page.keyboard.type("a/?")
    await expect(page.get_by_role("searchbox").first).to_have_value("a/?")
    await expect(page.locator("#search")).to_be_hidden()
    await expect(page.locator("#shortcuts")).to_be_hidden()


async def test_a_question_mark_lists_the_shortcuts(open_page: Opener) -> None:
    page = (await open_page("fleet")).page
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("Ctrl K")
    await page.keyboard.press("Escape")
    await expect(page.locator("#shortcuts")).to_be_hidden()


@pytest.mark.parametrize("width", [390, 320])
async def test_a_phone_has_a_button_for_the_search(open_page: Opener, width: int) -> None:
    """The line of the connection keeps its height, however long its text is."""
    page = (await open_page("fleet", width=width)).page
    heights = []
    for words in ("live", "disconnected, retrying in 16s"):
        await page.evaluate("(words) => document.getElementById('live-text').replaceChildren(words)", words)
        heights.append(await page.locator(".bar").evaluate("(bar) => bar.getBoundingClientRect().height"))
    assert heights[0] == heights[1]
    button = page.get_by_role("button", name="Search", exact=True)
    box = await button.bounding_box()
    assert box is not None
    assert min(box["width"], box["height"]) >= 28
    await button.click()
    await page.keyboard.type("calmheron")
    await page.keyboard.press("Enter")
    await expect_address(page, "#cluster/calmheron")


async def assert_readable(page: Page) -> None:
    for width, scheme in VIEWS:
        await show(page, width, scheme)
        measured = await page.evaluate(MEASURE)
        wanted = {key: value for key, value in LEGIBLE.items() if key not in ("overlaps", "faint")}  # above the page
        assert {key: measured[key] for key in wanted} == wanted, width
        assert await page.evaluate(FINDINGS) == []
        assert await page.evaluate(FINDINGS, COLOURS) == []


async def test_both_dialogs_are_accessible_at_every_width(hub: FixtureHub, open_page: Opener) -> None:
    """Also with more than there is room for."""
    many(hub)
    opened = await open_page("placement", motion="reduce")
    page = opened.page
    await page.evaluate(script().read_text(encoding="utf-8"))
    for key in ("/", "?"):
        await page.keyboard.press(key)
        await assert_readable(page)
        await page.keyboard.press("Escape")
    await opened.assert_quiet()


async def test_a_long_list_scrolls_between_its_field_and_its_count(hub: FixtureHub, open_page: Opener) -> None:
    """The edges behind which the list continues are shaded."""
    page = (await open_page()).page
    await page.keyboard.press("/")
    box, found = page.locator("#search"), page.locator(".search-found")
    for width, _ in VIEWS:
        await show(page, width)
        assert await box.evaluate("(box) => box.scrollHeight <= box.clientHeight"), width
        assert await found.evaluate("(list) => list.scrollHeight > list.clientHeight"), width
        await expect(page.get_by_role("status")).to_be_in_viewport(ratio=1)
    assert "local" in await found.evaluate("(list) => getComputedStyle(list).backgroundAttachment")
    await page.keyboard.type("view ")
    await expect(page.locator("#search").get_by_role("status")).to_have_text("6 results")
