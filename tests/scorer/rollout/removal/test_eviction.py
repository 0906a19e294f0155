"""Evictions: the examples of the reference, and every other way out."""

from datetime import UTC, datetime

import pytest

from scorer.api.placement.binding import BindingState
from scorer.rollout.bindings import BindingView
from scorer.rollout.removal.eviction import (
    EVICTED_BINDING,
    Eviction,
    EvictionReason,
    decide_eviction,
    eviction_status,
    is_finished,
    judge_eviction,
    with_evicted_binding,
)
from tests.builders.binding import make_binding
from tests.builders.condition import condition

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)

READY = {"Available": {"status": "True", "reason": "AllWorkAreAvailable"}}
FAILED = {"Available": {"status": "False", "reason": "NotAllWorkAreAvailable"}}
EXECUTED, NOT_EXECUTED, INVALID = EvictionReason.EXECUTED, EvictionReason.NOT_EXECUTED, EvictionReason.INVALID


def placement(kind="PickN", number=10, **metadata):
    policy = {"placementType": kind} | ({"numberOfClusters": number} if kind == "PickN" else {})
    return {"metadata": {"name": "web", **metadata}, "spec": {"policy": policy}}


def budget(**limits):
    return {"metadata": {"name": "web"}, "spec": limits}


def holdings(total, available):
    """Return bindings on m0, m1, …: the first ones are available, the others are on their way."""
    return [
        BindingView(f"b{at}", f"m{at}", BindingState.BOUND, conditions=READY if at < available else {})
        for at in range(total)
    ]


@pytest.mark.parametrize(
    ("kind", "limits", "total", "available", "is_allowed"),
    [
        pytest.param("PickN", {"maxUnavailable": "25%"}, 10, 8, True, id="E1-one-left"),
        pytest.param("PickN", {"maxUnavailable": "25%"}, 10, 7, False, id="E1-none-left"),
        pytest.param("PickN", {"minAvailable": "65%"}, 10, 8, True, id="E2-one-more-than-needed"),
        pytest.param("PickN", {"minAvailable": "65%"}, 10, 7, False, id="E2-exactly-as-needed"),
        pytest.param("PickN", {"maxUnavailable": 2}, 6, 6, True, id="E3-missing-ones-are-not-unavailable"),
        pytest.param("PickN", {"minAvailable": 7}, 6, 6, False, id="E3-fewer-than-needed"),
        pytest.param("PickAll", {"minAvailable": 3}, 4, 4, True, id="E4-pick-all"),
        pytest.param("PickAll", {"minAvailable": 3}, 3, 3, False, id="E4-pick-all-none-left"),
        pytest.param("PickAll", {"maxUnavailable": 1}, 4, 4, False, id="E4-no-budget-for-pick-all"),
        pytest.param("PickAll", {"minAvailable": "10%"}, 4, 4, False, id="no-percentage-for-pick-all"),
        pytest.param("PickN", {}, 10, 10, False, id="a-budget-without-a-limit-blocks"),
        pytest.param("PickN", {"maxUnavailable": "2"}, 10, 10, False, id="an-unreadable-budget-blocks"),
        pytest.param("PickN", {"minAvailable": 0}, 1, 1, True, id="nothing-has-to-stay"),
    ],
)
def test_a_budget_decides(kind, limits, total, available, is_allowed):
    outcome = judge_eviction(placement(kind), "m0", holdings(total, available), budget(**limits))
    assert (outcome.executed, outcome.deletes) == (is_allowed, is_allowed)
    assert (outcome.binding, outcome.budget) == ("b0", "web")


def test_the_message_gives_the_numbers():
    outcome = judge_eviction(placement(), "m0", holdings(10, 7), budget(maxUnavailable="25%"))
    assert outcome.message == "budget web has maxUnavailable 25%; 7 of 10 clusters are available"


def test_the_message_about_a_budget_without_a_limit_is_about_this_eviction():
    outcome = judge_eviction(placement(), "m0", holdings(10, 10), budget())
    assert outcome.message == "budget web has no limit, so it blocks this eviction; 10 of 10 clusters are available"


