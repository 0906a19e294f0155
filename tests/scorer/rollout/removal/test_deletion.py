"""What is deleted with a placement, and which objects are first marked to stay on the members."""

import pytest

from scorer.api.names import ABANDON, PREVIOUS_BINDING_STATE, REMOVAL_PENDING, REMOVE, UNSCHEDULED_AT
from scorer.api.unstructured.documents import annotation
from scorer.rollout.removal.deletion import (
    is_abandoned,
    is_removal_requested,
    leaves_objects,
    plan_binding_deletion,
    plan_states_restored,
    plan_unmarking,
    plan_work_deletion,
)
from scorer.rollout.removal.eviction import EVICTED_BINDING

GOING = {"deletionTimestamp": "2026-11-20T12:00:00Z"}
MARKED = {"annotations": {ABANDON: "true"}}
MEANT_B = {"annotations": {REMOVE: "uid-b"}}
DROPPED = {"annotations": {PREVIOUS_BINDING_STATE: "Bound"}, "spec": {"state": "Unscheduled"}}


def placement(policy="Abandon"):
    strategy = {"deleteStrategy": {"propagationPolicy": policy}} if policy else {}
    return {"metadata": {"name": "web", **GOING}, "spec": {"strategy": strategy}}


def make_object(name, spec=None, **metadata):
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "7", **metadata}, "spec": spec or {}}


def summary(writes):
    """Verb, name, and the marks: meant, abandoned."""
    return [
        (str(write.verb), write.name, annotations.get(REMOVE, ""), annotations.get(ABANDON, ""))
        for write in writes
        for annotations in [write.document["metadata"].get("annotations") or {}]
    ]


@pytest.mark.parametrize(
    ("spec", "is_abandoning"),
    [
        pytest.param({}, False, id="nothing-said"),
        pytest.param({"strategy": None}, False, id="null"),
        pytest.param({"strategy": {"deleteStrategy": {}}}, False, id="default"),
        pytest.param({"strategy": {"deleteStrategy": {"propagationPolicy": "Delete"}}}, False, id="delete"),
        pytest.param({"strategy": {"deleteStrategy": {"propagationPolicy": "Abandon"}}}, True, id="abandon"),
    ],
)
def test_objects_stay_only_when_the_placement_says_so(spec, is_abandoning):
    assert leaves_objects({"spec": spec}) is is_abandoning


def test_bindings_say_that_they_are_meant_before_they_are_deleted_by_name():
    assert summary(plan_binding_deletion(placement(None), [make_object("c"), make_object("a")])) == [
        ("replace", "a", "uid-a", ""),
        ("delete", "a", "", ""),
        ("replace", "c", "uid-c", ""),
        ("delete", "c", "", ""),
    ]


@pytest.mark.parametrize(
    "binding",
    [
        pytest.param({**MEANT_B, **GOING}, id="meant"),
        pytest.param({**GOING, **DROPPED}, id="unscheduled"),
    ],
)
def test_one_that_the_loop_takes_away_already_is_left_alone(binding):
    """The placement lost the cluster in another way: its objects go, even if the placement abandons (rollout.md 18)."""
    assert plan_binding_deletion(placement(), [make_object("b", **binding)]) == []


def test_one_that_somebody_else_has_deleted_goes_with_the_placement():
    assert summary(plan_binding_deletion(placement(None), [make_object("b", **GOING)])) == [
        ("replace", "b", "uid-b", "")
    ]
    assert summary(plan_binding_deletion(placement(), [make_object("b", **GOING)])) == [
        ("replace", "b", "uid-b", "true")
    ]


def test_the_word_of_another_object_is_none():
    """The uid of a restored or copied binding differs from the one in its annotation."""
    assert not is_removal_requested(make_object("b", **{**MEANT_B, "uid": "another"}))
    assert not is_removal_requested(make_object("b", annotations={REMOVE: ""}, uid=""))


