"""The panel of disruption budgets, held against the JSON of the same hours."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import aiohttp
import pytest
from playwright.async_api import expect

from tests.webhook.page.conftest import LEGIBLE, MEASURE, VIEWS, show
from tests.webhook.page.fixture_hub import make_pool, sample_pools

pytestmark = pytest.mark.asyncio(loop_scope="session")

REASONS = ["Drifted", "Empty", "Underutilized", "Unhealthy"]
DASH = "\N{EN DASH}"

# What is painted in the middle of every one of `cells` equal parts of a strip.
CELLS = """(strip, cells) => {
  strip.scrollIntoView({ block: "center" });
  const box = strip.getBoundingClientRect();
  return Array.from({ length: cells }, (_, place) => {
    const x = box.left + (place + 0.5) / cells * box.width;
    const stretch = document.elementFromPoint(x, box.top + box.height / 2).closest(".stretch");
    const [, kind] = stretch.className.split(" ");
    return { kind, text: stretch.textContent, label: stretch.getAttribute("aria-label") };
  });
}"""


def kind_of(span, *, never_opens):
    """Return how a stretch has to look, and its figure."""
    if never_opens:
        return "never", "never opens"
    if span["unlimited"]:
        return "unlimited", "\N{INFINITY}"
    limit = span["limit"]
    return ("shut" if not limit else "few" if limit <= 2 else "open"), str(limit)


def spoken(text, zone):
    at = datetime.fromisoformat(text).astimezone(zone)
    return f"{at:%a} {at.day} {at:%b} {at.hour}:{at:%M}"


async def open_budgets(open_page, hub, *pools, view="budgets", **how):
    hub.pools = list(pools) or sample_pools()
    opened = await open_page(view, **how)
    await expect(opened.page.locator(".stretch").first).to_be_attached()
    return opened


async def calendar_behind(opened, pool):
    """Return the document that the pool's link leads to."""
    href = (
        await opened.page.locator(".pool", has_text=pool).get_by_role("link", name="show as JSON").get_attribute("href")
    )
    assert href.startswith("/v1/budgets/calendar?")
    async with aiohttp.ClientSession() as session, session.get(opened.address + href) as answer:
        return await answer.json()


@pytest.mark.parametrize(("days", "zone"), [(2, "Pacific/Chatham"), (14, "Europe/Berlin")])
async def test_every_cell_says_what_the_json_says(hub, open_page, zone, days):
    opened = await open_budgets(open_page, hub, zone=zone)
    if days == 14:
        await opened.page.get_by_role("button", name="next 14 days").click()
        await expect(opened.page.locator(".heat.long")).to_have_count(3)
    await expect(opened.page.locator("#budgets-sub")).to_contain_text(f"times in {zone}")
    for pool in hub.pools:
        document = await calendar_behind(opened, pool.name)
        start, end = (datetime.fromisoformat(document[name]) for name in ("from", "until"))
        assert end - start == timedelta(days=days)
        assert start.astimezone(ZoneInfo(zone)).minute == 0
        strips = opened.page.locator(".pool", has_text=pool.name).locator(".heat-strip")
        assert [await strip.get_attribute("aria-label") for strip in await strips.all()] == REASONS
        for position, name in enumerate(REASONS):
            reason = next(each for each in document["items"][0]["reasons"] if each["reason"] == name)
            cells, checked = 2 * 24 * days, 0
            pixels = (await strips.nth(position).bounding_box())["width"]
            nearly = 3 * (end - start) / pixels  # so near to a change it is a matter of rounding, or of the least width
            changes = [datetime.fromisoformat(each["start"]) for each in reason["spans"]]
            for place, cell in enumerate(await strips.nth(position).evaluate(CELLS, cells)):
                at = start + (end - start) * (place + 0.5) / cells
                if any(abs(at - change) < nearly for change in changes):
                    continue
                checked += 1
                text = f"{at:%Y-%m-%dT%H:%M:%SZ}"
                span = next(each for each in reason["spans"] if each["start"] <= text < each["end"])
                assert (cell["kind"], cell["text"]) == kind_of(span, never_opens=reason["neverOpens"]), (name, text)
                assert cell["label"].startswith(f"{name}, ")
                if datetime.fromisoformat(span["end"]) < end:
                    assert spoken(span["end"], ZoneInfo(zone))[-5:].strip() in cell["label"]
                for budget in span["binding"]:
                    assert f"budgets[{budget}]" in cell["label"]
            assert checked > 0.6 * cells
    await opened.assert_quiet()


