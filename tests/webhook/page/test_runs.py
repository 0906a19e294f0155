"""Staged update runs in a real browser: what each waits for, and its course as a timeline anyone can read."""

from datetime import timedelta

import pytest
from playwright.async_api import expect

from tests.builders.update_run import FIVE, Moments
from tests.webhook.page.conftest import LEGIBLE, MEASURE, VIEWS, expect_address, expect_texts, show, texts
from tests.webhook.page.fixture_clock import NOW
from tests.webhook.page.fixture_hub import FixtureHub
from tests.webhook.page.fixture_runs import many_stages, sample_runs, since, wide_run

pytestmark = pytest.mark.asyncio(loop_scope="session")

LONG = "a-cluster-with-a-name-of-sixty-three-characters-which-is-the-most"
PHONE = 390
DASH = "\N{EN DASH}"

# From where to where bars reach, as shares of their track, by the name in their row.
PLACES = """() => Object.fromEntries([...document.querySelectorAll("#run .tl-item")].flatMap((row) => {
  const bar = row.querySelector(".tl-bar, .tl-line"), track = row.querySelector(".tl-track").getBoundingClientRect();
  if (!bar) return [];
  const box = bar.getBoundingClientRect();
  const share = (x) => (x - track.left) / track.width;
  return [[row.querySelector(".tl-who").textContent, [share(box.left), share(box.right)]]];
}))"""


def long_names(hub: FixtureHub) -> None:
    moments = since(13)
    clusters = [moments.cluster(f"{LONG[:-1]}{number}", "12:10") for number in range(3)]
    clusters.append(moments.cluster(LONG, waits=f"its maintenance window {LONG} opens at 2026-11-23T13:00:00Z"))
    said = moments.said("Progressing", "False", "UpdateRunStuck", "12:20", f"{LONG} of stage all is in flight")
    stages = [moments.tried(), moments.second(clusters)]
    hub.runs = [moments.run(stages, said, name=LONG[:63], namespace=LONG[:63], placement=f"{LONG}-{LONG}")]


SCENARIOS = {
    "updating": lambda hub: give(hub, since(12, 27).at_twelve()),
    "wait-and-approval": lambda hub: give(hub, since(4).at_four()),
    "approval": lambda hub: give(hub, since(11, 30).at_eleven()),
    "stuck": lambda hub: give(hub, since(17, 40).stuck()),
    "stopped": lambda hub: give(hub, since(30).stopped()),
    "aborted": lambda hub: give(hub, since(300).aborted()),
    "succeeded": lambda hub: give(hub, since(3000).succeeded()),
    "unstarted": lambda hub: give(hub, since(2).unstarted()),
    "all-of-them": lambda hub: setattr(hub, "runs", sample_runs()),
    "long-names": long_names,
    "hundred-clusters": lambda hub: give(hub, wide_run(100)),
    "thousand-clusters": lambda hub: give(hub, wide_run(1000)),
    "many-stages": lambda hub: give(hub, many_stages(31)),
}


def give(hub: FixtureHub, run) -> None:
    hub.runs = [run]


async def opened_on(open_page, hub, **options):
    """Open the page on the first run, and wait until its timeline is drawn."""
    about = hub.runs[0]["metadata"]
    ref = f"sur/{about['namespace']}/{about['name']}" if "namespace" in about else f"csur/{about['name']}"
    opened = await open_page(ref, motion="reduce", **options)
    await expect(opened.page.locator("#run .tl-axis li").first).to_be_visible()
    return opened


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_nothing_overlaps_and_nothing_has_to_be_scrolled_sideways(hub, open_page, scenario):
    SCENARIOS[scenario](hub)
    opened = await opened_on(open_page, hub)
    for width, scheme in (*VIEWS, (PHONE, "light")):
        await show(opened.page, width, scheme)
        measured = await opened.page.evaluate(MEASURE)
        seen = {key: measured[key] for key in LEGIBLE}
        assert seen == LEGIBLE, f"{width} px, {scheme}"
        assert await opened.page.locator("#run .tl-item").count() > 3
    await opened.assert_quiet()


