"""The graph of a placement: what belongs to what, problems first, readable from 3 clusters to 1,000."""

import re
from collections.abc import Mapping

import pytest
from playwright.async_api import Locator, Page, expect

from tests.waiting import until
from tests.webhook.page.axe import FINDINGS, script
from tests.webhook.page.conftest import (
    LEGIBLE,
    MEASURE,
    SHORTEST_PAUSE,
    Opener,
    expect_address,
    expect_texts,
    show,
    texts,
)
from tests.webhook.page.fixture_hub import FixtureHub, fill, make_cluster, placement_item
from tests.webhook.page.fixture_objects import made_object, tree_on

pytestmark = pytest.mark.asyncio(loop_scope="session")

GRAPH = "placement/crp/web?tab=graph"


def on_clusters(hub: FixtureHub, counts: Mapping[str, int], details: Mapping[str, str] | None = None) -> list[str]:
    """Have a placement on as many clusters in each state, the only one of the hub; returns their names."""
    states = [state for state, count in counts.items() for _ in range(count)]
    names = [f"member-{number:03}" for number in range(len(states))]
    placed = dict(zip(names, states, strict=True))
    reasons = {name: (details or {}).get(state, "") for name, state in placed.items()}
    web = placement_item("crp/web", "PickAll", placed, state="failed", details=reasons)
    fill(hub, [make_cluster(name) for name in names], [web])
    return names


def clusters_in(page: Page) -> Locator:
    return page.locator(".of-cluster .node-name")


def heads_in(page: Page) -> Locator:
    return page.locator(".graph-clusters > li > .of-group")


def objects_in(page: Page) -> Locator:
    return page.locator(".of-object .node-name")


async def test_a_small_placement_shows_everything(hub: FixtureHub, open_page: Opener) -> None:
    """The placement with its snapshot and overrides, its clusters by state, and the objects of the worst cluster."""
    on_clusters(hub, {"available": 2, "failed": 1}, {"failed": "Deployment shop/front: ImagePullBackOff"})
    hub.trees["member-002"] = tree_on(
        "member-002",
        [
            made_object("Deployment", "front", "failed", message="ImagePullBackOff", reason="Failed"),
            made_object("ConfigMap", "rates", drifts=[{"path": "/data/usd"}, {"path": "/data/gbp"}]),
            made_object("Secret", "keys", "waiting", reason="", message=""),
            made_object("Namespace", "shop"),
        ],
    )
    opened = await open_page(GRAPH)
    page = opened.page
    await expect(page.locator(".graph .of-placement")).to_contain_text("snapshot 4 · 2 overrides")
    await expect_texts(heads_in(page), ["1 cluster failed", "2 clusters available"])
    await expect_texts(clusters_in(page), ["member-002", "member-000", "member-001"])
    await expect(page.locator(".of-cluster").first).to_contain_text("ImagePullBackOff")
    await expect_texts(
        page.locator(".graph-objects .of-group"),
        [
            "1 object failed",
            "1 object waiting",
            "1 object drifted",
            "1 object available",
        ],
    )
    await expect_texts(
        objects_in(page),
        [
            "Deployment shop/front",
            "Secret shop/keys",
            "ConfigMap shop/rates",
            "Namespace shop",
        ],
    )
    await expect(page.locator(".of-object", has_text="rates")).to_contain_text("/data/usd, /data/gbp")
    await opened.assert_quiet()


async def test_the_tabs_have_addresses_and_keep_the_filter(open_page: Opener) -> None:
    page = (await open_page("placement/crp/payments?q=pay")).page
    await page.get_by_role("link", name="Graph", exact=True).click()
    await expect_address(page, "#placement/crp/payments?q=pay&tab=graph")
    await expect(page.locator(".graph-board")).to_be_visible()
    await expect(page.locator(".explanation")).to_be_hidden()
    await page.reload()
    await expect(page.locator(".graph-board")).to_be_visible()
    await page.get_by_role("link", name="Overview", exact=True).click()
    await expect_address(page, "#placement/crp/payments?q=pay")
    await expect(page.locator(".explanation")).to_be_visible()
    await page.go_back()
    await expect(page.locator(".graph-board")).to_be_visible()


