"""The states, durations, commands and claims of the page are true."""

import copy
import re

import pytest
from playwright.async_api import expect

from tests.builders.update_run import Moments
from tests.webhook.page.conftest import Opener, expect_address, expect_texts, show, texts
from tests.webhook.page.fixture_hub import CORE_COST, ENTRY, NODE_COUNT, FixtureHub, Json, ago, fill
from tests.webhook.page.fixture_runs import rolling, sample_runs, since

pytestmark = pytest.mark.asyncio(loop_scope="session")


def staged(hub: FixtureHub, moments: Moments, record: Json) -> str:
    """Have a run roll out crp/edge-cache, and return its name."""
    hub.placement("crp/edge-cache").update(state="external", why="waiting for a staged update run")
    hub.runs = [{**record, "spec": {**record["spec"], "placementName": "edge-cache"}}]
    return str(record["metadata"]["name"])


async def test_the_duration_of_a_finished_update_stands_still(hub: FixtureHub, open_page: Opener) -> None:
    """Also where the last age that ticked reads the same as the duration."""
    timeline = rolling(hub.placement("crp/edge-cache")["clusters"])
    hub.in_full = {"timeline": timeline}
    page = (await open_page("crp/edge-cache")).page
    amount = page.locator('#placement-panel .tl-item:has(.tl-who:text-is("tallcrane")) .tl-amount')
    await expect(amount.locator("time")).to_have_text("40s")
    bar = next(one for one in timeline["bands"][0]["bars"] if one["cluster"] == "tallcrane")
    bar.update(state="updated", endedAt=ago(0), detail="")
    hub.publish("crp/edge-cache")
    await expect(page.locator("#placement-panel .tl-bar.good")).to_have_count(3)
    await expect(amount).to_have_text("40s")
    await expect(amount.locator("time")).to_have_count(0)


async def test_a_staged_update_counts_as_rolling_out(hub: FixtureHub, open_page: Opener) -> None:
    moments = since(4)
    staged(hub, moments, moments.at_four())
    page = (await open_page()).page
    await expect(page.locator(".card", has_text="Rolling out")).to_contain_text(
        re.compile(r"2.*of \d+ bindings updated")
    )


