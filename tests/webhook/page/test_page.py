"""The page in a real browser: legible, truthful, live, and usable without a mouse."""

import copy
import json
import re
from collections import Counter
from datetime import timedelta

import pytest
from playwright.async_api import Route, expect

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
from tests.webhook.page.fixture_clock import NOW
from tests.webhook.page.fixture_hub import CORE_COST, PAGE, FixtureHub, ago, fill, make_cluster, many, placement_item

pytestmark = pytest.mark.asyncio(loop_scope="session")

DASH, MINUS, TIMES = "\N{EN DASH}", "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"
LONG = "a-cluster-with-a-name-of-sixty-three-characters-which-is-the-most"


def sample(_: FixtureHub) -> None:
    """The fleet as it is."""


def empty(hub: FixtureHub) -> None:
    fill(hub, [], [])


def long_names(hub: FixtureHub) -> None:
    assert len(LONG) >= 63
    labels = {f"a-very-long-prefix.of.some.company.example.com/{LONG}": LONG, "env": "prod"}
    taint = {"key": f"example.com/{LONG}", "value": LONG, "effect": "NoSchedule"}
    clusters = [
        make_cluster(
            f"{LONG[:-1]}{i}",
            LONG,
            nodes=12345,
            cpu=(123456, 999999),
            memory=(987654321, 999999999),
            cost="0.123456789",
            labels=labels,
            state="unheard-of-state",
            detail=f"something about {LONG}",
        )
        for i in range(3)
    ]
    clusters[1]["taints"] = [taint]
    clusters[2] |= {"state": "eligible", "eligible": True}
    names = {c["name"]: "applying" for c in clusters}
    details = dict.fromkeys(names, f"Deployment {LONG}/{LONG}: 1 of 3 replicas available")
    fill(
        hub,
        clusters,
        [
            placement_item(
                "crp/payments",
                "PickN",
                names,
                wanted=2_000_000_000,
                state="short",
                why=f"{LONG} is too long.",
                details=details,
            ),
            placement_item(f"rp/{LONG}/{LONG}", "PickAll", names, state="failed", details=details),
        ],
    )


def broken(hub: FixtureHub) -> None:
    hub.failing = {"/v1/explain": 503}


@pytest.mark.parametrize(
    ("scenario", "ref"),
    [
        pytest.param(sample, "crp/payments", id="two-sorters"),
        pytest.param(sample, "crp/edge-cache", id="spread-and-negative-weights"),
        pytest.param(sample, "crp/ledger", id="fixed-names-one-unknown"),
        pytest.param(sample, "crp/audit", id="pick-all"),
        pytest.param(sample, "fleet?group=env&open=prod", id="fleet-in-groups"),
        pytest.param(sample, "placement?group=state&open=short", id="placements-in-groups"),
        pytest.param(sample, "timeline", id="timeline"),
        pytest.param(empty, "fleet", id="empty-fleet"),
        pytest.param(long_names, "fleet?group=env", id="long-names-in-the-fleet"),
        pytest.param(long_names, "crp/payments", id="long-names"),
        pytest.param(many, "fleet", id="thousand-clusters-in-the-fleet"),
        pytest.param(many, "crp/payments", id="thousand-clusters"),
        pytest.param(broken, "crp/payments", id="explain-fails"),
    ],
)
async def test_nothing_overlaps_and_everything_can_be_read(hub, open_page, scenario, ref):
    """No page overflow, no text over text or out of its panel, contrast of at least 4.5, from desk to phone.

    The thousand clusters are measured once: that takes seconds.
    """
    scenario(hub)
    opened = await open_page(ref, motion="reduce")
    if scenario is sample and ref.startswith("crp"):  # unfold everything there is to read
        for details in await opened.page.locator("#placement-body details:not(.unfolding)").all():
            await unfold(details)
    for width, scheme in VIEWS[:1] if scenario is many else VIEWS:
        await show(opened.page, width, scheme)
        measured = await opened.page.evaluate(MEASURE)
        seen = {key: measured[key] for key in LEGIBLE}
        assert seen == LEGIBLE, f"{width} px, {scheme}"
        assert measured["texts"] > (8 if ref == "timeline" else 15)
        if scenario is sample:
            assert measured["cut"] == [], f"{width} px"
    if scenario is not broken:  # the browser logs every 503 by itself
        await opened.assert_quiet()


async def test_the_check_finds_overlaps_faint_and_clipped_text_and_small_targets(open_page):
    """The geometric check is no good if it cannot fail."""
    opened = await open_page("crp/payments")
    await opened.page.evaluate(
        """() => {
          const sheet = new CSSStyleSheet();
          sheet.replaceSync(`.legend { margin-top: -2em; } .sub { color: #aaa; } .rows .who { width: 900px; }
            .placement-picks { height: 9px; overflow: hidden; } .act { min-height: 0 !important; height: 20px; }`);
          document.adoptedStyleSheets = [sheet];
        }"""
    )
    measured = await opened.page.evaluate(MEASURE)
    assert measured["overlaps"]
    assert measured["faint"]
    assert measured["clipped"]
    assert [one for one in measured["small"] if one.startswith("Show the plan")]


async def unfold(details) -> None:
    """Open it and wait for what is inside, which the toggle event fills: that comes some time after the click."""
    await details.locator("summary").click()
    await expect(details.locator(":scope > :not(summary)")).not_to_be_empty()


async def test_the_cards_are_sums_over_the_answers(open_page):
    opened = await open_page()
    await expect_texts(
        opened.page.locator(".card"),
        [
            "Member clusters 12 9 eligible · 1 leaving · 1 silent · 1 not joined",
            "Placements 9 5 satisfied · 1 pending · 2 short · 1 failed",
            "Rolling out 2 3 of 6 bindings updated",
            "Bindings 24 20 available · 2 applying · 1 waiting · 1 failed",
        ],
    )


AGES = {"newnewt": DASH, "oldwhale": "14m"}
"""Of the last heartbeat, where it is not 23s."""