async def test_the_check_finds_a_bar_that_covers_a_name(hub, open_page):
    """The geometric check is no good if it cannot fail."""
    give(hub, since(12, 27).at_twelve())
    opened = await opened_on(open_page, hub)
    await opened.page.evaluate(
        """() => {
          const sheet = new CSSStyleSheet();
          sheet.replaceSync(".tl-track { position: static; } #run .timeline { position: relative; }");
          document.adoptedStyleSheets = [sheet];
        }"""
    )
    assert (await opened.page.evaluate(MEASURE))["overlaps"]


async def test_bars_stand_where_their_times_are(hub, open_page):
    give(hub, since(13, 55).succeeded())
    opened = await opened_on(open_page, hub)
    places = await opened.page.evaluate(PLACES)
    assert list(places) == ["a", "b", "timed wait", "approval after", "approval before", *FIVE, "z"]
    near = pytest.approx
    assert places["a"][0] == near(0, abs=0.01)
    assert places["a"][1] == near(places["b"][0], abs=0.01)
    assert places["c1"] == near(places["c2"], abs=0.01)
    assert places["c3"][0] == near(places["c1"][1], abs=0.01)
    assert places["c5"][0] == near(places["c4"][1], abs=0.01)
    assert places["z"] == near([places["c5"][1], 1], abs=0.01)
    widths = {name: end - begin for name, (begin, end) in places.items()}
    assert widths["a"] == near(widths["c1"], abs=0.01)
    assert widths["z"] == near(widths["a"] / 2, abs=0.01)


async def test_a_stretch_in_which_nothing_is_touched_is_drawn_short(hub, open_page):
    """The wait of ten minutes takes less of the width than the two minutes and a half of work."""
    give(hub, since(13, 55).succeeded())
    opened = await opened_on(open_page, hub)
    places = await opened.page.evaluate(PLACES)
    assert places["c1"][0] - places["b"][1] < places["b"][1] - places["a"][0]
    await expect(opened.page.locator("#run .tl-axis .idle")).to_have_text("\N{LEFT RIGHT ARROW} 11m")


async def test_a_run_says_what_it_waits_for_and_the_command_that_answers_it(hub, open_page):
    hub.runs = [since(11, 30).at_eleven(name="cart-1", placement="cart", namespace="shop")]
    opened = await opened_on(open_page, hub)
    await expect(opened.page.locator("#run .waits code")).to_have_text(
        "harbormaster approve cart-1 --stage all -n shop"
    )
    await expect(opened.page.locator("#run .waits")).to_contain_text("approval")
    await expect(opened.page.locator("#runs-body .why")).to_contain_text("approval")


async def test_the_cards_count_the_runs_that_wait_for_somebody(hub, open_page):
    hub.runs = sample_runs()
    opened = await open_page()
    assert (await texts(opened.page.locator(".card")))[3] == "Waiting for you 3 approval: cart-1, stage all · 2 more"
    more = opened.page.locator(".card").nth(3).get_by_role("link", name="2 more")
    await expect(more).to_have_attribute("href", "#runs")
    hub.runs = [since(12, 27).at_twelve()]
    hub.publish("crp/web")
    await expect(opened.page.locator(".card").nth(3)).to_contain_text("Bindings")


async def test_a_command_breaks_between_its_words_only(hub, open_page):
    """Whoever copies it from a phone gets the words that stand there."""
    give(hub, since(11, 30).at_eleven())
    opened = await opened_on(open_page, hub, width=320)
    words = opened.page.locator("#run .command span")
    await expect_texts(words, ["harbormaster", "approve", "r", "--stage", "all"])
    assert await words.evaluate_all("(all) => all.map((one) => one.getClientRects().length)") == [1] * 5