def test_with_abandon_each_binding_is_marked_before_it_is_deleted():
    bindings = [make_object("b"), make_object("a", annotations={ABANDON: "true", REMOVE: "uid-a"})]
    assert summary(plan_binding_deletion(placement(), bindings)) == [
        ("delete", "a", "uid-a", "true"),
        ("replace", "b", "uid-b", "true"),
        ("delete", "b", "", ""),
    ]


def test_works_of_a_marked_binding_are_marked_before_they_are_deleted():
    assert (is_abandoned(make_object("b", **GOING, **MARKED)), is_abandoned(make_object("b", **GOING))) == (True, False)
    works = [make_object("web-0"), make_object("web-work", **MARKED), make_object("web-1", **GOING)]
    assert summary(plan_work_deletion(works, make_object("member"), abandoned=True)) == [
        ("replace", "web-0", "uid-web-0", "true"),
        ("delete", "web-0", "", ""),
        ("replace", "web-1", "uid-web-1", "true"),
        ("replace", "web-work", "uid-web-work", "true"),
        ("delete", "web-work", "", "true"),
    ]


def test_what_is_abandoned_stays_also_where_somebody_else_has_deleted_the_work():
    """Both marks are one write: an agent that comes back just then never reads the order alone."""
    works = [make_object("web-work", **GOING), make_object("web-0", **GOING, annotations={REMOVE: "of-another"})]
    assert summary(plan_work_deletion(works, make_object("member"), abandoned=True)) == [
        ("replace", "web-0", "uid-web-0", "true"),
        ("replace", "web-work", "uid-web-work", "true"),
    ]


def test_a_work_that_the_loop_has_ordered_away_before_goes_also_where_the_placement_abandons():
    """Its binding no longer wanted it: its objects go, as they would have without the end of the placement."""
    works = [make_object("web-0", **GOING, annotations={REMOVE: "uid-web-0"})]
    assert plan_work_deletion(works, make_object("member"), abandoned=True) == []


def test_works_say_before_they_are_deleted_that_their_content_is_to_go():
    """Also those that another client has deleted."""
    works = [
        make_object("web-0"),
        make_object("web-1", annotations={REMOVE: "uid-web-1"}),
        make_object("web-2", **GOING),
    ]
    assert summary(plan_work_deletion(works, make_object("member"), abandoned=False)) == [
        ("replace", "web-0", "uid-web-0", ""),
        ("delete", "web-0", "", ""),
        ("delete", "web-1", "uid-web-1", ""),
        ("replace", "web-2", "uid-web-2", ""),
    ]


@pytest.mark.parametrize("member", [make_object("member", **GOING), None], ids=["leaves", "gone"])
def test_works_of_a_member_that_leaves_say_nothing_of_the_kind(member):
    mark = {"annotations": {REMOVE: "uid-web-1"}}
    works = [make_object("web-0"), make_object("web-1", **mark), make_object("web-2", **GOING)]
    assert summary(plan_work_deletion(works, member, abandoned=False)) == [
        ("delete", "web-0", "", ""),
        ("replace", "web-1", "", ""),
        ("delete", "web-1", "uid-web-1", ""),
    ]


def test_a_second_plan_asks_for_nothing():
    marks = {"annotations": {ABANDON: "true", REMOVE: "uid-a"}}
    assert plan_binding_deletion(placement(), [make_object("a", **GOING, **marks)]) == []
    assert plan_work_deletion([make_object("a", **GOING, **marks)], make_object("member"), abandoned=True) == []


