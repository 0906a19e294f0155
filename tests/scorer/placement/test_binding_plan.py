"""Bindings to write: names, states, annotations, order (scheduling.md 3 step 6, 4; DV-14)."""

import copy
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.meta import format_time
from scorer.api.names import (
    PARENT_PLACEMENT,
    PREVIOUS_BINDING_STATE,
    REMOVAL_PENDING,
    SCHEDULER_BINDING_CLEANUP,
    UNSCHEDULED_AT,
)
from scorer.fleet import Fleet
from scorer.placement.binding_plan import BrokenBindingError, Drops, binding_name, plan_bindings, read_binding
from scorer.placement.schedule import hold
from tests.scorer.builders import BOUND, NOW, SCHEDULED, UNSCHEDULED, make_cluster, modest, pick_fixed, pick_n, run

LATEST = "payments-1"
BLANK = {"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourceBinding"}
PLACEMENT = {"metadata": {"name": "payments"}}


def document(cluster, state="Bound", snapshot=LATEST, annotations=None, score=None, name="", deleting=False):
    metadata = {"name": name or f"payments-{cluster}-01234567", "labels": {PARENT_PLACEMENT: "payments"}}
    if annotations is not None:
        metadata["annotations"] = annotations
    if deleting:
        metadata["deletionTimestamp"] = "2026-11-20T11:00:00Z"
    spec = {
        "state": state,
        "targetCluster": cluster,
        "schedulingPolicySnapshotName": snapshot,
        "resourceSnapshotName": "payments-3-snapshot",
        "clusterDecision": {"clusterName": cluster, "selected": True, "reason": "old"},
    }
    if score is not None:
        spec["clusterDecision"]["clusterScore"] = score
    return {**BLANK, "metadata": metadata, "spec": spec}


def plan(wanted, names, documents=(), *, placement=PLACEMENT, namespace=""):
    judged = run(
        wanted, map(make_cluster, names), [read_binding(entry, LATEST) for entry in documents], namespace=namespace
    )
    return plan_bindings(judged, placement, LATEST, documents, BLANK)


def test_a_binding_that_is_made_again_is_the_same_one():
    """The answer to the first attempt was lost; while a predecessor is on its way out, it is another one."""
    (first,), (second,) = plan(pick_n(1), "a").create, plan(pick_n(1), "a").create
    assert first == second
    assert re.fullmatch(r"payments-a-[0-9a-f]{8}", first["metadata"]["name"])
    leaving = document("a", "Unscheduled", name=first["metadata"]["name"], deleting=True)
    (third,) = plan(pick_n(1), "a", [leaving]).create
    assert third["metadata"]["name"] != first["metadata"]["name"]
    other = {"metadata": {"name": "payments", "uid": "made-anew"}}
    (fourth,) = plan(pick_n(1), "a", placement=other).create
    assert fourth["metadata"]["name"] != first["metadata"]["name"]


def states(documents):
    return {entry["spec"]["targetCluster"]: entry["spec"]["state"] for entry in documents}


def test_a_new_binding():
    (made,) = plan(pick_n(1), "a").create
    assert made == {
        **BLANK,
        "metadata": {
            "name": made["metadata"]["name"],
            "labels": {PARENT_PLACEMENT: "payments"},
            "finalizers": [SCHEDULER_BINDING_CLEANUP],
        },
        "spec": {
            "state": "Scheduled",
            "resourceSnapshotName": "",
            "schedulingPolicySnapshotName": LATEST,
            "targetCluster": "a",
            "clusterDecision": {
                "clusterName": "a",
                "selected": True,
                "clusterScore": {"affinityScore": 0, "priorityScore": 0},
                "reason": "Scheduled to a, affinity score 0, topology spread score 0",
            },
        },
    }


def test_a_binding_of_a_namespaced_placement_lives_beside_it():
    (made,) = plan(
        pick_n(1), "a", placement={"metadata": {"name": "till", "namespace": "shop"}}, namespace="shop"
    ).create
    assert made["metadata"]["namespace"] == "shop"


