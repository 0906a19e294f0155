"""Which bindings are made anew from the Works that they have left."""

import pytest

from scorer.api.names import PARENT_PLACEMENT, PARENT_PLACEMENT_NAMESPACE, PARENT_RESOURCE_SNAPSHOT_NAME
from scorer.placement.lost_bindings import lost_bindings, orphaned_works

PLACEMENT = {"metadata": {"name": "web", "uid": "u1"}}
GOING = {"deletionTimestamp": "2026-11-20T12:00:00Z"}


def work(cluster, name="web-work", namespace="", parent="web", **metadata):
    labels = {PARENT_PLACEMENT: parent} | ({PARENT_PLACEMENT_NAMESPACE: namespace} if namespace else {})
    annotations = {PARENT_RESOURCE_SNAPSHOT_NAME: "web-3-snapshot"}
    home = f"fleet-member-{cluster}"
    return {"metadata": {"name": name, "namespace": home, "labels": labels, "annotations": annotations, **metadata}}


def binding(cluster, **metadata):
    return {"metadata": {"name": f"web-{cluster}", **metadata}, "spec": {"targetCluster": cluster}}


@pytest.mark.parametrize(
    ("bindings", "works", "clusters"),
    [
        pytest.param([], [work("a"), work("a", "web-0"), work("b")], {"a", "b"}, id="none-is-left"),
        pytest.param([binding("a")], [work("a"), work("b")], {"b"}, id="one-is-left"),
        pytest.param([binding("a", **GOING)], [work("a")], set(), id="one-on-its-way-out-counts"),
        pytest.param([], [work("a", **GOING)], set(), id="works-on-their-way-out-do-not"),
        pytest.param([], [work("a", namespace="shop")], set(), id="of-a-namespaced-placement"),
        pytest.param([], [work("a", parent="other")], set(), id="of-another-placement"),
    ],
)
def test_clusters_with_works_and_without_a_binding(bindings, works, clusters):
    assert orphaned_works(PLACEMENT, bindings, works).keys() == clusters


def test_a_binding_made_anew_is_bound_to_what_its_works_hold():
    orphans = orphaned_works(PLACEMENT, [], [work("b"), work("a"), work("c")])
    made = lost_bindings(PLACEMENT, "web-2", [], orphans, {"a", "b"}, {"kind": "ClusterResourceBinding"})
    assert [item["spec"]["targetCluster"] for item in made] == ["a", "b"]  # c is no member any more
    assert made[0]["spec"] | {"clusterDecision": None} == {
        "state": "Bound",
        "resourceSnapshotName": "web-3-snapshot",
        "schedulingPolicySnapshotName": "web-2",
        "targetCluster": "a",
        "clusterDecision": None,
    }
    assert made[0]["spec"]["clusterDecision"]["selected"] is True
    assert made == lost_bindings(PLACEMENT, "web-2", [], orphans, {"a", "b"}, {"kind": "ClusterResourceBinding"})