async def test_another_placement_opens_in_the_same_tab(open_page: Opener) -> None:
    page = (await open_page("placement/crp/payments?tab=graph")).page
    await page.locator(".placements .row-link", has_text="ledger").click()
    await expect_address(page, "#placement/crp/ledger?tab=graph")
    await expect(page.locator(".graph .of-placement .node-name")).to_have_text("ledger")
    await expect_texts(clusters_in(page), ["bravelion", "gladgull"])


@pytest.mark.parametrize(
    ("counts", "shown"),
    [
        pytest.param({"available": 100}, {}, id="all-well"),
        pytest.param({"failed": 3, "applying": 2, "available": 95}, {"failed": 3, "applying": 2}, id="few-problems"),
        pytest.param({"failed": 60, "available": 40}, {"failed": 10}, id="many-problems"),
        pytest.param({"failed": 400, "waiting": 300, "available": 300}, {"failed": 9}, id="thousand"),
        pytest.param({"waiting": 2, "available": 4}, {"waiting": 2, "available": 4}, id="all-fit"),
    ],
)
async def test_problems_come_first_and_the_rest_is_folded_with_counts(
    hub: FixtureHub, open_page: Opener, counts: dict[str, int], shown: dict[str, int]
) -> None:
    """At most twelve nodes are in the column of clusters, buttons for more aside; and the selected one."""
    on_clusters(hub, counts)
    page = (await open_page(GRAPH)).page
    await expect(heads_in(page)).to_have_count(len(counts))
    for place, (state, count) in enumerate(counts.items()):
        group = page.locator(".graph-clusters > li").nth(place)
        await expect(group.locator("> .of-group button")).to_have_text(f"{count} clusters")
        selected = int(place == 0 and not shown)
        await expect(group.locator(".of-cluster")).to_have_count(shown.get(state, 0) + selected)
    assert len(counts) + sum(shown.values()) <= 12


async def test_a_group_unfolds_page_by_page_and_its_address_reproduces_it(hub: FixtureHub, open_page: Opener) -> None:
    on_clusters(hub, {"failed": 1, "available": 120})
    page = (await open_page(GRAPH)).page
    toggle = heads_in(page).last.get_by_role("button")
    await expect(toggle).to_have_attribute("aria-expanded", "false")
    await toggle.focus()
    await page.keyboard.press("Enter")
    await expect_address(page, f"{GRAPH}&clusters=available")
    await expect(clusters_in(page)).to_have_count(51)
    await expect(toggle).to_be_focused()
    await page.get_by_role("button", name="70 more").click()
    await expect(clusters_in(page)).to_have_count(101)
    await page.get_by_role("button", name="20 more").click()
    await expect(clusters_in(page)).to_have_count(121)
    await page.reload()
    await expect(clusters_in(page)).to_have_count(51)
    await heads_in(page).first.get_by_role("button").click()
    await expect_address(page, f"{GRAPH}&clusters=available%2C-failed")


async def test_equal_reasons_are_said_once(hub: FixtureHub, open_page: Opener) -> None:
    on_clusters(hub, {"failed": 3, "available": 1}, {"failed": "ImagePullBackOff"})
    page = (await open_page(GRAPH)).page
    await expect(page.locator(".graph").get_by_text("ImagePullBackOff")).to_have_count(1)
    await expect(heads_in(page).first).to_contain_text("ImagePullBackOff")


async def test_a_cluster_shows_its_objects_and_its_link_reproduces_them(hub: FixtureHub, open_page: Opener) -> None:
    on_clusters(hub, {"failed": 1, "available": 2})
    hub.trees["member-001"] = tree_on("member-001", [made_object("ConfigMap", "only-here")])
    page = (await open_page(GRAPH)).page
    await expect(objects_in(page)).to_have_text(["Namespace shop"])
    link = clusters_in(page).nth(1)
    await link.focus()
    await page.keyboard.press("Enter")
    await expect_address(page, f"{GRAPH}&on=member-001")
    await expect(objects_in(page)).to_have_text(["ConfigMap shop/only-here"])
    await expect(link).to_be_focused()
    await expect(link).to_have_attribute("aria-current", "true")
    await page.reload()
    await expect(objects_in(page)).to_have_text(["ConfigMap shop/only-here"])
    await page.get_by_role("link", name="details of member-001").click()
    await expect(page.locator("#cluster-title")).to_have_text("member-001")


