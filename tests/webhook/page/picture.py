"""``python -m tests.webhook.page.picture ADDRESS FILE``: the picture of the README, of the page of ``up --example``.

It shows three views below each other: the fleet, a placement, and the staged update that waits for an approval.
"""

import asyncio
import sys
from typing import Final

from playwright.async_api import async_playwright

from tests.machine import chromium_path
from tests.webhook.page.conftest import ARGUMENTS, SETTLED

VIEWS: Final = ("fleet", "placement/crp/storefront", "runs/csur/storefront-1")
SHOW_ALL: Final = """() => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`
    main > .view:is([data-view=fleet], [data-view=placement], [data-view=runs]) { display: grid !important; }
    :is(#map, .toolbar, .foot-of-page, .more-about, .course, #placement-body .part) { display: none !important; }
    .placements-box { max-height: 640px !important; overflow: hidden; }
    main { min-height: 0 !important; padding-bottom: 18px !important; }
  `);
  document.adoptedStyleSheets = [sheet];
  document.activeElement.blur();
}"""
"""As style, because the page shows and hides its views on every change of the hub."""


async def main(address: str, file: str) -> None:
    """Write the picture."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
        context = await browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
        page = await context.new_page()
        for view in VIEWS:
            await page.goto(f"{address}/#{view}")
            await page.wait_for_function(SETTLED, timeout=120_000)
        await page.wait_for_selector("#run .tl-bar", timeout=120_000)
        await page.evaluate(SHOW_ALL)
        await page.screenshot(path=file, full_page=True)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
