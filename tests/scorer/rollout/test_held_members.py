"""Rollouts and evictions of members that something else disrupts: what is left alone, and what is under way."""

from datetime import UTC, datetime

import pytest

from scorer.api.placement.binding import BindingState
from scorer.rollout.bindings import BindingView, is_rolling
from scorer.rollout.planner import Action, RequestedClusters, plan_rollout
from scorer.rollout.removal.eviction import EVICTED_BINDING, is_finished, is_in_progress, waiting_status

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
AVAILABLE = {"Available": {"status": "True"}, "RolloutStarted": {"status": "True"}}


def view(cluster, state=BindingState.BOUND, snapshot="old", conditions=AVAILABLE, **more):
    return BindingView(f"web-{cluster}", cluster, state, snapshot, conditions=conditions, **more)


def names(bindings):
    return "".join(binding.cluster for binding in bindings)


def plan(bindings, held, **strategy):
    wanted = RequestedClusters.of({"placementType": "PickN", "numberOfClusters": 4})
    return plan_rollout(wanted, {"rollingUpdate": strategy}, bindings, "new", NOW, held_clusters=held)


def test_a_held_member_leaves_its_turn_to_the_next():
    bindings = [view(cluster) for cluster in "abcd"]
    assert names(plan(bindings, (), maxUnavailable=1).update) == "a"
    found = plan(bindings, {"a"}, maxUnavailable=1)
    assert (names(found.update), names(found.waiting), names(found.blocked)) == ("b", "a", "cd")


def test_a_held_member_is_neither_bound_nor_put_right_nor_left():
    failed = {"Available": {"status": "False", "reason": "NotAllWorkAreAvailable"}}
    bindings = [
        view("a", BindingState.SCHEDULED, "", {}),
        view("b", conditions=failed),
        view("c", BindingState.UNSCHEDULED),
        view("d", snapshot="new"),
    ]
    free = plan(bindings, (), maxUnavailable="100%")
    assert (names(free.bind), names(free.update), names(free.remove)) == ("a", "b", "c")
    found = plan(bindings, set("abcd"), maxUnavailable="100%")
    assert found.action is Action.NOTHING_TO_ROLL
    assert (names(found.waiting), names(found.deferred_removals), names(found.up_to_date)) == ("ab", "c", "d")
    assert found.budget == free.budget


@pytest.mark.parametrize(
    ("rolling", "changes"),
    [
        (True, {"conditions": {"RolloutStarted": {"status": "True"}}}),
        (True, {"conditions": AVAILABLE | {"Available": {"status": "False", "reason": "ResourceNotAvailableYet"}}}),
        (False, {}),
        (False, {"conditions": {}}),
        (False, {"conditions": AVAILABLE | {"Available": {"status": "False", "reason": "NotAllWorkAreAvailable"}}}),
        (False, {"conditions": {"RolloutStarted": {"status": "True"}, "DiffReported": {"status": "False"}}}),
        (False, {"conditions": {"RolloutStarted": {"status": "False"}}}),
        (False, {"conditions": {"RolloutStarted": {"status": "True"}}, "deleting": True}),
        (False, {"conditions": {"RolloutStarted": {"status": "True"}}, "state": BindingState.UNSCHEDULED}),
    ],
)
def test_what_is_rolled_out_and_neither_available_nor_failed_is_rolling(rolling, changes):
    assert is_rolling(view("a", **changes)) is rolling


def eviction(*conditions, meant="u1"):
    said = [
        {"type": kind, "status": status, "observedGeneration": 1}
        for kind, status in (each.split("=") for each in conditions)
    ]
    annotations = {EVICTED_BINDING: meant} if meant else {}
    metadata = {"name": "off", "generation": 1, "annotations": annotations}
    return {"metadata": metadata, "spec": {}, "status": {"conditions": said}}


THERE = {"metadata": {"uid": "u1"}}
GOING = {"metadata": {"uid": "u1", "deletionTimestamp": "2026-11-20T12:00:00Z"}}
OTHER = {"metadata": {"uid": "u2", "deletionTimestamp": "2026-11-20T12:00:00Z"}}


@pytest.mark.parametrize(
    ("under_way", "found", "bindings"),
    [
        pytest.param(False, eviction(meant=""), [THERE], id="has-not-begun"),
        pytest.param(True, eviction(), [THERE], id="has-said-what-it-means"),
        pytest.param(True, eviction(), [GOING], id="has-deleted-and-not-said-so"),
        pytest.param(True, eviction("Valid=True", "Executed=True"), [OTHER, GOING], id="executed-and-going"),
        pytest.param(False, eviction("Valid=True", "Executed=True"), [OTHER], id="gone"),
        pytest.param(False, eviction("Valid=True", "Executed=True"), [], id="all-gone"),
        pytest.param(False, eviction("Valid=True", "Executed=False"), [GOING], id="blocked-after-all"),
        pytest.param(False, eviction("Valid=False"), [GOING], id="invalid-after-all"),
    ],
)
def test_an_eviction_is_under_way_from_what_it_means_to_its_end(under_way, found, bindings):
    assert is_in_progress(found, bindings) is under_way


def test_an_eviction_that_is_withdrawn_goes_on_only_with_what_it_has_begun():
    assert not is_in_progress(eviction(), [THERE], withdrawn=True)
    assert is_in_progress(eviction(), [GOING], withdrawn=True)


def test_an_eviction_that_waits_has_no_answer_and_says_the_same_twice():
    waiting = {**eviction(meant=""), "status": waiting_status(eviction(meant=""), "waits: a is upgraded", NOW)}
    assert not is_finished(waiting)
    (said,) = waiting["status"]["conditions"]
    assert (said["type"], said["status"], said["message"]) == ("Valid", "True", "waits: a is upgraded")
    later = NOW.replace(hour=13)
    assert waiting_status(waiting, "waits: a is upgraded", later) == waiting["status"]
