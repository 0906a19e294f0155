"""What is chosen in a view is in its address: search, filters, order, groups, the label of the map."""

import pytest
from playwright.async_api import Request, expect

from tests.waiting import until
from tests.webhook.page.conftest import (
    LEGIBLE,
    MEASURE,
    SHORTEST_PAUSE,
    VIEWS,
    expect_address,
    expect_texts,
    show,
    texts,
)
from tests.webhook.page.fixture_hub import fill, make_cluster, many, placement_item, sample_pools
from tests.webhook.page.fixture_runs import sample_runs

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def names(page) -> list[str]:
    return await texts(page.locator(".fleet .cluster-name"))


async def placed(page) -> list[str]:
    return await texts(page.locator(".placements .placement-name"))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param("q=eastus+dry", ["dryduck"], id="search"),
        pytest.param("q=EASTUS+tier%3D1", ["bravelion"], id="search-in-any-case"),
        pytest.param("state=silent", ["oldwhale"], id="state"),
        pytest.param("label=env%3Dstaging", ["jumpingcat"], id="label"),
        pytest.param("label=env!%3Dprod+region%3Dnortheurope", ["jumpingcat"], id="labels"),
        pytest.param("label=!tier&state=not+joined", ["newnewt"], id="without-a-label"),
        pytest.param("label=tier&q=japaneast&sort=-name", ["tallcrane", "gladgull"], id="with-a-label"),
    ],
)
async def test_clusters_are_searched_and_filtered(open_page, query, found):
    opened = await open_page(f"fleet?{query}")
    assert await names(opened.page) == found
    await expect(opened.page.locator("#fleet-sub")).to_contain_text(f"; {len(found)} match")
    await opened.page.get_by_role("button", name="clear").click()
    await expect(opened.page.locator(".fleet tbody tr")).to_have_count(12)
    await expect_address(opened.page, "#fleet")


async def test_what_is_typed_and_chosen_is_in_the_address(open_page):
    page = (await open_page()).page
    await page.get_by_role("searchbox").fill("prod")
    await page.get_by_label("State").select_option("eligible")
    await page.get_by_label("Group by").select_option("region")
    await expect_address(page, "#fleet?q=prod&state=eligible&group=region")
    await page.reload()
    await expect(page.locator(".group-row")).to_have_count(4)
    await expect(page.get_by_role("searchbox")).to_have_value("prod")
    await page.get_by_role("link", name="Budgets").click()
    await page.go_back()
    await expect(page.get_by_role("searchbox")).to_have_value("prod")
    await expect(page.locator(".group-row")).to_have_count(4)


async def test_a_column_sorts_up_then_down_then_not(hub, open_page):
    page = (await open_page()).page
    nodes = page.get_by_role("columnheader", name="Nodes")
    by_nodes = sorted((c for c in hub.clusters if c["nodes"] is not None), key=lambda c: c["nodes"])
    rows = [c["name"] for c in by_nodes]
    await nodes.get_by_role("button").click()
    await expect(nodes).to_have_attribute("aria-sort", "ascending")
    assert [name for name in await names(page) if name in rows] == rows
    assert (await names(page))[-1] == "newnewt", "what is not known comes last"
    await nodes.get_by_role("button").click()
    await expect(nodes).to_have_attribute("aria-sort", "descending")
    assert (await names(page))[0] == "bravelion"
    await expect_address(page, "#fleet?sort=-nodes")
    await nodes.get_by_role("button").click()
    assert await names(page) == sorted(c["name"] for c in hub.clusters)


async def test_numbers_in_names_sort_by_value(hub, open_page):
    """In the table, the groups, the map and what is offered: region-2 comes before region-10."""
    for place, cluster in enumerate(hub.clusters):
        cluster["name"], cluster["labels"]["region"] = f"member-{12 - place}", f"region-{12 - place}"
    order = [f"region-{place}" for place in range(1, 13)]
    page = (await open_page("fleet", width=390)).page
    await page.get_by_role("button", name="Show all 12 clusters").click()
    assert await names(page) == [f"member-{place}" for place in range(1, 13)]
    assert await texts(page.locator(".cell b")) == order
    await page.get_by_label("Sort by").select_option("-region")
    assert await names(page) == [f"member-{place}" for place in range(12, 0, -1)]
    await page.get_by_label("Group by").select_option("region")
    await expect_texts(page.locator(".group-toggle"), [f"{region} 1 cluster" for region in order])
    labels = page.locator("#fleet-label option")
    offered = await labels.evaluate_all("(all) => all.map((one) => one.value)")
    assert [one for one in offered if one.startswith("region=")] == [f"region={region}" for region in order]