async def test_the_fleet_shows_what_the_api_says(hub, open_page):
    opened = await open_page()
    rows = opened.page.get_by_role("table").get_by_role("row")
    await expect_texts(
        rows.nth(0).get_by_role("columnheader"),
        [
            "Cluster",
            "State",
            "Region",
            "Labels, taints",
            "Nodes",
            "CPU free",
            "Memory free",
            "Cost / core",
            "Window",
            "Heartbeat",
            "Placements",
        ],
    )
    assert await rows.count() == len(hub.clusters) + 1
    for place, cluster in enumerate(hub.clusters, start=1):
        row = rows.nth(place)
        await expect_texts(row.get_by_role("rowheader"), [cluster["name"]])
        cells = await texts(row.get_by_role("cell"))
        state, region, labels, nodes, cpu, memory, cost, window, heartbeat, placements = cells
        assert window == DASH, "the sample has no windows"
        assert state == f"{cluster['state']} {cluster['stateDetail']}".strip()
        assert region == cluster["labels"]["region"]
        shown = [f"{key}={value}" for key, value in cluster["labels"].items() if key != "region"]
        assert labels.split() == shown + [f"{t['key']}:{t['effect']}" for t in cluster["taints"]]
        assert nodes == (DASH if cluster["nodes"] is None else str(cluster["nodes"]))
        assert cpu == (
            DASH if not cluster["cpu"] else f"{cluster['cpu']['available']} / {cluster['cpu']['allocatable']}"
        )
        assert memory == (DASH if not cluster["memory"] else cluster["memory"]["available"].replace("Gi", " GiB"))
        assert cost == cluster["properties"].get(CORE_COST, {"value": DASH})["value"]
        assert heartbeat == AGES.get(cluster["name"], "23s")
        assert placements == str(len(cluster["placements"]))
        if cluster["cpu"]:
            share = await row.locator(".meter").nth(0).evaluate("e => e.firstChild.offsetWidth / e.offsetWidth")
            assert share == pytest.approx(cluster["cpu"]["ratio"], abs=0.02)


def upkept(hub: FixtureHub) -> None:
    """Have one cluster upgraded, and one wait for its window on hold, with all that can be said of both."""
    upgrade = {"run": "kubernetes-1-31", "state": "Running", "message": ""}
    upgrade |= {"fromVersion": "1.30.4", "toVersion": "1.31.2"}
    hub.clusters[0]["upkeep"] = {"version": "1.30.4", "windowOpen": True, "upgrade": upgrade}
    waiting = {"run": "kubernetes-1-31", "state": "Pending", "message": "its window opens at 2026-11-28T21:00:00Z"}
    kept = {"version": "1.30.4", "onHold": True, "windowOpen": False, "windowUntil": "2026-11-28T21:00:00Z"}
    hub.clusters[2]["upkeep"] = kept | {"upgrade": waiting}
    windows = [
        {"name": "nights", "target": "All", "open": False, "until": "2026-11-28T21:00:00Z"},
        {"name": LONG, "unreadable": True},
        {"name": "gone", "missing": True},
    ]
    expected = {"from": "2026-11-28T21:00:00Z", "to": "2026-11-28T21:55:00Z"}
    hub.clusters_in_full["calmheron"] = {
        "upkeep": kept | {"upgrade": waiting | {"expected": expected}, "windows": windows},
        "holds": [
            {"kind": "Rollout", "by": "rollout/crp/web", "message": "crp/web is being rolled out to member calmheron"},
            {"kind": "", "by": "", "message": "", "until": "2026-11-24T10:00:00Z"},
        ],
    }


async def test_the_fleet_shows_upgrades_and_windows(hub, open_page):
    upkept(hub)
    page = (await open_page()).page
    rows = page.get_by_role("table").get_by_role("row")
    states = [(await texts(rows.nth(place).get_by_role("cell")))[0] for place in (1, 3)]
    assert states == [
        "upgrading 1.30→1.31 Kubernetes 1.30.4 being upgraded by kubernetes-1-31",
        "eligible Kubernetes 1.30.4 · upgrades on hold waits in kubernetes-1-31",
    ]
    windows = [await texts(rows.nth(place).locator(".c-window")) for place in (1, 3)]
    assert windows == [["open"], ["opens Sat 28 Nov 21:00"]]
    assert "Rolling out 2 3 of 6 bindings updated · 1 cluster being upgraded" in await texts(page.locator(".card"))
    for width in (1271, 1270, 1024, 1001):
        await show(page, width)
        assert (await page.evaluate(MEASURE))["overflow"] == 0, f"{width} px"


async def test_a_cluster_of_its_own(hub, open_page):
    """What it runs, its windows, the run that upgrades it, what else holds it, and what is placed there."""
    upkept(hub)
    opened = await open_page("cluster/calmheron")
    page = opened.page
    await expect(page.locator("#cluster-panel dd")).to_have_count(6)
    told = [
        "1.30.4",
        "nights closed, opens Sat 28 Nov 21:00 for updates and upgrades"
        f" {LONG} unreadable, counts as closed gone does not exist",
        "waits in kubernetes-1-31, expected Sat 28 Nov 21:00 to Sat 28 Nov 21:55 its window opens at Sat 28 Nov 21:00",
        "harbormaster.dev/upgrade-hold holds upgrades. crp/web is being rolled out to member calmheron"
        " A reservation is disrupting it, until Tue 24 Nov 10:00",
        ", ".join(hub.clusters[2]["placements"]),
        "region=northeurope env=prod tier=1",
    ]
    for width, scheme in VIEWS:
        await show(page, width, scheme)
        assert await texts(page.locator("#cluster-panel dd")) == told
        measured = await page.evaluate(MEASURE)
        seen = {key: measured[key] for key in LEGIBLE}
        assert seen == LEGIBLE, f"{width} px, {scheme}"
    await opened.assert_quiet()


