"""What the hub keeps for a member, and how it is repaired."""

import copy

import pytest

from scorer.api.cluster.member_state import MemberState
from scorer.api.names import ACCEPT_OLDER_UNTIL
from scorer.membership.joining import (
    plan_internal_member,
    plan_member,
    plan_namespace,
    plan_role,
    plan_role_binding,
)

IDENTITY = {"kind": "User", "name": "lion"}
MEMBER = {
    "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
    "kind": "MemberCluster",
    "metadata": {"name": "lion", "labels": {"region": "eu"}, "finalizers": ["example.com/mine"]},
    "spec": {"identity": IDENTITY},
}
PLANS = {
    "namespace": lambda stored: plan_namespace("lion", stored),
    "role": lambda stored: plan_role("lion", stored),
    "role-binding": lambda stored: plan_role_binding("lion", IDENTITY, stored),
    "internal-member": lambda stored: plan_internal_member(MEMBER, stored, MemberState.JOIN),
}


def as_stored(document):
    """Return a document as a server stores it, with additions of other writers."""
    stored = copy.deepcopy(document)
    stored["metadata"] |= {"uid": "1", "resourceVersion": "7", "annotations": {"note": "by hand"}}
    stored["metadata"]["labels"] = {**stored["metadata"].get("labels", {}), "team": "a"}
    return stored


def test_a_member_is_held_and_labelled_and_keeps_what_it_has():
    held = plan_member(MEMBER)
    assert held["metadata"]["labels"] == {"region": "eu", "kubernetes-fleet.io/member-name": "lion"}
    assert held["metadata"]["finalizers"] == ["example.com/mine", "kubernetes-fleet.io/membercluster-finalizer"]
    assert plan_member(held) is None


def reporting(**values):
    """Return an InternalMemberCluster whose agent reports properties with the prefix of Azure's labels."""
    properties = {f"fleet.azure.com/{name}": {"value": value} for name, value in values.items()}
    return {"status": {"properties": {"k8s.io/k8s-version": {"value": "v1.33.1"}, **properties}}}


@pytest.mark.parametrize(
    ("labels", "reported", "expected"),
    [
        pytest.param(
            {},
            {"location": "westus", "resource-group": "Rg_1"},
            {"location": "westus", "resource-group": "Rg_1"},
            id="added",
        ),
        pytest.param({"location": "eastus"}, {"location": "westus"}, {"location": "eastus"}, id="set-by-hand"),
        pytest.param({"location": ""}, {"location": "westus"}, {"location": ""}, id="kept-empty-by-hand"),
        pytest.param({"location": "westus"}, {}, {"location": "westus"}, id="no-longer-reported"),
        pytest.param({}, {"resource-group": "(rg)"}, {}, id="not-a-label-value"),
        pytest.param({}, {"location": ""}, {}, id="empty"),
        pytest.param({}, {"location": 7}, {}, id="not-a-text"),
        pytest.param({}, {"owner": "evil"}, {}, id="other-properties-never-become-labels"),
    ],
)
def test_labels_of_azure_are_added_and_never_changed(labels, reported, expected):
    member = copy.deepcopy(MEMBER)
    member["metadata"]["labels"] |= {f"fleet.azure.com/{name}": value for name, value in labels.items()}
    internal = reporting(**reported)
    planned = plan_member(member, internal)
    azure = {key: value for key, value in planned["metadata"]["labels"].items() if key.startswith("fleet.azure.com/")}
    assert azure == {f"fleet.azure.com/{name}": value for name, value in expected.items()}
    assert planned["metadata"]["labels"]["region"] == "eu"
    assert plan_member(planned, internal) is None


