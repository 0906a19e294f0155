"""What a change does to a placement, and what it does not do: to that placement, and to its neighbour.

Every change is made beside a neighbour that selects and picks otherwise; what the loop and the agents write is read
from the audit logs of the API servers. The tables are those of scheduling.md 16 and rollout.md 2.9.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.controlplane.cluster import JsonObject
from e2e.fleet.bed import Fleet
from e2e.fleet.changes import TAINT, UNTAINT, live_bindings, member_change
from e2e.fleet.cluster_roles import CLUSTER_ROLE, cluster_role
from e2e.fleet.complete import Complete, wait_complete
from e2e.fleet.objects import (
    CONFIG_MAP,
    annotations_of,
    applying,
    condition_of,
    labels_of,
    make_config_map,
    make_namespace,
    make_placement,
    pick_fixed,
    pick_n,
    rolling,
    selects,
)
from e2e.fleet.overrides import patching, resource_override
from e2e.fleet.policies import BY_NODES, PRODUCTION
from e2e.fleet.scene import Scene
from e2e.fleet.settled import FLEET, assert_settled
from e2e.fleet.waiting import wait_until
from e2e.fleet.writes import Writes, told
from scorer.api.kinds import (
    MEMBER_CLUSTER,
    NAMESPACE,
    NAMESPACED_OVERRIDE,
    NAMESPACED_OVERRIDE_SNAPSHOT,
    PLACEMENT,
    POLICY_SNAPSHOT,
    RESOURCE_SNAPSHOT,
    WORK,
)
from scorer.api.names import IS_LATEST_SNAPSHOT
from webhook.kube.client.paths import path_of

ALL = ("bravelion", "jumpingcat", "smartfish")
NEIGHBOUR = "e2e-neighbour"
QUIET_SECONDS = 2.0
"""So long the loop may think about something that it is to leave alone."""


@pytest.fixture(scope="module", autouse=True)
def neighbour(fleet: Fleet) -> Iterator[Scene]:
    """A placement that nothing in this module is about."""
    scene = Scene(fleet)
    scene.home(NEIGHBOUR, colour="green")
    scene.put(make_placement(NEIGHBOUR))
    wait_complete(fleet, Complete(NEIGHBOUR, ALL))
    yield scene
    scene.clear()
    assert_settled(fleet)


@pytest.fixture(autouse=True)
def _undisturbed(fleet: Fleet, neighbour: Scene) -> Iterator[None]:
    """Nothing is written to the neighbour by any of the changes, on the hub or on a member."""
    writes = Writes(fleet)
    yield
    found = [write for write in (writes.of_loop() + writes.of_agents_on_hub()).elements() if NEIGHBOUR in write.name]
    assert not found, f"the neighbour was written: {sorted(map(str, found))}"
    for cluster, on_member in writes.on_members().items():
        mine = [str(write) for write in on_member if NEIGHBOUR in write.name]
        assert not mine, f"{cluster}: the neighbour was written: {mine}"


def put(fleet: Fleet, scene: Scene, name: str, clusters: tuple[str, ...], **spec: Any) -> None:
    """A placement of a namespace of its own name, complete."""
    scene.home(name, colour="blue")
    scene.put(make_placement(name, **spec))
    wait_complete(fleet, Complete(name, clusters))
    assert_settled(fleet)


def of_kind(fleet: Fleet, kind: Any, placement: str) -> list[str]:
    return sorted(
        item["metadata"]["name"]
        for item in fleet.on_hub.all(kind)
        if labels_of(item)[f"{FLEET}parent-CRP"] == placement
    )


def settle_for_a_moment(fleet: Fleet) -> None:
    """Give the loop the time to do what it should not do."""
    time.sleep(QUIET_SECONDS)  # nothing can be waited for: it is the absence of writes that is looked at
    assert fleet.reconcilers[0].program.running


def assert_nothing_written(fleet: Fleet, writes: Writes, *but: str) -> None:
    """Nobody wrote anything since, besides kinds of objects that are named."""
    settle_for_a_moment(fleet)
    hub = writes.of_loop() + writes.of_agents_on_hub()
    found = {write: count for write, count in hub.items() if write.resource not in but}
    assert not found, told(hub)
    assert not writes.on_members()


@pytest.mark.core
def test_changed_content_is_a_new_snapshot_and_an_update_everywhere_it_is(fleet, scene):
    put(fleet, scene, "e2e-content", ALL)
    before, writes = live_bindings(fleet, "e2e-content"), Writes(fleet)
    fleet.on_hub.patch(CONFIG_MAP, "settings", {"data": {"colour": "red"}}, "e2e-content")
    wait_complete(fleet, Complete("e2e-content", ALL, index="1"))
    assert_settled(fleet)
    after = live_bindings(fleet, "e2e-content")
    assert {name: item["metadata"]["uid"] for name, item in after.items()} == {
        name: item["metadata"]["uid"] for name, item in before.items()
    }
    assert of_kind(fleet, RESOURCE_SNAPSHOT, "e2e-content") == ["e2e-content-0-snapshot", "e2e-content-1-snapshot"]
    loop = writes.of_loop()
    assert not [write for write in loop if write.resource.startswith("clusterschedulingpolicysnapshots")], told(loop)
    assert not [write for write in loop if write.verb == "delete"], told(loop)
    for name, objects in fleet.clusters.items():
        assert objects.get(CONFIG_MAP, "settings", "e2e-content")["data"] == {"colour": "red"}, name
    for cluster, on_member in writes.on_members().items():
        written = {write.name for write in on_member if write.resource == "configmaps"}
        assert written == {"e2e-content/settings"}, cluster
        assert not [write for write in on_member if write.resource == "namespaces"], told(on_member)


def test_old_content_again_is_a_new_snapshot_too(fleet, scene):
    put(fleet, scene, "e2e-back", ("smartfish",), policy=pick_fixed("smartfish"))
    for index, colour in (("1", "red"), ("2", "blue")):
        fleet.on_hub.patch(CONFIG_MAP, "settings", {"data": {"colour": colour}}, "e2e-back")
        wait_complete(fleet, Complete("e2e-back", ("smartfish",), index=index))
    assert_settled(fleet)


def test_objects_come_and_go_with_their_namespace(fleet, scene):
    put(fleet, scene, "e2e-members-of", ("smartfish",), policy=pick_fixed("smartfish"))
    fleet.on_hub.create(make_config_map("added", "e2e-members-of", a="1"))
    selected = [("Namespace", "e2e-members-of"), ("ConfigMap", "added"), ("ConfigMap", "settings")]
    wait_complete(fleet, Complete("e2e-members-of", ("smartfish",), selected, index="1"))
    fleet.on_hub.delete(CONFIG_MAP, "settings", "e2e-members-of")
    wait_complete(fleet, Complete("e2e-members-of", ("smartfish",), selected[:2], index="2"))
    assert_settled(fleet)
    fleet.on_hub.patch(NAMESPACE, "e2e-members-of", {"metadata": {"labels": {"team": "quay"}}})
    wait_complete(fleet, Complete("e2e-members-of", ("smartfish",), selected[:2], index="3"))
    assert_settled(fleet)
    assert labels_of(fleet.members["smartfish"].objects.get(NAMESPACE, "e2e-members-of"))["team"] == "quay"


def test_cluster_scoped_objects_come_and_go_with_their_label(fleet, scene):
    scene.put(cluster_role("e2e-chosen"))
    by_label = selects(CLUSTER_ROLE, labelSelector={"matchLabels": {"of": "e2e-roles"}})
    scene.put(make_placement("e2e-labelled", pick_fixed("smartfish"), resourceSelectors=[by_label]))
    wait_complete(fleet, Complete("e2e-labelled", ("smartfish",), [("ClusterRole", "e2e-chosen")]))
    scene.put(cluster_role("e2e-second"))
    both = [("ClusterRole", "e2e-chosen"), ("ClusterRole", "e2e-second")]
    wait_complete(fleet, Complete("e2e-labelled", ("smartfish",), both, index="1"))
    fleet.on_hub.patch(CLUSTER_ROLE, "e2e-chosen", {"metadata": {"labels": {"of": "others"}}})
    wait_complete(fleet, Complete("e2e-labelled", ("smartfish",), both[1:], index="2"))
    fleet.on_hub.delete(CLUSTER_ROLE, "e2e-second")
    wait_until(
        "nothing is selected",
        lambda: "" if not fleet.on_hub.get(PLACEMENT, "e2e-labelled")["status"].get("selectedResources") else "not yet",
    )
    assert_settled(fleet)
    assert fleet.members["smartfish"].objects.find(CLUSTER_ROLE, "e2e-second") is None


def test_what_nobody_selects_wakes_nobody(fleet, scene):
    """Objects elsewhere, and content of a namespace that is placed alone."""
    scene.home("e2e-alone", colour="blue")
    alone = selects(NAMESPACE, "e2e-alone", selectionScope="NamespaceOnly")
    scene.put(make_placement("e2e-alone", resourceSelectors=[alone]))
    wait_complete(fleet, Complete("e2e-alone", ALL))
    scene.put(make_namespace("e2e-unselected"))
    writes = Writes(fleet)
    fleet.on_hub.patch(CONFIG_MAP, "settings", {"data": {"colour": "red"}}, "e2e-alone")
    fleet.on_hub.create(make_config_map("new", "e2e-unselected", a="1"))
    fleet.on_hub.patch(NAMESPACE, "e2e-unselected", {"metadata": {"labels": {"a": "b"}}})
    fleet.on_hub.delete(CONFIG_MAP, "settings", "e2e-alone")
    assert_nothing_written(fleet, writes)


def test_a_status_is_no_content(fleet, scene):
    """What the hub keeps for itself of a selected object makes no new snapshot (rollout.md 2.6)."""
    put(fleet, scene, "e2e-noise", ("smartfish",), policy=pick_fixed("smartfish"))
    writes = Writes(fleet)
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    fleet.on_hub.patch(CONFIG_MAP, "settings", {"metadata": {"annotations": applied}}, "e2e-noise")
    assert_nothing_written(fleet, writes)


@pytest.mark.core
def test_more_and_fewer_clusters_move_only_the_difference(fleet, scene):
    put(fleet, scene, "e2e-scaled", ("bravelion",), policy=pick_n(1, affinity=BY_NODES))
    first = live_bindings(fleet, "e2e-scaled")
    fleet.on_hub.patch(PLACEMENT, "e2e-scaled", {"spec": {"policy": {"numberOfClusters": 3}}})
    wait_complete(fleet, Complete("e2e-scaled", ("smartfish", "jumpingcat", "bravelion")))
    grown = live_bindings(fleet, "e2e-scaled")
    assert grown["bravelion"]["metadata"]["uid"] == first["bravelion"]["metadata"]["uid"]
    assert grown["bravelion"]["metadata"]["generation"] == first["bravelion"]["metadata"]["generation"]
    fleet.on_hub.patch(PLACEMENT, "e2e-scaled", {"spec": {"policy": {"numberOfClusters": 2}}})
    wait_complete(fleet, Complete("e2e-scaled", ("bravelion", "smartfish")))
    assert_settled(fleet)
    assert of_kind(fleet, POLICY_SNAPSHOT, "e2e-scaled") == ["e2e-scaled-0"]
    assert fleet.members["jumpingcat"].objects.find(NAMESPACE, "e2e-scaled") is None


def test_another_policy_is_a_new_snapshot_and_keeps_who_still_fits(fleet, scene):
    put(fleet, scene, "e2e-policy", ("bravelion", "smartfish"), policy=pick_n(2, affinity=BY_NODES))
    before = live_bindings(fleet, "e2e-policy")
    monday = [{"labelSelector": {"matchLabels": {"updateDay": "monday"}}}]
    affinity = {
        "preferredDuringSchedulingIgnoredDuringExecution": None,
        "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": monday},
    }
    change = {"spec": {"policy": {"affinity": {"clusterAffinity": affinity}}}}
    fleet.on_hub.patch(PLACEMENT, "e2e-policy", change)

    def problem() -> str:
        found = sorted(live_bindings(fleet, "e2e-policy"))
        return "" if found == ["bravelion", "jumpingcat"] else f"{found}"

    wait_until("moved", problem)
    assert_settled(fleet)
    after = live_bindings(fleet, "e2e-policy")
    assert after["bravelion"]["metadata"]["uid"] == before["bravelion"]["metadata"]["uid"]
    assert of_kind(fleet, POLICY_SNAPSHOT, "e2e-policy") == ["e2e-policy-0", "e2e-policy-1"]
    assert f"{FLEET}previous-binding-state" not in annotations_of(after["bravelion"])


def test_a_fixed_list_is_followed(fleet, scene):
    put(fleet, scene, "e2e-list", ("bravelion", "smartfish"), policy=pick_fixed("bravelion", "smartfish"))
    kept = live_bindings(fleet, "e2e-list")["smartfish"]["metadata"]["uid"]
    names = {"clusterNames": ["jumpingcat", "smartfish"]}
    fleet.on_hub.patch(PLACEMENT, "e2e-list", {"spec": {"policy": names}})

    def problem() -> str:
        found = sorted(live_bindings(fleet, "e2e-list"))
        return "" if found == ["jumpingcat", "smartfish"] else f"{found}"

    wait_until("moved", problem)
    assert_settled(fleet)
    assert live_bindings(fleet, "e2e-list")["smartfish"]["metadata"]["uid"] == kept


UNSUITABLE = {"metadata": {"labels": {"env": "dev"}}}
SUITABLE = {"metadata": {"labels": {"env": "prod"}}}


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        pytest.param("e2e-stays-all", {"placementType": "PickAll", "affinity": PRODUCTION}, id="PickAll"),
        pytest.param("e2e-stays-n", pick_n(2, affinity=PRODUCTION), id="PickN"),
        pytest.param("e2e-stays-fixed", pick_fixed("bravelion", "smartfish"), id="PickFixed"),
    ],
)
def test_a_cluster_that_has_become_unsuitable_keeps_what_it_has(fleet, scene, name, policy):
    """Neither a label nor a taint takes anything away (scheduling.md 16, first row)."""
    scene.home(name, colour="blue")
    scene.put(make_placement(name, policy))
    wait_until("placed", lambda: "" if len(live_bindings(fleet, name)) == 2 else "not yet")
    assert_settled(fleet)
    before, writes = uids(fleet, name), Writes(fleet)
    with (
        member_change(fleet, "smartfish", UNSUITABLE, SUITABLE),
        member_change(fleet, "bravelion", TAINT, UNTAINT),
    ):
        settle_for_a_moment(fleet)
        assert uids(fleet, name) == before
    settle_for_a_moment(fleet)
    assert uids(fleet, name) == before
    assert not writes.on_members()
    written = {write.resource for write in writes.of_loop()}
    assert not written & {"clusterresourcebindings", "works", "clusterresourcesnapshots"}, told(writes.of_loop())


def uids(fleet: Fleet, placement: str) -> dict[str, tuple[str, int]]:
    """Which bindings there are, and that their spec did not change."""
    return {
        name: (item["metadata"]["uid"], item["metadata"]["generation"])
        for name, item in live_bindings(fleet, placement).items()
    }


def test_a_silent_cluster_keeps_what_it_has_and_gets_nothing_new(fleet, scene):
    """Its last heartbeat is ten minutes old; a PickN that is short does not take it (scheduling.md 5 and 16)."""
    put(fleet, scene, "e2e-kept", ALL)
    before = uids(fleet, "e2e-kept")
    silent, loop = fleet.members["jumpingcat"], fleet.reconcilers[0]
    silent.agent.stop()
    loop.stop()  # it knows when it has heard the last heartbeat; who starts anew believes what is written
    try:
        agents = fleet.on_hub.get(MEMBER_CLUSTER, silent.name)["status"]["agentStatus"]
        long_ago = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 600))
        old = [{**agent, "lastReceivedHeartbeat": long_ago} for agent in agents]
        fleet.on_hub.patch_status(MEMBER_CLUSTER, silent.name, {"agentStatus": old})
        loop.start()
        scene.home("e2e-new", colour="blue")
        scene.put(make_placement("e2e-new", pick_n(3)))
        wait_complete(fleet, Complete("e2e-new", ("smartfish", "bravelion"), missing=("jumpingcat",)))
        assert uids(fleet, "e2e-kept") == before
    finally:
        silent.agent.start()
    wait_until(
        "it gets its share when it speaks again",
        lambda: "" if len(live_bindings(fleet, "e2e-new")) == 3 else f"{sorted(live_bindings(fleet, 'e2e-new'))}",
    )
    assert_settled(fleet)


def test_a_newly_suitable_cluster_is_taken_where_there_is_room(fleet, scene):
    """PickAll grows, PickN only while it is short, PickFixed not at all."""
    for name in ("e2e-room", "e2e-full", "e2e-listed"):
        scene.home(name, colour="blue")
    scene.put(
        make_placement("e2e-room", {"placementType": "PickAll", "affinity": PRODUCTION}),
        make_placement("e2e-full", pick_n(2, affinity=PRODUCTION)),
        make_placement("e2e-listed", pick_fixed("bravelion")),
    )
    scene.home("e2e-hungry", colour="blue")
    scene.put(make_placement("e2e-hungry", pick_n(3, affinity=PRODUCTION)))
    wait_until("placed", lambda: "" if len(live_bindings(fleet, "e2e-hungry")) == 2 else "not yet")
    assert_settled(fleet, short={"e2e-hungry"})
    full, listed = uids(fleet, "e2e-full"), uids(fleet, "e2e-listed")
    with member_change(fleet, "jumpingcat", SUITABLE, {"metadata": {"labels": {"env": "staging"}}}):
        for name in ("e2e-room", "e2e-hungry"):
            wait_until(
                f"{name} grows",
                lambda name=name: "" if len(live_bindings(fleet, name)) == 3 else f"{live_bindings(fleet, name)}",
            )
        assert_settled(fleet)
        assert (uids(fleet, "e2e-full"), uids(fleet, "e2e-listed")) == (full, listed)


def test_a_better_cluster_moves_nothing(fleet, scene):
    """The winner loses its lead; who is placed stays placed."""
    preferred = {
        "clusterAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "preference": {"labelSelector": {"matchLabels": {"tier": "1"}}}}
            ]
        }
    }
    put(fleet, scene, "e2e-best", ("bravelion",), policy=pick_n(1, affinity=preferred))
    before = uids(fleet, "e2e-best")
    worse, better = {"metadata": {"labels": {"tier": "3"}}}, {"metadata": {"labels": {"tier": "1"}}}
    with (
        member_change(fleet, "bravelion", worse, better),
        member_change(fleet, "jumpingcat", better, worse),
    ):
        settle_for_a_moment(fleet)
        assert uids(fleet, "e2e-best") == before


def test_an_apply_strategy_reaches_the_works_outside_all_limits(fleet, scene):
    """Every binding and Work at once, no new snapshot, nothing scheduled again (rollout.md 8)."""
    put(fleet, scene, "e2e-strategy", ALL)
    writes = Writes(fleet)
    strategy = applying(type="ServerSideApply", serverSideApplyConfig={"force": True})
    fleet.on_hub.patch(PLACEMENT, "e2e-strategy", {"spec": {"strategy": strategy}})

    def problem() -> str:
        works = [fleet.on_hub.get(WORK, "e2e-strategy-work", f"fleet-member-{name}") for name in ALL]
        types = [work["spec"]["applyStrategy"]["type"] for work in works]
        return "" if set(types) == {"ServerSideApply"} else f"{types}"

    wait_until("pushed", problem)
    wait_complete(fleet, Complete("e2e-strategy", ALL))
    assert_settled(fleet)
    assert of_kind(fleet, RESOURCE_SNAPSHOT, "e2e-strategy") == ["e2e-strategy-0-snapshot"]
    assert of_kind(fleet, POLICY_SNAPSHOT, "e2e-strategy") == ["e2e-strategy-0"]
    loop = writes.of_loop()
    assert not [write for write in loop if write.verb in {"create", "delete"} and write.resource != "events"], told(
        loop
    )


def test_an_override_is_rolled_out_as_it_comes_changes_and_goes(fleet, scene):
    """At once, since it names the placement; the content itself gets no new snapshot (rollout.md 6.5)."""
    name = "e2e-overriding"
    put(fleet, scene, name, ("smartfish",), policy=pick_fixed("smartfish"))
    live = fleet.members["smartfish"].objects

    def has(colour: str) -> None:
        def problem() -> str:
            data = live.get(CONFIG_MAP, "settings", name)["data"]
            return "" if data == {"colour": colour} else f"it has {data}"

        wait_until(f"the member has {colour}", problem)

    def replacing(colour: str) -> JsonObject:
        patch = {"op": "replace", "path": "/data/colour", "value": colour}
        return resource_override("paint", name, "settings", patching(patch, env="prod"))

    scene.put(replacing("red"))
    has("red")
    overridden = {"smartfish": ([], [f"{name}/paint-0"])}
    wait_complete(fleet, Complete(name, ("smartfish",), overridden=overridden))
    fleet.on_hub.patch(NAMESPACED_OVERRIDE, "paint", {"spec": replacing("green")["spec"]}, name)
    has("green")
    overridden = {"smartfish": ([], [f"{name}/paint-1"])}
    wait_complete(fleet, Complete(name, ("smartfish",), overridden=overridden))
    fleet.on_hub.delete(NAMESPACED_OVERRIDE, "paint", name)
    has("blue")
    wait_complete(fleet, Complete(name, ("smartfish",)))
    assert_settled(fleet)
    assert of_kind(fleet, RESOURCE_SNAPSHOT, name) == [f"{name}-0-snapshot"]


def test_a_cluster_keeps_what_a_deleted_override_gave_it_until_its_turn(fleet, scene):
    """As Argo CD prunes, it is deleted in the foreground: the garbage collector first deletes what it owns."""
    name = "e2e-unpainted"
    scene.home(name, colour="blue")
    patch = {"op": "replace", "path": "/data/colour", "value": "red"}
    override = resource_override("paint", name, "settings", patching(patch, env="prod"))

    def snapshot() -> JsonObject:
        return fleet.on_hub.get(NAMESPACED_OVERRIDE_SNAPSHOT, "paint-0", name)

    def is_latest(text: str) -> str:
        found = fleet.on_hub.find(NAMESPACED_OVERRIDE_SNAPSHOT, "paint-0", name)
        return "" if found and labels_of(found)[IS_LATEST_SNAPSHOT] == text else f"{found}"

    def colour() -> JsonObject:
        return fleet.members["smartfish"].objects.get(CONFIG_MAP, "settings", name)["data"]

    scene.put(override)
    wait_until("the override has a snapshot", lambda: is_latest("true"))
    scene.put(make_placement(name, pick_fixed("smartfish"), strategy=rolling(maxUnavailable=0, maxSurge=1)))
    overridden = {"smartfish": ([], [f"{name}/paint-0"])}
    wait_complete(fleet, Complete(name, ("smartfish",), overridden=overridden))
    uid = snapshot()["metadata"]["uid"]
    path = path_of(NAMESPACED_OVERRIDE, name, "paint")
    fleet.on_hub.cluster.request("DELETE", f"{path}?propagationPolicy=Foreground", user=fleet.on_hub.user)

    def remaining() -> str:
        return f"{fleet.on_hub.find(NAMESPACED_OVERRIDE, 'paint', name) or ''}"

    wait_until("the override is gone", remaining)
    assert is_latest("false") == ""
    relabelled, unlabelled = ({"metadata": {"labels": {"painted": text}}} for text in ("yes", None))
    with member_change(fleet, "smartfish", relabelled, unlabelled):  # its objects are made again
        settle_for_a_moment(fleet)
    (binding,) = live_bindings(fleet, name).values()
    assert condition_of(binding, "Overridden")["status"] == "True"
    assert binding["spec"]["resourceOverrideSnapshots"] == [{"name": "paint-0", "namespace": name}]
    assert colour() == {"colour": "red"}
    scene.put(override)
    wait_until("the override is in force again", lambda: is_latest("true"))
    assert snapshot()["metadata"]["uid"] == uid
    fleet.on_hub.delete(NAMESPACED_OVERRIDE, "paint", name)
    wait_until("the override is gone again", remaining)
    fleet.on_hub.patch(PLACEMENT, name, {"spec": {"strategy": rolling(maxUnavailable=1, maxSurge=1)}})
    wait_until("the member has blue", lambda: "" if colour() == {"colour": "blue"} else f"it has {colour()}")
    wait_complete(fleet, Complete(name, ("smartfish",)))
    assert_settled(fleet)


def test_no_more_history_is_kept_than_is_asked_for(fleet, scene):
    name = "e2e-history"
    put(fleet, scene, name, ("smartfish",), policy=pick_fixed("smartfish"), revisionHistoryLimit=2)
    for index, colour in (("1", "red"), ("2", "green"), ("3", "black")):
        fleet.on_hub.patch(CONFIG_MAP, "settings", {"data": {"colour": colour}}, name)
        wait_complete(fleet, Complete(name, ("smartfish",), index=index))
    assert of_kind(fleet, RESOURCE_SNAPSHOT, name) == [f"{name}-2-snapshot", f"{name}-3-snapshot"]
    assert_settled(fleet)


def test_a_selection_that_cannot_be_is_said_so_and_changes_nothing(fleet, scene):
    put(fleet, scene, "e2e-impossible", ("smartfish",), policy=pick_fixed("smartfish"))
    terms = [
        selects(NAMESPACE, "e2e-impossible"),
        {"group": "example.com", "version": "v1", "kind": "Toy", "name": "a"},
    ]
    fleet.on_hub.patch(PLACEMENT, "e2e-impossible", {"spec": {"resourceSelectors": terms}})

    def problem() -> str:
        found = condition_of(fleet.on_hub.get(PLACEMENT, "e2e-impossible"), "ClusterResourcePlacementScheduled")
        good = (found["status"], found["reason"]) == ("False", "InvalidResourceSelectors") and "Toy" in found["message"]
        return "" if good else f"{found}"

    wait_until("said so", problem)
    assert of_kind(fleet, RESOURCE_SNAPSHOT, "e2e-impossible") == ["e2e-impossible-0-snapshot"]
    live = fleet.members["smartfish"].objects.get(CONFIG_MAP, "settings", "e2e-impossible")
    assert live["data"] == {"colour": "blue"}
    fleet.on_hub.patch(PLACEMENT, "e2e-impossible", {"spec": {"resourceSelectors": terms[:1]}})
    wait_complete(fleet, Complete("e2e-impossible", ("smartfish",)))
    assert_settled(fleet)


def test_a_second_run_writes_nothing(fleet, scene):
    """The loop and the agents start anew and look at everything; the API servers see no write (besides heartbeats)."""
    put(fleet, scene, "e2e-again", ("bravelion", "smartfish"), policy=pick_n(2, affinity=BY_NODES))
    scene.home("e2e-again-external", colour="blue")
    scene.put(make_placement("e2e-again-external", strategy={"type": "External"}))
    scene.home("e2e-again-short", colour="blue")
    scene.put(make_placement("e2e-again-short", pick_n(3, affinity=PRODUCTION)))
    wait_until("placed", lambda: "" if len(live_bindings(fleet, "e2e-again-short")) == 2 else "not yet")
    assert_settled(fleet, short={"e2e-again-short"})
    settle_for_a_moment(fleet)
    writes = Writes(fleet)
    loop = fleet.reconcilers[0]
    loop.stop()
    loop.start()
    fleet.wait_leader(loop.identity)
    for member in fleet.members.values():
        member.agent.stop()
        member.agent.start()
    fleet.wait_joined()
    assert_nothing_written(fleet, writes)
