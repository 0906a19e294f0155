"""What happens to a member at its turn: skipped, failed, waiting, and the order in which members go."""

from dataclasses import replace

import pytest

from scorer.upgrade.back_ends.interface import Inventory, Pool
from scorer.upgrade.members.member import parse_order
from scorer.upgrade.members.windows import tier_of
from scorer.upgrade.simulation.hub import ChangeMember, Start
from scorer.upgrade.state.operations import occupied_members
from scorer.upgrade.state.placement_guard import GuardedPlacement, endangered_placement
from scorer.windows.maintenance import WindowState
from tests.scorer.upgrade.scenarios import BEGIN, at, daily, entry, event, member, prepared, seen, stage, started

CONTROL_PLANES = {"type": "ControlPlaneOnly", "kubernetesVersion": "1.31.2"}
IMAGES = {"type": "NodeImageOnly"}
CUSTOM_IMAGE = {
    "type": "NodeImageOnly",
    "nodeImage": {"selection": "Custom", "customVersions": [{"family": "linux", "version": "110"}]},
}


def published(region="r1", kubernetes=None, **families):
    lists = {} if kubernetes is None else {"kubernetes": kubernetes}
    return {"regions": {region: lists | ({"images": families} if families else {})}}


@pytest.mark.parametrize(
    ("upgrade", "given", "reason"),
    [
        pytest.param(None, {"version": "1.31.2"}, "AlreadyAtTarget", id="full"),
        pytest.param(None, {"version": "1.31.5"}, "AheadOfTarget", id="full-ahead"),
        pytest.param(
            CONTROL_PLANES, {"version": "1.31.2", "pools": [{"name": "np1", "version": "1.30.4"}]}, "AlreadyAtTarget",
            id="control-plane-alone-counts",
        ),
        pytest.param(CONTROL_PLANES, {"version": "1.32.0"}, "AheadOfTarget", id="control-plane-ahead"),
        pytest.param(IMAGES, {"pools": [{"name": "np1", "image": "120"}]}, "AlreadyAtTarget", id="image-ahead"),
        pytest.param(IMAGES, {"pools": [{"name": "w", "family": "windows"}]}, "AlreadyAtTarget", id="no-image-listed"),
    ],
)  # fmt: skip
def test_a_member_that_runs_what_it_should_is_skipped(upgrade, given, reason):
    found = seen(member("a", **given), catalog=published(linux=["110"]), **({"upgrade": upgrade} if upgrade else {}))
    if upgrade is None:
        assert found["members"] == {"a": "Completed"}  # its image is behind
        found = seen(member("a", **given))
    assert (found["members"], found["reasons"]) == ({"a": "Skipped"}, {"a": reason})


@pytest.mark.parametrize(
    "pools",
    [
        pytest.param([{"name": "np1", "version": "1.30.4"}], id="a-pool-behind"),
        pytest.param([{"name": "np1"}, {"name": "np2", "image": "99"}], id="an-image-behind"),
    ],
)
def test_a_full_upgrade_finishes_what_is_behind_a_control_plane_at_the_target(pools):
    found = seen(member("a", version="1.31.2", pools=pools), catalog=published(linux=["100"]))
    assert found["members"] == {"a": "Completed"}
    assert {(pool["version"], pool["image"]) for pool in found["final"]["a"]["pools"].values()} == {("1.31.2", "100")}


def test_parts_ahead_of_the_target_are_left_alone():
    pools = [{"name": "new", "version": "1.31.9", "image": "200"}, {"name": "old"}]
    found = seen(member("a", pools=pools), catalog=published(linux=["110"]))
    assert found["final"]["a"] == {
        "version": "1.31.2",
        "pools": {"new": {"version": "1.31.9", "image": "200"}, "old": {"version": "1.31.2", "image": "110"}},
    }


