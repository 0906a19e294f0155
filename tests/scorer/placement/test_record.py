"""What a run records in the status of the policy snapshot (scheduling.md 17)."""

import copy
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.placement.snapshots import PolicySnapshotStatus
from scorer.fleet import Fleet
from scorer.placement.record import (
    MOST_DECISIONS,
    decision_text,
    decisions,
    reason_category,
    scheduled_condition,
    snapshot_status,
    unselected_counts,
)
from scorer.placement.schedule import hold
from tests.scorer.builders import (
    NODES,
    NOW,
    bindings_for,
    held,
    make_cluster,
    members,
    modest,
    obsolete,
    pick_fixed,
    pick_n,
    pick_n_policies,
    policy,
    prefer,
    run,
    spread,
)

LATER = NOW + timedelta(hours=1)


def names(schedule, *, selected=None):
    return [entry["clusterName"] for entry in decisions(schedule) if selected in (None, entry["selected"])]


def numbered(count, first=0, **facts):
    return [make_cluster(f"port-{number:04}", **facts) for number in range(first, first + count)]


def test_order_new_by_rank_kept_by_name_losers_by_rank_filtered_by_name():
    clusters = [
        *(
            make_cluster(name, properties={NODES: nodes})
            for name, nodes in [("a", "9"), ("b", "5"), ("c", "7"), ("d", "1")]
        ),
        make_cluster("k2"),
        make_cluster("k1"),
        make_cluster("z", heartbeat=None),
        make_cluster("y", taints=[("gpu", "")]),
    ]
    judged = run(pick_n(4, preferred=[prefer(100, NODES)]), clusters, [held("k2", name="1"), held("k1", name="2")])
    assert names(judged, selected=True) == ["a", "c", "k1", "k2"]
    assert names(judged, selected=False) == ["b", "d", "y", "z"]


def test_what_an_entry_says():
    clusters = [
        make_cluster("a", labels={"region": "n"}, properties={NODES: "9"}),
        make_cluster("b", labels={"region": "n"}, properties={NODES: "1"}),
        make_cluster("c", taints=[("gpu", "")]),
    ]
    judged = run(pick_n(1, preferred=[prefer(40, NODES)], constraints=[spread("region")]), clusters)
    assert decisions(judged) == [
        {
            "clusterName": "a",
            "selected": True,
            "clusterScore": {"affinityScore": 40, "priorityScore": -1},
            "reason": "Scheduled to a, affinity score 40, topology spread score -1",
        },
        {
            "clusterName": "b",
            "selected": False,
            "clusterScore": {"affinityScore": 0, "priorityScore": -1},
            "reason": "ScoreTooLow: b did not score high enough (affinity 0, topology spread -1)",
        },
        {
            "clusterName": "c",
            "selected": False,
            "reason": "TaintNotTolerated: taint gpu:NoSchedule not tolerated",
        },
    ]


def test_pick_fixed_entries_have_no_scores():
    clusters = [make_cluster("a"), make_cluster("b", heartbeat=14 * timedelta(minutes=1)), make_cluster("c")]
    judged = run(pick_fixed("nowhere", "b", "a", "c"), clusters, [held("c")])
    assert names(judged) == ["a", "c", "b", "nowhere"]
    assert not any("clusterScore" in entry for entry in decisions(judged))
    assert [reason_category(entry) for entry in decisions(judged)[2:]] == ["HeartbeatStale", "TargetNotFound"]
    assert "14m" in decisions(judged)[2]["reason"]


def test_a_kept_cluster_shows_the_scores_of_its_pick():
    judged = run(pick_n(1), [make_cluster("a")], [held("a", topology=-1, affinity=55)])
    (entry,) = decisions(judged)
    assert entry["clusterScore"] == {"affinityScore": 55, "priorityScore": -1}


def test_at_most_20_unselected_losers_first():
    clusters = numbered(15) + numbered(15, 100, heartbeat=None)
    judged = run(pick_n(3), clusters)
    unselected = names(judged, selected=False)
    assert unselected == [f"port-{number:04}" for number in [*range(11, -1, -1), *range(100, 108)]]
    assert len(names(judged)) == 23


def test_selected_clusters_use_no_slot_of_the_unselected():
    """Taken clusters that fail a filter are refused inside, and not listed (DV-8)."""
    clusters = numbered(10, heartbeat=None) + numbered(25, 100, heartbeat=None)
    bindings = [held(f"port-{number:04}") for number in range(10)]
    judged = run(pick_n(40), clusters, bindings)
    assert len(names(judged, selected=True)) == 10
    assert names(judged, selected=False) == [f"port-{number:04}" for number in range(100, 120)]