@pytest.mark.parametrize(
    ("spec", "has_eviction", "mark"),
    [
        pytest.param({"state": "Bound"}, False, "", id="nobody-behind-it"),
        pytest.param({"state": "Bound"}, True, "uid-b", id="an-eviction"),
        pytest.param({"state": "Unscheduled"}, False, "uid-b", id="its-rollout"),
    ],
)
def test_a_placement_that_stays_abandons_nothing(spec, has_eviction, mark):
    """Its deletion was undone, with its definition or by a backup: a cluster that it loses later loses its objects."""
    binding = make_object("b", spec, annotations={ABANDON: "true", REMOVE: "uid-b"})
    eviction = make_object("e", annotations={EVICTED_BINDING: "uid-b"})
    writes = plan_unmarking([binding], [eviction] if has_eviction else [])
    assert summary(writes) == [("replace", "b", mark, "")]
    assert plan_unmarking([write.document for write in writes], [eviction] if has_eviction else []) == []


def test_words_of_a_binding_that_is_going_are_left_alone():
    assert plan_unmarking([make_object("b", **GOING, annotations={ABANDON: "true", REMOVE: "uid-b"})], []) == []


@pytest.mark.parametrize(
    ("binding", "state"),
    [
        pytest.param({"spec": {"state": "Unscheduled"}}, "Scheduled", id="was-scheduled"),
        pytest.param(
            {"spec": {"state": "Unscheduled", "resourceSnapshotName": "p-0-snapshot"}}, "Bound", id="was-bound"
        ),
        pytest.param(DROPPED, None, id="dropped-by-the-loop"),
        pytest.param({**GOING, "spec": {"state": "Unscheduled"}}, None, id="being-deleted"),
        pytest.param({"spec": {"state": "Bound"}}, None, id="bound"),
    ],
)
def test_the_state_that_another_client_has_set_to_unscheduled_is_restored(binding, state):
    writes = plan_states_restored([make_object("b", **binding)])
    assert [write.document["spec"]["state"] for write in writes] == ([state] if state else [])
    assert plan_states_restored([write.document for write in writes]) == []


@pytest.mark.parametrize(
    ("binding", "is_requested"),
    [
        pytest.param(DROPPED, True, id="dropped-by-the-loop"),
        pytest.param({"spec": {"state": "Unscheduled"}}, False, id="unscheduled-by-another-client"),
        pytest.param({**MEANT_B, "spec": {"state": "Unscheduled"}}, True, id="meant"),
    ],
)
def test_only_the_loop_orders_the_removal_of_content(binding, is_requested):
    assert is_removal_requested(make_object("b", **binding)) is is_requested


PENDING = {REMOVAL_PENDING: "ConfirmationRequired 2026-11-29T12:00:00Z"}


def test_a_pending_binding_is_no_order_and_loses_the_mark_of_a_withdrawn_eviction():
    annotations = {**DROPPED["annotations"], **PENDING}
    binding = make_object("b", DROPPED["spec"], annotations=annotations)
    assert not is_removal_requested(binding)
    assert is_removal_requested(make_object("b", DROPPED["spec"], annotations=DROPPED["annotations"])), (
        "of an earlier release"
    )
    marked_binding = make_object("b", DROPPED["spec"], annotations={**annotations, REMOVE: "uid-b"})
    assert is_removal_requested(marked_binding), "an eviction is an order"
    assert summary(plan_unmarking([marked_binding], [])) == [("replace", "b", "", "")]
    assert plan_unmarking([marked_binding], [make_object("e", annotations={EVICTED_BINDING: "uid-b"})]) == []


def test_a_binding_without_the_record_of_its_pending_removal_gets_it_again():
    unrecorded = make_object("b", DROPPED["spec"], annotations={UNSCHEDULED_AT: "2026-11-29T12:00:00Z"})
    assert not is_removal_requested(unrecorded)
    (write,) = plan_states_restored([unrecorded])
    assert annotation(write.document, REMOVAL_PENDING) == PENDING[REMOVAL_PENDING]
    assert write.document["spec"] == DROPPED["spec"]
    assert not plan_states_restored([write.document])


def test_a_namespace_that_ends_abandons_what_the_delete_strategy_would_remove():
    writes = plan_binding_deletion(placement(None), [make_object("b")], abandoned=True)
    assert summary(writes) == [("replace", "b", "uid-b", "true"), ("delete", "b", "", "")]
