"""Which bindings are recreated from the Works that they have left, and in which state."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.names import (
    ABANDON,
    OVERRIDES,
    PARENT_PLACEMENT,
    PARENT_PLACEMENT_NAMESPACE,
    PARENT_RESOURCE_SNAPSHOT_NAME,
    REMOVE,
    SCHEDULER_BINDING_CLEANUP,
    WORK_CLEANUP,
)
from scorer.api.unstructured.documents import with_metadata
from scorer.rollout.removal.deletion import leaves_objects, plan_work_deletion
from scorer.rollout.works.orphans import as_works_say, orphaned_works
from scorer.rollout.works.plan import plan_works
from tests.scorer.rollout.placed_shop import make_binding, make_group, make_object

PLACEMENT = {"metadata": {"name": "web", "uid": "u1"}, "spec": {}}
GOING = {"deletionTimestamp": "2026-11-20T12:00:00Z"}
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LISTS = {
    "clusterResourceOverrideSnapshots": ["zone-1"],
    "resourceOverrideSnapshots": [{"name": "size-0", "namespace": "shop"}],
}


def work(cluster, name="web-work", namespace="", parent="web", **metadata):
    labels = {PARENT_PLACEMENT: parent} | ({PARENT_PLACEMENT_NAMESPACE: namespace} if namespace else {})
    home = f"fleet-member-{cluster}"
    return {"metadata": {"name": name, "namespace": home, "labels": labels, **metadata}}


def binding(cluster, **metadata):
    return {"metadata": {"name": f"web-{cluster}", **metadata}, "spec": {"targetCluster": cluster}}


@pytest.mark.parametrize(
    ("bindings", "works", "clusters"),
    [
        pytest.param([], [work("a"), work("a", "web-0"), work("b")], {"a", "b"}, id="none-is-left"),
        pytest.param([binding("a")], [work("a"), work("b")], {"b"}, id="one-is-left"),
        pytest.param([binding("a", **GOING)], [work("a")], set(), id="one-on-its-way-out-counts"),
        pytest.param([], [work("a", **GOING)], {"a"}, id="works-on-their-way-out-as-well"),
        pytest.param([], [work("a", namespace="shop")], set(), id="of-a-namespaced-placement"),
        pytest.param([], [work("a", parent="other")], set(), id="of-another-placement"),
    ],
)
def test_clusters_with_works_and_without_a_binding(bindings, works, clusters):
    assert orphaned_works(PLACEMENT, bindings, works).keys() == clusters


def made(index=0, minutes=0, **spec):
    """Return the two Works of a binding that is bound to snapshot *index*, written some time after `NOW`."""
    group = replace(make_group([make_object("a", size=500_000), make_object("b", size=500_000)]), index=index)
    binding = make_binding(resourceSnapshotName=f"shop-{index}-snapshot", **spec)
    return [write.document for write in plan_works(binding, group, [], now=NOW + timedelta(minutes=minutes)).writes]


def new():
    return {"metadata": {"name": "shop-a-2", "finalizers": [SCHEDULER_BINDING_CLEANUP]}, "spec": {"state": "Scheduled"}}


@pytest.mark.parametrize("lists", [LISTS, {}], ids=["overrides", "no-overrides"])
def test_a_binding_made_anew_is_as_the_one_that_its_works_were_made_for(lists):
    strategy = {"type": "ReportDiff"}
    binding = as_works_say(new(), made(3, applyStrategy=strategy, **lists))
    strategy = binding["spec"].pop("applyStrategy")
    assert binding["spec"] == {"state": "Bound", "resourceSnapshotName": "shop-3-snapshot", **lists}
    assert strategy["type"] == "ReportDiff"
    assert binding["metadata"]["finalizers"] == [SCHEDULER_BINDING_CLEANUP, WORK_CLEANUP]


def test_for_its_works_nothing_is_planned():
    group = make_group([make_object("a")])
    before = make_binding(applyStrategy={"whenToApply": "IfNotDrifted"}, **LISTS)
    works = [write.document for write in plan_works(before, group, []).writes]
    works = [{**work, "metadata": {**work["metadata"], "generation": 1}} for work in works]
    after = {**before, "spec": as_works_say({**before, "spec": {"state": "Scheduled"}}, works)["spec"]}
    assert plan_works(after, group, works).writes == ()


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        pytest.param(made(9, 5), made(10, 0), id="another-snapshot"),
        pytest.param(made(10, 0, **LISTS), made(10, 1), id="other-overrides"),
    ],
)
@pytest.mark.parametrize("first", [0, 1])
def test_of_works_that_were_being_changed_the_latest_counts(older, newer, first):
    mixed = [older[first], newer[1 - first]]
    for works in (mixed, mixed[::-1]):
        assert as_works_say(new(), works) == as_works_say(new(), newer)


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({PARENT_RESOURCE_SNAPSHOT_NAME: None}, id="no-snapshot"),
        pytest.param({OVERRIDES: None}, id="overrides-not-said"),
        pytest.param({OVERRIDES: "{}"}, id="other-overrides"),
        pytest.param({OVERRIDES: "zone-1"}, id="no-json"),
        pytest.param({OVERRIDES: '{"resourceOverrideSnapshots": ["size-0"]}'}, id="no-lists"),
    ],
)
def test_of_works_that_do_not_say_what_they_hold_the_rollout_has_to_say(annotations):
    """With those finalizers: its Works are there."""
    works = [with_metadata(work, annotations=annotations) for work in made(3, **LISTS)]
    binding = as_works_say(new(), works)
    assert binding["spec"] == {"state": "Scheduled"}
    assert binding["metadata"]["finalizers"] == [SCHEDULER_BINDING_CLEANUP, WORK_CLEANUP]


@pytest.mark.parametrize("abandons", [False, True], ids=["delete", "abandon"])
def test_works_without_a_binding_go_with_their_placement_as_all_others(abandons):
    strategy = {"deleteStrategy": {"propagationPolicy": "Abandon"}} if abandons else {}
    placement = {**PLACEMENT, "spec": {"strategy": strategy}}
    writes = plan_work_deletion([work("a", uid="u7")], {"metadata": {"name": "a"}}, abandoned=leaves_objects(placement))
    assert [str(write.verb) for write in writes] == ["replace", "delete"]
    said = writes[0].document["metadata"]["annotations"]
    assert (said[REMOVE], said.get(ABANDON)) == ("u7", "true" if abandons else None)