async def test_the_control_names_the_order_of_the_fleet(hub, open_page):
    many(hub)
    page = (await open_page("fleet", width=390)).page
    sort = page.get_by_label("Sort by")
    chosen = sort.locator("option:checked")
    await expect(chosen).to_have_text("not eligible first")
    assert (await names(page))[0] == "member-0500"
    await sort.select_option("name")
    await expect(chosen).to_have_text("name")
    assert (await names(page))[0] == "member-0000"
    await sort.select_option("")
    await page.get_by_role("button", name="Show all 1,000 clusters").first.click()
    await expect(chosen).to_have_text("name")
    assert (await names(page))[0] == "member-0000"


async def test_groups_sum_up_and_one_at_a_time_unfolds(hub, open_page):
    page = (await open_page("fleet?group=env")).page
    prod = [c for c in hub.clusters if c["labels"].get("env") == "prod"]
    row = page.locator(".group-row", has_text="prod")
    assert await row.locator(".c-nodes").inner_text() == str(sum(c["nodes"] or 0 for c in prod))
    assert await row.locator(".c-placements").inner_text() == str(sum(len(c["placements"]) for c in prod))
    free, whole = (sum(int(c["cpu"][key]) for c in prod if c["cpu"]) for key in ("available", "allocatable"))
    await expect(row.locator(".c-cpu .free")).to_have_attribute("title", f"{free} of {whole:,} cores free")
    assert await names(page) == []
    await row.get_by_role("button").focus()
    await page.keyboard.press("Enter")
    assert await names(page) == [c["name"] for c in prod]
    await expect(row.get_by_role("button")).to_be_focused()
    await expect_address(page, "#fleet?group=env&open=prod")
    await page.locator(".group-row", has_text="staging").get_by_role("button").click()
    assert await names(page) == ["jumpingcat"]


async def test_the_map_has_a_cell_per_value_and_a_square_per_cluster(hub, open_page):
    page = (await open_page()).page
    cells = page.locator(".cell")
    await expect(cells).to_have_count(4)
    eastus = [c for c in hub.clusters if c["labels"]["region"] == "eastus"]
    first = cells.filter(has_text="eastus")
    await expect(first.locator(".squares i")).to_have_count(len(eastus))
    assert await first.locator(".squares i:not(.good)").count() == sum(not c["eligible"] for c in eastus)
    await first.click()
    await expect(first).to_have_attribute("aria-current", "true")
    assert await names(page) == [c["name"] for c in eastus]
    await first.click()  # once more: all of them
    await expect(page.locator(".fleet tbody tr")).to_have_count(12)
    await page.get_by_label("Map by").select_option("tier")
    await expect_address(page, "#fleet?map=tier")
    await expect(cells.filter(has_text="without")).to_contain_text(
        str(sum("tier" not in c["labels"] for c in hub.clusters))
    )


@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param("q=smartfish+failed", ["network-policies"], id="search"),
        pytest.param("state=short", ["gpu-batch", "ledger"], id="state"),
        pytest.param("ns=shop", ["shop/cart"], id="namespace"),
        pytest.param("label=team%3Dweb", ["payments"], id="label"),
        pytest.param("state=short&sort=-missing", ["gpu-batch", "ledger"], id="sorted"),
        pytest.param("ns=shop&state=short", [], id="nothing"),
    ],
)
async def test_placements_are_searched_filtered_and_sorted(hub, open_page, query, found):
    place = next(i for i, p in enumerate(hub.placements) if p["name"] == "payments")
    hub.placements[place]["labels"] = {"team": "web"}
    opened = await open_page(f"placement?{query}")
    assert await placed(opened.page) == found
    if not found:
        await expect(opened.page.get_by_text("No placement matches.")).to_be_visible()