async def test_a_stretch_tells_span_limit_and_budget(hub, open_page):
    opened = await open_budgets(
        open_page,
        hub,
        make_pool("general", {"nodes": "10%"}, {"nodes": "2", "schedule": "0 */12 * * *", "duration": "3h"}),
    )
    document = await calendar_behind(opened, "general")
    closed = next(span for span in document["items"][0]["reasons"][0]["spans"][1:] if span["limit"] == 2)
    start, end = (spoken(closed[name], UTC) for name in ("start", "end"))
    few = opened.page.locator(".heat-strip").first.locator(f'.few[aria-label*="{start}"]')
    await few.hover()
    detail = opened.page.locator(".heat-detail")
    await expect(detail).to_have_text(
        f"Drifted, {start} {DASH} {end.split()[-1]}: up to 2 disrupted at a time, 1 being disrupted now; "
        'budgets[1] (nodes "2", schedule "0 */12 * * *", duration 3h)'
    )
    await opened.page.locator("#budgets-title").hover()
    await expect(detail).to_contain_text("Now: 1 of 2 left until Mon 23 Nov 15:00")


async def test_what_is_left_now_is_said_and_of_how_much(hub, open_page):
    words = {
        "used-up": ("1", 1, "Now: none of 1 left"),
        "partly-used": ("3", 1, "Now: 2 of 3 left"),
        "unused": ("1", 0, "Now: 1 of 1 left"),
        "shut": ("0", 0, "Now: never opens"),
    }
    pools = [make_pool(name, {"nodes": nodes}, deleting=deleting) for name, (nodes, deleting, _) in words.items()]
    opened = await open_budgets(open_page, hub, *pools)
    for name, (_, _, said) in words.items():
        pool = opened.page.locator(".pool").filter(has=opened.page.get_by_role("heading", name=name, exact=True))
        await expect(pool.locator(".heat-detail")).to_have_text(said)


async def test_what_never_opens_is_marked_and_what_was_meant_is_shown(hub, open_page):
    opened = await open_budgets(open_page, hub)
    pool = opened.page.locator(".pool", has_text="seed-weekends")
    await expect(pool.locator(".stretch")).to_have_text(["never opens"] * 4)
    await expect(pool.locator(".heat-detail")).to_have_text("Now: never opens")
    await expect(pool.locator(".callout")).to_contain_text("budgets[1]")
    assert await pool.locator("code").inner_text() == (
        'budgets:\n- {nodes: "50%"}\n- {nodes: "0", schedule: "0 0 * * 1", duration: 120h}'
    )
    general = opened.page.locator(".pool", has_text="general")
    await expect(general.locator(".heat-detail")).to_have_text(
        "Now: none until Mon 23 Nov 17:00 (Drifted) · 1 of 2 left until Mon 23 Nov 17:00 (Empty) · "
        "never opens (Underutilized) · 3 of 4 left (Unhealthy)"
    )
    await expect(general.locator(".callout")).to_have_text(
        'Underutilized never opens: budgets[1] (nodes "0", reasons Underutilized, no schedule)'
    )
    legend = opened.page.locator(".heat-legend li:visible")
    await expect(legend).to_have_text(["allowed", f"few (1{DASH}2)", "none", "no limit", "never opens"])