@pytest.mark.parametrize("name", PLANS)
def test_what_is_missing_is_made_and_then_left_alone(name):
    made = PLANS[name](None)
    assert made.stored is None
    assert made.reason.endswith("Created")
    assert PLANS[name](as_stored(made.document)) is None


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        pytest.param("namespace", {"metadata": {"labels": {}}}, "NamespacePatched", id="namespace-label"),
        pytest.param("role", {"rules": []}, "RoleUpdated", id="rules"),
        pytest.param("role", {"metadata": {"labels": {}}}, "RoleUpdated", id="role-label"),
        pytest.param("role-binding", {"subjects": [{"kind": "User", "name": "eve"}]}, "RoleBindingUpdated", id="eve"),
        pytest.param(
            "internal-member", {"spec": {"state": "Leave"}}, "InternalMemberClusterSpecUpdated", id="told-to-leave"
        ),
    ],
)
def test_what_was_changed_by_hand_is_put_right(name, change, reason):
    wanted = PLANS[name](None).document
    stored = as_stored(wanted)
    stored |= {key: value for key, value in change.items() if key != "metadata"}
    stored["metadata"] |= change.get("metadata", {})
    repair = PLANS[name](stored)
    assert repair.reason == reason
    assert not repair.recreate
    assert repair.document["metadata"]["resourceVersion"] == "7", "over the version that was read"
    assert repair.document["metadata"]["annotations"] == {"note": "by hand"}, "what others added stays"
    assert PLANS[name](repair.document) is None


def test_a_role_binding_to_another_role_is_made_anew():
    stored = as_stored(PLANS["role-binding"](None).document)
    repair = PLANS["role-binding"](stored | {"roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}})
    assert repair.recreate
    assert "resourceVersion" not in repair.document["metadata"]
    assert repair.document["roleRef"]["name"] == "fleet-role-lion"


@pytest.mark.parametrize(("written", "seconds"), [({}, 60), ({"heartbeatPeriodSeconds": 5}, 5)])
def test_the_period_of_heartbeats_is_passed_on(written, seconds):
    member = {**MEMBER, "spec": {**MEMBER["spec"], **written}}
    document = plan_internal_member(member, None, MemberState.LEAVE).document
    assert document["spec"] == {"state": "Leave", "heartbeatPeriodSeconds": seconds}


def test_the_member_is_told_which_hub_it_is_and_what_is_known_stays():
    made = plan_internal_member(MEMBER, None, MemberState.JOIN, "hub-1").document
    assert made["metadata"]["annotations"] == {"harbormaster.dev/hub-uid": "hub-1"}
    assert plan_internal_member(MEMBER, made, MemberState.JOIN, "hub-1") is None
    assert plan_internal_member(MEMBER, made, MemberState.JOIN) is None, "the hub does not know itself now"
    from_before = as_stored(plan_internal_member(MEMBER, None, MemberState.JOIN).document)
    repair = plan_internal_member(MEMBER, from_before, MemberState.JOIN, "hub-1")
    assert repair.document["metadata"]["annotations"] == {"note": "by hand", "harbormaster.dev/hub-uid": "hub-1"}


def test_what_an_operator_accepts_is_handed_down_to_the_agent_and_taken_back():
    accepting = copy.deepcopy(MEMBER)
    accepting["metadata"]["annotations"] = {ACCEPT_OLDER_UNTIL: "2026-03-01T12:00:00Z", "note": "ours"}
    made = plan_internal_member(accepting, None, MemberState.JOIN).document
    assert made["metadata"]["annotations"] == {ACCEPT_OLDER_UNTIL: "2026-03-01T12:00:00Z"}
    stored = as_stored(plan_internal_member(MEMBER, None, MemberState.JOIN).document)
    told = plan_internal_member(accepting, stored, MemberState.JOIN).document
    assert told["metadata"]["annotations"] == {ACCEPT_OLDER_UNTIL: "2026-03-01T12:00:00Z", "note": "by hand"}
    assert plan_internal_member(accepting, told, MemberState.JOIN) is None
    left = plan_internal_member(MEMBER, told, MemberState.LEAVE).document
    assert left["metadata"]["annotations"] == {"note": "by hand"}
    assert left["spec"]["state"] == "Leave"