def test_a_pool_of_which_nobody_knows_the_version_is_not_known_to_be_at_the_target():
    hub = prepared(member("a")).hub
    hub.members["a"] = replace(hub.members["a"], inventory=Inventory("1.31.2", (Pool("np1"), Pool("np2", "1.31.2"))))
    assert entry(hub.evaluate(BEGIN, [Start()]).run, "a").state == "Running"
    done = hub.evaluate(at("30m")).run
    assert (entry(done, "a").state, done.status.state) == ("Completed", "Completed")


@pytest.mark.parametrize(
    ("version", "given", "reason"),
    [
        pytest.param("1.29.9", {}, "UnsupportedVersionJump", id="two-minors"),
        pytest.param("0.31.2", {}, "UnsupportedVersionJump", id="another-major"),
        pytest.param("1.29.9", {"chained": True}, None, id="chained"),
    ],
)
def test_a_control_plane_goes_up_one_minor_version_at_a_time(version, given, reason):
    found = seen(member("a", version=version), **given)
    assert found["reasons"].get("a") == reason


@pytest.mark.parametrize(
    ("pool", "state"),
    [
        pytest.param("1.28.0", "Completed", id="three-minors-behind"),
        pytest.param("1.27.9", "Failed", id="four-minors-behind"),
    ],
)
def test_kubelets_are_at_most_three_minor_versions_behind(pool, state):
    found = seen(member("a", pools=[{"name": "np1", "version": pool}]), upgrade=CONTROL_PLANES)
    assert found["members"] == {"a": state}
    assert found["reasons"].get("a") == (None if state == "Completed" else "VersionSkewViolation")


def test_old_kubelets_are_at_most_two_minor_versions_behind():
    old = [{"name": "np1", "version": "1.24.9"}]
    upgrade = {"type": "ControlPlaneOnly", "kubernetesVersion": "1.27.0"}
    found = seen(member("a", version="1.26.1", pools=old), upgrade=upgrade)
    assert found["reasons"] == {"a": "VersionSkewViolation"}
    upgrade = {"type": "ControlPlaneOnly", "kubernetesVersion": "1.26.3"}
    assert seen(member("a", version="1.26.1", pools=old), upgrade=upgrade)["run"] == "Completed"


def test_the_first_cause_gives_the_reason_and_the_message_has_all():
    hub, moment = started(
        member("a", windows=[daily("10:00")], busyUntil="1h"), catalog=published(kubernetes=["1.30.4"])
    )
    found = entry(moment.run, "a")
    assert (found.state, found.reason, found.pending_since) == ("Pending", "ClusterBusy", BEGIN)
    for word in ("another operation is in progress", "version 1.31.2 is not available in region r1", "closed until"):
        assert word in found.message
    assert found.next_window_open == at("10h")
    later = entry(hub.evaluate(at("1h")).run, "a")
    assert (later.reason, later.pending_since) == ("KubernetesVersionNotAvailable", BEGIN)


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        pytest.param({}, "version 1.31.2 is not available in region r1", id="version"),
        pytest.param({"upgrade": CUSTOM_IMAGE}, "image 110 of family linux is not available in region r1", id="image"),
    ],
)
def test_a_member_that_waits_for_a_release_links_to_the_releases(goal, message):
    catalog = published(kubernetes=["1.30.4"], linux=["100"])
    _, moment = started(member("a"), catalog=catalog | {"releaseNotesURL": "https://example.com/releases"}, **goal)
    assert f"{message}. Releases by region: https://example.com/releases" in entry(moment.run, "a").message


def test_a_custom_image_that_a_region_does_not_have_is_waited_for():
    found = seen(
        member("a"),
        upgrade=CUSTOM_IMAGE,
        catalog=published(linux=["100"]),
        events=[event("1h", "catalog", catalog=published(linux=["100", "110"]))],
        checkAt=["0s"],
    )
    assert found["at"][0]["reasons"] == {"a": "NodeImageVersionNotAvailable"}
    assert found["times"] == {"a": ["1h", "1h30m"]}


