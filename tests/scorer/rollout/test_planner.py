"""The RollingUpdate plan: recorded reconciles, the worked examples, and what holds for every history."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.placement.binding import BindingState
from scorer.api.placement.placement import PlacementType
from scorer.api.values.int_or_percent import scaled_up
from scorer.rollout.bindings import BindingView, ObjectRemoval, Overrides, PendingReason
from scorer.rollout.planner import (
    Action,
    Invariant,
    RequestedClusters,
    RollingUpdateLimits,
    RolloutError,
    RolloutPlan,
    blocked_reason,
    plan_rollout,
)
from tests.vector_families.rollout import LISTS

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATEST = "shop-3-snapshot"


def clusters(bindings: tuple[BindingView, ...]) -> list[str]:
    return [binding.cluster for binding in bindings]


def make_binding(name: str, state: str = "Bound", health: str = "ready", *, snapshot: str = LATEST, **more: Any):
    """Make a binding on the cluster of the same name; *health*: ready, failed, rolling or an age in seconds."""
    conditions: dict[str, dict[str, str]] = {}
    if health == "ready":
        conditions["Available"] = {"status": "True", "reason": "AllWorkAreAvailable"}
    elif health == "failed":
        conditions["Available"] = {"status": "False", "reason": "NotAllWorkAreAvailable"}
    elif health.isdigit():
        since = (NOW - timedelta(seconds=int(health))).isoformat()
        reason = "NotAllWorkAreAvailabilityTrackable"
        conditions["Available"] = {"status": "True", "reason": reason, "lastTransitionTime": since}
    return BindingView(name, name, BindingState(state), snapshot=snapshot, conditions=conditions, **more)


def plan(
    wanted: tuple[str, int | None], bindings: list[BindingView], *, removal_needs_budget: bool = True, **limits: Any
) -> RolloutPlan:
    return plan_rollout(
        RequestedClusters(PlacementType(wanted[0]), wanted[1]),
        {"rollingUpdate": limits},
        bindings,
        LATEST,
        NOW,
        removal_needs_budget=removal_needs_budget,
    )


def old(name: str, health: str = "ready") -> BindingView:
    return make_binding(name, health=health, snapshot="shop-2-snapshot")


def test_r1_a_window_of_two_moves_over_six_clusters():
    fleet = [old(name) for name in "abcdef"]
    first = plan(("PickN", 6), fleet)
    assert (clusters(first.update), clusters(first.blocked)) == (["a", "b"], ["c", "d", "e", "f"])
    rolling = [make_binding(name, health="rolling") for name in "ab"]
    assert plan(("PickN", 6), [*rolling, *fleet[2:]]).budget.max_to_remove == 0
    third = plan(("PickN", 6), [make_binding("a"), rolling[1], *fleet[2:]])
    assert clusters(third.update) == ["c"]


def test_confirmed_objects_leave_within_the_limits_and_a_cluster_that_loses_them_is_not_ready():
    confirmed = [replace(make_binding(name), object_removal=ObjectRemoval.CONFIRMED) for name in "abc"]
    first = plan(("PickN", 3), confirmed, maxUnavailable=1)
    assert (clusters(first.update), clusters(first.blocked)) == (["a"], ["b", "c"])
    ordered = replace(confirmed[0], object_removal=ObjectRemoval.ORDERED)
    second = plan(("PickN", 3), [ordered, *confirmed[1:]], maxUnavailable=1, unavailablePeriodSeconds=0)
    assert (clusters(second.update), clusters(second.unready)) == ([], ["a"])
    third = plan(("PickN", 3), [make_binding("a"), *confirmed[1:]], maxUnavailable=1)
    assert clusters(third.update) == ["b"]


def test_a_cluster_that_is_held_keeps_confirmed_objects():
    fleet = [replace(make_binding(name), object_removal=ObjectRemoval.CONFIRMED) for name in "ab"]
    held = plan_rollout(
        RequestedClusters(PlacementType.PICK_N, 2), {}, fleet, LATEST, NOW, held_clusters={fleet[0].cluster}
    )
    assert (clusters(held.waiting), clusters(held.update)) == (["a"], ["b"])


def test_why_a_binding_is_blocked_names_who_goes_first_and_then_who_is_not_ready():
    fleet = [old(name) for name in "abcdef"]
    first = plan(("PickN", 6), fleet)
    assert blocked_reason(first, first.blocked[0]) == (
        "waiting: 6 of 6 clusters are ready, so 2 may be updated or removed now; a, b first"
    )
    second = plan(("PickN", 6), [make_binding("a", health="failed"), make_binding("b", health="rolling"), *fleet[2:]])
    assert (second.update, clusters(second.unready)) == ((), ["a", "b"])
    assert blocked_reason(second, second.blocked[0]) == (
        "waiting: 4 of 6 clusters are ready, so 0 may be updated or removed now; not ready: a, b"
    )
    added = make_binding("x", "Scheduled", "none", snapshot="")
    full = plan(("PickN", 6), [*(make_binding(name, health="rolling") for name in "abcdef"), added], maxSurge=0)
    assert blocked_reason(full, full.blocked[0]) == (
        "waiting: 0 of 6 clusters are ready, so 0 may be added now; not ready: a, b, c and 3 more"
    )


def test_r2_a_first_placement_binds_everything_at_once():
    found = plan(("PickN", 6), [make_binding(name, "Scheduled", "none", snapshot="") for name in "abcdef"])
    assert clusters(found.bind) == list("abcdef")
    assert found.budget.max_to_add == 8


@pytest.mark.parametrize(
    ("limits", "removed", "bound", "blocked"),
    [
        pytest.param({}, ["e", "f"], ["g", "h"], [], id="defaults"),
        pytest.param({"maxUnavailable": 1, "maxSurge": 1}, ["e"], ["g"], ["h"], id="one-and-one"),
    ],
)
def test_r3_a_swap_removes_and_binds_in_one_reconcile(limits, removed, bound, blocked):
    staying = [make_binding(name) for name in "abcd"]
    leaving = [make_binding(name, "Unscheduled") for name in "ef"]
    coming = [make_binding(name, "Scheduled", "none", snapshot="") for name in "gh"]
    found = plan(("PickN", 6), [*staying, *leaving, *coming], **limits)
    assert (clusters(found.remove), clusters(found.bind), clusters(found.blocked)) == (removed, bound, blocked)


def test_r4_failed_ones_move_without_budget():
    fleet = [*(old(name) for name in "abcdefg"), *(old(name, "failed") for name in "hij")]
    found = plan(("PickAll", None), fleet, maxUnavailable=3, maxSurge=0)
    assert (clusters(found.update), clusters(found.blocked)) == (["h", "i", "j"], list("abcdefg"))


def test_r5_a_broken_release_stops_and_a_fixed_one_replaces_it():
    ready = [old(name) for name in "cdefgh"]
    broken = plan(("PickN", 8), [make_binding("a", health="failed"), make_binding("b", health="failed"), *ready])
    assert (broken.update, clusters(broken.blocked)) == ((), list("cdefgh"))
    fixed = plan(("PickN", 8), [old("a", "failed"), old("b", "failed"), *ready])
    assert (clusters(fixed.update), clusters(fixed.blocked)) == (["a", "b"], list("cdefgh"))


@pytest.mark.parametrize(
    ("limit", "updated"), [pytest.param("25%", 0, id="stalls"), pytest.param("50%", 2, id="moves")]
)
def test_r6_fewer_clusters_than_wanted(limit, updated):
    assert len(plan(("PickN", 12), [old(name) for name in "abcdefgh"], maxUnavailable=limit).update) == updated


def test_a_smaller_number_lends_no_room_before_the_scheduler_has_dropped_clusters():
    """One of four has failed with the latest content, so that the others wait. They still do when one is requested."""
    bindings = [make_binding("a", health="failed"), *(make_binding(name, snapshot="shop-2-snapshot") for name in "bcd")]
    assert clusters(plan(("PickN", 4), bindings, maxUnavailable=1).update) == []
    assert clusters(plan(("PickN", 1), bindings, maxUnavailable=1).update) == []


def test_updates_leave_room_for_removals():
    """Three may be taken away: the one that leaves counts before anything is updated."""
    found = plan(("PickN", 6), [*(old(name) for name in "abcdef"), make_binding("g", "Unscheduled")], maxUnavailable=2)
    assert found.budget.max_to_remove == 3
    assert (clusters(found.remove), clusters(found.update), clusters(found.blocked)) == (
        ["g"],
        ["a", "b"],
        list("cdef"),
    )


def after_a_deletion(state: str, **more: Any) -> list[BindingView]:
    """Two bindings of cluster a, the first of which is being deleted."""
    return [
        replace(make_binding(f"a-{turn}", state, **made), cluster="a")
        for turn, made in enumerate(({"deleting": True}, more))
    ]


@pytest.mark.parametrize("previous", ["", "Scheduled"])
def test_a_cluster_that_was_picked_again_waits_until_its_old_binding_is_gone(previous):
    state = "Unscheduled" if previous else "Scheduled"
    found = plan(("PickN", 2), [*after_a_deletion(state, previous_state=previous), old("b")])
    assert (found.action, found.requeue_after) == (Action.WAIT_CLEANUP, timedelta(seconds=5))
    assert (found.update, found.blocked, found.error) == ((), (), None)


@pytest.mark.parametrize(
    ("bindings", "invariant", "message"),
    [
        pytest.param(
            [replace(old(name), cluster="a") for name in ("a-2", "a-1")],
            Invariant.TWO_LIVE_BINDINGS,
            "cluster a has several bindings: a-1, a-2",
            id="two-live-ones",
        ),
        pytest.param(
            after_a_deletion("Bound"),
            Invariant.BOUND_WITH_DELETING,
            "binding a-1 was bound on cluster a while its predecessor is being deleted",
            id="bound-too-early",
        ),
        pytest.param(
            after_a_deletion("Unscheduled", previous_state="Bound"),
            Invariant.UNSCHEDULED_FROM_BOUND_WITH_DELETING,
            "binding a-1 was bound on cluster a while its predecessor is being deleted",
            id="bound-too-early-and-dropped",
        ),
    ],
)
def test_bindings_in_each_others_way_stop_the_rollout_and_are_named(bindings, invariant, message):
    waiting = [replace(each, name=each.name.replace("a", "0"), cluster="0") for each in after_a_deletion("Scheduled")]
    found = plan(("PickN", 2), [*waiting, *bindings])
    assert found.action is Action.ERROR
    assert found.error == RolloutError(invariant, message)


def test_what_was_dropped_before_anything_was_placed_goes_at_once_and_keeps_nobody_out():
    """Three clusters that the policy dropped before their first Work: none of them can ever become ready."""
    dropped = [make_binding(name, "Unscheduled", "rolling", empty=True) for name in "def"]
    found = plan(("PickN", 1), [make_binding("a", "Scheduled", "rolling", snapshot=""), *dropped])
    assert (clusters(found.remove), clusters(found.bind), found.unready) == (["d", "e", "f"], ["a"], ())
    gone = [replace(binding, deleting=True) for binding in dropped]
    assert clusters(plan(("PickN", 1), [make_binding("a", "Scheduled", "rolling", snapshot=""), *gone]).bind) == ["a"]


def going_to_zero() -> list[BindingView]:
    healths = {"a": "failed", "b": "ready", "c": "ready", "d": "failed", "e": "ready"}
    return [make_binding(name, "Unscheduled", health) for name, health in healths.items()]


def test_r7_going_to_zero_is_paced_by_what_is_ready():
    assert clusters(plan(("PickN", 0), going_to_zero()).remove) == ["a", "b", "c"]
    assert clusters(plan(("PickN", 0), going_to_zero(), maxUnavailable=2).remove) == list("abcde")
    left = [binding for binding in going_to_zero() if binding.name in "ad"]
    assert clusters(plan(("PickN", 0), left).deferred_removals) == ["a", "d"]


def test_r7_without_removal_budget_everything_goes():
    assert clusters(plan(("PickN", 0), going_to_zero(), removal_needs_budget=False).remove) == list("abcde")
    shrinking = plan(("PickN", 1), [make_binding("x"), *going_to_zero()], removal_needs_budget=False, maxUnavailable=0)
    assert clusters(shrinking.remove) == list("abcde")  # a and d are failed: free; b, c, e: 4 ready less 1
    held = plan(("PickN", 4), going_to_zero(), removal_needs_budget=False, maxUnavailable=0)
    assert (clusters(held.remove), clusters(held.deferred_removals)) == (["a", "d"], ["b", "c", "e"])


def test_r8_untrackable_bindings_become_ready_by_age():
    fleet = [make_binding("a", health="10"), make_binding("b", health="60"), make_binding("c", health="95")]
    found = plan(("PickN", 4), [*fleet, old("d", "rolling")], unavailablePeriodSeconds=90)
    assert found.requeue_after == timedelta(seconds=30)
    assert found.budget.ready == 1


def test_r9_without_surge_a_failed_cluster_frees_room():
    fleet = [make_binding("a"), make_binding("b"), make_binding("c", health="failed")]
    found = plan(("PickN", 3), [*fleet, make_binding("d", "Scheduled", "none", snapshot="")], maxSurge=0)
    assert clusters(found.bind) == ["d"]


def test_at_exactly_the_period_a_binding_is_not_ready_but_is_looked_at_again_at_once():
    found = plan(("PickN", 1), [old("a", "60")], maxUnavailable=0)
    assert (found.budget.ready, found.requeue_after) == (0, timedelta())


def test_an_override_that_is_wanted_elsewhere_makes_nothing_outdated():
    fleet = [make_binding("a", overrides=Overrides(cluster=("big-1",))), make_binding("b")]
    wanted = {"a": Overrides(cluster=("big-1",)), "c": Overrides(cluster=("big-2",))}
    found = plan_rollout(RequestedClusters(PlacementType.PICK_ALL), None, fleet, LATEST, NOW, overrides=wanted)
    assert found.action is Action.NOTHING_TO_ROLL
    again = plan_rollout(RequestedClusters(PlacementType.PICK_ALL), None, fleet, LATEST, NOW, overrides={})
    assert clusters(again.update) == ["a"]


def test_an_unreadable_limit_is_an_error_that_names_the_value():
    found = plan(("PickN", 1), [old("a")], maxUnavailable="2")
    assert found.error is not None
    assert found.error.invariant is Invariant.INVALID_STRATEGY
    assert "'2'" in found.error.message


limit_values = st.one_of(st.integers(0, 5), st.integers(0, 100).map(lambda share: f"{share}%"))
healths = st.sampled_from(["ready", "failed", "rolling", "10", "70"])
fleets = st.lists(
    st.tuples(
        st.sampled_from(["Bound", "Bound", "Scheduled", "Unscheduled"]),
        healths,
        st.sampled_from([LATEST, "shop-2-snapshot"]),
        st.sampled_from([False, False, False, True]),
    ),
    max_size=12,
).map(
    lambda rows: [
        make_binding(
            f"c{at:02}", state, "none" if state == "Scheduled" else health, snapshot=snapshot, deleting=deleting
        )
        for at, (state, health, snapshot, deleting) in enumerate(rows)
    ]
)
wishes = st.one_of(
    st.just(("PickAll", None)),
    st.tuples(st.just("PickN"), st.integers(0, 12)),
    st.tuples(st.just("PickFixed"), st.integers(0, 12)),
)


@given(wish=wishes, fleet=fleets, unavailable=limit_values, surge=limit_values)
def test_no_plan_takes_more_than_the_limits_give(wish, fleet, unavailable, surge):
    """What the plan itself takes away leaves N - maxUnavailable, and what it adds stays within N + maxSurge."""
    found = plan(wish, fleet, maxUnavailable=unavailable, maxSurge=surge)
    target, budget = found.budget.target, found.budget
    ready = {binding.name for binding in fleet if binding.status("Available") == "True"} - {
        binding.name
        for binding in fleet
        if binding.conditions.get("Available", {}).get("lastTransitionTime", "") > "2026-11-20T11:59"
    }
    taken = [binding for binding in (*found.update, *found.remove) if binding.name in ready]
    if taken:
        assert budget.ready - budget.may_vanish - len(taken) >= target - scaled_up(unavailable, target)
    if found.bind:
        assert budget.can_be_ready + len(found.bind) <= target + scaled_up(surge, target)


@given(wish=wishes, fleet=fleets, unavailable=limit_values, surge=limit_values)
def test_every_candidate_is_in_exactly_one_list(wish, fleet, unavailable, surge):
    found = plan(wish, fleet, maxUnavailable=unavailable, maxSurge=surge)
    names = [binding.name for attribute in LISTS.values() for binding in getattr(found, attribute)]
    expected = [binding.name for binding in fleet if not binding.deleting or binding.state is BindingState.SCHEDULED]
    assert sorted(names) == expected
    for attribute in LISTS.values():
        assert list(getattr(found, attribute)) == sorted(getattr(found, attribute), key=lambda binding: binding.name)


@given(
    size=st.integers(1, 10),
    leaving=st.integers(0, 3),
    unavailable=limit_values,
    surge=limit_values,
    moves=st.lists(st.integers(0, 2**20), min_size=70, max_size=70),
    data=st.data(),
)
def test_every_history_ends_with_everything_rolled_out(size, leaving, unavailable, surge, moves, data):
    """Bindings fail and recover at will, then the members are healthy: the rollout finishes, within its limits."""
    if not scaled_up(unavailable, size) and not scaled_up(surge, size):
        unavailable = 1
    if not scaled_up(unavailable, size):
        leaving = 0  # in-place updates never start with maxUnavailable 0; only first bindings are looked at
    states = data.draw(st.lists(st.sampled_from(["Bound", "Scheduled"]), min_size=size, max_size=size))
    fleet = {}
    for at, state in enumerate(states):
        snapshot = LATEST if not scaled_up(unavailable, size) else "shop-2-snapshot"
        health = "ready" if state == "Bound" else "none"
        fleet[f"c{at:02}"] = make_binding(f"c{at:02}", state, health, snapshot=snapshot if state == "Bound" else "")
    for at in range(leaving):
        fleet[f"d{at}"] = make_binding(f"d{at}", "Unscheduled", "ready")
    for step, move in enumerate(moves):
        healing = step >= 30
        found = plan(("PickN", size), list(fleet.values()), maxUnavailable=unavailable, maxSurge=surge)
        for binding in (*found.update, *found.bind):
            fleet[binding.name] = make_binding(binding.name, "Bound", "rolling")
        for binding in found.remove:
            del fleet[binding.name]
        for at, (name, binding) in enumerate(list(fleet.items())):
            if binding.state is BindingState.SCHEDULED:
                continue
            fate = "ready" if healing else ("keep", "ready", "failed", "rolling")[(move >> 2 * (at % 10)) % 4]
            if fate != "keep":
                fleet[name] = replace(binding, conditions=make_binding(name, health=fate).conditions)
    final = plan(("PickN", size), list(fleet.values()), maxUnavailable=unavailable, maxSurge=surge)
    assert final.action is Action.NOTHING_TO_ROLL
    assert clusters(final.up_to_date) == [f"c{at:02}" for at in range(size)]


def test_limits_take_their_defaults_where_nothing_is_said():
    assert (
        RollingUpdateLimits.of(None)
        == RollingUpdateLimits.of({})
        == RollingUpdateLimits.of({"rollingUpdate": {"maxSurge": None}})
        == RollingUpdateLimits()
    )


def leaving(name: str, pending: PendingReason | None = None) -> BindingView:
    return make_binding(name, "Unscheduled", pending=pending)


def test_a_removal_that_waits_for_confirmation_neither_lends_room_nor_takes_it():
    """With ten old clusters that remain for days, two new ones are still updated one by one."""
    waiting = [leaving(f"z{number}", PendingReason.CONFIRMATION) for number in range(10)]
    fresh = make_binding("c", "Scheduled", "none", snapshot="")
    found = plan(("PickN", 3), [old("a"), old("b"), fresh, *waiting], maxUnavailable=1, maxSurge=1)
    assert (found.remove, found.deferred_removals) == ((), ())
    assert (clusters(found.bind), clusters(found.update)) == (["c"], [])
    assert (found.budget.ready, found.budget.can_be_ready) == (2, 2)


def test_a_removal_that_waits_for_a_replacement_lets_that_be_added():
    fresh = make_binding("b", "Scheduled", "none", snapshot="")
    waits, ordered = (plan(("PickN", 1), [leaving("a", reason), fresh], maxSurge=0) for reason in (REPLACEMENT, None))
    assert (clusters(waits.bind), waits.remove) == (["b"], ())
    assert (ordered.bind, clusters(ordered.remove)) == ((), ["a"])


REPLACEMENT = PendingReason.REPLACEMENT