@pytest.mark.parametrize(
    ("fleet", "number", "selected", "unselected"),
    [
        pytest.param(1010, 1005, 1000, 0, id="selected-only"),
        pytest.param(1010, 990, 990, 10, id="what-is-left"),
        pytest.param(1010, 970, 970, 20, id="room-for-all-twenty"),
    ],
)
def test_at_most_1000_entries(fleet, number, selected, unselected):
    judged = run(pick_n(number), numbered(fleet))
    assert len(names(judged, selected=True)) == selected
    assert len(names(judged, selected=False)) == unselected
    assert len(decisions(judged)) <= MOST_DECISIONS


def test_pick_fixed_lists_all_that_were_missed():
    judged = run(pick_fixed(*(f"port-{number}" for number in range(60))), [])
    assert len(decisions(judged)) == 60


def test_runs_without_scheduling_record_selected_clusters_only():
    clusters = [*numbered(4), make_cluster("z", heartbeat=None)]
    bindings = [held(f"port-{number:04}") for number in range(3)]
    for number in (3, 2):
        judged = run(pick_n(number), clusters, bindings)
        assert names(judged, selected=False) == []
        assert len(names(judged)) == number


@given(data=st.data())
@modest(50)
def test_records_name_each_cluster_once_and_fit_the_api(data):
    clusters = data.draw(members(14))
    judged = run(data.draw(pick_n_policies()), clusters, data.draw(bindings_for(clusters)))
    recorded = decisions(judged)
    found = [entry["clusterName"] for entry in recorded]
    assert len(found) == len(set(found))
    assert [entry["clusterName"] for entry in recorded if entry["selected"]] == found[: judged.selected_count]
    if judged.last is not None:
        dropped = {binding.cluster for binding in judged.dropped}
        assert set(found) >= set(judged.fleet.names) - dropped
        for entry in recorded[judged.selected_count :]:
            assert ("clusterScore" in entry) is (reason_category(entry) == "ScoreTooLow")
    PolicySnapshotStatus.read({"targetClusters": recorded})
    counts = unselected_counts(judged)
    if judged.last is not None:
        assert sum(counts.values()) == len(clusters) - judged.selected_count


# The condition


@pytest.mark.parametrize(
    ("wanted", "bindings", "expected"),
    [
        pytest.param(policy(), [], ("True", "SchedulingPolicyFulfilled", ["3 clusters"]), id="pick-all"),
        pytest.param(pick_n(1), [], ("True", "SchedulingPolicyFulfilled", ["1 cluster"]), id="one"),
        pytest.param(
            pick_n(7),
            [],
            (
                "False",
                "SchedulingPolicyUnfulfilled",
                ["found 3 of 7", "3 of 6", "2 HeartbeatStale, 1 TaintNotTolerated"],
            ),
            id="short",
        ),
        pytest.param(pick_fixed("a"), [], ("True", "SchedulingPolicyFulfilled", ["1 cluster"]), id="fixed"),
        pytest.param(
            pick_fixed("a", "x", "silent"),
            [],
            ("False", "SchedulingPolicyUnfulfilled", ["found 1 of 3", "2 of 3", "1 HeartbeatStale, 1 TargetNotFound"]),
            id="fixed-short",
        ),
        pytest.param(
            pick_fixed(), [obsolete("a")], ("True", "SchedulingPolicyFulfilled", ["0 clusters"]), id="DV-6-nowhere"
        ),
        pytest.param(pick_n(0), [], ("True", "SchedulingPolicyFulfilled", ["0 clusters"]), id="none-wanted"),
        pytest.param(pick_n(1), [held("a")], ("True", "SchedulingPolicyFulfilled", ["1 cluster"]), id="kept"),
    ],
)
def test_condition(wanted, bindings, expected):
    clusters = [
        *(make_cluster(name) for name in "abc"),
        make_cluster("silent", heartbeat=None),
        make_cluster("mute", heartbeat=None),
        make_cluster("tainted", taints=[("gpu", "")]),
    ]
    status, reason, words = expected
    found = scheduled_condition(run(wanted, clusters, bindings))
    assert found[:2] == (status, reason)
    assert all(word in found[2] for word in words), found[2]


def test_condition_of_an_invalid_policy():
    held_ = hold(
        "spec.policy.x: 'y' is wrong", Fleet.of([make_cluster("a"), make_cluster("b")]), [held("b"), obsolete("a")], NOW
    )
    status, reason, message = scheduled_condition(held_)
    assert (status, reason) == ("False", "SchedulingPolicyInvalid")
    assert "spec.policy.x: 'y' is wrong" in message
    assert [(entry["clusterName"], entry["selected"]) for entry in decisions(held_)] == [("a", True), ("b", True)]


# The status of the snapshot


def snapshot(status=None, generation=1):
    return {"metadata": {"name": "payments-0", "generation": generation}} | (
        {} if status is None else {"status": status}
    )


CLUSTERS = [*numbered(4), make_cluster("z", heartbeat=None)]