@pytest.mark.parametrize(
    ("subject", "bindings", "reason", "words"),
    [
        pytest.param(None, [], INVALID, "the placement does not exist", id="no-placement"),
        pytest.param(placement(deletionTimestamp="x"), holdings(2, 2), INVALID, "being deleted", id="deleting"),
        pytest.param(placement("PickFixed"), holdings(2, 2), INVALID, "PickFixed", id="pick-fixed"),
        pytest.param(placement(), holdings(2, 2)[1:], INVALID, "is not on the cluster", id="not-there"),
        pytest.param(
            placement(), [*holdings(1, 1), *holdings(1, 1)], INVALID, "several bindings", id="there-more-than-once"
        ),
        pytest.param(
            placement(), [BindingView("b0", "m0", BindingState.BOUND, deleting=True)], EXECUTED, "already", id="going"
        ),
        pytest.param(
            placement(), [BindingView("b0", "m0", BindingState.SCHEDULED)], NOT_EXECUTED, "nothing", id="not-placed-yet"
        ),
        pytest.param(
            placement(),
            [BindingView("b0", "m0", BindingState.UNSCHEDULED, previous_state="Scheduled")],
            NOT_EXECUTED,
            "nothing",
            id="never-placed",
        ),
        pytest.param(
            placement(),
            [BindingView("b0", "m0", BindingState.UNSCHEDULED, previous_state="Bound", conditions=FAILED)],
            EXECUTED,
            "no budget",
            id="E6-what-failed-goes-whatever-the-budget",
        ),
    ],
)
def test_what_is_decided_before_any_budget_is_asked(subject, bindings, reason, words):
    outcome = judge_eviction(subject, "m0", bindings, budget(maxUnavailable=0))
    assert outcome.reason is reason
    assert words in outcome.message
    assert outcome.budget == ""


def test_without_a_budget_an_eviction_is_executed():
    outcome = judge_eviction(placement(), "m0", holdings(1, 1), None)
    assert (outcome.executed, outcome.deletes) == (True, True)


def test_what_is_going_is_not_deleted_again():
    outcome = judge_eviction(placement(), "m0", [BindingView("b0", "m0", BindingState.BOUND, deleting=True)], None)
    assert (outcome.executed, outcome.deletes) == (True, False)


def test_e5_what_cannot_be_tracked_is_available_at_once():
    """The waiting period of the rolling update does not count."""
    just_now = {"status": "True", "reason": "NotAllWorkAreAvailabilityTrackable", "lastTransitionTime": "2026-11-20"}
    bindings = [
        BindingView(f"b{at}", f"m{at}", BindingState.BOUND, conditions={"Available": just_now}) for at in range(10)
    ]
    outcome = judge_eviction(placement(), "m0", bindings, budget(minAvailable=9))
    assert outcome.executed
    assert "10 of 10 clusters are available" in outcome.message


def test_e6_what_failed_goes_while_far_fewer_are_available_than_needed():
    bindings = [BindingView("b", "m", BindingState.BOUND, conditions=FAILED), *holdings(9, 2)]
    assert judge_eviction(placement(), "m", bindings, budget(minAvailable=9)).deletes


def test_differences_that_were_reported_make_it_go_as_well():
    conditions = {"DiffReported": {"status": "False", "reason": "NotAllWorkHaveDiffReported"}}
    bindings = [BindingView("b", "m", BindingState.BOUND, conditions=conditions)]
    assert judge_eviction(placement(), "m", bindings, budget(maxUnavailable=0)).deletes


def make_eviction(*conditions, binding_uid=""):
    annotations = {EVICTED_BINDING: binding_uid} if binding_uid else {}
    return {
        "metadata": {"name": "e", "generation": 2, "annotations": annotations},
        "spec": {"placementName": "web", "clusterName": "m0"},
        "status": {"conditions": list(conditions)},
    }