async def test_a_cluster_is_shown_by_its_name_and_hidden_by_another_address(hub, open_page):
    page = (await open_page()).page
    assert await page.locator("#cluster-panel").is_hidden()
    assert await page.locator("#fleet-panel").is_visible()
    await page.locator(".cluster-name", has_text="busybee").click()
    await expect(page.locator("#cluster-title")).to_have_text("busybee")
    assert (await texts(page.locator("#cluster-panel dd")))[:4] == [
        "unknown",
        "none: may be changed at any time",
        "not part of any run",
        "nothing",
    ]
    hub.clusters = [each for each in hub.clusters if each["name"] != "busybee"]
    hub.publish(clusters=True)
    await expect(page.locator("#cluster-body")).to_have_text(
        "Member cluster busybee does not exist or was deleted. Show all clusters"
    )
    await page.evaluate("location.hash = 'placement/crp/payments'")
    await expect(page.locator("#cluster-panel")).to_be_hidden()
    await expect(page.locator("#placement-title")).to_have_text("payments")


async def test_the_placements_show_wanted_picked_and_available(hub, open_page):
    opened = await open_page("placement")
    links = opened.page.locator(".placements .row-link")
    assert await links.count() == len(hub.placements)
    for place, placement in enumerate(sorted(hub.placements, key=lambda each: each["ref"])):
        link = links.nth(place)
        wanted = "all" if placement["wanted"] is None else str(placement["wanted"])
        await expect_texts(
            link.locator(".num"),
            [
                f"wanted {wanted}",
                f"picked {placement['picked']}",
                f"available {placement['available']}",
            ],
        )
        await expect_texts(opened.page.locator(".row-states").nth(place).locator(".pill"), [placement["state"]])
        assert await texts(link.locator(".why")) == ([placement["why"]] if placement["why"] else [])
        assert await link.get_attribute("href") == f"#placement/{placement['ref']}"
        name = f"{placement['namespace']}/{placement['name']}" if placement["namespace"] else placement["name"]
        await expect_texts(link.locator(".placement-name"), [name])


@pytest.mark.parametrize("ref", ["crp/payments", "crp/edge-cache", "rp/shop/cart", "crp/gpu-batch"])
async def test_scores_and_their_parts_equal_the_explanation(hub, open_page, ref):
    """Every scored cluster: its points, the parts of its bar in proportion, its verdict; the others: why not."""
    opened = await open_page(ref)
    items = {item["cluster"]: item for item in hub.explanation(ref)["items"]}
    shown = opened.page.locator(".rows > li")
    assert await texts(shown.locator(".who")) == list(items)
    bars = {}
    for place, item in enumerate(items.values()):
        row = shown.nth(place)
        if "affinity" not in item:
            assert item["reason"].split(": ", 1)[1] in (await texts(row.locator(".refused")))[0]
            continue
        await expect_texts(row.locator(".score"), [str(item["affinity"]["score"]).replace("-", MINUS)])
        points = [t.get("points", t.get("sorter", {}).get("points")) for t in item["affinity"]["terms"]]
        assert sum(points) == item["affinity"]["score"]
        widths = await row.evaluate(
            """(row) => [...row.querySelectorAll(".side i:not(.part-spread)")].map(
              (e) => [e.className, e.getBoundingClientRect().width, !!e.closest(".below")])"""
        )
        assert len(widths) == len([p for p in points if p])
        for colour, width, below in widths:
            value = points[int(colour.removeprefix("part-"))]
            assert below == (value < 0)
            if abs(value) > 5:
                bars[item["cluster"], colour] = width / abs(value)
    assert bars
    assert max(bars.values()) == pytest.approx(min(bars.values()), rel=0.1)


async def test_the_wanted_line_parts_picked_from_not_picked(hub, open_page):
    opened = await open_page("crp/payments")
    explanation = hub.explanation("crp/payments")
    picked = [i["cluster"] for i in explanation["items"] if i["verdict"] in ("Picked", "Kept")]
    order = await texts(opened.page.locator(".explanation .who, .explanation .wanted span"))
    assert order.index("wanted 3") == len(picked) == 3
    pills = await texts(opened.page.locator(".rows .verdict .pill"))
    assert pills[:3] == ["picked", "kept", "picked"]
    assert pills[3] == f"{-explanation['items'][3]['gap']['difference']} short"
    call_out = " ".join(await texts(opened.page.locator(".explanation .callout p")))
    assert f"{explanation['items'][3]['cluster']} {explanation['items'][3]['help']}" in call_out
    assert "to 0.076 (oldwhale); oldwhale is not a candidate itself." in call_out
    await expect_texts(
        opened.page.locator(".legend li"),
        [
            f"node-count, most first {TIMES} 50",
            f"per-cpu-core-cost, least first {TIMES} 50",
        ],
    )


async def test_a_short_placement_says_what_was_found(open_page):
    opened = await open_page("crp/gpu-batch")
    await expect_texts(opened.page.locator(".wanted span"), ["wanted 3, found 1"])
    assert "10 have no label gpu=a100" in (await texts(opened.page.locator("#placement-body > .callout")))[0]


async def test_the_warnings_about_a_placement_are_shown(hub, open_page):
    hub.in_full = {"advisories": ["X-05 spec.policy.numberOfClusters: one", "X-25 spec.resourceSelectors[0]: two"]}
    opened = await open_page("crp/edge-cache")
    about = opened.page.locator("#placement-panel .more-about")
    await expect(about.get_by_text("2 warnings")).to_be_visible()
    await expect(about.get_by_text("X-25 spec.resourceSelectors[0]: two")).to_be_visible()
    await about.get_by_role("link", name="X-05", exact=True).click()
    await expect_address(opened.page, "#reference/X-05")