async def test_a_budget_that_cannot_be_used_is_told(hub, open_page):
    opened = await open_budgets(
        open_page, hub, make_pool("odd", {"nodes": "3"}, {"nodes": "0", "schedule": "0 9 * * 7", "duration": "8h"})
    )
    await expect(opened.page.locator("#budgets-panel .callout.bad")).to_contain_text(
        "budgets[1] is invalid, so no disruption is allowed"
    )
    assert [cell["kind"] for cell in await opened.page.locator(".heat-strip").first.evaluate(CELLS, 4)] == ["never"] * 4


async def test_the_card_sums_up(hub, open_page):
    opened = await open_budgets(open_page, hub, make_pool("general", {"nodes": "10%"}), view="fleet")
    card = opened.page.locator(".card").last
    await expect(card).to_contain_text("Disruptions allowed now")
    await expect(card.locator(".card-value")).to_have_text("3")
    await expect(card.locator(".card-words")).to_have_text("pool general")
    hub.pools = [make_pool("a", {"nodes": "0"}), make_pool("b", total=5, deleting=1)]
    await opened.page.reload()
    await expect(card.locator(".card-value")).to_have_text("4")  # no limit, but no more than there are
    await expect(card.locator(".card-words")).to_have_text("in 1 of 2 pools")
    hub.pools = [make_pool("a", {"nodes": "0"})]
    await opened.page.reload()
    await expect(card.locator(".card-words")).to_have_text("no scheduled opening")


async def test_without_a_pool_there_is_no_card_and_a_hint(open_page):
    opened = await open_page()
    await expect(opened.page.locator(".card")).to_have_count(4)
    await opened.page.get_by_role("link", name="Budgets").click()
    await expect(opened.page.locator("#budgets-body")).to_contain_text("No NodePool yet")
    await expect(opened.page.locator("#budgets-span")).to_be_hidden()


async def test_the_strips_are_walked_with_the_keyboard(hub, open_page):
    opened = await open_budgets(open_page, hub, sample_pools()[2])
    page = opened.page
    strips = page.locator(".heat-strip")
    assert [await strip.locator('[tabindex="0"]').count() for strip in await strips.all()] == [1] * 4
    await strips.first.locator(".stretch").first.focus()
    await page.keyboard.press("ArrowRight")
    second = strips.first.locator(".stretch").nth(1)
    await expect(second).to_be_focused()
    await expect(page.locator(".heat-detail")).to_have_text(await second.get_attribute("aria-label"))
    await page.keyboard.press("End")
    await expect(strips.first.locator(".stretch").last).to_be_focused()
    await page.keyboard.press("ArrowDown")
    focused = page.locator(":focus")
    assert (await focused.get_attribute("aria-label")).startswith("Empty, from ")
    await page.keyboard.press("Tab")
    assert (await focused.get_attribute("aria-label")).startswith("Underutilized, ")
    await page.keyboard.press("Home")
    assert await focused.evaluate("element => element === element.parentElement.firstElementChild")


async def test_it_follows_what_happens_and_keeps_the_focus(hub, open_page):
    opened = await open_budgets(open_page, hub, make_pool("general", {"nodes": "10%"}), disposable=True)
    page = opened.page
    stretch = page.locator(".stretch").first
    await stretch.focus()
    await expect(stretch).to_have_text("4")
    hub.pools = [make_pool("general", {"nodes": "20%"}, deleting=3), make_pool("new", {"nodes": "0"})]
    await page.clock.fast_forward(31_000)
    await expect(stretch).to_have_text("8")
    await expect(page.locator(".pool-head .sub").first).to_contain_text("3 disrupting")
    await expect(stretch).to_be_focused()
    await expect(page.locator(".pool")).to_have_count(2)
    hub.pools = []
    await page.clock.fast_forward(31_000)
    await expect(page.locator("#budgets-body")).to_contain_text("No NodePool yet")
    await opened.assert_quiet()