@pytest.mark.parametrize(
    ("policy", "state"),
    [
        pytest.param("Wait", "Pending", id="wait"),
        pytest.param("Skip", "Skipped", id="skip"),
        pytest.param("Fail", "Failed", id="fail"),
    ],
)
@pytest.mark.parametrize("known", [pytest.param(True, id="unreachable"), pytest.param(False, id="unknown")])
def test_the_policy_says_what_becomes_of_a_cluster_that_is_not_ready(policy, state, known):
    hub = prepared(member("a"), spec={"versionPolicy": {"onNotReady": policy}}).hub
    inventory = replace(hub.members["a"].inventory, ready=False) if known else None
    hub.members["a"] = replace(hub.members["a"], inventory=inventory)
    found = entry(hub.evaluate(BEGIN, [Start()]).run, "a")
    assert (found.state, found.reason) == (state, "ClusterNotReady")
    hub.members["a"] = replace(hub.members["a"], upgrades_paused=True)
    held = entry(hub.evaluate(BEGIN).run, "a")
    assert held.state == state


@pytest.mark.parametrize("policy", ["Wait", "Skip", "Fail"])
def test_a_member_on_hold_waits_whatever_becomes_of_it_otherwise(policy):
    hub = prepared(member("a"), spec={"versionPolicy": {"onNotReady": policy}}).hub
    known = hub.members["a"]
    hub.members["a"] = replace(known, upgrades_paused=True, inventory=replace(known.inventory, ready=False))
    found = entry(hub.evaluate(BEGIN, [Start()]).run, "a")
    assert (found.state, found.reason) == ("Pending", "MemberOnHold")
    released = ChangeMember("a", lambda member: replace(known))
    assert entry(hub.evaluate(at("1h"), [released]).run, "a").state == "Running"


def test_members_go_by_tier_then_order_then_name():
    found = seen(
        *(member("d"), member("c", order=-1), member("b", order=1)),
        *(member("a", windows=[daily("03:00")]), member("z", windows=[daily("00:00")])),
    )
    assert found["startOrder"] == ["z", "c", "d", "b", "a"]
    assert found["times"]["a"] == ["3h", "3h30m"]


def test_an_open_window_goes_first_across_groups():
    found = seen(
        *(member("a", "a"), member("b", "b", windows=[daily("00:00")])),
        stages=[stage("s", "a", "b", maxConcurrency=1)],
    )
    assert found["startOrder"] == ["b", "a"]


def test_members_that_wait_for_a_slot_are_not_looked_at():
    found = seen(
        *(member("a", "a"), member("b", "b", version="1.31.2")),
        stages=[stage("s", "a", "b", maxConcurrency=1)],
        checkAt=["10m"],
    )
    assert found["at"][0]["members"] == {"a": "Running", "b": "Skipped"}
    found = seen(
        *(member("a", "a"), member("b"), member("c", version="1.31.2")),
        checkAt=["10m"],
    )
    assert found["at"][0]["members"] == {"a": "Running", "b": "NotStarted", "c": "NotStarted"}


def test_a_failure_at_its_turn_ends_the_pass_and_the_offers_of_the_round_are_dropped():
    found = seen(
        *(member("a", "a"), member("b", "b", version="1.28.0")),
        stages=[stage("s", "a", "b")],
    )
    assert (found["members"], found["run"]) == ({"a": "NotStarted", "b": "Failed"}, "Failed")


def test_windows_that_are_ignored_hold_nothing():
    hub = prepared(member("a", windows=[daily("10:00")]), spec={"windowPolicy": {"mode": "Ignore"}}).hub
    assert entry(hub.evaluate(BEGIN, [Start()]).run, "a").state == "Running"


@pytest.mark.parametrize(
    ("target", "start"),
    [
        pytest.param("KubernetesVersion", "10h", id="applies"),
        pytest.param("All", "10h", id="applies-to-all"),
        pytest.param("NodeImage", "0s", id="is-for-images-alone"),
    ],
)
def test_only_the_windows_for_this_kind_of_upgrade_count(target, start):
    assert seen(member("a", windows=[daily("10:00", target=target)]))["times"]["a"][0] == start


