"""One browser for all page tests, warm tabs in it, and a fixture hub per test; every clock stands at `NOW`."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser, ConsoleMessage, Error, Locator, Page, Route, async_playwright, expect

from tests.machine import chromium_path
from tests.webhook.page.fixture_clock import NOW, servers_at_now
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
expect.set_options(timeout=PATIENCE)

SHORTEST_PAUSE = 200
"""Milliseconds between two readings of a document, in ``paced`` of webhook/page/api.js."""

# Runs in every document before its own scripts: records what the browser refuses.
REMEMBER_VIOLATIONS = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`);
});
"""


# Stops ``Date`` and leaves timers and ``performance`` as they are. ``page.clock`` would count the time since a tab was
# started as part of the life of each document in it: then the page has no patience left for documents that load late.
FIXED_DATE = """{
  const now = NOW;
  globalThis.Date = class extends Date {
    constructor(...given) { super(...(given.length ? given : [now])); }
    static now() { return now; }
  };
}""".replace("NOW", str(int(NOW.timestamp() * 1000)))


# Also waits for the event that the stream starts with: earlier changes of the hub would reach the page as part of it.
SETTLED = """() => {
  if (document.getElementById("live").dataset.revision === undefined) return false;
  const view = document.querySelector("main > [data-view]:not([hidden])");
  if (view === null || /Nothing selected yet|Loading the/.test(view.innerText)) return false;
  if (view.dataset.view === "fleet") return document.querySelectorAll(".card").length >= 4;
  return view.dataset.view !== "placement" || view.querySelector(`.explanation:not([hidden]),
    #placement-body > .quiet:only-child, #placement-body .problem:not([hidden])`) !== null;
}"""

MEASURE: Final = (Path(__file__).parent / "layout.js").read_text(encoding="utf-8")
"""Script that measures what cannot be read or hit on a page."""
LEGIBLE: Final = {"overflow": 0, "overlaps": [], "outside": [], "clipped": [], "small": [], "faint": []}
"""What ``layout.js`` measures where the page neither scrolls sideways nor hides text or has targets that are missed."""

VIEWS = ((1280, "light"), (1001, "dark"), (768, "light"), (320, "dark"))
"""A width for each layout of the style sheet, where it is narrow, and both colour schemes."""


async def show(page: Page, width: int = 1280, scheme: str = "light", *, height: int = 844) -> None:
    """Give a page that is open another width and colour scheme."""
    await page.set_viewport_size({"width": width, "height": height})
    await page.emulate_media(color_scheme=scheme)


async def expect_address(page: Page, end: str) -> None:
    """Wait until the address of a page ends in *end*; the browser reports a new fragment some time after it is set."""
    await expect(page).to_have_url(re.compile(f"{re.escape(end)}$"))


async def expect_texts(locator: Locator, expected: Sequence[str]) -> None:
    """Wait until elements have these texts, as they are rendered, on one line each."""
    await expect(locator).to_have_text(expected, use_inner_text=True)


async def texts(locator: Locator) -> list[str]:
    """Return the texts of elements as they are rendered, on one line each.

    The browser finds the elements in one step and reads them in the next. One that the page has replaced in between has
    lost its layout, and with it the spaces between its parts: then read again.
    """
    while True:
        found = await locator.evaluate_all("(all) => all.map((one) => (one.isConnected ? one.innerText : null))")
        if None not in found:
            return [" ".join(text.split()) for text in found]