async def test_a_thousand_pools_are_listed_in_part(hub, open_page):
    pools = [make_pool(f"pool-{number:04}", {"nodes": "5"}, total=10) for number in range(1000)]
    pools[700] = make_pool("pool-0700", {"nodes": "50%"}, {"nodes": "0"})
    opened = await open_budgets(open_page, hub, *pools)
    page = opened.page
    await expect(page.locator(".pool")).to_have_count(6)
    await expect(page.locator(".pool h3").first).to_have_text("pool-0700")  # which is warned of
    await expect(page.locator("#budgets-sub")).to_contain_text("1,000 pools; 6 shown, those with warnings first")
    await page.get_by_role("button", name="Show 20 more of 1,000 pools").click()
    await expect(page.locator(".pool")).to_have_count(26)
    await expect(page.locator(".heat-strip")).to_have_count(104)
    await page.get_by_label("Filter the pools").fill("99")
    await expect(page.locator(".pool")).to_have_count(6)
    await expect(page.locator(".pool h3").first).to_have_text("pool-0099")
    await expect(page.locator("#budgets-sub")).to_contain_text("; 19 match")
    await page.get_by_label("Filter the pools").fill("no such")
    await expect(page.locator("#budgets-body")).to_contain_text("No pool matches the filter.")
    await opened.assert_quiet()


async def test_only_the_calendars_that_are_shown_are_read(hub, open_page):
    """Six of a thousand pools, in one request."""
    hub.pools = [make_pool(f"pool-{number:04}", {"nodes": "5"}, total=10) for number in range(1000)]
    opened = await open_page("budgets", paused=True)
    await opened.page.clock.run_for(1)
    await expect(opened.page.locator(".stretch").first).to_be_attached()
    assert [entry for entry in hub.asked if entry.endswith("/calendar")] == ["GET /v1/budgets/calendar"]


async def test_budgets_that_change_every_other_minute_are_summed_up(hub, open_page):
    opened = await open_budgets(
        open_page, hub, make_pool("restless", {"nodes": "0", "schedule": "*/2 * * * *", "duration": "1m"})
    )
    assert await opened.page.locator(".stretch").count() < 1000
    assert {cell["kind"] for cell in await opened.page.locator(".heat-strip").first.evaluate(CELLS, 40)} == {"shut"}


SEEN_LABELS = "(all) => all.filter((one) => one.checkVisibility()).map((one) => one.textContent)"


@pytest.mark.parametrize(
    ("days", "width", "last", "least"),
    [
        pytest.param("", 1280, ["Wed 25 Nov"], 8, id="hours-desk"),
        pytest.param("", 390, ["Wed 25 Nov"], 4, id="hours-phone"),
        pytest.param("14", 1280, ["Mon 7 Dec", "Sun 6 Dec"], 10, id="days-desk"),
        pytest.param("14", 390, ["Mon 7 Dec", "Sun 6 Dec"], 4, id="days-phone"),
    ],
)
async def test_the_axis_names_the_first_and_the_last_day_and_as_much_as_fits(hub, open_page, days, width, last, least):
    """The fonts of a machine decide which others do."""
    opened = await open_budgets(open_page, hub, sample_pools()[0], view=f"budgets?days={days}", width=width)
    measured = await opened.page.evaluate(MEASURE)
    seen = await opened.page.locator(".heat-axis li").evaluate_all(SEEN_LABELS)
    assert seen[0] == "Mon 23 Nov"
    assert [label for label in seen if " " in label][-1] in last
    assert len(seen) >= least
    assert {key: measured[key] for key in LEGIBLE} == LEGIBLE


async def test_short_stretches_have_their_number_on_a_phone(hub, open_page):
    opened = await open_budgets(open_page, hub, sample_pools()[0], view="budgets?days=14", width=390)
    strip = opened.page.locator(".heat-strip").first
    numbers = await strip.locator(".stretch").evaluate_all(
        "(all) => all.filter((one) => one.clientWidth > 7).map((one) => one.firstElementChild.checkVisibility())"
    )
    assert len(numbers) > 15
    assert all(numbers)


