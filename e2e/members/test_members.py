"""Members that leave and come back, evictions and budgets, and placements that go: what stays and what goes."""

from collections.abc import Iterator
from functools import partial

import pytest

from e2e.controlplane.cluster import ApiError, JsonObject
from e2e.fleet.bed import AGENT_USER, Fleet
from e2e.fleet.changes import TAINT, UNTAINT, live_bindings, member_change
from e2e.fleet.complete import Complete, wait_complete
from e2e.fleet.objects import (
    CONFIG_MAP,
    MERGE,
    condition_of,
    is_deleting,
    labels_of,
    make_config_map,
    make_placement,
    pick_fixed,
    pick_n,
    selects,
)
from e2e.fleet.settled import FLEET, assert_settled
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import (
    APPLIED_WORK,
    BINDING,
    CUSTOM_RESOURCE_DEFINITION,
    DISRUPTION_BUDGET,
    EVENT,
    EVICTION,
    INTERNAL_MEMBER_CLUSTER,
    KINDS,
    MEMBER_CLUSTER,
    NAMESPACE,
    PLACEMENT,
    POLICY_SNAPSHOT,
    RESOURCE_SNAPSHOT,
    WORK,
    Kind,
)
from scorer.api.names import REMOVE
from scorer.membership.identity import DISCOVERED_WORKS
from webhook.doctor.members import judge_applied_works
from webhook.kube.client.paths import path_of

ALL = ("bravelion", "jumpingcat", "smartfish")
BETA = "placement.kubernetes-fleet.io/v1beta1"


@pytest.fixture(scope="module", autouse=True)
def _left_as_it_was(fleet: Fleet) -> Iterator[None]:
    """Nothing of this module is left anywhere."""
    yield
    assert_settled(fleet)


def eviction(name: str, placement: str, cluster: str) -> JsonObject:
    spec = {"placementName": placement, "clusterName": cluster}
    return {"apiVersion": BETA, "kind": EVICTION.kind, "metadata": {"name": name}, "spec": spec}


def budget(placement: str, **limit: int | str) -> JsonObject:
    metadata = {"name": placement}
    return {"apiVersion": BETA, "kind": DISRUPTION_BUDGET.kind, "metadata": metadata, "spec": limit}