async def test_a_satisfied_placement_says_what_it_would_not_take_now(hub, open_page):
    """Clusters that came later are not needed, whatever they score; equal advice is given once, for all it helps."""
    document = copy.deepcopy(hub.explanation("crp/edge-cache"))
    items = {item["cluster"]: item for item in document["items"]}
    items["gladgull"] |= {
        "verdict": "NotNeeded",
        "gap": {"toLastPicked": "bravelion", "decidedBy": "affinity", "difference": 9},
    }
    items["gladgull"]["help"] = ""
    for name in ("newnewt", "oldwhale", "slowtortoise", "dryduck"):
        items[name]["help"] = "would pass with: a heartbeat"
    items["dryduck"]["filters"][-1]["tolerated"] = [{"taint": "maintenance:NoSchedule", "by": None}]
    items["calmheron"]["binding"] = {
        "state": "Bound",
        "currentPolicy": True,
        "recordedScore": {"topologySpread": 0, "affinity": 44},
        "wouldStillMatch": False,
        "wouldBeRefused": "TaintNotTolerated: taint a:NoSchedule not tolerated",
    }
    hub.explanations["crp/edge-cache"] = document
    opened = await open_page("crp/edge-cache")
    rows = opened.page.locator(".rows > li")
    await expect_texts(rows.filter(has_text="gladgull").locator(".pill"), ["not needed"])
    call_out = await texts(opened.page.locator(".explanation .callout p"))
    assert call_out[0] == "dryduck, newnewt, oldwhale and 1 more would pass with: a heartbeat."
    for name in ("calmheron", "dryduck"):
        await unfold(rows.filter(has_text=name).locator("details"))
    traces = await texts(opened.page.locator(".trace"))
    assert "Binding Bound; picked with 44 points, spread 0; would be refused today: TaintNotTolerated" in traces[1]
    assert "taints failed : maintenance:NoSchedule not tolerated" in " ".join(traces)


async def test_an_exceeded_limit_is_marked_and_leaves_the_other_bars_their_length(hub, open_page):
    """-1000 is no amount of skew: the whole bar is marked, words say why, and the spread of others is still seen."""
    document = copy.deepcopy(hub.explanation("crp/edge-cache"))
    items = {item["cluster"]: item for item in document["items"]}
    items["busybee"]["topology"]["score"] = -1000
    items["busybee"]["topology"]["constraints"][0] |= {"points": -1000, "change": 1, "violated": True}
    gap = {"toLastPicked": "bravelion", "decidedBy": "topologySpread", "difference": -1000}
    items["busybee"] |= {"verdict": "ScoreTooLow", "gap": gap}
    hub.explanations["crp/edge-cache"] = document
    opened = await open_page("crp/edge-cache")
    row = opened.page.locator(".rows > li").filter(has_text="busybee")
    assert await row.locator(".bar-track.over").count() == 1
    assert await row.locator("i.part-spread").count() == 0
    await expect_texts(row.locator(".pill"), ["over limit"])
    await expect_texts(row.locator(".spread"), [f"{MINUS}1,000"])
    assert "exceeds the limit of a spread constraint" in (await texts(opened.page.locator(".legend")))[0]
    other = opened.page.locator(".rows > li").filter(has_text="quickfox")
    width = "(e) => e.getBoundingClientRect().width"
    spread = await other.locator("i.part-spread").evaluate(width)
    track = await other.locator(".bar-track").evaluate(width)
    assert track / 20 < spread < track / 5  # it neither vanishes nor dwarfs the points it is not added to


MANY_JOINED = "; ".join(f"member-{i} changed (new, labels, health)" for i in range(6))


@pytest.mark.parametrize(
    ("message", "line"),
    [
        pytest.param(
            f"policy snapshot shop-0; {MANY_JOINED}",
            "new policy snapshot shop-0; member-0, member-1 and 4 more joined the fleet",
            id="grouped",
        ),
        pytest.param(
            "since the last run these members changed: a (resources), b (gone), c (resources) and 4 more",
            "a and c changed (resources); b left the fleet; 4 more changed",
            id="members",
        ),
        pytest.param("numberOfClusters 2 → 3", "numberOfClusters 2 → 3", id="as-it-is"),
        pytest.param("something; of a (new) kind (here) it", "something; of a (new) kind (here) it", id="unheard-of"),
    ],
)
async def test_why_it_was_decided_is_said_in_a_line(hub, open_page, message, line):
    """Clusters with the same news share a sentence; what the API says is there in full where that is more."""
    trigger = {"event": "SnapshotCreated", "objects": [], "message": message}
    run = {"trigger": trigger, "snapshot": "shop-0", "fleetSize": 12, "batches": 0, "counts": {"ClusterLeaving": 1}}
    hub.explanations["crp/payments"] = hub.explanation("crp/payments") | run
    opened = await open_page("crp/payments")
    shown = await texts(opened.page.locator(".run p:visible"))
    assert shown[0] == f"Last decided because: {line}."
    assert shown[1].startswith(
        "12 clusters in the fleet; it already has all the clusters it wants, so none was evaluated again. "
        "Not picked: 1 ClusterLeaving. Policy snapshot shop-0. Evaluated Mon 23 Nov 12:20."
    )
    in_full = opened.page.locator(".run details")
    assert await in_full.count() == (line != message)
    if line != message:
        await in_full.locator("summary").click()
        await expect(in_full.locator("p")).to_have_text(f"{message}.")


VIEW_TITLES = {
    "fleet": ("Fleet", "#fleet-title"),
    "placement": ("Placements", "#placements-title"),
    "placement/rp/shop/cart": ("Placements", "#placements-title"),
    "cluster/bravelion": ("Fleet", "#cluster-title"),
    "runs": ("Runs", "#runs-title"),
    "budgets": ("Budgets", "#budgets-title"),
    "timeline": ("Timeline", "#history-title"),
}


@pytest.mark.parametrize("ref", VIEW_TITLES)
async def test_an_address_leads_to_one_view(open_page, ref):
    link, title = VIEW_TITLES[ref]
    opened = await open_page(ref)
    await expect(opened.page.locator("main > [data-view]:visible")).to_have_count(1)
    await expect(opened.page.locator(title)).to_be_visible()
    await expect(opened.page.locator("nav a[aria-current=page]")).to_have_text([link])
    await opened.assert_quiet()


async def test_a_link_leads_to_the_top_of_a_view_and_back_to_where_the_reader_was(open_page):
    page = (await open_page("fleet?sort=-nodes")).page
    await page.set_viewport_size({"width": 1280, "height": 400})
    await page.get_by_role("link", name="smartfish").scroll_into_view_if_needed()
    await page.wait_for_function("() => scrollY > 0 && history.state?.top === scrollY")
    top = await page.evaluate("scrollY")
    await page.get_by_role("link", name="smartfish").click()
    await expect(page.locator("#cluster-title")).to_be_focused()
    assert await page.evaluate("scrollY") == 0
    await page.go_back()
    await expect(page.locator("#fleet-title")).to_be_visible()
    await expect_address(page, "#fleet?sort=-nodes")
    await page.wait_for_function(f"() => Math.abs(scrollY - {top}) < 2")