async def test_the_strips_are_labelled_as_limits(hub, open_page):
    """Beside them stands what is left now."""
    opened = await open_budgets(open_page, hub, make_pool("general", {"nodes": "3"}, deleting=1))
    pool = opened.page.locator(".pool")
    await expect(pool.locator(".heat-limit")).to_have_text("Limit in nodes")
    await expect(pool.locator(".stretch").first).to_have_text("3")
    await expect(pool.locator(".heat-detail")).to_have_text("Now: 2 of 3 left")


DRAW = """async ([from, address]) => {
  const { Heat } = await import("/ui/calendar.js");
  const path = `/v1/budgets/calendar?pool=nights&from=${from}&days=2`;
  const calendar = await (await fetch(path)).json();
  const heat = new Heat();
  document.body.append(heat.element);
  const [start, end] = [Date.parse(calendar.from), Date.parse(calendar.until)];
  heat.update(calendar.items[0], start, end, { at: start, items: [] });
  return {
    ticks: [...heat.axis.children].map((one) => [one.textContent, Math.round(parseFloat(one.style.left) * 48) / 100]),
    labels: [...heat.element.querySelector(".heat-strip").children].map((one) => one.getAttribute("aria-label")),
  };
}"""


@pytest.mark.parametrize(
    ("start", "ticks", "night"),
    [
        pytest.param(
            "2026-03-28T11:00:00Z",  # noon in Berlin
            [
                ["Sat 28 Mar", 0],
                ["18:00", 6],
                ["Sun 29 Mar", 12],
                ["6:00", 17],
                ["12:00", 23],
                ["18:00", 29],
                ["Mon 30 Mar", 35],
                ["6:00", 41],
            ],
            f"Sun 29 Mar 1:30 {DASH} 3:30",
            id="spring",
        ),
        pytest.param(
            "2026-10-24T10:00:00Z",
            [
                ["Sat 24 Oct", 0],
                ["18:00", 6],
                ["Sun 25 Oct", 12],
                ["6:00", 19],
                ["12:00", 25],
                ["18:00", 31],
                ["Mon 26 Oct", 37],
                ["6:00", 43],
            ],
            f"Sun 25 Oct 2:30 CEST {DASH} 2:30 CET",
            id="autumn",
        ),
    ],
)
async def test_days_of_23_and_25_hours(hub, open_page, start, ticks, night):
    opened = await open_budgets(
        open_page,
        hub,
        make_pool("nights", {"nodes": "0", "schedule": "30 0 * * *", "duration": "1h"}),
        zone="Europe/Berlin",
    )
    drawn = await opened.page.evaluate(DRAW, [start, opened.address])
    assert drawn["ticks"][: len(ticks)] == ticks
    label = drawn["labels"][1].replace("GMT+2", "CEST").replace("GMT+1", "CET")
    assert f"Drifted, {night}: 0 disruptions allowed;" in label


async def test_it_can_be_read_from_desk_to_phone(hub, open_page):
    long_name = "a-pool-with-a-name-of-very-many-characters-" + "x" * 80
    pools = [*sample_pools(), make_pool(long_name, {"nodes": "2147483647"}, total=2_000_000, deleting=1_000_000)]
    opened = await open_budgets(open_page, hub, *pools, motion="reduce", zone="America/Argentina/ComodRivadavia")
    page = opened.page
    for days in (2, 14):
        if days == 14:
            await page.set_viewport_size({"width": 1280, "height": 844})
            await page.get_by_role("button", name="next 14 days").click()
            await expect(page.locator(".heat.long")).to_have_count(4)
        for width, scheme in VIEWS:
            await show(page, width, scheme)
            measured = await page.evaluate(MEASURE)
            seen = {key: measured[key] for key in LEGIBLE}
            assert seen == LEGIBLE, f"{days} days, {width} px, {scheme}"
    await opened.assert_quiet()