def test_pick_fixed_bindings_carry_no_scores():
    (made,) = plan(pick_fixed("a"), "a").create
    assert "clusterScore" not in made["spec"]["clusterDecision"]


@pytest.mark.parametrize(
    ("stored", "state"),
    [
        pytest.param(document("a", "Bound", "payments-0"), "Bound", id="obsolete-bound"),
        pytest.param(document("a", "Scheduled", "payments-0"), "Scheduled", id="obsolete-scheduled"),
        pytest.param(
            document("a", "Unscheduled", "payments-0", {PREVIOUS_BINDING_STATE: "Bound"}), "Bound", id="was-bound"
        ),
        pytest.param(
            document("a", "Unscheduled", LATEST, {PREVIOUS_BINDING_STATE: "Scheduled"}), "Scheduled", id="was-scheduled"
        ),
    ],
)
def test_picked_again(stored, state):
    before = copy.deepcopy(stored)
    made = plan(pick_n(1), "a", [stored])
    assert made.create == ()
    (again,) = made.replace
    assert again["spec"]["state"] == state
    assert again["spec"]["schedulingPolicySnapshotName"] == LATEST
    assert again["spec"]["clusterDecision"]["reason"].startswith("Scheduled to a")
    assert again["spec"]["resourceSnapshotName"] == "payments-3-snapshot"
    assert again["metadata"]["name"] == stored["metadata"]["name"]
    assert PREVIOUS_BINDING_STATE not in again["metadata"].get("annotations", {})
    assert stored == before  # what the store handed out is left alone


@pytest.mark.parametrize("state", ["Bound", "Scheduled"])
def test_a_dropped_binding_says_what_it_was(state):
    (gone,) = plan(pick_n(0), "a", [document("a", state)]).replace
    assert gone["spec"] == document("a", "Unscheduled")["spec"]
    assert gone["metadata"]["annotations"] == {PREVIOUS_BINDING_STATE: state}


def test_a_binding_says_when_it_was_dropped_until_it_is_picked_again():
    documents = [document("a"), document("gone")]
    held = hold("x", Fleet.of([make_cluster("a")]), [read_binding(entry, LATEST) for entry in documents], NOW)
    (gone,) = plan_bindings(held, PLACEMENT, LATEST, documents, BLANK, drops=Drops(NOW)).replace
    assert gone["metadata"]["annotations"] == {PREVIOUS_BINDING_STATE: "Bound", UNSCHEDULED_AT: format_time(NOW)}
    (again,) = plan(pick_fixed("gone"), ["gone"], [gone]).replace
    assert again["metadata"]["annotations"] == {}


def test_a_pending_removal_takes_the_place_of_the_earlier_state():
    """Without its record, the binding is not one that the loop wants removed."""
    pending = {REMOVAL_PENDING: f"ConfirmationRequired {format_time(NOW)}"}
    held = hold("x", Fleet.of([make_cluster("a")]), [read_binding(document("gone"), LATEST)], NOW)
    drops = Drops(annotations={document("gone")["metadata"]["name"]: pending})
    (gone,) = plan_bindings(held, PLACEMENT, LATEST, [document("gone")], BLANK, drops=drops).replace
    assert gone["metadata"]["annotations"] == pending
    (again,) = plan(pick_fixed("gone"), ["gone"], [gone]).replace
    assert (again["spec"]["state"], again["metadata"]["annotations"]) == ("Bound", {})


def test_other_annotations_survive_both_ways():
    """DV-14: marking and re-picking touch one annotation only, and re-picking removes it."""
    (gone,) = plan(pick_n(0), "a", [document("a", annotations={"mine": "1"})]).replace
    assert gone["metadata"]["annotations"] == {"mine": "1", PREVIOUS_BINDING_STATE: "Bound"}
    (again,) = plan(pick_n(1), "a", [gone]).replace
    assert again["metadata"]["annotations"] == {"mine": "1"}
    assert again["spec"]["state"] == "Bound"