async def test_another_placement_is_seen_through_the_same_filter(open_page):
    page = (await open_page("placement?state=short")).page
    await page.locator(".placements .row-link", has_text="ledger").click()
    await expect(page.locator("#placement-title")).to_have_text("ledger")
    await expect_address(page, "#placement/crp/ledger?state=short")
    await page.go_back()
    await expect(page.locator("#placement-title")).to_have_text("gpu-batch")


async def test_groups_of_placements_sum_up(hub, open_page):
    page = (await open_page("placement/crp/audit?group=state&open=short")).page
    row = page.locator(".group-row", has_text="short")
    short = [p for p in hub.placements if p["state"] == "short"]
    await expect(row).to_contain_text(f"{len(short)} placements · picked {sum(p['picked'] for p in short)}")
    assert await placed(page) == ["audit", "gpu-batch", "ledger"], "the open group, and the selected one"


async def test_runs_and_pools_keep_their_filter(hub, open_page):
    hub.runs = sample_runs()
    page = (await open_page("runs?q=nothing-like-it")).page
    await expect(page.get_by_text("No run matches.")).to_be_visible()
    await page.get_by_role("searchbox").fill("")
    await expect(page.locator("#runs-panel .placements .row-link")).to_have_count(len(hub.runs))
    await expect_address(page, "#runs")


async def test_the_selected_placement_is_visible_in_a_long_list(hub, open_page):
    hub.placements = [placement_item(f"crp/app-{number:02}", "PickAll", {}) for number in range(40)]
    opened = await open_page("placement/crp/app-39", width=1440)
    box, row = (opened.page.locator(one) for one in (".placements-box", ".row-link[aria-current]"))
    await expect(row).to_contain_text("app-39")
    frame, own = await box.bounding_box(), await row.bounding_box()
    assert frame["y"] <= own["y"]
    assert own["y"] + own["height"] <= frame["y"] + frame["height"]


async def test_no_column_heads_without_rows(open_page):
    page = (await open_page("placement/crp/audit?q=nothing-like-it")).page
    await expect(page.get_by_text("No placement matches.")).to_be_visible()
    await expect(page.locator(".placements-head")).to_be_hidden()


async def bytes_of(requests: list[Request]) -> int:
    """Return what the answers took on the wire, without their headers."""
    return sum([(await request.sizes())["responseBodySize"] for request in requests])


async def test_a_change_costs_a_small_part_of_what_opening_costs(hub, open_page):
    """With 1,000 clusters: what comes over the wire for 20 changes, in bytes, compared with all of the fleet."""
    hub.clusters = [
        make_cluster(f"member-{number:04}", f"region-{number % 10}", nodes=number) for number in range(1000)
    ]
    opened = await open_page(paused=True)
    page, finished = opened.page, []
    page.on("requestfinished", lambda request: finished.append(request))
    await page.reload()
    await opened.settle()
    await until(lambda: sum("/v1/clusters?limit" in request.url for request in finished) == 2)
    opening = await bytes_of([request for request in finished if "/v1/clusters?limit" in request.url])
    before = len(finished)
    for number in range(20):
        hub.clusters[number]["nodes"] = 7000 + number
        hub.publish(names=[f"member-{number:04}"])
    await opened.heard()
    await page.clock.run_for(SHORTEST_PAUSE)
    await expect(page.locator(".fleet tr", has_text="member-0019").locator(".c-nodes")).to_have_text("7,019")
    await until(lambda: any("member-0019" in request.url for request in finished[before:]))
    assert 0 < await bytes_of(finished[before:]) < opening / 10


async def test_only_what_has_changed_is_read_again(hub, open_page):
    """An event names it; a list that has not changed is answered without its content.

    With running timers, the names of several events can share a request, and the whole list is read once a minute.
    """
    opened = await open_page(paused=True)
    page, asked = opened.page, []
    page.on("request", lambda request: asked.append(request.url.partition("/v1/")[2]))
    hub.clusters[1] = make_cluster("busybee", "westus", nodes=4242)
    await opened.publish(names=["busybee"])
    await expect(page.locator(".fleet tr", has_text="busybee").locator(".c-nodes")).to_have_text("4,242")
    hub.placements.append(placement_item("crp/zebra", "PickAll", {}))
    await opened.publish("crp/zebra")
    await expect(page.locator(".card", has_text="Placements")).to_contain_text("10")
    removed = hub.clusters.pop(0)["name"]
    await opened.publish(names=[removed])
    await expect(page.locator(".fleet tbody tr")).to_have_count(11)
    assert sorted(asked) == sorted(
        ["clusters?name=busybee", "placements?ref=crp%2Fzebra", "runs", f"clusters?name={removed}"]
    )