async def test_rollout_states_and_details(hub, open_page):
    opened = await open_page("crp/edge-cache")
    await expect_texts(
        opened.page.locator(".rollout-states li"),
        [
            "2 available calmheron, bravelion",
            "1 applying tallcrane: 2 of 5 resources applied",
            "1 waiting jumpingcat: waits for tallcrane (maxUnavailable 1)",
        ],
    )
    await expect_texts(opened.page.locator(".rollout .sub"), ["RollingUpdate, maxUnavailable 25%, maxSurge 1"])


async def test_a_rollout_that_stands_still_says_since_when_by_what_and_which_release_serves(hub, open_page):
    states = {"bravelion": "available", "tallcrane": "applying", "jumpingcat": "waiting", "calmheron": "waiting"}
    why = "no progress since 2026-03-01T10:00:00Z. tallcrane: Deployment web/front: 0 of 3 ready"
    hub.placements = [
        placement_item(
            "crp/web",
            "PickN",
            states,
            wanted=4,
            state="stalled",
            why=why,
            old=["jumpingcat", "calmheron"],
            stalled=1500,
        )
    ]
    opened = await open_page("crp/web")
    row = opened.page.locator(".placements .row-link")
    await expect(row.locator(".num")).to_have_text(["wanted 4", "picked 4", "available 1"])
    await expect(row.locator(".placement-picks")).to_contain_text(" · 2 on the old release")
    shown = why.replace("2026-03-01T10:00:00Z", "Sun 1 Mar 10:00")
    await expect(row.locator(".why")).to_have_text(shown)
    sub = opened.page.locator("#placement-sub")
    await expect(sub).to_contain_text("picked 4 · 1 available · 2 on the old release")
    await expect(sub).to_contain_text("stalled, no progress for 25m")
    waiting = opened.page.locator(".rollout-states li", has_text="2 waiting")
    await expect(waiting).to_contain_text("all of them serve the old release until then")
    await opened.page.get_by_role("link", name="Fleet", exact=True).click()
    await expect(opened.page.locator(".card")).to_have_count(4)
    cards = await texts(opened.page.locator(".card"))
    assert "Placements 1 0 satisfied · 1 stalled" in cards
    assert "Rolling out 1 1 of 4 bindings updated" in cards
    await opened.assert_quiet()


def removal(effect, digest, **more):
    """Return an entry of ``removals``."""
    usual = {
        "kind": "Object",
        "objects": 1,
        "clusters": ["bravelion"],
        "clusterCount": 3,
        "since": ago(7200),
        "onMembers": None,
    }
    return {"effect": effect, "digest": digest * 20, "ageSeconds": 7200, **usual, **more}


async def test_removals_that_wait_are_shown_with_their_digests_and_the_command(hub, open_page):
    states = {"bravelion": "available", "smartfish": "removal pending"}
    why = "9 objects remain on the members until confirmed"
    web = placement_item("crp/web", "PickN", states, wanted=1, state="removal pending", why=why)
    rolling = placement_item("crp/api", "PickN", {"bravelion": "applying"}, wanted=1, state="rolling out")
    quiet = placement_item("crp/quiet", "PickN", {"bravelion": "available"}, wanted=1)
    waits = {"removalPendingSince": ago(7200)}
    counted = {"volumeClaims": 2, "others": 1, "atLeast": False, "unknownClusters": 1, "countedAt": ago(240)}
    removals = [
        removal("Namespace shop and 8 objects in it", "a", objects=9, onMembers=counted),
        removal("cluster smartfish", "b", kind="Cluster", objects=12, clusterCount=1, since=None),
    ]
    hub.placements = [web | waits | {"removals": removals}, rolling | waits, quiet]
    opened = await open_page("crp/web")
    pills = opened.page.locator(".placements .pill")
    await expect(pills).to_have_text(["rolling out", "removal pending", "available", "removal pending"])
    section = opened.page.get_by_role("region", name="Pending removals")
    besides = "with 2 volume claims and 1 other object on the members, counted 4m ago, unknown on 1 cluster"
    await expect(section.locator("li")).to_have_text(
        [
            f"Namespace shop and 8 objects in it · 9 objects on 3 clusters · pending for 2h{besides}digest {'a' * 20}",
            f"cluster smartfish · 12 objects · since an unknown timedigest {'b' * 20}",
        ]
    )
    await expect(opened.page.locator(".commands")).to_contain_text("harbormaster confirm crp/web")
    await opened.page.locator(".placements .row-link", has_text="quiet").click()
    await expect(section).to_be_hidden()
    await expect(opened.page.locator(".commands")).not_to_contain_text("harbormaster confirm")
    await opened.page.get_by_role("link", name="Fleet", exact=True).click()
    await opened.page.get_by_role("link", name="2 removal pending").click()
    await expect(opened.page.locator(".placements .row-link")).to_have_count(2)
    await opened.assert_quiet()


async def test_an_edit_that_is_being_judged_shows_the_last_known(hub, open_page):
    states = {"bravelion": "available", "smartfish": "available"}
    hub.placements = [
        placement_item("crp/web", "PickN", states, wanted=3, why="being evaluated again", judged_again=True)
    ]
    hub.placements[0] |= {"decidedAt": None}
    opened = await open_page("crp/web")
    row = opened.page.locator(".placements .row-link")
    await expect(row.locator(".num")).to_have_text(["wanted 3", "picked 2", "available 2"])
    await expect(opened.page.locator(".row-states .pill")).to_have_text("available")
    await expect(row.locator(".why")).to_have_text("being evaluated again")
    await expect(opened.page.locator("#placement-sub")).to_have_text(
        "PickN 3 · picked 2 · 2 available · being evaluated again"
    )
    await opened.page.get_by_role("link", name="Fleet", exact=True).click()
    await expect(opened.page.locator(".card", has_text="Placements")).to_have_text(
        re.compile("0.satisfied · 1.being.reevaluated")
    )
    await opened.assert_quiet()


