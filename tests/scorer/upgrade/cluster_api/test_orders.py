"""What an upgrade changes in a topology: nothing is moved down, and what stands in the way of it is seen."""

from copy import deepcopy
from datetime import timedelta

import pytest

from scorer.api.meta import parse_time
from scorer.api.upgrade.fields import UpgradeType
from scorer.upgrade.back_ends.interface import Operation, Rejected, Target
from scorer.upgrade.cluster_api.change import HOLD, changed_cluster
from scorer.upgrade.cluster_api.inventory import inventory_of
from scorer.upgrade.cluster_api.progress import observation_of
from scorer.upgrade.cluster_api.topology import ClusterApiRef, class_of, control_plane_ref, is_paused
from tests.builders.cluster_api import (
    LONG_AGO,
    condition,
    make_class,
    make_cluster,
    make_control_plane,
    make_deployment,
    make_parts,
    make_pool,
    with_topology,
)

NOW = parse_time(LONG_AGO) + timedelta(hours=1)
PLACE = ClusterApiRef("quays", "c1", "image")
FULL, IMAGE, PLANE = UpgradeType.FULL, UpgradeType.NODE_IMAGE_ONLY, UpgradeType.CONTROL_PLANE_ONLY


def topology_after(parts, kind=FULL, version="1.31.2", place=PLACE, **images):
    """Return the topology that an order makes, or the whole refusal."""
    target = Target(kind, "" if kind is IMAGE else version, images)
    found = changed_cluster(parts, place, Operation("uid/c1/1", "r", "c1", "cluster-api", 1, target), NOW)
    return found if isinstance(found, Rejected) else found["spec"]["topology"]


def value(topology):
    """Return the values that a topology gives the image variable."""
    return [each["value"] for each in topology["variables"] if each["name"] == "image"]


@pytest.mark.parametrize(
    ("present", "wanted", "after"),
    [
        pytest.param("100", "200", "200", id="behind"),
        pytest.param("300", "200", "300", id="ahead"),
        pytest.param("200", "200", "200", id="there"),
        pytest.param("9", "10", "10", id="numbers-are-numbers"),
        pytest.param("2026.01.10", "2026.01.9", "2026.01.10", id="parts"),
    ],
)
@pytest.mark.parametrize("kind", [FULL, IMAGE])
def test_an_image_is_not_moved_down(kind, present, wanted, after):
    cluster = with_topology(make_cluster(), variables=[{"name": "image", "value": present}])
    assert value(topology_after(make_parts(cluster=cluster), kind, linux=wanted)) == [after]


def test_a_version_is_not_moved_down_and_workers_follow_to_the_one_that_is_there():
    cluster = make_cluster(version="1.32.1")
    first = {"class": "w", "name": "blue", "metadata": {"annotations": {HOLD: "harbormaster"}}}
    cluster = with_topology(cluster, workers={"machineDeployments": [first]})
    for each in cluster["status"]["conditions"]:
        if each["type"] == "TopologyReconciled":
            each |= {"status": "False", "reason": "MachineDeploymentsUpgradeDeferred"}
    parts = make_parts("1.32.1", "1.30.4", cluster=cluster)
    found = topology_after(parts)
    assert found["version"] == "v1.32.1"
    assert found["workers"] == {"machineDeployments": [{"class": "w", "name": "blue"}]}
    held = topology_after(parts, PLANE)
    assert (held["version"], held["workers"]) == ("v1.32.1", cluster["spec"]["topology"]["workers"])


def test_an_order_for_a_control_plane_that_is_there_holds_nothing():
    parts = make_parts()
    assert topology_after(parts, PLANE, version="1.30.4") == parts.cluster["spec"]["topology"]


def override(image):
    return {"variables": {"overrides": [{"name": "image", "value": image}, {"name": "zone", "value": 1}], "x": 1}}


def test_a_value_of_its_own_is_raised_where_it_is():
    workers = {
        "machineDeployments": [{"name": "blue", **override("100")}, {"name": "red", **override("300")}],
        "machinePools": [{"name": "green", **override("150")}, {"name": "white"}],
    }
    cluster = with_topology(make_cluster(), workers=workers, controlPlane={"replicas": 3, **override("100")})
    before = deepcopy(cluster)
    parts = make_parts(cluster=cluster, pools=[make_pool("green"), make_pool("white")])
    found = topology_after(parts, IMAGE, linux="200")
    assert cluster == before, "what was read is not changed"
    assert found["workers"] == {
        "machineDeployments": [{"name": "blue", **override("200")}, {"name": "red", **override("300")}],
        "machinePools": [{"name": "green", **override("200")}, {"name": "white"}],
    }
    assert found["controlPlane"] == {"replicas": 3, **override("200")}
    assert value(found) == ["200"]
    after = make_parts(cluster=with_topology(cluster, **found), pools=parts.pools)
    assert [pool.image for pool in inventory_of(after, "image", NOW).pools] == ["200", "300", "200", "200"]


def class_with_default(default):
    variable = {"name": "image", "schema": {"openAPIV3Schema": {"type": "string", "default": default}}}
    return make_class(variables=[{"name": "zone"}, variable])


