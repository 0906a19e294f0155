"""Evictions: the examples of the reference, and every other way out."""

import pytest

from scorer.api.binding import BindingState
from scorer.rollout.bindings import BindingView
from scorer.rollout.eviction import EvictionReason, judge_eviction

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
    ("kind", "limits", "total", "available", "allowed"),
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
def test_a_budget_decides(kind, limits, total, available, allowed):
    found = judge_eviction(placement(kind), "m0", holdings(total, available), budget(**limits))
    assert found.executed is allowed
    assert (found.binding, found.budget) == ("b0", "web")


def test_the_message_gives_the_numbers():
    found = judge_eviction(placement(), "m0", holdings(10, 7), budget(maxUnavailable="25%"))
    assert found.message == "budget web has maxUnavailable 25%; 7 of 10 clusters are available"


@pytest.mark.parametrize(
    ("subject", "bindings", "reason", "words"),
    [
        pytest.param(None, [], INVALID, "no such placement", id="no-placement"),
        pytest.param(placement(deletionTimestamp="x"), holdings(2, 2), INVALID, "being deleted", id="deleting"),
        pytest.param(placement("PickFixed"), holdings(2, 2), INVALID, "PickFixed", id="pick-fixed"),
        pytest.param(placement(), holdings(2, 2)[1:], INVALID, "does not hold", id="not-there"),
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
    found = judge_eviction(subject, "m0", bindings, budget(maxUnavailable=0))
    assert found.reason is reason
    assert words in found.message
    assert found.budget == ""


def test_without_a_budget_an_eviction_is_executed():
    assert judge_eviction(placement(), "m0", holdings(1, 1), None).executed