async def test_the_numbers_behind_a_row_are_one_key_away(open_page):
    opened = await open_page("crp/payments")
    row = opened.page.locator(".rows > li", has_text="quickfox")
    await row.locator("summary").focus()
    await opened.page.keyboard.press("Enter")
    await expect(row.locator(".trace")).not_to_be_empty()  # filled by the toggle event, which comes after the key
    words = (await texts(row.locator(".trace")))[0]
    assert "range 0.029 (jumpingcat) to 0.076 (oldwhale, not a candidate)" in words
    assert "node-count: observed 25 (41s old), wanted ≥ 5" in words
    opened.hub.publish("crp/payments", clusters=True)
    await opened.page.locator("#live[data-revision='8842']").wait_for()
    assert await row.locator("details").get_attribute("open") is not None
    await row.get_by_role("link", name="Show quickfox", exact=True).click()
    await expect_address(opened.page, "#cluster/quickfox")


async def test_json_links_lead_to_the_very_documents(hub, open_page):
    opened = await open_page("rp/shop/cart")
    links = opened.page.get_by_role("link", name="show as JSON")
    paths = [await link.get_attribute("href") for link in await links.all()]
    assert paths == ["/v1/placements", "/v1/placements/rp/shop/cart"]
    explanation = opened.page.get_by_role("link", name="explanation as JSON")
    text = await explanation.evaluate("(link) => fetch(link.href).then((answer) => answer.text()).catch(() => '')")
    assert text == ""  # connect-src 'self' keeps scripts from reading it …
    async with opened.page.context.expect_page() as waiting:
        await explanation.click()
    shown = await (await waiting.value).evaluate("document.body.innerText")  # … but the viewer can
    assert [i["cluster"] for i in json.loads(shown)["items"]] == [
        i["cluster"] for i in hub.explanation("rp/shop/cart")["items"]
    ]


async def test_a_change_shows_without_a_reload(hub, open_page):
    """One event: cards, fleet row, list, explanation and the spoken news follow; the document stays."""
    opened = await open_page("crp/payments")
    page = opened.page
    await page.evaluate("window.stayed = true")
    place = next(i for i, p in enumerate(hub.placements) if p["name"] == "payments")
    states = {"bravelion": "available", "smartfish": "available", "calmheron": "available", "quickfox": "applying"}
    hub.placements[place] = placement_item("crp/payments", "PickN", states, wanted=4, state="rolling out")
    hub.clusters[0] |= {
        "state": "leaving",
        "stateDetail": "asked to leave",
        "eligible": False,
        "reason": "ClusterLeaving",
    }
    hub.count_placements()
    await expect_texts(page.locator("#live-text"), ["live"])  # nothing has changed since it was opened
    hub.publish("crp/payments", clusters=True)
    await expect(page.locator(".wanted")).to_have_text("wanted 4")
    await expect(page.locator(".placements .row-link[aria-current] .num")).to_have_text(
        ["wanted 4", "picked 4", "available 3"]
    )
    await page.locator(".rows > li", has_text="quickfox").get_by_text("picked", exact=True).wait_for()
    await expect_texts(page.locator("#live-text"), ["live · last change 0s ago"])
    assert await page.locator("#news").text_content() == "payments: rolling out, picked 4"
    await page.get_by_role("link", name="Fleet", exact=True).click()
    await expect(page.locator(".fleet tr", has_text="bravelion").locator(".detail")).to_have_text("asked to leave")
    assert (await texts(page.locator(".card").nth(0)))[0].startswith("Member clusters 12 8 eligible · 2 leaving")
    assert await page.evaluate("window.stayed")
    await opened.assert_quiet()


async def test_placements_come_and_go(hub, open_page):
    opened = await open_page("crp/payments", paused=True)
    page = opened.page
    hub.placements = [p for p in hub.placements if p["name"] != "payments"]
    hub.placements.append(placement_item("crp/zebra", "PickAll", {}))
    await opened.publish("crp/payments", "crp/zebra")
    await page.get_by_text("Placement crp/payments does not exist or was deleted.").wait_for()
    await expect(page.locator(".placements .row-link[href='#placement/crp/zebra']")).to_have_count(1)
    hub.placements.insert(0, placement_item("crp/payments", "PickN", {"smartfish": "available"}, wanted=1))
    held: list[Route] = []
    await page.route("**/v1/placements?*", lambda route: held.append(route))
    await opened.publish("crp/payments")
    await until(lambda: held)
    await page.clock.run_for(2_000)  # the turn of the explanation comes before the list is answered
    await held[0].continue_()
    await page.locator(".placements .row-link[href='#placement/crp/payments']").wait_for()
    await page.clock.run_for(SHORTEST_PAUSE)
    await page.locator("#placement-body").get_by_text("wanted 1", exact=True).wait_for()
    await page.locator("#placement-body .rows .who", has_text="smartfish").wait_for()


async def test_the_keyboard_selects_a_placement(open_page):
    """Tab reaches the list, arrows walk it, Enter selects: the address, the mark and the panel follow."""
    opened = await open_page("crp/audit")
    page = opened.page
    for _ in range(30):
        await page.keyboard.press("Tab")
        if await page.evaluate("document.activeElement.closest('.placements') !== null"):
            break
    assert await page.evaluate("document.activeElement.getAttribute('href')") == "#placement/crp/audit"
    assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await page.locator("#placement-title", has_text="edge-cache").wait_for()
    await page.locator(".rows .who", has_text="tallcrane").wait_for()
    await expect_address(page, "/#placement/crp/edge-cache")
    current = page.locator(".placements .row-link[aria-current=true]")
    assert await current.get_attribute("href") == "#placement/crp/edge-cache"
    await page.go_back()
    await page.locator("#placement-title", has_text="audit").wait_for()
    opened.hub.publish("crp/audit", clusters=True)
    await page.locator("#live[data-revision='8842']").wait_for()
    focused = await page.evaluate("document.activeElement.getAttribute('href')")
    assert focused == "#placement/crp/edge-cache", "the focus stays where it is"


