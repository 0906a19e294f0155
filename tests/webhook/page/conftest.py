"""One browser for all tests here, and a fresh fixture hub with an open page per test."""

import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Error, Page, async_playwright, expect

from tests.webhook.page.fixture_hub import FixtureHub, serving

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

PATIENCE = 120_000
"""Milliseconds to wait for the browser: on a busy machine anything takes long."""
expect.set_options(timeout=PATIENCE / 4)

# Runs in every document before its own scripts: what the browser refuses is remembered for the test.
REMEMBER_VIOLATIONS = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`);
});
"""


SETTLED = """() => {
  const view = document.querySelector("main > [data-view]:not([hidden])");
  if (view === null || /Nothing selected yet|Reading the/.test(view.innerText)) return false;
  if (view.dataset.view === "fleet") return document.querySelectorAll(".card").length >= 4;
  return view.dataset.view !== "placement" || view.querySelector(`.explanation:not([hidden]),
    #placement-body > .quiet:only-child, #placement-body .problem:not([hidden])`) !== null;
}"""


class OpenPage:
    """An open page, the hub behind it, and everything the browser complained about."""

    def __init__(self, hub: FixtureHub, address: str, page: Page) -> None:
        self.hub, self.address, self.page = hub, address, page
        self.complaints: list[str] = []
        page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    async def settle(self) -> None:
        """Wait until the explanation of the selected placement, or the reason for having none, is shown."""
        await self.page.wait_for_function(SETTLED)

    async def assert_quiet(self) -> None:
        """Fail when the browser logged an error or blocked something."""
        assert self.complaints == []
        assert await self.page.evaluate("window.violations") == []


Opener = Callable[..., Awaitable[OpenPage]]


VIEWS = ((1280, "light"), (1001, "dark"), (768, "light"), (320, "dark"))
"""A width for each layout of the style sheet, where it is narrow, and both colour schemes."""


def chromium_path() -> str | None:
    """Return the chromium of the system, or the one named in CHROMIUM; None: there is none."""
    names = (os.environ.get("CHROMIUM") or "", "chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if name and (found := shutil.which(name))), None)


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def browser() -> AsyncIterator[Browser]:
    """The chromium of the system; where there is none, the one ``playwright install chromium`` fetched."""
    async with async_playwright() as playwright:
        try:
            chromium = await playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
        except Error as error:
            pytest.fail(f"the page is tested in a browser: install chromium, or name one in CHROMIUM; {error}")
        yield chromium
        await chromium.close()


@pytest_asyncio.fixture(loop_scope="session")
async def hub() -> FixtureHub:
    """The sample fleet; a test changes it before or after it opens the page."""
    return FixtureHub()


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(browser: Browser, hub: FixtureHub) -> AsyncIterator[Opener]:
    """Return a function that opens the page on the hub: ``await open_page("crp/payments", width=390)``."""
    contexts = []
    async with serving(hub) as address:

        async def opener(
            ref: str = "",
            *,
            width: int = 1280,
            scheme: str = "light",
            settle: bool = True,
            motion: str = "no-preference",
            zone: str = "UTC",
            clock: bool = False,
            before: str = "",
        ) -> OpenPage:
            context = await browser.new_context(
                viewport={"width": width, "height": 844}, color_scheme=scheme, reduced_motion=motion, timezone_id=zone
            )
            contexts.append(context)
            await context.add_init_script(REMEMBER_VIOLATIONS + before)
            page = await context.new_page()
            page.set_default_timeout(PATIENCE)
            if clock:  # the test may turn the browser's clock forward
                await page.clock.install()
            opened = OpenPage(hub, address, page)
            await page.goto(f"{address}/{'#' + ref if ref else ''}")
            if settle:
                await opened.settle()
            return opened

        yield opener
        for context in contexts:
            await context.close()