def test_a_member_that_another_run_upgrades_is_busy():
    first, second = prepared(member("a")).hub, prepared(member("a")).hub
    first.evaluate(BEGIN, [Start()])
    second.busy.update(occupied_members(first.run))
    waiting = entry(second.evaluate(at("10m"), [Start()]).run, "a")
    assert (waiting.state, waiting.reason, waiting.message) == ("Pending", "ClusterBusy", "run run is upgrading it")
    first.evaluate(at("30m"))
    second.members, second.busy = first.members, {}
    assert entry(second.evaluate(at("30m")).run, "a").reason == "AlreadyAtTarget"


@pytest.mark.parametrize(
    ("clusters", "allowed", "upgrading", "name"),
    [
        pytest.param("abc", 1, "", None, id="room"),
        pytest.param("abc", 1, "b", "web", id="no-room"),
        pytest.param("abc", 2, "b", None, id="room-for-two"),
        pytest.param("abc", 0, "", "web", id="nothing-may-go"),
        pytest.param("abc", 1, "z", None, id="others-do-not-count"),
        pytest.param("a", 0, "", None, id="the-only-cluster"),
    ],
)
def test_a_placement_is_endangered_when_too_many_of_its_clusters_would_be_in_upgrade(
    clusters, allowed, upgrading, name
):
    found = endangered_placement("a", [GuardedPlacement("web", frozenset(clusters), allowed)], set(upgrading))
    assert (found.name if found else None) == name


@pytest.mark.parametrize(("mode", "running"), [("Enforce", 1), ("Warn", 2), ("Off", 2)])
def test_members_of_one_round_do_not_endanger_a_placement_together(mode, running):
    hub = prepared(
        *(member("a", "a"), member("b", "b")),
        stages=[stage("s", "a", "b")],
        spec={"placementGuard": {"mode": mode}},
    ).hub
    placement = GuardedPlacement("web", frozenset({"a", "b"}), 1)
    hub.guarded.update({"a": [placement], "b": [placement]})
    run = hub.evaluate(BEGIN, [Start()]).run
    assert run.status.counts.running == running
    if mode == "Enforce":
        assert (entry(run, "b").state, entry(run, "b").reason) == ("Pending", "PlacementGuard")
        assert entry(hub.evaluate(at("30m")).run, "b").state == "Running"


@pytest.mark.parametrize(
    ("text", "order"),
    [("5", 5), ("-1000000", -1000000), ("+3", 3), ("1000001", None), ("1.5", None), ("", None), ("x", None)],
)
def test_the_order_of_a_member_is_an_integer_within_limits(text, order):
    assert parse_order(text) == order


@pytest.mark.parametrize(
    ("windows", "tier"),
    [
        pytest.param(WindowState(is_open=True, until=at("1h")), 1, id="open"),
        pytest.param(WindowState(is_open=False, until=at("4h")), 2, id="opens-in-exactly-four-hours"),
        pytest.param(None, 3, id="none"),
        pytest.param(WindowState(is_open=False, until=at("4h1m")), 4, id="opens-later"),
        pytest.param(WindowState(is_open=False, until=None), 4, id="never-opens"),
    ],
)
def test_the_tier_of_a_member_follows_from_its_windows(windows, tier):
    assert tier_of(windows, BEGIN) == tier


def test_groups_keep_the_time_at_which_they_began():
    hub, _ = started(member("a"), member("b", windows=[daily("02:00")]))
    waiting = hub.evaluate(at("30m")).run.status.stages[0]
    going = hub.evaluate(at("2h")).run.status.stages[0]
    assert [each.groups[0].state for each in (waiting, going)] == ["Pending", "Running"]
    assert [each.groups[0].start_time for each in (waiting, going)] == [BEGIN, BEGIN]