async def test_an_object_leads_to_its_cluster_among_the_details(hub: FixtureHub, open_page: Opener) -> None:
    on_clusters(hub, {"failed": 1, "available": 40})
    hub.trees["member-035"] = tree_on("member-035", [made_object("ConfigMap", "only-here")])
    page = (await open_page(f"{GRAPH}&on=member-035")).page
    await objects_in(page).first.click()
    await expect_address(page, "#placement/crp/web?on=member-035&section=objects")
    shown = page.locator(".on-cluster[open]")
    await expect(shown.locator("summary")).to_have_text("member-035")
    await expect(shown.locator(".objects")).to_contain_text("only-here")
    await expect(shown).to_be_in_viewport()


async def test_the_names_of_nodes_and_lists_say_what_they_are(hub: FixtureHub, open_page: Opener) -> None:
    """For a screen reader: nested lists, each with a name; the lines between the nodes are not there."""
    on_clusters(hub, {"failed": 2, "available": 1})
    page = (await open_page(GRAPH)).page
    graph = page.get_by_role("region", name="Graph")
    await expect(graph).to_match_aria_snapshot("""
      - list:
        - listitem:
          - link "web"
          - link "failed"
          - list "Clusters by state":
            - listitem:
              - button "2 clusters" [expanded]
              - link "failed"
              - list "2 clusters, failed":
                - listitem:
                  - link "member-000"
                  - link "details of member-000"
                  - list "Objects on member-000":
                    - listitem:
                      - button "1 object" [expanded]
                      - link "available"
                      - list:
                        - listitem:
                          - link "Namespace shop"
    """)
    await expect(page.locator(".graph-edges")).to_have_attribute("aria-hidden", "true")
    await page.evaluate(script().read_text(encoding="utf-8"))
    assert await page.evaluate(FINDINGS) == []


async def test_lines_lead_from_the_placement_to_the_objects(hub: FixtureHub, open_page: Opener) -> None:
    """One per group and per member, each as coloured as where it leads; on a phone there are none."""
    on_clusters(hub, {"failed": 2, "available": 1})
    opened = await open_page(GRAPH)
    page = opened.page
    lines = page.locator(".graph-edges path")
    await expect(lines).to_have_count(2 + 3 + 1 + 1)
    await expect(page.locator(".graph-edges .bad")).to_have_count(3)
    board, line = page.locator(".graph-board"), lines.first
    frame, drawn = await board.bounding_box(), await line.bounding_box()
    assert frame is not None
    assert drawn is not None
    assert frame["x"] < drawn["x"] < drawn["x"] + drawn["width"] < frame["x"] + frame["width"]
    await show(page, 390)
    await expect(page.locator(".graph-edges")).to_be_hidden()
    await opened.assert_quiet()


async def test_objects_that_cannot_be_read(hub: FixtureHub, open_page: Opener) -> None:
    """Without the right to Works, before the agent has reported, and while the server has an error."""
    on_clusters(hub, {"available": 3})
    hub.trees["member-000"] = tree_on("member-000", [], known=False)
    hub.trees["member-001"] = tree_on("member-001", [])
    hub.failing = {"/v1/placements/crp/web/tree/member-002": 403}
    page = (await open_page(GRAPH)).page
    words = page.locator(".graph-clusters .graph-objects")
    await expect(words).to_contain_text("This server may not read Works. harbormaster tree crp/web --all shows")
    await clusters_in(page).nth(1).click()
    await expect(words).to_contain_text("The agent has not reported any objects yet.")
    await clusters_in(page).nth(2).click()
    await expect(words).to_contain_text("403")


async def test_a_placement_on_no_cluster_shows_what_it_selects(open_page: Opener) -> None:
    page = (await open_page("placement/crp/probe?tab=graph")).page
    await expect(page.get_by_role("list", name="Selected objects")).to_contain_text("Deployment payments/api")


SHIFTS = """() => {
  window.shifted = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
  }).observe({ type: "layout-shift" });
}"""