def boats(group: str) -> JsonObject:
    """A CustomResourceDefinition of Boats."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITION.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITION.kind,
        "metadata": {"name": f"boats.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Boat", "plural": "boats", "listKind": "BoatList", "singular": "boat"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def may_list(kind: Kind) -> tuple[JsonObject, JsonObject]:
    """A ClusterRole that lets an agent list objects of *kind* in its member, and its binding."""
    group, version = "rbac.authorization.k8s.io", "v1"
    metadata = {"name": f"e2e-list-{kind.resource}"}
    rule = {"apiGroups": [kind.group], "resources": [kind.plural], "verbs": ["list"]}
    role = {"apiVersion": f"{group}/{version}", "kind": "ClusterRole", "metadata": metadata, "rules": [rule]}
    return role, {
        "apiVersion": f"{group}/{version}",
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": metadata["name"]},
        "subjects": [{"apiGroup": group, "kind": "User", "name": AGENT_USER}],
    }


def verdict(fleet: Fleet, name: str) -> tuple[str, str]:
    """What became of an eviction: reasons of Valid and Executed, as soon as it is final."""

    def words() -> tuple[str, str]:
        document = fleet.on_hub.get(EVICTION, name)
        valid, executed = (condition_of(document, word) for word in ("Valid", "Executed"))
        prefix = "ClusterResourcePlacementEviction"
        return valid.get("reason", "").removeprefix(prefix), executed.get("reason", "").removeprefix(prefix)

    def problem() -> str:
        found = words()
        return "" if found[0] == "Invalid" or found[1] else f"{found}"

    wait_until(f"a verdict on {name}", problem)
    return words()


@pytest.mark.core
def test_evictions_keep_to_the_budget(fleet, scene):
    """Blocked while nothing may be missing, carried out when one may; a verdict is final (rollout.md 19)."""
    name = "e2e-evicted"
    scene.home(name, colour="blue")
    scene.put(make_placement(name, pick_n(2)), budget(name, maxUnavailable=0))
    wait_complete(fleet, Complete(name, ("smartfish", "jumpingcat")))
    before = live_bindings(fleet, name)
    scene.put(eviction("e2e-blocked", name, "jumpingcat"))
    assert verdict(fleet, "e2e-blocked") == ("Valid", "NotExecuted")
    message = condition_of(fleet.on_hub.get(EVICTION, "e2e-blocked"), "Executed")["message"]
    assert "2" in message
    assert live_bindings(fleet, name)["jumpingcat"]["metadata"]["uid"] == before["jumpingcat"]["metadata"]["uid"]
    fleet.on_hub.patch(DISRUPTION_BUDGET, name, {"spec": {"maxUnavailable": 1}})
    with member_change(fleet, "jumpingcat", TAINT, UNTAINT):
        scene.put(eviction("e2e-allowed", name, "jumpingcat"))
        assert verdict(fleet, "e2e-allowed") == ("Valid", "Executed")
        wait_complete(fleet, Complete(name, ("bravelion", "smartfish")))
        assert_settled(fleet)
        assert fleet.members["jumpingcat"].objects.find(NAMESPACE, name) is None
    assert verdict(fleet, "e2e-blocked") == ("Valid", "NotExecuted")
    after = live_bindings(fleet, name)
    assert after["smartfish"]["metadata"]["uid"] == before["smartfish"]["metadata"]["uid"]


def test_an_evicted_cluster_may_come_back_at_once(fleet, scene):
    name = "e2e-returning"
    scene.home(name, colour="blue")
    scene.put(make_placement(name))
    wait_complete(fleet, Complete(name, ALL))
    before = live_bindings(fleet, name)["smartfish"]["metadata"]["uid"]
    scene.put(eviction("e2e-returns", name, "smartfish"))
    assert verdict(fleet, "e2e-returns") == ("Valid", "Executed")

    def problem() -> str:
        found = live_bindings(fleet, name).get("smartfish")
        return "" if found and found["metadata"]["uid"] != before else "no new binding"

    wait_until("it comes back", problem)
    assert_settled(fleet)


@pytest.mark.parametrize(
    ("name", "placement", "cluster"),
    [
        pytest.param("e2e-of-nothing", "e2e-nowhere", "smartfish", id="no-such-placement"),
        pytest.param("e2e-of-fixed", "e2e-pinned", "smartfish", id="PickFixed"),
        pytest.param("e2e-of-elsewhere", "e2e-roaming", "smartfish", id="not-there"),
    ],
)
def test_evictions_that_cannot_be(fleet, scene, name, placement, cluster):
    if placement == "e2e-pinned":
        scene.home(placement, colour="blue")
        scene.put(make_placement(placement, pick_fixed("smartfish")))
        wait_complete(fleet, Complete(placement, ("smartfish",)))
    elif placement == "e2e-roaming":
        scene.home(placement, colour="blue")
        only = {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": []}}}
        only["clusterAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["clusterSelectorTerms"] = [
            {"labelSelector": {"matchLabels": {"region": "east"}}}
        ]
        scene.put(make_placement(placement, {"placementType": "PickAll", "affinity": only}))
        wait_complete(fleet, Complete(placement, ("bravelion",)))
    scene.put(eviction(name, placement, cluster))
    assert verdict(fleet, name) == ("Invalid", "")


@pytest.mark.core
def test_a_deleted_placement_takes_everything_with_it(fleet, scene):
    name = "e2e-deleted"
    scene.home(name, colour="blue")
    scene.put(make_placement(name))
    wait_complete(fleet, Complete(name, ALL))
    held = fleet.on_hub.get(PLACEMENT, name)["metadata"]["finalizers"]
    assert sorted(held) == [f"{FLEET}crp-cleanup", f"{FLEET}scheduler-cleanup"]
    for item in live_bindings(fleet, name).values():
        assert sorted(item["metadata"]["finalizers"]) == [f"{FLEET}scheduler-crb-cleanup", f"{FLEET}work-cleanup"]
    for cluster in ALL:
        work = fleet.on_hub.get(WORK, f"{name}-work", f"fleet-member-{cluster}")
        assert work["metadata"]["finalizers"] == [f"{FLEET}work-cleanup"]
    fleet.on_hub.delete(PLACEMENT, name)

    def problem() -> str:
        left = [
            item["metadata"]["name"]
            for kind in (BINDING, POLICY_SNAPSHOT, RESOURCE_SNAPSHOT)
            for item in fleet.on_hub.all(kind)
            if labels_of(item)[f"{FLEET}parent-CRP"] == name
        ]
        return f"{left}" if left or fleet.on_hub.find(PLACEMENT, name) else ""

    wait_until("everything goes", problem)
    assert_settled(fleet)
    for cluster, objects in fleet.clusters.items():
        assert objects.find(NAMESPACE, name) is None, cluster
    assert fleet.on_hub.find(NAMESPACE, name) is not None


def test_an_abandoned_placement_leaves_its_objects_without_owner(fleet, scene):
    name = "e2e-abandoned"
    scene.home(name, colour="blue")
    strategy = {"type": "RollingUpdate", "deleteStrategy": {"propagationPolicy": "Abandon"}}
    scene.put(make_placement(name, pick_fixed("smartfish"), strategy=strategy))
    wait_complete(fleet, Complete(name, ("smartfish",)))
    fleet.on_hub.delete(PLACEMENT, name)
    objects = fleet.members["smartfish"].objects

    def problem() -> str:
        left = objects.find(APPLIED_WORK, f"{name}-work")
        return "the AppliedWork is there" if left or fleet.on_hub.find(PLACEMENT, name) else ""

    wait_until("it is abandoned", problem)
    assert_settled(fleet, by_hand={name})
    for kind, key in ((NAMESPACE, (name,)), (CONFIG_MAP, ("settings", name))):
        live = objects.get(kind, *key)
        assert not is_deleting(live)
        assert "ownerReferences" not in live["metadata"]
    objects.delete(NAMESPACE, name)
    wait_until("cleaned up", lambda: "" if objects.find(NAMESPACE, name) is None else "still there")


def test_the_definition_of_works_takes_nothing_along_when_it_goes_and_nothing_moves_when_it_comes_back(fleet, scene):
    """What is local to a placed namespace stays, too."""
    name = "e2e-undefined"
    scene.home(name, colour="blue")
    scene.put(make_placement(name))
    wait_complete(fleet, Complete(name, ALL))
    for objects in fleet.clusters.values():
        objects.create(make_config_map("local", name, mine="1"))
    before = on_the_members(fleet, name)
    fleet.on_hub.delete(CUSTOM_RESOURCE_DEFINITION, WORK.resource)

    def problem() -> str:
        return "it is there" if fleet.on_hub.find(CUSTOM_RESOURCE_DEFINITION, WORK.resource) else ""

    wait_until("the definition of Works goes", problem)
    assert on_the_members(fleet, name) == before
    fleet.install()
    wait_complete(fleet, Complete(name, ALL))
    assert on_the_members(fleet, name) == before

    def reasons() -> set[str]:
        events = fleet.members["smartfish"].objects.all(EVENT)
        return {item["reason"] for item in events if item["regarding"]["name"] == f"{name}-work"}

    wait_until("an Event reports it", lambda: "" if reasons() else "there is none")
    assert reasons() == {"KeptWithoutOrder"}


def on_the_members(fleet: Fleet, name: str) -> dict[str, list[tuple[str, str]]]:
    """Return uid and version of what is on the members of a placement, and of what is local there."""
    kinds = ((NAMESPACE, (name,)), (CONFIG_MAP, ("settings", name)), (CONFIG_MAP, ("local", name)))
    return {
        cluster: [
            (found["metadata"]["uid"], found["metadata"]["resourceVersion"])
            for found in (objects.get(kind, *key) for kind, key in kinds)
        ]
        for cluster, objects in fleet.clusters.items()
    }


def test_a_finished_deletion_survives_whoever_does_it(fleet, scene):
    """The loop ends in the midst of a deletion; the next one finishes it."""
    name = "e2e-half-deleted"
    scene.home(name, colour="blue")
    scene.put(make_placement(name))
    wait_complete(fleet, Complete(name, ALL))
    loop = fleet.reconcilers[0]
    fleet.on_hub.delete(PLACEMENT, name)
    loop.stop()
    assert fleet.on_hub.find(PLACEMENT, name) is None or is_deleting(fleet.on_hub.get(PLACEMENT, name))
    loop.start()
    wait_until("it goes", lambda: "" if fleet.on_hub.find(PLACEMENT, name) is None else "still there")
    assert_settled(fleet)


def test_a_member_leaves_and_comes_back(fleet, scene):
    """Its objects stay on it, the hub forgets it, others take its place; on its return they are taken over again."""
    scene.home("e2e-everywhere", colour="blue")
    scene.home("e2e-replaced", colour="blue")
    scene.put(make_placement("e2e-everywhere"), make_placement("e2e-replaced", pick_n(2)))
    wait_complete(fleet, Complete("e2e-everywhere", ALL))
    wait_complete(fleet, Complete("e2e-replaced", ("smartfish", "jumpingcat")))
    leaving = fleet.members["jumpingcat"]
    uid = leaving.objects.get(CONFIG_MAP, "settings", "e2e-everywhere")["metadata"]["uid"]
    fleet.on_hub.delete(MEMBER_CLUSTER, leaving.name)
    home = f"fleet-member-{leaving.name}"

    def left() -> str:
        found = [
            name_of
            for name_of, there in (
                ("MemberCluster", fleet.on_hub.find(MEMBER_CLUSTER, leaving.name)),
                ("namespace", fleet.on_hub.find(NAMESPACE, home)),
            )
            if there
        ]
        return f"{found} are still there; {fleet.last_words()}" if found else ""

    wait_until("it leaves", left)
    wait_complete(fleet, Complete("e2e-everywhere", ("bravelion", "smartfish")))
    wait_complete(fleet, Complete("e2e-replaced", ("bravelion", "smartfish")))
    stayed = leaving.objects.get(CONFIG_MAP, "settings", "e2e-everywhere")
    assert stayed["metadata"]["uid"] == uid
    assert not is_deleting(stayed)
    member = {key: value for key, value in leaving.document.items() if key != "status"}
    fleet.on_hub.create(member)
    fleet.wait_joined()
    wait_complete(fleet, Complete("e2e-everywhere", ("jumpingcat", "bravelion", "smartfish")))
    taken = leaving.objects.get(CONFIG_MAP, "settings", "e2e-everywhere")
    assert taken["metadata"]["uid"] == uid
    owners = [owner["uid"] for owner in taken["metadata"]["ownerReferences"]]
    assert owners == [leaving.objects.get(APPLIED_WORK, "e2e-everywhere-work")["metadata"]["uid"]]
    left_behind = leaving.objects.get(APPLIED_WORK, "e2e-replaced-work")  # nobody's any more: an administrator's matter
    assert leaving.objects.get(NAMESPACE, "e2e-replaced")["metadata"]["ownerReferences"][0]["uid"] == uid_of(
        left_behind
    )
    said = {"metadata": {"annotations": {REMOVE: uid_of(left_behind)}}}
    leaving.objects.patch(APPLIED_WORK, "e2e-replaced-work", said)
    leaving.objects.delete(APPLIED_WORK, "e2e-replaced-work")
    wait_until(
        "what stayed goes",
        lambda: "it is there" if leaving.objects.find(NAMESPACE, "e2e-replaced") else "",
    )
    assert_settled(fleet)


def uid_of(document: JsonObject) -> str:
    return str(document["metadata"]["uid"])


@pytest.mark.core
def test_an_agent_may_do_its_own_work_and_nothing_else(fleet):
    """On the hub, with the rights that the loop gave to its identity, and to no other (least privilege)."""
    secret = KINDS["", "Secret"]
    denied = [
        ("GET", path_of(WORK, "fleet-member-smartfish")),
        ("GET", path_of(WORK)),
        ("GET", path_of(MEMBER_CLUSTER)),
        ("GET", path_of(PLACEMENT)),
        ("GET", path_of(NAMESPACE)),
        ("GET", path_of(secret, "fleet-member-bravelion")),
        ("GET", path_of(INTERNAL_MEMBER_CLUSTER, "fleet-member-smartfish", "smartfish")),
        ("POST", path_of(WORK, "fleet-member-bravelion")),
        ("DELETE", path_of(WORK, "fleet-member-bravelion", "x")),
        ("DELETE", path_of(WORK, "fleet-member-bravelion")),
        ("DELETE", path_of(INTERNAL_MEMBER_CLUSTER, "fleet-member-bravelion", "bravelion")),
        ("PATCH", path_of(INTERNAL_MEMBER_CLUSTER, "fleet-member-bravelion", "bravelion")),
    ]
    for method, path in denied:
        with pytest.raises(ApiError) as error:
            fleet.hub.request(method, path, {}, user="bravelion-agent", content_type=MERGE)
        assert error.value.code == 403, f"{method} {path}: {error.value}"
    for path in (
        path_of(WORK, "fleet-member-bravelion"),
        path_of(INTERNAL_MEMBER_CLUSTER, "fleet-member-bravelion", "bravelion"),
    ):
        fleet.hub.request("GET", path, user="bravelion-agent")


@pytest.mark.core
@pytest.mark.parametrize("deleted", [CUSTOM_RESOURCE_DEFINITION, PLACEMENT], ids=lambda kind: kind.kind)
def test_a_definition_is_not_deleted_with_objects_that_the_member_has_of_its_own(fleet, scene, deleted):
    """The API server deletes all objects of a definition with it; only some of them came from the hub."""
    name = f"e2e-boats-{deleted.kind.lower()}"
    crd, boat = boats(f"{name}.example.com"), Kind(f"{name}.example.com", ("v1",), "Boat", "boats", namespaced=True)
    occupied, empty, secret = "smartfish", "jumpingcat", "bravelion"
    for member in (occupied, empty):
        scene.put(*may_list(boat), on=fleet.members[member].objects)
    scene.put(crd)
    selectors = [selects(CUSTOM_RESOURCE_DEFINITION, crd["metadata"]["name"])]
    scene.put(make_placement(name, resourceSelectors=selectors))
    local = {"apiVersion": boat.api_version, "kind": boat.kind, "metadata": {"name": "mine", "namespace": "default"}}

    def not_created(member: str) -> str:
        objects = fleet.members[member].objects
        try:
            objects.cluster.request("POST", path_of(boat, "default"), local)
        except ApiError as error:
            return str(error)
        return ""

    def owners(member: str) -> list[str] | None:
        found = fleet.members[member].objects.find(CUSTOM_RESOURCE_DEFINITION, crd["metadata"]["name"])
        return found and [owner["name"] for owner in found["metadata"].get("ownerReferences") or ()]

    def notes(member: str) -> str:
        events = fleet.on_hub.all(EVENT, f"fleet-member-{member}")
        return "; ".join(item["note"] for item in events if crd["metadata"]["name"] in item["note"])

    for member in (occupied, secret):
        wait_until(f"{member} serves boats", partial(not_created, member))
    wait_until("the other member has the definition", lambda: "" if owners(empty) else "it has none")
    uids = {
        member: fleet.members[member].objects.get(boat, "mine", "default")["metadata"]["uid"]
        for member in (occupied, secret)
    }
    try:
        fleet.on_hub.delete(deleted, crd["metadata"]["name"] if deleted is CUSTOM_RESOURCE_DEFINITION else name)

        def problem() -> str:
            found = {member: owners(member) for member in ALL}
            if found != {occupied: [], secret: [], empty: None}:
                return f"owners of the definition: {found}"
            told = "default/mine" in notes(occupied) and "forbidden" in notes(secret)
            return "" if told else f"Events: {notes(occupied)}, {notes(secret)}"

        wait_until("the definition is released where it may have boats, and deleted elsewhere", problem)
        for member, uid in uids.items():
            assert fleet.members[member].objects.get(boat, "mine", "default")["metadata"]["uid"] == uid
        assert notes(empty) == ""
        assert_settled(fleet)
    finally:
        for objects in fleet.clusters.values():
            objects.delete(CUSTOM_RESOURCE_DEFINITION, crd["metadata"]["name"])


@pytest.mark.core
def test_what_a_restored_member_brings_back_is_reported_and_can_be_removed(fleet, scene):
    """The backup is older than the removal of a placement, which the restored etcd has forgotten."""
    name, cluster = "e2e-brought-back", "jumpingcat"
    member = fleet.members[cluster]
    scene.home(name, colour="blue")
    scene.put(make_placement(name, pick_fixed(cluster)))
    wait_complete(fleet, Complete(name, (cluster,)))
    kept = member.cluster.backup()
    fleet.on_hub.delete(PLACEMENT, name)
    wait_until("its content goes", lambda: "it is there" if member.objects.find(NAMESPACE, name) else "")
    assert_settled(fleet)
    member.cluster.restore(kept)
    assert member.objects.get(CONFIG_MAP, "settings", name)["data"] == {"colour": "blue"}

    def condition() -> JsonObject:
        return condition_of(fleet.on_hub.get(MEMBER_CLUSTER, cluster), DISCOVERED_WORKS)

    wait_until("the MemberCluster reports it", lambda: "" if condition().get("status") == "False" else f"{condition()}")
    assert f"{name}-work" in condition()["message"]
    assert "kubectl annotate appliedwork" in condition()["message"]
    finding = judge_applied_works(fleet.on_hub.all(MEMBER_CLUSTER))
    (problem,) = finding.problems
    assert problem.startswith(f"{cluster}: 1 AppliedWork on")
    applied = member.objects.get(APPLIED_WORK, f"{name}-work")
    order = {"metadata": {"annotations": {REMOVE: applied["metadata"]["uid"]}}}
    member.objects.patch(APPLIED_WORK, f"{name}-work", order)
    member.objects.delete(APPLIED_WORK, f"{name}-work")
    wait_until("it is removed", lambda: "it is there" if member.objects.find(NAMESPACE, name) else "")
    wait_until("that is reported", lambda: "" if condition()["status"] == "True" else f"{condition()}")
    assert judge_applied_works(fleet.on_hub.all(MEMBER_CLUSTER)).problems == ()