async def test_each_row_says_in_words_how_far_the_cluster_is(hub, open_page):
    give(hub, since(17, 40).stuck())
    opened = await opened_on(open_page, hub)
    rows = await texts(opened.page.locator("#run .tl-band").nth(1).locator(".tl-who, .tl-words:not(:empty)"))
    assert rows[:5] == ["all", "approval before", "c1", "c2", "Deployment shop/web: 0 of 3 replicas available"]
    assert rows[-2:] == ["c5", "its maintenance window opens at Mon 23 Nov 13:00"]
    await expect(opened.page.locator("#run .tl-head .pill")).to_have_text(["done", "updating", "not reached"])


async def test_times_are_those_of_the_readers_zone(hub, open_page):
    give(hub, Moments().succeeded())
    opened = await opened_on(open_page, hub, zone="Asia/Kolkata")
    await expect(opened.page.locator("#run .tl-axis li").first).to_have_text("13:30:00")
    await expect(opened.page.get_by_text("Times are in Asia/Calcutta.")).to_be_visible()


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        pytest.param("oslo until Wed 02 Dec 13:00 UTC", "oslo until Wed 2 Dec 18:30", id="this-year"),
        pytest.param("oslo until Fri 01 Jan 20:00 UTC", "oslo until Sat 2 Jan 1:30", id="next-year"),
        pytest.param("oslo until Wed 02 Dec 13:00 CET", "oslo until Wed 02 Dec 13:00 CET", id="another-zone"),
        pytest.param("from 2026-13-01T00:00:00Z on", "from 2026-13-01T00:00:00Z on", id="no-such-month"),
        pytest.param("from 2027-02-30T00:00:00Z on", "from 2027-02-30T00:00:00Z on", id="no-such-day"),
        pytest.param("oslo until Inv 05 Dec 99:99 UTC", "oslo until Inv 05 Dec 99:99 UTC", id="no-such-time"),
        pytest.param("oslo until Wed 31 Feb 13:00 UTC", "oslo until Wed 31 Feb 13:00 UTC", id="no-such-date"),
    ],
)
async def test_times_in_messages_are_those_of_the_readers_zone_too(hub, open_page, told, shown):
    hub.placement("crp/network-policies")["clusters"][1]["detail"] = told
    opened = await open_page("placement/crp/network-policies", zone="Asia/Kolkata")
    await expect(opened.page.locator(".rollout-states")).to_contain_text(f"smartfish: {shown}")


async def test_many_finished_clusters_are_folded_into_one_row(hub, open_page):
    give(hub, wide_run(1000))
    opened = await opened_on(open_page, hub)
    band = opened.page.locator("#run .tl-band").nth(1)
    await expect(band.locator(".tl-item")).to_have_count(12)  # an approval, ten clusters, the others
    names = await texts(band.locator(".tl-item .tl-who"))
    assert names[1] == "member-0500", "what has failed is shown before all others"
    assert names[-1] == "and 990 more"
    await expect(band.locator(".tl-item").last).to_contain_text("958 updated")
    unfold = band.get_by_role("button", name="Show all 1,000 clusters")
    await unfold.click()
    await expect(band.locator(".tl-item")).to_have_count(1001)
    await band.get_by_role("button", name="Show 10 clusters only").click()
    await expect(band.locator(".tl-item")).to_have_count(12)


async def test_a_stage_at_rest_among_many_is_one_line_until_it_is_unfolded(hub, open_page):
    give(hub, many_stages(31))
    opened = await opened_on(open_page, hub)
    ring = opened.page.locator("#run .tl-band").nth(2)
    await expect(ring.locator(".tl-item")).to_have_count(1)
    await ring.get_by_role("button", name="ring2").click()
    await expect(ring.locator(".tl-item")).to_have_count(3)
    await ring.get_by_role("button", name="Fold ring2").click()
    await expect(ring.locator(".tl-item")).to_have_count(1)
    await ring.locator(".tl-item").focus()
    await opened.page.keyboard.press("Enter")
    await expect(ring.locator(".tl-item")).to_have_count(3)


