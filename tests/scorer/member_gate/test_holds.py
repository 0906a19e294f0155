"""One gate per member: what holds it, what waits for what."""

from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest

from scorer.member_gate.holds import (
    Hold,
    MemberDisruption,
    eviction_hold,
    reserved_holds,
    rollout_hold,
    staged_update_holds,
    upgrade_holds,
    waits_for,
)
from scorer.reservations import MEMBER, Reservation
from tests.builders.condition import condition

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOLDS = (
    eviction_hold("oslo", "off-oslo", "web"),
    rollout_hold("oslo", "crp/web"),
    Hold(MemberDisruption.STAGED_UPDATE, "staged-update/spring", "member oslo is being updated"),
    Hold(MemberDisruption.UPGRADE, "upgrade/v131", "member oslo is being upgraded"),
)


@pytest.mark.parametrize("kind", MemberDisruption)
def test_a_kind_waits_for_every_other_one_and_never_for_itself(kind):
    for hold in HOLDS:
        assert waits_for(kind, [hold]) == (None if hold.kind is kind else hold)
    assert waits_for(kind, []) is None


def test_what_is_waited_for_does_not_depend_on_the_order():
    holds = [*HOLDS[1:], Hold(MemberDisruption.UPGRADE, "upgrade/autumn", "")]
    assert {waits_for(MemberDisruption.EVICTION, order) for order in permutations(holds)} == {HOLDS[1]}


def test_everybody_waits_for_what_is_not_known_here():
    unknown = Hold(None, "somebody", "")
    for kind in MemberDisruption:
        assert waits_for(kind, [*HOLDS, unknown]) is unknown


def reservation(purpose, holder="tool"):
    return Reservation("id", holder, "ann", MEMBER, ("oslo",), NOW, {"kind": purpose} if purpose else {})


@pytest.mark.parametrize(
    ("purpose", "kind", "word"),
    [
        ("Upgrade", MemberDisruption.UPGRADE, "for Upgrade"),
        ("StagedUpdate", MemberDisruption.STAGED_UPDATE, "for StagedUpdate"),
        ("Repainting", None, "for Repainting"),
        ("", None, "for an unspecified purpose"),
    ],
)
def test_a_reservation_holds_for_what_it_was_taken_for(purpose, kind, word):
    (hold,) = reserved_holds("oslo", [reservation(purpose)])
    assert (hold.kind, hold.by, hold.until) == (kind, "tool", NOW)
    assert hold.message == f"member oslo is reserved {word} by tool"


def test_a_reservation_that_is_renewed_is_told_in_the_same_words():
    first = reservation("Upgrade")
    (before,) = reserved_holds("oslo", [first])
    (after,) = reserved_holds("oslo", [first.until(NOW + timedelta(minutes=5))])
    assert before.message == after.message


def upgrade_run(**states):
    members = [{"name": name, "state": state} for name, state in states.items()]
    return {"metadata": {"name": "v131"}, "status": {"stages": [{"name": "s", "groups": [{"members": members}]}]}}


def test_an_upgrade_holds_the_members_it_is_at_work_on():
    run = upgrade_run(a="NotStarted", b="Pending", c="Running", d="Completed", e="Failed", f="Stopped", g="Skipped")
    assert upgrade_holds(run) == {
        "c": Hold(MemberDisruption.UPGRADE, "upgrade/v131", "member c is being upgraded by run v131")
    }


def staged_run(conditions=(), last=None, namespace="", **clusters):
    entries = [
        {"clusterName": name, "conditions": [condition(*each.split("=")) for each in said]}
        for name, said in clusters.items()
    ]
    status = {"conditions": list(conditions), "stagesStatus": [{"stageName": "one", "clusters": entries}]}
    if last is not None:
        status["deletionStageStatus"] = {"stageName": "kubernetes-fleet.io/deleteStage", "clusters": last}
    return {"metadata": {"name": "spring", "namespace": namespace}, "status": status}


def test_a_staged_update_holds_the_members_it_has_started_and_not_finished():
    run = staged_run(a=[], b=["Started"], c=["Started", "Succeeded"], d=["Started", "Succeeded=False"])
    assert list(staged_update_holds(run)) == ["b"]
    hold = staged_update_holds(run)["b"]
    assert hold.by == "staged-update/spring"
    assert hold.message == "member b is being updated by staged update run spring, in its stage one"


def test_the_deletions_at_the_end_of_a_staged_update_count():
    run = staged_run(last=[{"clusterName": "z", "conditions": [condition("Started")]}], namespace="shop")
    assert staged_update_holds(run)["z"].by == "staged-update/shop/spring"


@pytest.mark.parametrize("status", ["True", "False"])
def test_a_staged_update_that_has_ended_holds_nothing(status):
    assert staged_update_holds(staged_run([condition("Succeeded", status)], b=["Started"])) == {}


@pytest.mark.parametrize(
    "status",
    [
        None,
        [],
        "x",
        {"stages": {}},
        {"stages": [1, {"groups": "no"}, {"groups": [{"members": [{"state": "Running"}]}]}]},
    ],
)
def test_a_status_of_the_wrong_shape_holds_nothing(status):
    assert upgrade_holds({"metadata": {"name": "r"}, "status": status}) == {}
    assert staged_update_holds({"metadata": {"name": "r"}, "status": status}) == {}