def test_a_variable_without_a_value_has_the_default_of_its_class():
    cluster = with_topology(make_cluster(), variables=[])
    parts = make_parts(cluster=cluster, cluster_class=class_with_default("150"))
    assert {(pool.family, pool.image) for pool in inventory_of(parts, "image", NOW).pools} == {("linux", "150")}
    assert value(topology_after(parts, IMAGE, linux="200")) == ["200"]
    assert value(topology_after(parts, IMAGE, linux="120")) == []
    odd = make_parts(cluster=cluster, cluster_class=class_with_default({"name": "x"}))
    assert {pool.family for pool in inventory_of(odd, "image", NOW).pools} == {""}


def test_images_of_workers_that_are_held_back_wait_until_they_follow():
    """Cluster API leaves such workers as they are, so that the new image would not get there."""
    conditions = {"TopologyReconciled": ("False", "MachineDeploymentsUpgradeDeferred")}
    parts = make_parts("1.31.2", "1.30.4", cluster=make_cluster(version="1.31.2", **conditions))
    found = topology_after(parts, IMAGE, linux="200")
    assert (found.code, found.retryable) == ("WorkersHeld", True)
    assert value(topology_after(parts, FULL, linux="200")) == ["200"]


@pytest.mark.parametrize("text", ["", "true"])
def test_an_annotation_pauses_whatever_its_value(text):
    cluster = make_cluster()
    cluster["metadata"]["annotations"] = {"cluster.x-k8s.io/paused": text}
    assert is_paused(cluster)
    assert topology_after(make_parts(cluster=cluster)).code == "ClusterPaused"
    assert not inventory_of(make_parts(cluster=cluster), "", NOW).ready


@pytest.mark.parametrize(
    ("spec", "chained"),
    [
        pytest.param({}, False, id="neither"),
        pytest.param({"kubernetesVersions": ["v1.30.4"]}, True, id="versions"),
        pytest.param({"upgrade": {"external": {"generateUpgradePlanExtension": "plan.x"}}}, True, id="extension"),
        pytest.param({"upgrade": {"external": {"generateUpgradePlanExtension": ""}}}, False, id="empty"),
        pytest.param({"upgrade": "x", "kubernetesVersions": 5}, False, id="nonsense"),
    ],
)
def test_upgrades_are_chained_by_versions_or_by_an_extension(spec, chained):
    assert inventory_of(make_parts(cluster_class=make_class(**spec)), "", NOW).chained is chained


def test_a_cluster_that_is_not_available_can_be_upgraded():
    cluster = make_cluster(Available=("False", "NotAvailable"))
    assert topology_after(make_parts(cluster=cluster))["version"] == "v1.31.2"


def paths(document, path=()):
    if isinstance(document, dict):
        for key, value in document.items():
            yield (*path, key)
            yield from paths(value, (*path, key))
    elif isinstance(document, list):
        for at, value in enumerate(document):
            yield (*path, at)
            yield from paths(value, (*path, at))


def put(document, path, value):
    found = deepcopy(document)
    at = found
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return found


FULL_OF_THINGS = with_topology(
    make_cluster(),
    controlPlane={"replicas": 3, **override("100")},
    workers={
        "machineDeployments": [{"name": "blue", "rollout": {"after": "x"}, **override("100")}],
        "machinePools": [{"name": "green", "metadata": {"annotations": {"a": "b"}}, **override("100")}],
    },
)
DOCUMENTS = {
    "cluster": FULL_OF_THINGS,
    "control_plane": make_control_plane(),
    "deployments": make_deployment("blue"),
    "pools": {**make_pool("green"), "status": {"conditions": [condition("Ready", "True", "Ready")], "v1beta2": {}}},
    "cluster_class": class_with_default("150"),
}


@pytest.mark.parametrize("part", DOCUMENTS)
@pytest.mark.parametrize("version", ["v1beta2", "v1beta1"])
def test_members_of_any_type_are_read(part, version):
    """Whoever may write an object can put anything into what no schema covers."""
    cluster = {**FULL_OF_THINGS, "apiVersion": f"cluster.x-k8s.io/{version}"}
    if version == "v1beta1":
        cluster["status"] = {"conditions": [condition("Ready", "True", "Ready")]}
    rest = {"cluster": cluster, "pools": [make_pool("green")]}
    document = cluster if part == "cluster" else DOCUMENTS[part]
    for path in [(), *paths(document)]:
        for value in (None, "x", 5, [], {}, True, [5, "x", None]):
            broken = put(document, path, value) if path else {}
            parts = make_parts(**{**rest, part: [broken] if part in ("deployments", "pools") else broken})
            inventory_of(parts, "image", NOW)
            for kind in (FULL, IMAGE, PLANE):
                topology_after(parts, kind, linux="200")
                topology_after(parts, kind, place=ClusterApiRef("quays", "c1"), linux="200")
                observation_of(parts, "", kind, NOW)
            class_of(parts.cluster)
            control_plane_ref(parts.cluster)
