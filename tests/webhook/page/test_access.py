"""What readers with assistive technology meet, and that nothing jumps: axe-core and layout shift on every view."""

import pytest

from tests.webhook.page.axe import COLOURS, FINDINGS, script
from tests.webhook.page.fixture_hub import ENTRY, many, sample_pools
from tests.webhook.page.fixture_runs import sample_runs

pytestmark = pytest.mark.asyncio(loop_scope="session")

SIX = ("fleet?group=env&open=prod", "placement/crp/payments", "cluster/calmheron", "runs", "budgets", "timeline")

SHIFTS = """
window.shifted = 0;
window.shifts = [];
new PerformanceObserver((list) => {
  for (const { hadRecentInput, value, startTime, sources } of list.getEntries()) {
    if (hadRecentInput) continue;
    window.shifted += value;
    window.shifts.push(`${value.toFixed(3)} at ${startTime} ms: ` + sources.map(({ node, previousRect, currentRect }) =>
      `${node?.id || node?.className || node?.nodeName} ${previousRect.y} -> ${currentRect.y}`).join(", "));
  }
}).observe({ type: "layout-shift", buffered: true });
"""
"""Sums up the layout shift since the document was opened: the browser keeps what was before."""


async def assert_still(page) -> None:
    """Fail when a page has jumped so far, once everything that has been rendered is painted; name what did."""
    await page.evaluate(SHIFTS)
    await page.wait_for_function("() => (window.frames_seen = (window.frames_seen ?? 0) + 1) > 3")  # a call per frame
    assert await page.evaluate("window.shifted") <= 0.05, await page.evaluate("window.shifts")


def full(hub):
    """Give every view something to show."""
    hub.runs, hub.pools, hub.log = sample_runs(), sample_pools(), [ENTRY]


@pytest.mark.parametrize("ref", SIX)
async def test_axe_finds_nothing(hub, open_page, ref):
    full(hub)
    opened = await open_page(ref, motion="reduce")
    for details in await opened.page.locator("main details:not(.unfolding):visible").all():
        await details.evaluate("(element) => { element.open = true; }")
    await opened.page.evaluate(script().read_text(encoding="utf-8"))
    assert await opened.page.evaluate(FINDINGS) == []
    await opened.page.emulate_media(color_scheme="dark")
    assert await opened.page.evaluate(FINDINGS, COLOURS) == []


async def test_axe_can_find_something(open_page):
    opened = await open_page()
    await opened.page.evaluate(script().read_text(encoding="utf-8"))
    key = await opened.page.query_selector("#map-key")
    await opened.page.evaluate("(key) => key.labels[0].replaceWith(key)", key)
    assert any(finding.startswith("select-name") for finding in await opened.page.evaluate(FINDINGS))


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("ref", SIX)
async def test_nothing_jumps(hub, open_page, ref, width):
    """The layout shift of opening a view, and of a change while it is open, in all."""
    full(hub)
    opened = await open_page(ref, width=width, sized=True)
    hub.clusters[0]["nodes"] = 101
    hub.publish("crp/payments", clusters=True)
    await opened.heard()
    await opened.settle()
    await assert_still(opened.page)


async def test_nothing_jumps_with_a_thousand_clusters(hub, open_page):
    many(hub)
    opened = await open_page(width=1440, sized=True)
    await assert_still(opened.page)
    await opened.page.evaluate("document.querySelector('#fleet-panel').style.marginTop = '300px'")
    await opened.page.wait_for_function("() => window.shifted > 0.05")  # the measure can fail