PLACEHOLDERS = """() => {
  const pen = document.createElement("canvas").getContext("2d");
  const fields = [...document.querySelectorAll("main .toolbar input")].filter((field) => field.checkVisibility());
  return fields.map((field) => {
    const { font, paddingLeft, paddingRight } = getComputedStyle(field);
    pen.font = font;
    const room = field.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
    return [field.placeholder, room - pen.measureText(field.placeholder).width];
  });
}"""
"""The placeholder of each field that is shown, and the pixels that it leaves free."""


@pytest.mark.parametrize("view", ["fleet", "placement", "timeline"])
async def test_the_label_filter_has_a_visible_label_and_placeholders_fit(open_page, view):
    page = (await open_page(view)).page
    field = page.get_by_role("combobox", name="Label", exact=True)
    await expect(field).to_be_visible()
    for width in (1440, 1280, 1024, 768, 390):
        await show(page, width)
        await expect(page.locator(".control-label:has(.control-pairs) span")).to_be_visible()
        assert [text for text, free in await page.evaluate(PLACEHOLDERS) if free < 0] == [], width


@pytest.mark.parametrize("height", [768, 900])
@pytest.mark.parametrize("width", [1024, 1440])
async def test_the_selected_row_is_on_the_screen(hub, open_page, width, height):
    """Beside a placement, its list is as high as the screen leaves room for, and scrolls to the selected row."""
    names = [f"web-{number:02}" for number in range(40)]
    fill(hub, hub.clusters, [placement_item(f"crp/{name}", "PickAll", {"bravelion": "available"}) for name in names])
    page = (await open_page("placement/crp/web-31", width=width)).page
    await show(page, width, height=height)
    await page.reload()
    await expect(page.locator("#placement-title")).to_have_text("web-31")
    await expect(page.locator(".placements [aria-current]")).to_be_in_viewport(ratio=1)
    await expect(page.locator("#placements-body")).to_be_in_viewport(ratio=1)
    await expect(page.locator(".explanation")).to_be_visible()
    await page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    await expect(page.locator(".placements [aria-current]")).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("view", ["fleet", "placement", "runs", "budgets", "placement/crp/none", "cluster/none"])
async def test_a_page_with_nothing_in_it_fits_on_the_screen(hub, open_page, view, width):
    fill(hub, [], [])
    page = (await open_page(view, settle=False, width=width, motion="reduce")).page
    await expect(page.locator("main > [data-view]:not([hidden]) .nothing").first).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollHeight - innerHeight") <= 0


async def test_a_placement_that_does_not_exist_takes_a_line(open_page):
    page = (await open_page("placement/crp/none", width=390)).page
    await expect(page.locator("#placement-body")).to_contain_text("does not exist")
    assert (await page.locator("#placement-panel").bounding_box())["height"] < 200


@pytest.mark.parametrize(
    "view", ["fleet", "placement/crp/payments", "placement/crp/payments?tab=graph", "cluster/calmheron", "timeline"]
)
async def test_links_of_their_own_are_targets_of_24_pixels(hub, open_page, view):
    """WCAG 2.5.8 has an exception for links in a sentence."""
    hub.runs, hub.pools = sample_runs(), sample_pools()
    page = (await open_page(view, motion="reduce")).page
    for width, scheme in VIEWS:
        await show(page, width, scheme)
        measured = await page.evaluate(MEASURE)
        assert {key: measured[key] for key in LEGIBLE} == LEGIBLE, f"{width} px, {scheme}"


async def test_the_search_button_does_not_touch_the_edge_of_the_bar(open_page):
    """Its border is invisible where it is as high as the bar."""
    page = (await open_page(width=390)).page
    border = await page.locator("#search-button").evaluate("(button) => getComputedStyle(button).borderTopColor")
    assert border == "rgba(0, 0, 0, 0)"