async def test_arrow_keys_walk_the_clusters(hub, open_page):
    """Their names are one stop of the Tab key; a new answer leaves the focus where it is."""
    page = (await open_page()).page
    await page.locator(".cluster-name").first.focus()
    await page.keyboard.press("ArrowUp")
    for _ in range(2):
        await page.keyboard.press("ArrowDown")
    assert await page.evaluate("document.activeElement.textContent") == "calmheron"
    assert await page.locator(".cluster-name[tabindex='0']").count() == 1
    hub.clusters[2]["taints"] = [{"key": "new", "value": "", "effect": "NoSchedule"}]
    hub.publish(clusters=True)
    await expect(page.locator(".taint", has_text="new")).to_have_count(1)
    assert await page.evaluate("document.activeElement.textContent") == "calmheron"
    await page.keyboard.press("Enter")
    await expect(page.locator("#cluster-title")).to_have_text("calmheron")


async def test_without_a_name_the_first_placement_that_needs_a_look_is_shown(open_page):
    opened = await open_page("placement")
    await expect_texts(opened.page.locator("#placement-title"), ["gpu-batch"])
    await expect_address(opened.page, "#placement")


@pytest.mark.parametrize(
    ("ref", "title", "words"),
    [
        ("crp/nobody", "#placement-title", "Placement"),
        ("placement/rp/no/body", "#placement-title", "Placement"),
        ("placement/nothing", "#placement-title", "gpu-batch"),
        ("cluster/nobody", "#cluster-title", "Cluster"),
        ("cluster", "#fleet-title", "Fleet"),
        ("crp/%E0%A4%A", "#fleet-title", "Fleet"),
        ("nowhere", "#fleet-title", "Fleet"),
        ("fleet?label=%3D%3D&state=no&sort=nothing&group=none", "#fleet-title", "Fleet"),
    ],
)
async def test_addresses_that_lead_nowhere(open_page, ref, title, words):
    opened = await open_page(ref)
    await expect(opened.page.locator(title)).to_have_text(words)
    await expect(opened.page.locator(title)).to_be_visible()
    await opened.assert_quiet()


async def test_a_broken_stream_is_said_and_mended(hub, open_page):
    opened = await open_page("crp/payments")
    hub.failing["/v1/events"] = 503
    hub.hang_up()
    await opened.page.locator("#live[data-state=disconnected]").wait_for()
    assert (await texts(opened.page.locator("#live-text")))[0].startswith("disconnected, retrying")
    assert await opened.page.locator("#news").text_content() == "disconnected, retrying"
    hub.failing.clear()
    hub.placement("crp/payments")["why"] = "Something new."
    await opened.page.locator("#live[data-state=live]").wait_for()
    await opened.page.locator(".placements .why", has_text="Something new.").wait_for()


async def test_an_api_error_is_said_and_what_was_shown_stays(hub, open_page):
    opened = await open_page("crp/payments")
    hub.failing = {"/v1/clusters": 503, "/v1/explain": 500}
    hub.publish("crp/payments", clusters=True)
    problem = opened.page.get_by_role("alert")
    await problem.wait_for()
    await expect_texts(
        problem,
        [
            "/v1/clusters cannot be read: 503 Service Unavailable: the cache has not synced yet (urn:uuid:6f1c). "
            "The data shown may be out of date. Retrying…"
        ],
    )
    await opened.page.get_by_text("Explanation unavailable: 500").wait_for()
    assert await opened.page.locator(".placements .row-link").count() == len(hub.placements)
    assert await opened.page.locator(".rows > li").count() == 12
    hub.failing.clear()
    await problem.wait_for(state="detached")
    await opened.page.get_by_text("Explanation unavailable").wait_for(state="hidden")


COUNT_ALERTS_THAT_GO = """
window.gone = 0;
new MutationObserver((changes) => { for (const change of changes) window.gone += change.removedNodes.length; })
  .observe(document.getElementById("problems"), { childList: true });
"""


async def test_what_is_read_of_one_cluster_takes_no_error_of_the_list_back(hub, open_page):
    opened = await open_page("crp/payments", paused=True)
    hub.failing = {"/v1/clusters": 503}
    await opened.publish(clusters=True)
    await opened.page.get_by_role("alert").wait_for()
    await opened.page.evaluate(COUNT_ALERTS_THAT_GO)
    for _ in range(3):
        await opened.publish(clusters=True)
    assert await opened.page.evaluate("window.gone") == 0


async def test_an_api_that_is_down_from_the_start(hub, open_page):
    """All that fails for the same reason shares a banner."""
    hub.failing = {"/v1/clusters": 503, "/v1/placements": 503}
    opened = await open_page(settle=False)
    await expect_texts(
        opened.page.get_by_role("alert"),
        [
            "/v1/clusters, /v1/placements cannot be read: 503 Service Unavailable: the cache has not synced yet "
            "(urn:uuid:6f1c). Retrying…"
        ],
    )
    assert await opened.page.locator("#fleet-body").inner_text() == "Loading the fleet…"
    hub.failing.clear()
    await opened.settle()
    assert await opened.page.get_by_role("alert").count() == 0


async def test_a_thousand_clusters_start_with_those_that_need_a_look(hub, open_page):
    many(hub)
    opened = await open_page(paused=True)
    page = opened.page
    rows = page.locator(".fleet tbody tr")
    assert await rows.count() == 25
    await expect_texts(rows.nth(0).get_by_role("rowheader"), ["member-0500"])
    await page.get_by_role("searchbox").fill("REGION-7 dry-dock")
    assert await rows.count() == 0
    await page.get_by_role("searchbox").fill("Dry-Dock")
    await expect_texts(rows.get_by_role("rowheader"), ["member-0800"])
    await page.get_by_role("searchbox").fill("")
    await page.get_by_role("button", name="Show all 1,000 clusters").first.click()
    assert await rows.count() == 1000
    hub.clusters[999]["nodes"] = 77_777
    asked = len(hub.asked)
    await opened.publish(names=[hub.clusters[999]["name"]])
    await page.locator(".fleet tbody tr").nth(999).get_by_text("77,777").wait_for()
    assert hub.asked[asked:] == ["GET /v1/clusters"], "and only the one that has changed"
    await page.evaluate("location.hash = 'placement/crp/payments'")
    await opened.settle()
    verdicts = Counter(item["verdict"] for item in hub.explanation("crp/payments")["items"])
    await expect_texts(
        page.locator(".counts"),
        [
            f"960 not picked: {verdicts['ScoreTooLow']} ScoreTooLow · {verdicts['AffinityMismatch']} AffinityMismatch"
            " · 1 HeartbeatStale · 1 TaintNotTolerated"
        ],
    )
    await expect_texts(
        page.locator(".rollout-states li"),
        ["40 available " + ", ".join(f"member-{i:04}" for i in range(12)) + " and 28 more"],
    )


