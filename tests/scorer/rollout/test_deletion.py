"""What is deleted with a placement, and what is marked before to stay on the members."""

import pytest

from scorer.rollout.deletion import leaves_objects, plan_binding_deletion, plan_work_deletion
from scorer.rollout.works import ABANDON

GOING = {"deletionTimestamp": "2026-11-20T12:00:00Z"}
MARKED = {"annotations": {ABANDON: "true"}}


def placement(policy="Abandon"):
    strategy = {"deleteStrategy": {"propagationPolicy": policy}} if policy else {}
    return {"metadata": {"name": "web", **GOING}, "spec": {"strategy": strategy}}


def thing(name, **metadata):
    return {"metadata": {"name": name, "resourceVersion": "7", **metadata}}


def steps(writes):
    return [
        (str(write.verb), write.name, (write.document["metadata"].get("annotations") or {}).get(ABANDON, ""))
        for write in writes
    ]


@pytest.mark.parametrize(
    ("spec", "leaves"),
    [
        pytest.param({}, False, id="nothing-said"),
        pytest.param({"strategy": None}, False, id="null"),
        pytest.param({"strategy": {"deleteStrategy": {}}}, False, id="default"),
        pytest.param({"strategy": {"deleteStrategy": {"propagationPolicy": "Delete"}}}, False, id="delete"),
        pytest.param({"strategy": {"deleteStrategy": {"propagationPolicy": "Abandon"}}}, True, id="abandon"),
    ],
)
def test_objects_stay_only_when_the_placement_says_so(spec, leaves):
    assert leaves_objects({"spec": spec}) is leaves


def test_bindings_are_deleted_by_name_and_those_that_go_already_are_left_alone():
    bindings = [thing("c"), thing("a"), thing("b", **GOING)]
    assert steps(plan_binding_deletion(placement(None), bindings)) == [("delete", "a", ""), ("delete", "c", "")]


def test_with_abandon_each_binding_is_marked_before_it_is_deleted():
    """One that goes already lost its cluster in another way: what it placed goes too (rollout.md 18)."""
    bindings = [thing("b"), thing("a", **MARKED), thing("c", **GOING)]
    assert steps(plan_binding_deletion(placement(), bindings)) == [
        ("delete", "a", "true"),
        ("replace", "b", "true"),
        ("delete", "b", ""),
    ]


def test_works_of_a_marked_binding_are_marked_before_they_are_deleted():
    works = [thing("web-0"), thing("web-work", **MARKED), thing("web-1", **GOING)]
    assert steps(plan_work_deletion(thing("b", **GOING, **MARKED), works)) == [
        ("replace", "web-0", "true"),
        ("delete", "web-0", ""),
        ("delete", "web-work", "true"),
    ]


def test_works_of_any_other_binding_are_only_deleted():
    assert steps(plan_work_deletion(thing("b", **GOING), [thing("web-work")])) == [("delete", "web-work", "")]


def test_a_second_plan_asks_for_nothing():
    assert plan_binding_deletion(placement(), [thing("a", **GOING, **MARKED)]) == []
    assert plan_work_deletion(thing("a", **GOING, **MARKED), [thing("web-work", **GOING, **MARKED)]) == []