def test_first_status():
    status = snapshot_status(run(pick_n(2), CLUSTERS), snapshot(generation=3), 5, NOW)
    assert status["observedCRPGeneration"] == 5
    assert [entry["clusterName"] for entry in status["targetClusters"]] == [
        "port-0003",
        "port-0002",
        "port-0001",
        "port-0000",
        "z",
    ]
    (condition,) = status["conditions"]
    assert condition["type"] == "Scheduled"
    assert condition["observedGeneration"] == 3
    assert condition["lastTransitionTime"] == "2026-11-20T12:00:00Z"


@pytest.mark.parametrize("wanted", [pick_n(0), pick_fixed(), policy(), pick_n(2), pick_fixed("a")])
@pytest.mark.parametrize("clusters", [[], CLUSTERS])
def test_a_second_run_returns_the_stored_status(wanted, clusters):
    first = run(wanted, clusters)
    status = snapshot_status(first, snapshot(), 1, NOW)
    bindings = [held(pick.cluster, topology=pick.topology, affinity=pick.affinity) for pick in first.picked]
    if wanted["placementType"] == "PickFixed":
        bindings = [held(pick.cluster) for pick in first.picked]
    again = run(wanted, clusters, bindings)
    assert snapshot_status(again, snapshot(copy.deepcopy(status)), 1, LATER) == status


def test_a_run_with_nothing_to_do_keeps_the_earlier_record_of_losers():
    first = run(pick_n(2), CLUSTERS)
    status = snapshot_status(first, snapshot(), 1, NOW)
    bindings = [held(pick.cluster, topology=0, affinity=0) for pick in first.picked]
    again = snapshot_status(run(pick_n(2), CLUSTERS, bindings), snapshot(status), 2, LATER)
    assert again["targetClusters"] == status["targetClusters"]
    assert again["observedCRPGeneration"] == 2


def test_a_run_with_nothing_to_do_replaces_a_record_of_other_clusters():
    status = snapshot_status(run(pick_n(2), CLUSTERS), snapshot(), 1, NOW)
    again = snapshot_status(run(pick_n(1), CLUSTERS, [held("port-0000")]), snapshot(status), 1, NOW)
    assert [entry["clusterName"] for entry in again["targetClusters"]] == ["port-0000"]


def test_the_first_run_with_nothing_to_do():
    """No cluster is wanted and nothing was ever recorded."""
    status = snapshot_status(run(pick_n(0), CLUSTERS), snapshot(), 1, NOW)
    assert status["targetClusters"] == []
    assert status["conditions"][0]["status"] == "True"


def test_the_order_of_decisions_alone_rewrites_nothing():
    judged = run(pick_n(2), CLUSTERS)
    status = snapshot_status(judged, snapshot(), 1, NOW)
    shuffled = {**status, "targetClusters": status["targetClusters"][::-1]}
    assert snapshot_status(judged, snapshot(shuffled), 1, LATER) == shuffled


def test_a_transition_keeps_other_conditions_and_moves_the_time():
    other = {"type": "Other", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    status = snapshot_status(run(pick_n(9), CLUSTERS), snapshot({"conditions": [other]}), 1, NOW)
    assert [entry["type"] for entry in status["conditions"]] == ["Scheduled", "Other"]
    more = snapshot_status(run(pick_n(9), CLUSTERS[:2]), snapshot(status), 1, LATER)
    assert more["conditions"][0]["message"] != status["conditions"][0]["message"]
    assert more["conditions"][0]["lastTransitionTime"] == "2026-11-20T12:00:00Z"
    met = snapshot_status(run(pick_n(1), CLUSTERS), snapshot(more), 1, LATER)
    assert met["conditions"][0]["lastTransitionTime"] == "2026-11-20T13:00:00Z"
    assert met["conditions"][1] == other


@pytest.mark.parametrize(
    ("wanted", "bindings", "text"),
    [
        pytest.param(pick_fixed("a", "b"), [], "picked a, b; found all clusters needed: 2 clusters", id="new"),
        pytest.param(pick_fixed("a"), [held("a")], "", id="nothing-moves"),
        pytest.param(pick_fixed("a"), [obsolete("a")], "", id="kept-under-a-new-policy"),
        pytest.param(
            pick_fixed("a"),
            [held("a"), obsolete("b")],
            "dropped b; found all clusters needed: 1 cluster",
            id="one-less",
        ),
        pytest.param(
            pick_n(2, preferred=[prefer(30)]),
            [held("a")],
            "picked c (affinity 30); found all clusters needed: 2 clusters",
            id="scored",
        ),
    ],
)
def test_a_decision_is_told_by_what_it_moves(wanted, bindings, text):
    assert decision_text(run(wanted, [make_cluster(name) for name in "abc"], bindings)) == text
