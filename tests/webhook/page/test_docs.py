"""The page that shows the API, in a real browser over a real server: complete, legible, usable by keyboard, true."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, Request, Route, expect

from tests.waiting import until
from tests.webhook.description.example_hub import WITH_PAGE, Caller, calling
from tests.webhook.page.conftest import LEGIBLE, MEASURE, PATIENCE, VIEWS, WatchedPage, show
from tests.webhook.page.fixture_clock import HubClock
from webhook.processes.up import Up
from webhook.settings.programs import UpSettings

pytestmark = pytest.mark.asyncio(loop_scope="session")

DOCUMENT = json.loads((Path(__file__).parents[3] / "webhook" / "openapi.json").read_text(encoding="utf-8"))
OPERATIONS = [operation for methods in DOCUMENT["paths"].values() for operation in methods.values()]


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def caller(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Caller]:
    """The owner of an empty hub."""
    async with Up(UpSettings(**WITH_PAGE), tmp_path_factory.mktemp("hub"), now=HubClock()) as up, calling(up) as owner:
        await until(lambda: up.cache.synced)
        yield owner


class Reader(WatchedPage):
    """An open page, and everything that it asked for."""

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self.asked: list[str] = []
        page.on("request", self._note_request)

    def _note_request(self, request: Request) -> None:
        self.asked.append(request.url)

    def release(self) -> None:
        """Stop listening to the browser."""
        self.page.remove_listener("request", self._note_request)
        super().release()

    async def unfold(self, name: str, depth: int) -> None:
        """Open an operation and what is inside, so many levels deep."""
        card = self.page.locator(f"details#{name}")
        await card.evaluate("element => { element.open = true; }")
        await card.locator(".operation-body").wait_for()
        for _ in range(depth):
            await card.evaluate("element => element.querySelectorAll('details').forEach((d) => { d.open = true; })")
            await expect(card.locator("details[open] > summary:only-child")).to_have_count(0)


@pytest_asyncio.fixture(loop_scope="session")
async def read(tabs, caller):
    """Return a function that opens the page: ``await read("#score", width=390)``."""
    async with AsyncExitStack() as stack:

        async def opener(place: str = "", *, plain: bool = True, **options: Any) -> Reader:
            page = await stack.enter_async_context(tabs.open(**options))
            reader = Reader(page)
            stack.callback(reader.release)
            await page.goto(f"{caller.up.http_url if plain else caller.url}/docs{place}")
            await page.wait_for_selector(".operation")
            return reader

        yield opener


async def test_every_operation_is_shown_with_all_there_is_to_say(read):
    """Path, words, question, answer, every other status, and the names of all members at the top."""
    reader = await read()
    await expect(reader.page.locator(".operation")).to_have_count(len(OPERATIONS))
    for path, methods in DOCUMENT["paths"].items():
        for operation in methods.values():
            await reader.unfold(operation["operationId"], 0)
            card = reader.page.locator(f"details#{operation['operationId']}")
            words = await card.inner_text()
            assert path in words
            assert operation["summary"] in words
            for status in operation["responses"]:
                assert status in {"200", "201"} or status in words
            for schema in _shapes(operation):
                for member in DOCUMENT["components"]["schemas"][schema].get("properties", {}):
                    assert member in words, (path, schema, member)
            for parameter in operation["parameters"]:
                assert DOCUMENT["components"]["parameters"][parameter["$ref"].split("/")[-1]]["name"] in words
    await reader.assert_quiet()


def _shapes(operation):
    contents = [operation["responses"][min(operation["responses"])].get("content", {})]
    if "requestBody" in operation:
        contents.append(operation["requestBody"]["content"])
    schemas = [media["schema"] for content in contents for media in content.values()]
    return [schema["$ref"].split("/")[-1] for schema in schemas if "$ref" in schema]


async def test_nothing_overlaps_and_everything_can_be_read(read):
    """No overflow, no text over text or out of its panel, contrast of at least 4.5, from desk to phone."""
    reader = await read()
    for name, depth in (("score", 4), ("explain", 1), ("validate", 2), ("followEvents", 1), ("extenderPreempt", 2)):
        await reader.unfold(name, depth)
    for width, scheme in VIEWS:
        await show(reader.page, width, scheme)
        measured = await reader.page.evaluate(MEASURE)
        seen = {key: measured[key] for key in (*LEGIBLE, "cut")}
        assert seen == LEGIBLE | {"cut": []}, f"{width} {scheme}"
        assert measured["texts"] > 300
    await reader.assert_quiet()


async def test_it_works_over_https_and_asks_for_nothing_but_the_description(read, caller):
    """It is served to anyone, and needs no right to read anything."""
    reader = await read(plain=False)
    assert all(url.startswith(f"{caller.url}/") for url in reader.asked)
    paths = {url.removeprefix(caller.url) for url in reader.asked}
    assert {path for path in paths if not path.startswith("/ui/")} == {"/docs", "/v1/openapi.json"}
    assert f"export SERVER={caller.url}" in await reader.page.locator("#credentials pre").inner_text()
    await reader.assert_quiet()


async def test_over_plain_http_no_address_is_made_up(read):
    """Where https is listened on is not known there: what is copied names no server, and words say what to put in."""
    reader = await read()
    assert "export SERVER=https://HOST:PORT  # the https" in await reader.page.locator("#credentials pre").inner_text()
    assert "127.0.0.1" not in await reader.page.locator("main").inner_text()
    await expect(reader.page.locator("#credentials")).to_contain_text("which is printed at start")


async def test_the_stream_is_asked_for_unbuffered_and_its_events_are_described(read):
    reader = await read("#followEvents")
    card = reader.page.locator("details#followEvents")
    assert (await card.locator("pre").first.inner_text()).startswith("curl -N --cacert")
    await card.locator("details.inside", has_text="members").locator("> summary").click()
    await card.locator("details.inside", has_text="Change").last.locator("> summary").click()
    await expect(card.get_by_text("References of the changed placements.")).to_be_visible()


async def test_both_pages_lead_to_the_same_views(read, caller):
    reader = await read()
    entries = reader.page.locator("nav[aria-label=Pages] a")
    assert await entries.all_inner_texts() == ["Fleet", "Placements", "Runs", "Budgets", "Timeline", "API"]
    await entries.nth(1).click()
    await reader.page.wait_for_url(f"{caller.up.http_url}/#placement")
    assert await reader.page.locator("nav[aria-label=Views] a").all_inner_texts() == [
        "Fleet",
        "Placements",
        "Runs",
        "Budgets",
        "Timeline",
        "API",
    ]


async def test_what_does_not_fit_keeps_its_indent_on_a_phone(read):
    """Paths stay beside their verb, and words beside their status."""
    reader = await read("#score", width=390)
    for row, beside in ((".operation > summary", ".path"), ("#score .answers li", ".answer-words")):
        lefts = await reader.page.locator(f"{row} {beside}").evaluate_all(
            "all => all.map((e) => Math.round(e.getBoundingClientRect().left))"
        )
        assert len(lefts) > 5
        assert max(lefts) - min(lefts) <= 1


async def test_an_address_opens_its_operation(read):
    reader = await read("#explain")
    card = reader.page.locator("details#explain")
    await expect(card).to_have_attribute("open", "")
    await expect(card.locator("> summary")).to_be_focused()
    await expect(card).to_be_in_viewport()
    await reader.page.locator("#contents a", has_text="Rank clusters").click()
    await expect(reader.page.locator("details#score .operation-body")).to_be_visible()
    await reader.assert_quiet()


async def test_an_address_of_nothing_is_no_harm(read):
    reader = await read("#%zz")
    await expect(reader.page.locator(".operation[open]")).to_have_count(0)
    await reader.assert_quiet()


async def test_it_can_be_used_without_a_mouse(read):
    """From the skip link to an operation, into it, and to its copy button and example."""
    reader = await read()
    keyboard = reader.page.keyboard
    await keyboard.press("Tab")
    await expect(reader.page.locator(".skip")).to_be_focused()
    await keyboard.press("Enter")
    await keyboard.press("Tab")
    await expect(reader.page.locator("details#score > summary")).to_be_focused()
    await keyboard.press("Enter")
    await expect(reader.page.locator("details#score .operation-body")).to_be_visible()
    reached = set()
    for _ in range(40):
        await keyboard.press("Tab")
        reached.add(
            await reader.page.evaluate("document.activeElement.localName + '.' + document.activeElement.className")
        )
    assert {"pre.", "button.copy", "summary."} <= reached
    names = await reader.page.evaluate(
        "[...document.querySelectorAll('button, pre')].map((e) => e.getAttribute('aria-label'))"
    )
    assert all(names)


EXAMPLES = {
    "score": 200,
    "filter": 404,
    "explain": 404,
    "plan": 422,
    "validate": 200,
    "default": 200,
    "listClusters": 200,
}
"""Operations, and the status that their example gets from an empty hub."""


async def test_the_line_to_copy_is_understood_by_a_shell_and_by_the_server(read, caller):
    """The line sends the question of the example: the answer is 200, or an error where the hub has no such thing."""
    reader = await read(paused=True)  # a button says for two seconds that the line is copied
    await reader.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for name, status in EXAMPLES.items():
        await reader.unfold(name, 0)
        button = reader.page.locator(f"details#{name} button.copy")
        await button.click()
        await expect(button).to_have_text("copied")
        line = await reader.page.evaluate("navigator.clipboard.readText()")
        words = await _words(line)
        options = dict(zip(words[:-1:2], words[1:-1:2], strict=True))
        assert options["--cacert"] == "THE-CA"
        assert words[words.index("-H") + 1] == "Authorization: Bearer THE-TOKEN"
        address = words[-1]
        assert address.startswith("https://the-server/v1/")
        body = json.loads(options["-d"]) if "-d" in options else None
        answer = await caller.ask("GET" if body is None else "POST", address.removeprefix("https://the-server"), body)
        assert answer.status == status, (name, answer.body)


async def _words(line: str) -> list[str]:
    """Return the arguments that a shell would hand to curl."""
    script = 'curl() { printf "%s\\0" "$@"; }\n' + line
    environment = {"PATH": os.environ["PATH"], "SERVER": "https://the-server", "CA": "THE-CA", "TOKEN": "THE-TOKEN"}
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", script, stdout=asyncio.subprocess.PIPE, env=environment
    )
    output, _ = await asyncio.wait_for(process.communicate(), PATIENCE / 1000)
    assert process.returncode == 0
    return output.decode().split("\0")[:-1]


async def test_members_of_members_can_be_opened_without_end(read):
    """Shapes are built when they are opened, level by level."""
    reader = await read("#score")
    card = reader.page.locator("details#score")
    await card.locator("details.inside", has_text="PlacementInQuestion").first.locator("> summary").click()
    await expect(card.get_by_text("evaluated as if it had placed nothing yet")).to_be_visible()
    await reader.page.get_by_text("PlacementPolicy", exact=True).last.click()
    await expect(card.get_by_text("topologySpreadConstraints")).to_be_visible()


async def test_a_description_that_cannot_be_read_is_told(tabs, caller):
    async def refuse(route: Route) -> None:
        await route.fulfill(status=503, body="{}")

    async with tabs.open() as page:
        await page.route("**/v1/openapi.json", refuse)
        await page.goto(f"{caller.up.http_url}/docs")
        await expect(page.get_by_role("alert")).to_contain_text("/v1/openapi.json cannot be read: 503")