async def test_the_arrow_keys_walk_the_rows_and_each_says_when_it_was(hub, open_page):
    give(hub, Moments().succeeded())
    opened = await opened_on(open_page, hub)
    rows = opened.page.locator("#run .tl-item")
    await rows.first.focus()
    await expect(opened.page.locator("#run .tl-detail")).to_have_text(f"a: updated 8:00:00 {DASH} 8:00:30 (30s)")
    await opened.page.keyboard.press("ArrowDown")
    await expect(rows.nth(1)).to_be_focused()
    await opened.page.keyboard.press("End")
    await expect(opened.page.locator("#run .tl-detail")).to_have_text(f"z: removed 8:13:40 {DASH} 8:13:55 (15s)")
    assert await opened.page.locator('#run .tl-item[tabindex="0"]').count() == 1


async def test_a_screen_reader_hears_each_row_once_and_in_words(hub, open_page):
    give(hub, Moments().succeeded())
    opened = await opened_on(open_page, hub)
    heard = await opened.page.locator("#run .tl-rows").first.aria_snapshot()
    assert heard.splitlines()[0] == "- list:"
    assert f'- listitem: "a: updated 8:00:00 {DASH} 8:00:30 (30s)"' in heard


async def test_a_change_on_the_hub_shows_by_itself_and_keeps_the_focus(hub, open_page):
    moments = since(12, 27)
    give(hub, moments.at_eleven())
    opened = await opened_on(open_page, hub)
    await opened.page.locator("#run .tl-item").first.focus()
    give(hub, moments.at_twelve())
    hub.publish("crp/web")
    await expect(opened.page.locator("#run .tl-band").nth(1).locator(".tl-bar")).to_have_count(2)
    await expect(opened.page.locator("#run .waits")).to_be_hidden()
    await expect(opened.page.locator("#run .tl-item").first).to_be_focused()


async def test_a_bar_that_is_not_over_grows_with_time(hub, open_page):
    """The present time moves on, also while no answer comes, which would have the server's time."""
    give(hub, since(12, 27).at_twelve())
    opened = await opened_on(open_page, hub, disposable=True)
    bar = opened.page.locator("#run .tl-bar.busy").first
    age = opened.page.locator("#run .tl-item", has_text="c1").locator("time")
    await expect(age).to_have_text("17s")
    before = await bar.evaluate("(one) => parseFloat(one.style.width)")
    await opened.page.context.set_offline(offline=True)
    await opened.page.clock.set_fixed_time(NOW + timedelta(minutes=2))
    await opened.page.clock.fast_forward(5000)  # the timeline advances every five seconds
    await expect(age).to_have_text("2m")
    assert await bar.evaluate("(one) => parseFloat(one.style.width)") > before


async def test_a_placement_links_to_its_runs_and_a_run_to_its_placement(hub, open_page):
    hub.runs = sample_runs()
    opened = await open_page("crp/edge-cache")
    links = opened.page.locator("#placement-panel .own-runs a")
    await expect(links).to_have_text(["edge-cache-4", "edge-cache-3", "edge-cache-2"])
    await links.nth(1).click()
    await expect(opened.page.locator("#run-title")).to_have_text("edge-cache-3")
    await opened.page.locator("#runs-body a", has_text="payments-9").click()
    await expect(opened.page.locator("#run-title")).to_have_text("payments-9")
    await opened.page.locator("#run-sub a:not(.pill)").click()
    await expect(opened.page.locator("#placement-title")).to_have_text("payments")
    await expect_address(opened.page, "#placement/crp/payments")


