"""A member stops serving a version of a kind while its Works hold objects in that version."""

from collections.abc import Iterator

import pytest

from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.fleet.bed import AGENT_USER, LOOP_USER, Fleet
from e2e.fleet.objects import (
    CONFIG_MAP,
    MERGE,
    Objects,
    condition_of,
    make_placement,
    pick_fixed,
    rolling,
)
from e2e.fleet.scene import Scene
from e2e.fleet.settled import assert_settled
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, KINDS, PLACEMENT

MEMBER, HOME = "smartfish", "e2e-boats"
NAME, OLD, NEW = "boats.example.com", "v1beta1", "v1"
RBAC = "rbac.authorization.k8s.io"
RIGHTS = KINDS[RBAC, "ClusterRole"], KINDS[RBAC, "ClusterRoleBinding"]


def definition(*versions: str) -> JsonObject:
    """Define boats in those versions, of which the last one is stored."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"kind": "Boat", "plural": "boats", "listKind": "BoatList", "singular": "boat"}
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITION.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITION.kind,
        "metadata": {"name": NAME},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [
                {"name": each, "served": True, "storage": each == versions[-1], "schema": {"openAPIV3Schema": schema}}
                for each in versions
            ],
        },
    }


def boat(version: str, length: int) -> JsonObject:
    metadata = {"name": "ada", "namespace": HOME}
    return {"apiVersion": f"example.com/{version}", "kind": "Boat", "metadata": metadata, "spec": {"length": length}}


def boats(version: str, name: str = "") -> str:
    return f"/apis/example.com/{version}/namespaces/{HOME}/boats{f'/{name}' if name else ''}"


def may_handle_boats(user: str) -> list[JsonObject]:
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": HOME}
    rules = [{"apiGroups": ["example.com"], "resources": ["boats"], "verbs": ["*"]}]
    head = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": HOME}}
    return [
        {**head, "kind": "ClusterRole", "rules": rules},
        {**head, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [{"kind": "User", "name": user}]},
    ]


def serve(cluster: Cluster, *versions: str) -> None:
    """Have a cluster serve boats in exactly those versions."""
    objects, made = Objects(cluster), definition(*versions)
    if objects.find(CUSTOM_RESOURCE_DEFINITION, NAME):
        objects.patch(CUSTOM_RESOURCE_DEFINITION, NAME, {"spec": {"versions": made["spec"]["versions"]}})
    else:
        objects.create(made)

    def problem() -> str:
        served = {version for version in (OLD, NEW) if is_served(cluster, version)}
        return "" if served == set(versions) else f"it serves {sorted(served)}"

    wait_until(f"{cluster.name} serves {versions}", problem)


def is_served(cluster: Cluster, version: str) -> bool:
    try:
        cluster.request("GET", boats(version))
    except ApiError as error:
        assert error.code in {404, 503}, str(error)
        return False
    return True


@pytest.fixture
def placed(fleet: Fleet, scene: Scene) -> Iterator[Cluster]:
    """The member, on which a boat of the older version is placed; it serves the newer one, too."""
    member = fleet.members[MEMBER].cluster
    serve(fleet.hub, OLD)
    serve(member, OLD, NEW)
    for cluster, user in ((fleet.hub, LOOP_USER), (member, AGENT_USER)):
        Objects(cluster).apply(may_handle_boats(user))
    scene.home(HOME, colour="green")
    fleet.hub.request("POST", boats(OLD), boat(OLD, 7))
    scene.put(make_placement(HOME, pick_fixed(MEMBER), strategy=rolling(maxUnavailable="100%")))
    wait_until("the boat is placed", lambda: unplaced(fleet, 7))
    yield member
    scene.clear()
    for cluster in (fleet.hub, member):
        Objects(cluster).delete(CUSTOM_RESOURCE_DEFINITION, NAME)
        for kind in RIGHTS:
            Objects(cluster).delete(kind, HOME)
    assert_settled(fleet)


def length_on(member: Cluster) -> tuple[int, str] | None:
    """The length of the boat and its uid; None: there is none."""
    try:
        found, _ = member.request("GET", boats(NEW, "ada"))
    except ApiError as error:
        assert error.code in {404, 503}, str(error)
        return None
    return found["spec"]["length"], found["metadata"]["uid"]


def unplaced(fleet: Fleet, length: int) -> str:
    """Say what keeps a boat of that length from being on the member, and the placement from being complete."""
    found = fleet.on_hub.get(PLACEMENT, HOME)
    available = condition_of(found, f"{PLACEMENT.kind}Available")
    live = length_on(fleet.members[MEMBER].cluster)
    if live is None or live[0] != length or available.get("status") != "True":
        return f"{live}; {found.get('status')}; {fleet.last_words()}"
    return ""


def test_a_version_that_a_member_stops_serving_is_named_and_nothing_is_removed(fleet, placed):
    before = length_on(placed)
    serve(placed, NEW)

    def unnamed() -> str:
        statuses = fleet.on_hub.get(PLACEMENT, HOME)["status"].get("placementStatuses") or [{}]
        failed = [(each["kind"], each["condition"]) for each in statuses[0].get("failedPlacements") or ()]
        for kind, condition in failed:
            if kind == "Boat" and condition["reason"] == "DecodingErred":
                assert f"does not serve version {OLD}" in condition["message"]
                return ""
        return str(statuses)

    wait_until("the placement names it", unnamed)
    fleet.hub.request("PATCH", boats(OLD, "ada"), {"spec": {"length": 8}}, content_type=MERGE)
    fleet.on_hub.patch(CONFIG_MAP, "settings", {"data": {"colour": "blue"}}, HOME)
    objects = Objects(placed)

    def behind() -> str:
        data = objects.get(CONFIG_MAP, "settings", HOME)["data"]
        return "" if data == {"colour": "blue"} else str(data)

    wait_until("the rest is applied", behind)
    assert length_on(placed) == before
    serve(placed, OLD, NEW)
    wait_until("the boat is as on the hub", lambda: unplaced(fleet, 8))
    assert length_on(placed) == (8, before[1])
