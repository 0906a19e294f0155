"""``python -m tests.webhook.page.screenshots FOLDER``: six views, two widths, light and dark, 12 and 1,000 clusters.

Somebody has to look at them: tests do not know what is ugly.
"""

import asyncio
import sys
from pathlib import Path
from typing import Final

from playwright.async_api import async_playwright

from tests.machine import chromium_path
from tests.webhook.page.conftest import ARGUMENTS, SETTLED
from tests.webhook.page.fixture_clock import NOW
from tests.webhook.page.fixture_hub import ENTRY, FixtureHub, many, sample_pools, serving
from tests.webhook.page.fixture_runs import sample_runs

VIEWS: Final = ("fleet", "placement/crp/payments", "cluster/{cluster}", "runs", "budgets", "timeline")
WIDTHS: Final = (1440, 390)
SCHEMES: Final = ("light", "dark")
LONGEST: Final = 3000
"""Pixels; what is below says nothing new."""


def fixture(clusters: int) -> FixtureHub:
    """Return a hub with something in every view."""
    hub = FixtureHub()
    if clusters > len(hub.clusters):
        many(hub)
    hub.runs, hub.pools = sample_runs(), sample_pools()
    about = {"kind": "ResourcePlacement", "name": "cart", "namespace": "shop"}
    warned = ENTRY | {"type": "Warning", "object": about, "by": "system:serviceaccount:shop:ci", "reason": "Warned"}
    hub.log = [warned | {"message": "update: spec.strategy: maxSurge is 0", "count": 4}, ENTRY]
    return hub


async def main(folder: Path) -> None:
    """Write the pictures into a folder that is there."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
        for clusters in (12, 1000):
            hub = fixture(clusters)
            async with serving(hub) as address:
                for width in WIDTHS:
                    for scheme in SCHEMES:
                        context = await browser.new_context(
                            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
                        )
                        await context.clock.set_fixed_time(NOW)
                        page = await context.new_page()
                        for view in VIEWS:
                            await page.goto(f"{address}/#{view.format(cluster=hub.clusters[0]['name'])}")
                            await page.wait_for_function(SETTLED, timeout=120_000)
                            high = min(LONGEST, await page.evaluate("document.documentElement.scrollHeight"))
                            await page.set_viewport_size({"width": width, "height": max(900, high)})
                            name = f"{view.partition('/')[0]}-{clusters}-{width}-{scheme}.png"
                            await page.screenshot(path=folder / name)
                            await page.set_viewport_size({"width": width, "height": 900})
                        await context.close()
        await browser.close()


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    asyncio.run(main(Path(sys.argv[1])))
