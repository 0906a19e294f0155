"""The changes of the next release, cluster by cluster: by sign and colour, long ones folded, with an address."""

import pytest
from playwright.async_api import expect

from tests.webhook.page.axe import FINDINGS, script
from tests.webhook.page.conftest import LEGIBLE, MEASURE, VIEWS, Opener, expect_address, expect_texts, show
from tests.webhook.page.fixture_hub import FixtureHub
from tests.webhook.page.fixture_objects import changed_object, rendered

pytestmark = pytest.mark.asyncio(loop_scope="session")

MINUS = "\N{MINUS SIGN}"
RELEASE = "placement/crp/payments?section=release"
SHORT = ["@@ -1,3 +1,4 @@", " data:", "-  usd: 1", "+  usd: 2", f"+  note: {'long ' * 30}"]
LONG = ["@@ -0,0 +1,120 @@", *[f"+line {number}" for number in range(120)]]


def group(clusters: list[str], *objects: dict, unchanged: int = 0) -> dict:
    return {"clusters": clusters, "objects": list(objects), "unchanged": unchanged}


async def test_a_short_release_is_unfolded_and_marked_by_sign_and_colour(hub: FixtureHub, open_page: Opener) -> None:
    rates = changed_object("ConfigMap", "rates", "Changed", SHORT)
    old = changed_object("Secret", "old", "Removed", ["@@ -1 +0,0 @@", "-kind: Secret"])
    hub.release = rendered(
        "payments", [group(["bravelion", "smartfish"], rates, unchanged=2), group(["calmheron"], rates, old)]
    )
    opened = await open_page(RELEASE, motion="reduce")
    page = opened.page
    await expect_texts(
        page.locator(".release > li > p:first-child"),
        [
            "2 of 3 clusters: bravelion, smartfish",
            "1 of 3 clusters: calmheron",
        ],
    )
    await expect_texts(
        page.locator(".release summary"),
        [
            f"~ changed ConfigMap shop/rates +2 lines added {MINUS}1 line removed",
            f"~ changed ConfigMap shop/rates +2 lines added {MINUS}1 line removed",
            f"{MINUS} removed Secret shop/old {MINUS}1 line removed",
        ],
    )
    first = page.locator(".release .diff").first
    await expect(first).to_be_visible()
    assert [text.strip() for text in await first.locator(".gained").all_inner_texts()] == [
        one.strip() for one in SHORT[3:]
    ]
    assert [text.strip() for text in await first.locator(".lost").all_inner_texts()] == ["-  usd: 1"]
    colours = await first.locator(".line").evaluate_all(
        "(all) => all.map((one) => getComputedStyle(one).backgroundColor)"
    )
    assert len({*colours}) == 3, "added, removed and other lines"
    for width, scheme in VIEWS:
        await show(page, width, scheme)
        measured = await page.evaluate(MEASURE)
        seen = {key: measured[key] for key in LEGIBLE}
        assert seen == LEGIBLE, f"{width} px, {scheme}"
    await page.evaluate(script().read_text(encoding="utf-8"))
    assert await page.evaluate(FINDINGS) == []
    await opened.assert_quiet()


async def test_a_long_difference_is_folded_and_stays_unfolded(hub: FixtureHub, open_page: Opener) -> None:
    """Also when the placement changes and the release is read again."""
    hub.release = rendered(
        "payments", [group(["bravelion", "calmheron", "smartfish"], changed_object("ConfigMap", "long", "Added", LONG))]
    )
    page = (await open_page(RELEASE)).page
    await expect(page.locator(".release > li > p:first-child")).to_have_text(
        "All 3 clusters: bravelion, calmheron, smartfish"
    )
    await expect(page.locator(".release .diff")).to_be_hidden()
    await page.locator(".release summary").click()
    await expect(page.locator(".release .line")).to_have_count(40)
    await page.get_by_role("button", name="Show 81 more lines").click()
    await expect(page.locator(".release .line")).to_have_count(121)
    hub.release = rendered(
        "payments", [group(["bravelion"], changed_object("ConfigMap", "long", "Added", [*LONG, "+new"]))]
    )
    hub.publish("crp/payments")
    await expect(page.locator(".release .line")).to_have_count(122)
    await expect(page.locator(".release .diff")).to_be_visible()


async def test_what_is_left_out_is_counted_in_the_singular(hub: FixtureHub, open_page: Opener) -> None:
    """And clusters on which the same fails are named together."""
    longest = changed_object("ConfigMap", "long", "Added", [f"+{number}" for number in range(501)])
    groups = [group([f"member-{number}"], *([longest] if number == 0 else [])) for number in range(51)]
    failures = [{"cluster": f"c{number}", "message": f"no path /spec/{number}"} for number in range(13)]
    failures.append({"cluster": "d", "message": "no path /spec/0"})
    hub.release = rendered("payments", groups, failures=failures)
    page = (await open_page(RELEASE)).page
    await page.locator(".release summary").click()
    await page.get_by_role("button", name="Show 461 more lines").click()
    await expect(page.locator(".release .line").last).to_have_text("\N{HORIZONTAL ELLIPSIS} and 1 more line")
    await expect(page.locator(".unfolded > .callout").first).to_have_text("c0, d: no path /spec/0")
    await expect_texts(page.locator(".unfolded > .quiet"), ["and 1 more message", "and 1 more group of clusters"])


async def test_what_is_unfolded_is_in_the_address(hub: FixtureHub, open_page: Opener) -> None:
    hub.release = rendered("payments", [])
    page = (await open_page("placement/crp/payments?q=pay")).page
    await page.get_by_text("Changes of the next release").click()
    await expect(page.get_by_text("Every cluster has what would be released now.")).to_be_visible()
    await expect_address(page, "#placement/crp/payments?q=pay&section=release")
    await page.reload()
    await expect(page.get_by_text("Every cluster has what would be released now.")).to_be_in_viewport()
    await page.get_by_text("Changes of the next release").click()
    await expect_address(page, "#placement/crp/payments?q=pay")
    await page.get_by_text("Objects on a cluster").click()
    await page.locator(".below-clusters summary", has_text="smartfish").click()
    await expect_address(page, "#placement/crp/payments?q=pay&section=objects&on=smartfish")
    await page.locator(".below-clusters summary", has_text="smartfish").click()
    await expect_address(page, "#placement/crp/payments?q=pay&section=objects")


async def test_a_long_line_of_a_difference_is_wrapped(hub: FixtureHub, open_page: Opener) -> None:
    """A box that scrolls sideways hides its end where scroll bars are only shown during scrolling."""
    image = f"+  image: registry.example.com/shop/api:2026.11.3@sha256:{'0123456789abcdef' * 4}"
    hub.release = rendered("payments", [group(["bravelion"], changed_object("Deployment", "api", "Changed", [image]))])
    page = (await open_page(RELEASE, motion="reduce")).page
    diff = page.locator(".release .diff")
    await expect(diff).to_contain_text(image)
    for width, _ in VIEWS:
        await show(page, width)
        assert await diff.evaluate("(box) => box.scrollWidth <= box.clientWidth"), width