class Tabs:
    """The tabs of one browser, all with their clock at `NOW`.

    A tab that is closed leaves as if it were new, and is handed out again: starting a renderer costs twice as much CPU
    time as loading the page.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._idle: dict[str, list[Page]] = {}

    @asynccontextmanager
    async def open(
        self,
        *,
        width: int = 1280,
        scheme: str = "light",
        motion: str = "no-preference",
        zone: str = "UTC",
        disposable: bool = False,
        paused: bool = False,
        sized: bool = False,
    ) -> AsyncIterator[Page]:
        """Lend a tab on an empty document.

        Args:
            width: Of the viewport, in pixels.
            scheme: The preferred colour scheme.
            motion: The preference for reduced motion.
            zone: The time zone of the reader.
            disposable: Never reuse the tab. A test that moves its clock or takes it offline needs one.
            paused: Fire timers only in ``page.clock.run_for``, so that a test decides which reading comes next. Such a
                tab is disposable.
            sized: Start the tab at its size, and do not reuse it. A tab in use gets its new size some time after the
                call, on a slow machine within the next document: that counts as layout shift.
        """
        disposable = disposable or paused
        idle = [] if disposable or sized else self._idle.setdefault(zone, [])
        page = idle.pop() if idle else await self._start(width, zone, disposable=disposable, paused=paused)
        await page.emulate_media(media="null", reduced_motion=motion)
        await show(page, width, scheme)
        try:
            yield page
        finally:
            if disposable or sized or not await self._cleared(page):
                await page.context.close()
            else:
                idle.append(page)

    async def _start(self, width: int, zone: str, *, disposable: bool, paused: bool) -> Page:
        viewport = {"width": width, "height": 844}
        context = await self._browser.new_context(
            viewport=viewport, timezone_id=zone, locale="en-US", ignore_https_errors=True
        )
        context.set_default_timeout(PATIENCE)
        if disposable:
            await context.clock.set_fixed_time(NOW)
        else:
            await context.add_init_script(FIXED_DATE)
        if paused:
            await context.clock.pause_at(NOW)
        await context.add_init_script(REMEMBER_VIOLATIONS)
        return await context.new_page()

    async def _cleared(self, page: Page) -> bool:
        """Return whether the tab is empty again, without routes, storage, cookies and permissions."""
        try:
            await page.unroute_all(behavior="ignoreErrors")
            await page.evaluate("location.protocol.startsWith('http') && sessionStorage.clear()")
            await page.goto("about:blank")
            await page.context.clear_cookies()
            await page.context.clear_permissions()
        except Error:
            return False
        return True


class WatchedPage:
    """A page, and everything that the browser complains about."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", self._note_message)
        page.on("pageerror", self._note_error)

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _note_error(self, error: Error) -> None:
        self.complaints.append(str(error))

    def release(self) -> None:
        """Stop listening to the browser."""
        self.page.remove_listener("console", self._note_message)
        self.page.remove_listener("pageerror", self._note_error)

    async def assert_quiet(self) -> None:
        """Fail when the browser logged an error or blocked something."""
        assert self.complaints == []
        assert await self.page.evaluate("window.violations") == []


class OpenPage(WatchedPage):
    """An open page, and the hub behind it."""

    def __init__(self, hub: FixtureHub, address: str, page: Page, *, paused: bool = False) -> None:
        super().__init__(page)
        self.hub, self.address, self._paused = hub, address, paused

    async def settle(self) -> None:
        """Wait until the explanation of the selected placement, or the reason for having none, is shown.

        While timers are paused, the event that the stream starts with comes first, and one reading of each document
        serves it and the opening. The steps are too short for a second reading, and for the page's intervals.
        """
        if not self._paused:
            await self.page.wait_for_function(SETTLED)
            return
        await self.heard()
        async with asyncio.timeout(PATIENCE / 1000):
            while not await self.page.evaluate(SETTLED):
                await self.page.clock.run_for(1)

    async def heard(self) -> None:
        """Wait until the page has taken the last event of the hub."""
        await expect(self.page.locator("#live")).to_have_attribute("data-revision", str(self.hub.revision))

    async def publish(self, *refs: str, clusters: bool = False, names: Sequence[str] = ()) -> None:
        """Publish a change to a page whose timers are paused, and start the readings that it calls for."""
        self.hub.publish(*refs, clusters=clusters, names=names)
        await self.heard()
        await self.page.clock.run_for(SHORTEST_PAUSE)


Opener = Callable[..., Awaitable[OpenPage]]


@pytest.fixture(scope="module", autouse=True)
def at_now() -> Iterator[None]:
    """Answer at `NOW` from every server under test."""
    with servers_at_now():
        yield


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def tabs() -> AsyncIterator[Tabs]:
    """Tabs in the chromium of the system, or in the one that ``playwright install chromium`` fetched."""
    async with async_playwright() as playwright:
        try:
            chromium = await playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
        except Error as error:
            pytest.fail(f"the page is tested in a browser: install chromium, or name one in CHROMIUM; {error}")
        yield Tabs(chromium)
        await chromium.close()


@pytest_asyncio.fixture(loop_scope="session")
async def hub() -> FixtureHub:
    """The sample fleet; a test changes it before or after it opens the page."""
    return FixtureHub()


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(tabs: Tabs, hub: FixtureHub) -> AsyncIterator[Opener]:
    """Return a function that opens the page on the hub: ``await open_page("crp/payments", width=390)``."""
    async with serving(hub) as address, AsyncExitStack() as stack:

        async def opener(
            ref: str = "",
            *,
            settle: bool = True,
            paused: bool = False,
            routes: Mapping[str, Callable[[Route], object]] = MappingProxyType({}),
            **options: Any,
        ) -> OpenPage:
            page = await stack.enter_async_context(tabs.open(paused=paused, **options))
            opened = OpenPage(hub, address, page, paused=paused)
            stack.callback(opened.release)
            for pattern, handler in routes.items():
                await page.route(pattern, handler)
            await page.goto(f"{address}/{'#' + ref if ref else ''}")
            if settle:
                await opened.settle()
            return opened

        yield opener