async def test_names_are_text_whatever_they_look_like(hub, open_page):
    hostile = "<img src=x onerror=alert(1)>"
    hub.clusters[0] |= {"name": hostile, "stateDetail": hostile, "labels": {hostile: hostile}}
    hub.placement("crp/payments")["why"] = hostile
    opened = await open_page("crp/payments")
    assert await opened.page.locator("main img").count() == 0
    await expect_texts(opened.page.locator(".placements .why", has_text="onerror"), [hostile])
    await opened.assert_quiet()
    markup = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|setAttribute\(.style")
    for script in PAGE.glob("*.js"):
        assert not markup.search(script.read_text(encoding="utf-8")), script.name


async def test_ages_tick(hub, open_page):
    """Also while no answer comes: the reader's clock moves on, and the server's with it."""
    opened = await open_page(disposable=True)
    heartbeat = opened.page.locator(".fleet tbody tr", has_text="bravelion").locator("time")
    await expect(heartbeat).to_have_text("23s")
    await opened.page.context.set_offline(True)  # every answer would set the clock back
    await opened.page.clock.set_fixed_time(NOW + timedelta(minutes=10))
    await expect(heartbeat).to_have_text("10m")


async def test_less_motion_is_honoured(hub, open_page):
    opened = await open_page("crp/payments", motion="reduce")
    hub.failing["/v1/events"] = 503
    hub.hang_up()
    await opened.page.locator("#live[data-state=disconnected]").wait_for()
    assert await opened.page.locator(".dot").evaluate("(e) => getComputedStyle(e).animationName") == "none"


async def test_the_table_stays_a_table_on_a_phone(hub, open_page):
    """Rows are laid out as cards, but are still announced as rows of a table with headers."""
    opened = await open_page(width=390)
    table = opened.page.get_by_role("table", name="Fleet")
    await expect(table.get_by_role("columnheader", include_hidden=True)).to_have_count(11)
    assert await table.get_by_role("rowheader").count() == 6
    await opened.page.get_by_role("button", name="Show all 12 clusters").first.click()
    assert await table.get_by_role("rowheader").count() == 12


async def test_a_phone_brings_the_chosen_placement_into_view(open_page):
    page = (await open_page("placement", width=390, motion="reduce")).page
    await page.get_by_role("button", name="Show all 9 placements").first.click()
    await page.evaluate("scrollTo(0, 0)")
    title = page.locator("#placement-title")
    await expect(title).not_to_be_in_viewport()
    await page.locator(".placements .row-link", has_text="telemetry").evaluate(
        "(link) => link.click()"
    )  # does not scroll
    await expect(title).to_have_text("telemetry")
    await expect(title).to_be_in_viewport()


async def test_a_phone_brings_the_top_of_a_placement_to_the_top_before_it_has_been_read(open_page):
    """Until its answers come, the placement is short, and a page ends with it."""
    page = (await open_page("placement", width=390, motion="reduce")).page
    held: list[Route] = []
    for pattern in ("**/v1/explain", "**/v1/placements/crp/*"):
        await page.route(pattern, lambda route: held.append(route))
    await page.evaluate("scrollTo(0, 0)")
    await page.locator(".placements .row-link", has_text="ledger").evaluate("(link) => link.click()")
    await until(lambda: len(held) == 2)
    await expect(page.locator("#placement-title")).to_have_text("ledger")
    for route in held:
        await route.continue_()
    await expect(page.locator("#placement-panel .explanation li").first).to_be_attached()
    where = "(panel) => Math.round(panel.getBoundingClientRect().top)"
    reached = await page.locator("#placement-panel").evaluate(where)
    await page.locator("#placement-panel").evaluate("(panel) => panel.scrollIntoView({ block: 'start' })")
    assert await page.locator("#placement-panel").evaluate(where) == reached


DOCUMENTS = Counter(["clusters", "placements", "budgets", "runs", "events", "placements/crp/payments", "explain"])


def asked_for(hub: FixtureHub) -> Counter[str]:
    """Return the documents that the page has asked for."""
    return Counter(entry.partition("/v1/")[2] for entry in hub.asked if "/v1/" in entry)


async def test_opening_reads_each_document_once(hub, open_page):
    """The event that the stream starts with calls for everything; here it comes before the first reading."""
    await open_page("crp/payments", paused=True)
    await until(lambda: asked_for(hub) == DOCUMENTS)


async def test_the_first_event_calls_for_one_more_reading(hub, open_page):
    """The stream opens when everything has been read: budgets have no events."""
    held: list[Route] = []
    opened = await open_page(
        "fleet", paused=True, settle=False, routes={"**/v1/events": lambda route: held.append(route)}
    )
    page = opened.page
    await page.clock.run_for(1)
    await expect(page.locator(".card")).to_have_count(4)
    await until(lambda: held)
    await held[0].continue_()
    await opened.heard()
    await page.clock.run_for(SHORTEST_PAUSE)
    both = Counter({"clusters": 2, "placements": 2, "runs": 2, "budgets": 1, "events": 1})
    await until(lambda: asked_for(hub) == both)


async def test_it_prints_on_white(open_page):
    opened = await open_page("crp/payments")
    await opened.page.emulate_media(media="print")
    assert await opened.page.locator(".bar").evaluate("(e) => getComputedStyle(e).position") == "static"
    reserved = await opened.page.locator("#placement-panel").evaluate(
        "(e) => parseFloat(getComputedStyle(e).minHeight) || 0"
    )
    assert reserved == 0  # room to scroll to is for screens
    measured = await opened.page.evaluate(MEASURE)
    assert measured["overlaps"] == []