async def test_every_time_is_in_the_zone_of_the_reader(hub: FixtureHub, open_page: Opener) -> None:
    """Those inside messages of the server as well; one that is far away has its year."""
    ten = "until 2026-11-23T22:00:00Z"
    placement = hub.placement("crp/edge-cache")
    placement.update(why=f"waits {ten}", advisories=[f"P-30 must wait {ten}"])
    placement["conditions"] = [{"type": "X", "status": "False", "reason": "Waits", "message": ten}]
    document = copy.deepcopy(hub.explanation("crp/edge-cache"))
    document |= {"fleetSize": 12, "batches": 1}
    item = next(one for one in document["items"] if one["cluster"] == "calmheron")
    item |= {"summary": f"calmheron is kept {ten}", "warnings": [f"no reading {ten}"]}
    item["binding"] = {"since": "2026-11-20T09:30:00Z", "age": "3d", "wouldBeRefused": f"tainted {ten}"}
    reading = {"observed": "3", "validUntil": "2199-01-01T00:00:00Z", "expiresIn": "172y"}
    item["affinity"]["terms"][0]["sorter"] |= reading
    hub.explanations["crp/edge-cache"] = document
    page = (await open_page("crp/edge-cache", zone="Asia/Tokyo")).page
    await page.evaluate("document.querySelectorAll('#placement-panel details').forEach((one) => { one.open = true; })")
    row = page.locator(".rows > li", has_text="calmheron")
    await expect(row.locator(".trace")).not_to_be_empty()
    words = " ".join(await texts(page.locator("#placement-panel")))
    assert re.findall(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T\S*", words) == []
    assert words.count("until Tue 24 Nov 7:00") == 6
    assert "since Fri 20 Nov 18:30 (3d ago)" in words
    assert "Evaluated Mon 23 Nov 21:20." in words
    assert "valid for 172y (until Tue 1 Jan 2199 9:00)" in words


async def test_the_day_of_a_property_is_a_line_or_says_why_not(hub: FixtureHub, open_page: Opener) -> None:
    """A line of few values would look like a dash."""
    hub.series = [
        {"name": NODE_COUNT, "values": [None] * 94 + [100, 100]},
        {"name": CORE_COST, "values": [0.03, 0.04] * 48},
    ]
    hub.clusters[0]["properties"]["k8s.io/k8s-version"] = {"value": "1.31.2", "observedAt": ago(41)}
    page = (await open_page("cluster/bravelion")).page
    day = page.locator(".properties tr td:nth-child(3)")
    await expect(day.locator(".sparkline")).to_have_count(1)
    rows = dict(zip(await texts(page.locator(".properties tbody th")), await texts(day), strict=True))
    assert rows == {
        "node-count": "since Mon 23 Nov 12:05",
        "per-cpu-core-cost": "",
        "k8s-version": "not a number",
        "available CPU": "no values yet",
        "available memory": "no values yet",
    }


async def test_counts_agree_with_their_verbs(hub: FixtureHub, open_page: Opener) -> None:
    document = copy.deepcopy(hub.explanation("crp/edge-cache"))
    for place, item in enumerate([one for one in document["items"] if one["verdict"] != "Picked"][:4]):
        item["help"] = f"would pass with: {place}"
    hub.explanations["crp/edge-cache"] = document
    page = (await open_page("crp/edge-cache")).page
    await expect(page.locator(".explanation .callout")).to_contain_text(
        "The suggestion for 1 more cluster is in its row."
    )
    await page.evaluate("location.hash = 'fleet?q=oldwhale'")
    await expect(page.locator("#fleet-sub")).to_contain_text(re.compile("; 1 matches$"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("newnewt", "not joined waiting for its agent · westus", id="without-a-heartbeat"),
        pytest.param("oldwhale", "silent no heartbeat for 14m · japaneast · last heartbeat 14m ago", id="silent"),
        pytest.param("calmheron", "eligible northeurope · last heartbeat 23s ago", id="eligible"),
    ],
)
async def test_the_facts_below_the_name_of_a_cluster_are_separated(open_page: Opener, name: str, words: str) -> None:
    page = (await open_page(f"cluster/{name}")).page
    await expect_texts(page.locator("#cluster-sub"), [words])


async def test_a_cluster_without_properties_has_no_empty_table(hub: FixtureHub, open_page: Opener) -> None:
    page = (await open_page("cluster/newnewt")).page
    await expect(page.get_by_text("No properties reported yet.")).to_be_visible()
    await expect(page.locator(".properties")).to_be_hidden()
    newnewt = next(one for one in hub.clusters if one["name"] == "newnewt")
    newnewt["properties"] = {NODE_COUNT: {"value": "3", "observedAt": ago(1)}}
    hub.publish(names=["newnewt"])
    await expect(page.locator(".properties")).to_be_visible()
    await expect(page.get_by_text("No properties reported yet.")).to_be_hidden()


async def test_amounts_of_cpu_and_memory_have_the_same_unit(hub: FixtureHub, open_page: Opener) -> None:
    """In the fleet, its groups, the range of a sorter and the numbers behind a row."""
    hub.clusters[0]["cpu"] = {"available": "241150m", "allocatable": "396", "ratio": 0.6}
    document = copy.deepcopy(hub.explanation("crp/gpu-batch"))
    for item in document["items"]:
        for term in (item.get("affinity") or {}).get("terms", []):
            low, high = ({"value": value, "cluster": name} for value, name in (("850m", "busybee"), ("24", "quickfox")))
            term["sorter"] |= {"name": "resources.kubernetes-fleet.io/available-cpu", "observed": "1500m"}
            term["sorter"] |= {"min": low, "max": high}
    hub.explanations["crp/gpu-batch"] = document
    page = (await open_page("fleet?group=env&open=prod")).page
    free = page.locator(".fleet tr", has_text="bravelion").locator(".c-cpu .free")
    await expect(free).to_have_attribute("title", "241 of 396 cores free")
    memory = page.locator(".fleet tr", has_text="bravelion").locator(".c-memory .free")
    await expect(memory).to_have_attribute("title", "880 GiB of 1,600 GiB memory free")
    await expect(page.locator(".group-row", has_text="staging").locator(".c-cpu")).to_have_text("30 / 40")
    await page.evaluate("location.hash = 'placement/crp/gpu-batch'")
    await expect(page.locator(".explanation .callout")).to_contain_text(
        "available-cpu runs from 0.9 (busybee) to 24 (quickfox)"
    )
    await page.locator(".rows summary", has_text="bravelion").click()
    await expect(page.locator(".trace .points")).to_contain_text("1.5 (41s old), range 0.85 (busybee) to 24 (quickfox)")


async def test_a_cluster_that_does_not_exist_is_no_link(open_page: Opener) -> None:
    page = (await open_page("placement/crp/ledger")).page
    await expect(page.locator(".explanation .callout")).to_contain_text("dover would be picked once")
    await page.locator(".rows summary", has_text="dover").click()
    await expect(page.locator(".trace", has_text="dover")).to_be_visible()
    assert await page.locator('.explanation a[href="#cluster/dover"]').count() == 0


async def test_clusters_wait_for_what_their_run_waits_for(hub: FixtureHub, open_page: Opener) -> None:
    """And the command shows that run."""
    moments = since(12, 27)
    record = moments.at_twelve()
    name = staged(hub, moments, record)
    for cluster in hub.placement("crp/edge-cache")["clusters"][2:]:
        cluster.update(state="waiting", detail="waiting for a staged update run")
    page = (await open_page("crp/edge-cache")).page
    waits = page.locator(".rollout-states li", has_text="jumpingcat")
    await expect(waits).to_contain_text(f"tallcrane, jumpingcat: run {name} ")
    await expect(waits).not_to_contain_text("staged update run")
    await expect_texts(page.locator("#placement-panel .commands code"), [f"harbormaster run status {name}"])


COMMANDS = {
    "crp/edge-cache": ["tree crp/edge-cache -w", "gate rollout crp/edge-cache tallcrane"],
    "crp/probe": ["doctor"],
}


@pytest.mark.parametrize(
    ("facts", "before", "after"),
    [
        pytest.param({}, "harbormaster ", "", id="unknown"),
        pytest.param({"program": "kubectl harbormaster"}, "kubectl harbormaster ", "", id="serve"),
        pytest.param(
            {"program": "harbormaster", "hub-options": " --context hub"},
            "harbormaster ",
            " --context hub",
            id="dashboard",
        ),
    ],
)
async def test_commands_are_called_as_the_server_says(
    hub: FixtureHub, open_page: Opener, facts: dict[str, str], before: str, after: str
) -> None:
    hub.facts = facts
    opened = await open_page("crp/edge-cache")
    page = opened.page
    for ref, words in COMMANDS.items():
        await page.evaluate(f"location.hash = 'placement/{ref}'")
        shown = page.locator("#placement-panel .commands code")
        await expect(shown).to_have_text([f"{before}{each}{after}" for each in words])
    fill(hub, [], [])
    for view, words in {"fleet": "member", "placement": "placement", "budgets": "pool"}.items():
        await page.goto("about:blank")
        await page.goto(f"{opened.address}/#{view}")
        hint = page.locator("main > [data-view]:not([hidden]) .nothing code")
        await expect(hint).to_have_text(f"{before}apply -f {words}.yaml{after}")


async def test_a_hub_of_simulated_members_offers_neither_a_doctor_nor_logs(hub: FixtureHub, open_page: Opener) -> None:
    hub.facts = {"program": "harbormaster", "members": "simulated"}
    page = (await open_page("crp/probe")).page
    shown = page.locator("#placement-panel .commands code")
    await expect(shown).to_have_text(["harbormaster describe crp/probe"])
    await page.evaluate("location.hash = 'cluster/oldwhale'")
    commands = page.locator("#cluster-panel .commands code")
    await expect(commands).to_have_text(["harbormaster leave --help"])


async def test_the_log_of_an_agent_is_in_the_namespace_of_its_chart(open_page: Opener) -> None:
    page = (await open_page("cluster/oldwhale")).page
    await expect(page.locator("#cluster-panel .commands code").first).to_have_text(
        "kubectl --context oldwhale -n harbormaster-system logs deploy/harbormaster-agent"
    )


@pytest.mark.parametrize(("open_to", "is_said"), [("machine", True), ("", False)])
async def test_only_an_open_listener_says_that_the_machine_can_see_it(
    hub: FixtureHub, open_page: Opener, open_to: str, is_said: bool
) -> None:
    hub.facts = {"open-to": open_to}
    page = (await open_page()).page
    await expect(page.locator("#open-to-all")).to_be_visible(visible=is_said)


async def test_the_version_of_a_cluster_is_that_of_its_agent_without_an_upgrader(
    hub: FixtureHub, open_page: Opener
) -> None:
    hub.clusters[1]["properties"]["k8s.io/k8s-version"] = {"value": "v1.36.3", "observedAt": None}
    page = (await open_page("cluster/busybee")).page
    assert (await texts(page.locator("#cluster-panel dd")))[0] == "v1.36.3"


async def test_a_viewer_without_the_right_to_the_history_is_told_so(hub: FixtureHub, open_page: Opener) -> None:
    hub.failing = {"/v1/history": 403}
    page = (await open_page("timeline", settle=False)).page
    await expect(page.locator("#history-body")).to_contain_text("You may not read the history: 403")
    await expect(page.locator("#problems")).to_be_empty()


async def test_a_member_that_refuses_everything_is_not_green(hub: FixtureHub, open_page: Opener) -> None:
    smartfish = next(one for one in hub.clusters if one["name"] == "smartfish")
    smartfish |= {"state": "refusing", "stateDetail": "none of its 4 placements can be applied"}
    page = (await open_page()).page
    row = page.locator(".fleet tbody tr", has_text="smartfish")
    await expect(row.locator(".c-state")).to_have_text("refusing none of its 4 placements can be applied")
    await expect(row.locator(".pill")).to_have_class("pill bad")
    await expect(page.locator(".card").first).to_contain_text("8 eligible")
    await expect(page.locator(".card").first).to_contain_text("1 refusing")
    await row.locator(".cluster-name").click()
    await expect(page.locator("#cluster-sub .pill")).to_have_text("refusing")


async def test_a_placement_that_selects_nothing_is_not_satisfied(hub: FixtureHub, open_page: Opener) -> None:
    hub.placement("crp/audit")["state"] = "empty"
    page = (await open_page()).page
    await expect(page.locator(".card", has_text="Placements")).to_contain_text("4 satisfied · 1 empty")


MISTAKES = [
    "spec.policy.numberOfClusters: Required value: must be set when placementType is PickN",
    'metadata.labels["a, b"]: Invalid value: "x, y": must be a label value',
]


async def test_the_log_has_a_line_per_mistake_and_links_to_the_rules(hub: FixtureHub, open_page: Opener) -> None:
    message = f'create: ClusterResourcePlacement "web" is invalid: [{", ".join(MISTAKES)}]'
    hub.log = [ENTRY | {"message": message, "reason": "A-02,P-25"}]
    page = (await open_page("timeline")).page
    assert await texts(page.locator(".log .mistakes li")) == MISTAKES
    await expect(page.locator("#history-body")).to_contain_text("schema or CEL rules")
    await page.get_by_role("link", name="P-25").click()
    await expect_address(page, "#reference/P-25")
    await expect(page.locator(".term-named")).to_contain_text("numberOfClusters")


async def test_what_the_filter_leaves_out_is_not_shown_beside_it(hub: FixtureHub, open_page: Opener) -> None:
    page = (await open_page("placement/crp/payments")).page
    await page.get_by_role("searchbox").fill("ledger")
    await expect(page.locator("#placement-body")).to_have_text("Placement payments does not match the filter.")
    await page.get_by_role("searchbox").fill("")
    await expect(page.locator("#placement-panel .explanation li").first).to_be_visible()
    hub.runs = sample_runs()
    hub.publish(runs=True)
    await page.evaluate("location.hash = 'runs/csur/payments-9'")
    await expect(page.locator("#run .timeline")).to_be_visible()
    await page.get_by_role("searchbox").fill("telemetry")
    await expect(page.locator("#run-body")).to_have_text("Run payments-9 does not match the filter.")


@pytest.mark.parametrize("width", [1180, 1024, 1001, 768])
async def test_no_column_of_the_fleet_is_out_of_sight(open_page: Opener, width: int) -> None:
    page = (await open_page()).page
    await show(page, width)
    await expect(page.locator(".scroller").first).to_be_visible()
    assert await page.locator(".scroller").first.evaluate("(box) => box.scrollWidth - box.clientWidth") == 0


async def test_names_in_the_list_are_in_one_piece_beside_the_details(open_page: Opener) -> None:
    page = (await open_page("placement")).page
    await show(page, 1024)
    heights = await page.locator(".placements .placement-name").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect().height)"
    )
    assert max(heights) < 30


async def test_a_link_to_a_placement_opens_at_the_placement_on_a_phone(open_page: Opener) -> None:
    page = (await open_page("placement/crp/payments", width=390)).page
    await expect(page.locator("#placement-title")).to_be_in_viewport()


@pytest.mark.parametrize("view", ["fleet", "placement", "runs", "budgets", "timeline"])
async def test_the_first_tab_leads_to_the_start_of_the_page(hub: FixtureHub, open_page: Opener, view: str) -> None:
    """A fragment that is the id of an element would be where the browser starts."""
    page = (await open_page(view)).page
    await page.keyboard.press("Tab")
    await expect(page.locator("#skip")).to_be_focused()
