"""The order of a rollout: the worked examples of the reference played to their end, and what holds for all of them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.rollout.views.preview import MOST_STEPS, preview_rollout
from tests.scorer.builders import modest

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATEST = "web-1-snapshot"
CONDITIONS = {
    "ready": [{"type": "Available", "status": "True", "reason": "AllWorkAreAvailable", "observedGeneration": 1}],
    "failed": [{"type": "Available", "status": "False", "reason": "NotAllWorkAreAvailable", "observedGeneration": 1}],
    "rolling": [],
    "young": [
        {
            "type": "Available",
            "status": "True",
            "reason": "NotAllWorkAreAvailabilityTrackable",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-11-20T11:59:50Z",
        }
    ],
}


def binding(cluster, state="Bound", health="ready", snapshot=LATEST, **metadata):
    annotations = {"kubernetes-fleet.io/previous-binding-state": "Bound"} if state == "Unscheduled" else {}
    return {
        "metadata": {"name": f"b-{cluster}", "generation": 1, "annotations": annotations, **metadata},
        "spec": {
            "state": state,
            "targetCluster": cluster,
            "resourceSnapshotName": "" if state == "Scheduled" else snapshot,
        },
        "status": {"conditions": CONDITIONS[health]},
    }


def outdated(cluster, health="ready"):
    return binding(cluster, health=health, snapshot="web-0-snapshot")


def placement(number=None, kind=None, **strategy):
    policy = {"placementType": kind or "PickN"} | ({} if number is None else {"numberOfClusters": number})
    return {"metadata": {"name": "web"}, "spec": {"policy": policy, "strategy": strategy}}


def rolling(**limits):
    return {"rollingUpdate": limits}


def steps(preview):
    return [(list(step.update), list(step.bind), list(step.remove)) for step in preview.steps]


def test_clusters_whose_windows_are_closed_come_after_the_others():
    bindings = [outdated("a"), outdated("b"), outdated("c"), binding("d")]
    preview = preview_rollout(
        placement(4, **rolling(maxUnavailable=1)), bindings, LATEST, NOW, held_clusters={"a", "d"}
    )
    assert [step.update for step in preview.steps] == [("b",), ("c",), ("a",)]
    assert (preview.held, preview.blocked) == (("a",), None)


def test_r1_a_window_of_two_moves_over_six_clusters():
    preview = preview_rollout(placement(6), [outdated(name) for name in "abcdef"], LATEST, NOW)
    assert steps(preview) == [(["a", "b"], [], []), (["c", "d"], [], []), (["e", "f"], [], [])]
    assert preview.steps[0].waiting == ("c", "d", "e", "f")
    assert preview.blocked is None


def test_r2_a_first_placement_is_bound_at_once():
    preview = preview_rollout(placement(6), [binding(name, "Scheduled") for name in "abcdef"], LATEST, NOW)
    assert steps(preview) == [([], list("abcdef"), [])]


def test_r3_a_swap():
    held = [binding(name) for name in "abcd"]
    swap = [binding("e", "Unscheduled"), binding("f", "Unscheduled"), binding("g", "Scheduled")]
    preview = preview_rollout(placement(6), [*held, *swap, binding("h", "Scheduled")], LATEST, NOW)
    assert steps(preview) == [([], ["g", "h"], ["e", "f"])]
    slow = placement(6, **rolling(maxUnavailable=1, maxSurge=1))
    preview = preview_rollout(slow, [*held, *swap, binding("h", "Scheduled")], LATEST, NOW)
    assert steps(preview) == [([], ["g"], ["e"]), ([], ["h"], ["f"])]


def test_r5_a_broken_release_is_replaced_before_anything_else():
    broken = [binding(name, health="failed", snapshot="web-0-snapshot") for name in "ab"]
    preview = preview_rollout(placement(8), [*broken, *(outdated(name) for name in "cdefgh")], LATEST, NOW)
    assert steps(preview)[0] == (["a", "b"], [], [])


def test_r6_fewer_clusters_than_wanted_block_every_update():
    preview = preview_rollout(placement(12), [outdated(name) for name in "abcdefgh"], LATEST, NOW)
    assert preview.steps == ()
    assert preview.blocked is not None
    assert (preview.blocked.reason, preview.blocked.clusters) == ("BudgetUsedUp", tuple("abcdefgh"))
    assert (preview.blocked.budget.target, preview.blocked.budget.max_to_remove) == (12, -1)
    assert preview.blocked.message.startswith("8 of 12 clusters are ready")


def test_where_no_cluster_is_wanted_any_more_nothing_is_counted_against_zero():
    """As after the loss of all picked clusters: "0 of 0 clusters are ready" would tell the user nothing."""
    left = [binding("a", "Unscheduled", health="failed"), binding("b", "Unscheduled", health="failed")]
    preview = preview_rollout(placement(0), left, LATEST, NOW)
    assert preview.blocked is not None
    assert preview.blocked.message == (
        "no cluster is selected. Of the remaining ones, 0 are ready, and the limits allow 0 to be removed"
    )


def test_what_has_failed_on_the_latest_stays_in_the_way():
    bindings = [binding("a", health="failed"), binding("b", health="failed"), outdated("c"), outdated("d")]
    preview = preview_rollout(placement(4, **rolling(maxUnavailable=2)), bindings, LATEST, NOW)
    assert preview.steps == ()
    assert preview.blocked.clusters == ("c", "d")


@pytest.mark.parametrize("health", ["rolling", "young"])
def test_what_has_been_started_before_is_awaited(health):
    bindings = [binding("a", health=health), outdated("b"), outdated("c")]
    preview = preview_rollout(placement(3, **rolling(maxUnavailable=1)), bindings, LATEST, NOW)
    assert steps(preview) == [(["b"], [], []), (["c"], [], [])]


def test_a_cluster_picked_again_waits_until_its_old_binding_is_gone():
    going = binding("a", deletionTimestamp="2026-11-20T12:00:00Z")
    fresh = binding("a", "Scheduled") | {"metadata": {"name": "b-new", "generation": 1}}
    preview = preview_rollout(placement(1), [going, fresh], LATEST, NOW)
    assert steps(preview) == [([], ["a"], [])]


def test_two_bindings_of_one_cluster_stop_everything():
    twice = [binding("a"), binding("a", name="b-2")]
    blocked = preview_rollout(placement(2), twice, LATEST, NOW).blocked
    assert (blocked.reason, blocked.clusters) == ("two-live-bindings", ())
    assert "cluster a has several bindings" in blocked.message


def test_an_external_strategy_waits_for_a_run():
    preview = preview_rollout(placement(2, type="External"), [binding("a"), binding("b", "Scheduled")], LATEST, NOW)
    assert (preview.type, preview.steps) == ("External", ())
    assert (preview.blocked.reason, preview.blocked.clusters) == ("WaitingForRun", ("b",))
    assert preview_rollout(placement(2, type="External"), [binding("a")], LATEST, NOW).blocked is None


def test_limits_that_cannot_be_read_block():
    preview = preview_rollout(placement(1, **rolling(maxUnavailable="some")), [outdated("a")], LATEST, NOW)
    assert preview.blocked.reason == "invalid-strategy"
    preview = preview_rollout(placement(1, **rolling(unavailablePeriodSeconds="x")), [outdated("a")], LATEST, NOW)
    assert preview.blocked.reason == "InvalidStrategy"


def test_an_apply_strategy_is_pushed_to_what_is_placed_already():
    wanted = placement(2, applyStrategy={"type": "ServerSideApply"})
    preview = preview_rollout(wanted, [binding("a"), binding("b", "Scheduled")], LATEST, NOW)
    assert preview.pushed == ("a",)


def test_a_comparison_only_is_done_when_differences_are_reported():
    wanted = placement(3, applyStrategy={"type": "ReportDiff"}, **rolling(maxUnavailable=1))
    preview = preview_rollout(wanted, [outdated(name) for name in "abc"], LATEST, NOW)
    assert steps(preview) == [([name], [], []) for name in "abc"]


def test_a_long_rollout_is_not_followed_to_its_end():
    many = [outdated(f"m{at:03}") for at in range(MOST_STEPS + 5)]
    preview = preview_rollout(placement(len(many), **rolling(maxUnavailable=1)), many, LATEST, NOW)
    assert (len(preview.steps), preview.more) == (MOST_STEPS, 5)


HEALTHS = st.sampled_from(["ready", "ready", "rolling", "failed", "young"])


@given(
    states=st.lists(
        st.tuples(st.sampled_from(["Bound", "old", "Scheduled", "Unscheduled"]), HEALTHS), min_size=1, max_size=9
    ),
    extra=st.integers(0, 3),
    unavailable=st.integers(0, 3),
    surge=st.integers(0, 3),
)
@modest(200)
def test_every_cluster_is_reached_once_or_waits(states, extra, unavailable, surge):
    """The steps move every cluster that has to move at most once; the others are listed as waiting."""
    bindings = [
        outdated(f"m{at}", health) if state == "old" else binding(f"m{at}", state, health)
        for at, (state, health) in enumerate(states)
    ]
    wanted = sum(state != "Unscheduled" for state, _ in states) + extra
    preview = preview_rollout(
        placement(wanted, **rolling(maxUnavailable=unavailable, maxSurge=surge)), bindings, LATEST, NOW
    )
    moved = [cluster for step in preview.steps for part in (step.update, step.bind, step.remove) for cluster in part]
    assert len(moved) == len(set(moved))
    waiting = set(preview.blocked.clusters) if preview.blocked else set()
    assert waiting.isdisjoint(moved)
    assert waiting | set(moved) == {f"m{at}" for at, (state, _) in enumerate(states) if state != "Bound"}
