"""The page in Chromium, over `up` with 12 and with 1,000 members: cost, first paint, what jumps, what axe finds.

Transfer is what comes over the wire, compressed. A view is left alone for a minute while members report, each once a
minute: that is an idle tab.
"""

import asyncio
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from playwright.async_api import Browser, async_playwright

from scorer.api.kinds import MEMBER_CLUSTER, NAMESPACE, PLACEMENT
from tests.bench.figures import Figure, Part
from tests.bench.fleets import member
from tests.builders.placement import make_placement
from tests.machine import chromium_path
from tests.webhook.page.axe import NotInstalledError, script
from tests.webhook.page.conftest import ARGUMENTS
from tests.webhook.services import LISTENERS
from webhook.embedded.simulation.annotations import status_in_annotation
from webhook.processes.up import Up
from webhook.settings.programs import UpSettings

SIZES: Final = (12, 1_000)
PART: Final = Part("page")
IDLE_SECONDS: Final = 60
IDLE_KILOBYTES: Final = 1_000
SHIFT: Final = 0.05
VIEWS: Final = ("fleet", "placement/crp/web", "cluster/member-0000", "runs", "budgets", "timeline")
LEFT_ALONE: Final = ("fleet", "placement/crp/web")

OBSERVE: Final = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""
PAINT: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
AXE: Final = "async () => (await axe.run(document, { resultTypes: ['violations'] })).violations.length"


@asynccontextmanager
async def hub(members: int, folder: Path) -> AsyncIterator[Up]:
    """Run `up` with members of plausible sizes and one placement on a tenth of them."""
    settings = UpSettings(**LISTENERS)
    dice = np.random.default_rng(7)
    async with Up(settings, folder) as up:
        await up.store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        for number in range(members):
            await up.store.create(MEMBER_CLUSTER, status_in_annotation(member(f"member-{number:04}", dice)))
        policy = {"placementType": "PickN", "numberOfClusters": max(3, members // 10)}
        await up.store.create(PLACEMENT, make_placement("web", policy))
        await up.settled(120)
        yield up


async def opened(browser: Browser, address: str, view: str, seconds: float) -> dict[str, Any]:
    """Open a view in a fresh browser and leave it alone; return the figures."""
    context = await browser.new_context(viewport={"width": 1440, "height": 900})
    page = await context.new_page()
    await page.add_init_script(OBSERVE)
    received: Counter[str] = Counter()
    session = await context.new_cdp_session(page)
    await session.send("Network.enable")
    session.on("Network.dataReceived", lambda event: received.update(bytes=event["encodedDataLength"]))
    await page.goto(f"{address}/#{view}")
    await page.locator("#live[data-state=live]").wait_for()
    await page.wait_for_function("() => !/Reading/.test(document.querySelector('main').innerText)")
    await asyncio.sleep(5)
    opening = received["bytes"]
    await asyncio.sleep(seconds)
    figures = {
        "opening": opening / 1000,
        "idle": (received["bytes"] - opening) / 1000 if seconds else None,
        "paint": await page.evaluate(PAINT),
        "shift": await page.evaluate("window.shifted"),
        "axe": await _axe(page),
    }
    await context.close()
    return figures


async def _axe(page: Any) -> int | None:
    try:
        await page.evaluate(script().read_text(encoding="utf-8"))
    except NotInstalledError:
        return None
    found: int = await page.evaluate(AXE)
    return found


def tell(members: int, view: str, figures: dict[str, Any]) -> None:
    """Tell the figures of a view."""
    title = f"{members:,} members, {view}"
    PART.report(Figure(f"{title}, transfer", figures["opening"], "kB"))
    PART.report(Figure(f"{title}, first paint", figures["paint"], "ms"))
    PART.report(Figure(f"{title}, layout shift", figures["shift"], "", SHIFT))
    if figures["axe"] is not None:
        PART.report(Figure(f"{title}, findings of axe", figures["axe"], "", 0))
    if figures["idle"] is not None:
        PART.report(Figure(f"{title}, idle for a minute", figures["idle"], "kB", IDLE_KILOBYTES))


async def main() -> None:
    """Measure all views with both fleets."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
        for members in SIZES:
            with tempfile.TemporaryDirectory() as folder:
                async with hub(members, Path(folder) / "data") as up:
                    for view in VIEWS:
                        seconds = IDLE_SECONDS if members == max(SIZES) and view in LEFT_ALONE else 0
                        tell(members, view, await opened(browser, up.http_url, view, seconds))
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