async def test_a_change_shows_without_reading_anything_else(hub: FixtureHub, open_page: Opener) -> None:
    """The tree of the selected cluster is read again, and nothing of the others. What is shown hardly moves."""
    on_clusters(hub, {"failed": 2, "applying": 2, "available": 96})
    opened = await open_page(GRAPH, paused=True, sized=True, width=1440)
    page, asked = opened.page, []
    await until(lambda: any("/tree/" in line for line in hub.asked))
    await page.clock.run_for(SHORTEST_PAUSE)
    await expect(objects_in(page)).to_have_text(["Namespace shop"])
    await page.evaluate(SHIFTS)
    page.on("request", lambda request: asked.append(request.url.partition("/v1/")[2]))
    hub.trees["member-000"] = tree_on("member-000", [made_object("Namespace", "shop", "failed")])
    placed = hub.placement("crp/web")["clusters"]
    placed[2].update(state="available")
    await opened.publish("crp/web")
    await expect(heads_in(page).nth(1).get_by_role("button")).to_have_text("1 cluster")
    await expect(page.locator(".graph-objects .of-group .pill")).to_have_text("failed")
    assert {line for line in asked if "/tree/" in line} == {"placements/crp/web/tree/member-000"}
    assert not [line for line in asked if line.startswith("clusters")]
    assert await page.evaluate("window.shifted") <= 0.05


async def test_the_selection_stays_when_another_cluster_becomes_worse(hub: FixtureHub, open_page: Opener) -> None:
    on_clusters(hub, {"applying": 2, "available": 1})
    page = (await open_page(GRAPH)).page
    current = page.locator(".of-cluster [aria-current]")
    await expect(current).to_have_text("member-000")
    hub.placement("crp/web")["clusters"][2].update(state="failed", detail="broken")
    hub.publish("crp/web")
    await expect(heads_in(page).first).to_have_text(re.compile("1 cluster.*failed", re.DOTALL))
    await expect(current).to_have_text("member-000")


SIZES = ((1440, "light"), (1024, "dark"), (390, "light"), (320, "dark"))


@pytest.mark.parametrize("count", [3, 100])
async def test_it_can_be_read_from_desk_to_phone(hub: FixtureHub, open_page: Opener, count: int) -> None:
    """Nothing overlaps, nothing is faint, nothing is cut, and a phone has an indented list."""
    long = "a-name-of-sixty-three-characters-as-long-as-any-name-of-a-label"
    on_clusters(hub, {"failed": 2, "available": count}, {"failed": f"Deployment {long}/{long}: ImagePullBackOff"})
    objects = [
        made_object("Deployment", long, "failed", namespace=long),
        *[made_object("ConfigMap", f"c-{n}") for n in range(20)],
    ]
    hub.trees["member-000"] = tree_on("member-000", objects)
    opened = await open_page(GRAPH, motion="reduce")
    page = opened.page
    await expect(objects_in(page)).to_have_count(1)
    for width, scheme in SIZES:
        await show(page, width, scheme)
        measured = await page.evaluate(MEASURE)
        seen = {key: measured[key] for key in LEGIBLE}
        assert seen == LEGIBLE, f"{width} px, {scheme}"
        lefts = [
            (await page.locator(node).first.bounding_box() or {})["x"]
            for node in (".of-placement", ".of-cluster", ".of-object")
        ]
        assert lefts == sorted(set(lefts)), f"{width} px: {lefts}"
    await opened.assert_quiet()


async def test_a_state_has_a_sign_beside_its_color(hub: FixtureHub, open_page: Opener) -> None:
    """The sign of the nodes in a group is also before the word in its head; a screen reader hears the word alone."""
    on_clusters(hub, {"failed": 2, "applying": 1, "waiting": 1, "removing": 1, "available": 1})
    page = (await open_page(GRAPH)).page
    await expect(clusters_in(page)).to_have_count(6)
    sign = "(node) => getComputedStyle(node, '::before').content"
    signs = {}
    for group in await page.locator(".graph-clusters > li").all():
        head = await group.locator("> .of-group .slot").evaluate(sign)
        (state,) = await texts(group.locator("> .of-group .pill"))
        assert {await node.evaluate(sign) for node in await group.locator(".of-cluster").all()} == {head}
        signs[state] = head
    assert len({*signs.values()}) == 5, signs
    assert all(shown.endswith('/ ""') for shown in signs.values()), signs
    await page.evaluate(script().read_text(encoding="utf-8"))
    assert await page.evaluate(FINDINGS) == []