async def test_a_placement_says_which_staged_update_changes_it(hub, open_page):
    shown = hub.placement("crp/edge-cache")
    shown |= {"state": "external", "why": "waiting for a staged update run"}
    opened = await open_page("crp/edge-cache")
    why, row = (
        opened.page.locator("#placement-panel .callout").first,
        opened.page.locator("#placements-body a[aria-current]"),
    )
    await expect(why).to_have_text("waiting for a staged update run")
    await expect(row.locator(".why")).to_have_text("waiting for a staged update run")
    moments = since(4)
    waiting = moments.at_four()
    hub.runs = [{**waiting, "spec": {**waiting["spec"], "placementName": "edge-cache"}}]
    hub.publish("crp/edge-cache")
    name = waiting["metadata"]["name"]
    progress = f"run {name} waits for the end of the wait after stage try, until Mon 23 Nov 12:27"
    await expect(why).to_have_text(progress)
    await expect(row.locator(".why")).to_have_text(progress)


async def test_clusters_with_different_content_are_not_called_nothing(hub, open_page):
    hub.in_full = {"selectedResources": [], "strategy": {"type": "External"}}
    opened = await open_page("crp/edge-cache")
    await expect(opened.page.locator("#placement-panel .more-about")).to_contain_text(
        "Staged updates decide which version each cluster has."
    )
    await expect(opened.page.locator("#placement-panel .more-about")).not_to_contain_text("0 resources")


async def test_a_rolling_update_is_drawn_in_the_same_way(open_page):
    opened = await open_page("crp/edge-cache")
    course = opened.page.locator("#placement-panel .course")
    await expect(course.locator(".tl-head .pill")).to_have_text("updating")
    names = await texts(course.locator(".tl-item .tl-who"))
    assert names == ["calmheron", "bravelion", "tallcrane", "jumpingcat"]
    await expect(course.locator(".tl-item").last).to_contain_text("waits for tallcrane (maxUnavailable 1)")


async def test_a_fleet_without_runs_says_how_to_start_one(open_page):
    opened = await open_page("runs")
    await expect(opened.page.locator("#runs-body")).to_contain_text("Start one with harbormaster run start")
    await expect(opened.page.locator("#run")).to_be_hidden()


async def test_a_run_that_waits_for_its_user_has_not_started(hub, open_page):
    hub.runs = sample_runs()
    opened = await open_page("csur/probe-1")
    await expect(opened.page.locator("#run-sub .pill")).to_have_text("initialized")
    await expect(opened.page.locator("#run-sub")).not_to_contain_text("started")


async def test_a_run_that_does_not_exist_is_said_to_be_missing(hub, open_page):
    hub.runs = sample_runs()
    opened = await open_page("csur/nothing")
    await expect(opened.page.locator("#run-body")).to_have_text("Run csur/nothing does not exist or was deleted.")


@pytest.mark.parametrize("width", [1280, 1024, 390])
@pytest.mark.parametrize("scenario", ["stopped", "succeeded"])
async def test_every_shortened_idle_time_has_its_length(hub: FixtureHub, open_page, scenario: str, width: int) -> None:
    """On the axis, or in the legend if it has no room there."""
    SCENARIOS[scenario](hub)
    page = (await opened_on(open_page, hub, width=width)).page
    legend = page.locator("#run .tl-legend")
    await expect(legend).to_contain_text("idle time, shortened")
    named = [text.removeprefix("\N{LEFT RIGHT ARROW} ") for text in await texts(page.locator("#run .tl-axis .idle"))]
    listed = (await texts(legend))[0].partition(": ")[2]
    lengths = sorted([*named, *filter(None, listed.split(", "))])
    assert lengths == {"stopped": ["11m", "17m"], "succeeded": ["11m"]}[scenario]


async def test_the_banner_of_a_wait_has_the_tone_of_the_state(hub: FixtureHub, open_page) -> None:
    """A wait that needs no user is as amber as the state, not blue."""
    give(hub, since(4).at_four())
    page = (await opened_on(open_page, hub)).page
    await expect(page.locator("#run-sub .pill")).to_have_class("pill warn")
    await expect(page.locator("#run .waits")).to_have_class("callout waits warn")