@pytest.mark.parametrize(
    ("conditions", "is_final"),
    [
        pytest.param([], False, id="not-looked-at"),
        pytest.param([condition("Valid", "True", generation=2)], False, id="valid-is-half-the-answer"),
        pytest.param([condition("Valid", "False", generation=2)], True, id="invalid"),
        pytest.param([condition("Valid", "False")], False, id="invalid-as-it-was"),
        pytest.param(
            [condition("Valid", "True", generation=2), condition("Executed", "True", generation=2)], True, id="executed"
        ),
        pytest.param(
            [condition("Valid", "True", generation=2), condition("Executed", "False", generation=2)], True, id="blocked"
        ),
        pytest.param([condition("Executed", "Unknown")], True, id="any-executed-is-final"),
    ],
)
def test_an_answer_is_final(conditions, is_final):
    assert is_finished(make_eviction(*conditions)) is is_final


def make_web_binding(uid="u0", **metadata):
    return make_binding("web", "m0", metadata={"uid": uid, **metadata})


@pytest.mark.parametrize(
    ("binding_uid", "bindings", "reason"),
    [
        pytest.param("", [make_web_binding()], NOT_EXECUTED, id="nothing-was-meant-yet"),
        pytest.param("u0", [make_web_binding()], NOT_EXECUTED, id="still-there-so-decided-anew"),
        pytest.param("u0", [make_web_binding(deletionTimestamp="x")], EXECUTED, id="going"),
        pytest.param("u0", [], EXECUTED, id="gone"),
        pytest.param("u0", [make_web_binding("u1")], EXECUTED, id="gone-and-picked-again"),
    ],
)
def test_a_deletion_that_was_meant_is_remembered(binding_uid, bindings, reason):
    outcome = decide_eviction(make_eviction(binding_uid=binding_uid), placement(), bindings, budget(maxUnavailable=0))
    assert (outcome.reason, outcome.deletes) == (reason, False)


def test_a_deletion_that_was_meant_counts_even_when_the_placement_is_gone():
    assert decide_eviction(make_eviction(binding_uid="u0"), None, [], None).executed


def test_the_binding_that_is_meant_is_written_down_once():
    marked_eviction = with_evicted_binding(make_eviction(), make_web_binding())
    assert marked_eviction is not None
    assert marked_eviction["metadata"]["annotations"] == {EVICTED_BINDING: "u0"}
    assert with_evicted_binding(marked_eviction, make_web_binding()) is None
    second_eviction = with_evicted_binding(marked_eviction, make_web_binding("u1"))
    assert second_eviction is not None
    assert second_eviction["metadata"]["annotations"] == {EVICTED_BINDING: "u1"}


@pytest.mark.parametrize(
    ("outcome", "conditions"),
    [
        pytest.param(
            Eviction("", INVALID, "why"),
            [("Valid", "False", "ClusterResourcePlacementEvictionInvalid")],
            id="invalid",
        ),
        pytest.param(
            Eviction("b0", EXECUTED, "why"),
            [
                ("Valid", "True", "ClusterResourcePlacementEvictionValid"),
                ("Executed", "True", "ClusterResourcePlacementEvictionExecuted"),
            ],
            id="executed",
        ),
        pytest.param(
            Eviction("b0", NOT_EXECUTED, "why"),
            [
                ("Valid", "True", "ClusterResourcePlacementEvictionValid"),
                ("Executed", "False", "ClusterResourcePlacementEvictionNotExecuted"),
            ],
            id="blocked",
        ),
    ],
)
def test_the_status_says_valid_and_executed(outcome, conditions):
    """The state table of rollout.md 19.3."""
    status = eviction_status(make_eviction(), outcome, NOW)
    assert [
        (condition["type"], condition["status"], condition["reason"]) for condition in status["conditions"]
    ] == conditions
    assert {condition["observedGeneration"] for condition in status["conditions"]} == {2}
    assert "why" in status["conditions"][-1]["message"]
    assert is_finished({**make_eviction(), "status": status})