def test_order_new_then_picked_again_then_dropped():
    documents = [document("a", snapshot="payments-0"), document("b", snapshot="payments-0"), document("gone")]
    judged = plan(pick_fixed("c", "b"), "abc", documents)
    assert [entry["spec"]["targetCluster"] for entry in judged.create] == ["c"]
    assert [(entry["spec"]["targetCluster"], entry["spec"]["state"]) for entry in judged.replace] == [
        ("b", "Bound"),
        ("gone", "Unscheduled"),
        ("a", "Unscheduled"),
    ]


def test_nothing_to_write_when_all_is_as_wanted():
    made = plan(pick_n(1), "ab", [document("a")])
    assert (made.create, made.replace) == ((), ())


def test_an_invalid_policy_unschedules_dangling_bindings_only():
    documents = [document("a", snapshot="payments-0"), document("gone")]
    held = hold("x", Fleet.of([make_cluster("a")]), [read_binding(entry, LATEST) for entry in documents], NOW)
    made = plan_bindings(held, PLACEMENT, LATEST, documents, BLANK)
    assert made.create == ()
    assert states(made.replace) == {"gone": "Unscheduled"}


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param(None, id="none"),
        pytest.param({PREVIOUS_BINDING_STATE: "Sunk"}, id="no-state"),
        pytest.param({PREVIOUS_BINDING_STATE: "Unscheduled"}, id="unscheduled-is-no-state-to-return-to"),
    ],
)
def test_an_unscheduled_binding_that_does_not_say_what_it_was_stops_the_run(annotations):
    with pytest.raises(BrokenBindingError, match="payments-a-01234567"):
        plan(pick_n(1), "a", [document("a", "Unscheduled", annotations=annotations)])


@pytest.mark.parametrize("state", ["Sunk", "", None, 7, "bound"])
def test_a_binding_of_unknown_state_is_not_read(state):
    with pytest.raises(BrokenBindingError, match=r"spec\.state"):
        read_binding(document("a", state), LATEST)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param(document("a"), (BOUND, True, False, None, None), id="plain"),
        pytest.param(document("a", "Scheduled", "payments-0"), (SCHEDULED, False, False, None, None), id="obsolete"),
        pytest.param(document("a", "Unscheduled", deleting=True), (UNSCHEDULED, True, True, None, None), id="deleting"),
        pytest.param(
            document("a", score={"affinityScore": 4, "priorityScore": -1}), (BOUND, True, False, -1, 4), id="scores"
        ),
        pytest.param(document("a", score={"affinityScore": 4}), (BOUND, True, False, 0, 4), id="half-a-score"),
    ],
)
def test_reading(stored, expected):
    read = read_binding(stored, LATEST)
    assert (read.state, read.current, read.deleting, read.topology, read.affinity) == expected


def test_a_binding_has_its_snapshot_and_its_creation_time():
    stored = document("a")
    assert (read_binding(stored, LATEST).snapshot, read_binding(stored, LATEST).since) == (LATEST, "")
    stored["metadata"]["creationTimestamp"] = "2026-06-10T04:00:00Z"
    assert read_binding(stored, LATEST).since == "2026-06-10T04:00:00Z"


NAME = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", fullmatch=True)


@given(placement=NAME, cluster=NAME, suffix=st.integers(0, 2**32 - 1))
@modest(200)
def test_names_fit_and_are_names(placement, cluster, suffix):
    name = binding_name(placement, cluster, f"{suffix:08x}")
    assert len(name) <= 63
    assert re.fullmatch(r"[a-z0-9][-a-z0-9.]*[a-z0-9]", name)
    assert name.endswith(f"-{suffix:08x}")
    assert "-." not in name[-12:]


@pytest.mark.parametrize(
    ("placement", "cluster", "expected"),
    [
        pytest.param("payments", "bravelion", "payments-bravelion-0badcafe", id="short"),
        pytest.param("p" * 40, "c" * 40, "p" * 26 + "-" + "c" * 27 + "-0badcafe", id="both-cut"),
        pytest.param(
            "p" * 25 + "-x", "c" * 26 + ".y", "p" * 25 + "-" + "c" * 26 + "-0badcafe", id="cut-end-loses-punctuation"
        ),
    ],
)
def test_binding_name(placement, cluster, expected):
    assert binding_name(placement, cluster, "0badcafe") == expected
