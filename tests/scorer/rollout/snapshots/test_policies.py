"""Policy snapshots: one per policy, the number of clusters beside it."""

from base64 import b64encode
from dataclasses import replace

import pytest

from scorer.api.names import CLUSTERS_HELD
from scorer.api.placement.snapshots import ClusterSchedulingPolicySnapshot
from scorer.api.unstructured.documents import annotation, is_labelled_latest, with_metadata
from scorer.rollout.snapshots.clusters_held import ClustersHeld
from scorer.rollout.snapshots.policies import plan_policy_snapshots
from scorer.rollout.writes import Verb

LATEST = "kubernetes-fleet.io/is-latest-snapshot"


def make_placement(generation=1, number=3, limit=10, namespace=""):
    metadata = {"name": "shop", "uid": "u", "generation": generation} | ({"namespace": namespace} if namespace else {})
    policy = {"placementType": "PickN", "numberOfClusters": number}
    return {
        "apiVersion": "v",
        "kind": "K",
        "metadata": metadata,
        "spec": {"policy": policy, "revisionHistoryLimit": limit},
    }


def apply(stored, plan):
    assert not plan.error
    for write in plan.writes:
        if write.verb is Verb.DELETE:
            del stored[write.name]
        else:
            stored[write.name] = write.document
    return plan


def run(stored, placement, digest):
    return apply(stored, plan_policy_snapshots(placement, list(stored.values()), digest))


def test_a_first_snapshot():
    stored = {}
    plan = run(stored, make_placement(), "d1")
    document = stored["shop-0"]
    assert (plan.name, plan.index) == ("shop-0", 0)
    assert document["kind"] == "ClusterSchedulingPolicySnapshot"
    assert document["spec"] == {"policy": {"placementType": "PickN"}, "policyHash": b64encode(b"d1").decode()}
    assert document["metadata"]["labels"] == {
        "kubernetes-fleet.io/parent-CRP": "shop",
        LATEST: "true",
        "kubernetes-fleet.io/policy-index": "0",
    }
    assert document["metadata"]["annotations"] == {
        "kubernetes-fleet.io/CRP-generation": "1",
        "kubernetes-fleet.io/number-of-clusters": "3",
    }
    ClusterSchedulingPolicySnapshot.read(document)
    assert run(stored, make_placement(), "d1").writes == ()


def test_scaling_only_updates_the_annotations():
    stored = {}
    run(stored, make_placement(), "d1")
    plan = run(stored, make_placement(generation=2, number=5), "d1")
    assert [(write.verb, write.name) for write in plan.writes] == [(Verb.REPLACE, "shop-0")]
    assert stored["shop-0"]["metadata"]["annotations"]["kubernetes-fleet.io/number-of-clusters"] == "5"
    assert run(stored, make_placement(generation=2, number=5), "d1").writes == ()


def test_another_policy_makes_the_next_index_and_trims():
    stored = {}
    for digest in ("a", "b", "a", "c"):
        run(stored, make_placement(limit=2), digest)
    assert sorted(stored) == ["shop-2", "shop-3"]
    assert [document["metadata"]["labels"][LATEST] for document in stored.values()] == ["false", "true"]
    run(stored, make_placement(limit=1), "d")
    assert list(stored) == ["shop-4"]


def test_a_snapshot_that_holds_the_policy_stays_by_whatever_hash():
    """KubeFleet hashes the fields of a policy in another order."""
    stored = {}
    run(stored, make_placement(), "theirs")
    assert plan_policy_snapshots(make_placement(), list(stored.values()), "ours").name == "shop-1"
    plan = plan_policy_snapshots(make_placement(), list(stored.values()), "ours", in_force="shop-0")
    assert (plan.writes, plan.name) == ((), "shop-0")


def test_a_crash_after_the_relabelling_is_made_good():
    stored = {}
    run(stored, make_placement(), "a")
    plan = plan_policy_snapshots(make_placement(), list(stored.values()), "b")
    stored[plan.writes[0].name] = plan.writes[0].document
    assert run(dict(stored), make_placement(), "b").name == "shop-1"
    back = run(stored, make_placement(), "a")
    assert (back.name, stored["shop-0"]["metadata"]["labels"][LATEST]) == ("shop-0", "true")


def test_two_latest_snapshots_stop_everything():
    stored = {}
    run(stored, make_placement(), "a")
    twin = {**stored["shop-0"], "metadata": {**stored["shop-0"]["metadata"], "name": "shop-7"}}
    plan = plan_policy_snapshots(make_placement(), [*stored.values(), twin], "b")
    assert plan.writes == ()
    assert "shop-0, shop-7" in plan.error


def test_a_policy_that_stops_being_pick_n_loses_its_number():
    stored = {}
    placement = make_placement(namespace="x")
    run(stored, placement, "a")
    assert (stored["shop-0"]["kind"], stored["shop-0"]["metadata"]["namespace"]) == ("SchedulingPolicySnapshot", "x")
    without = {**placement, "spec": {}}
    run(stored, without, "a")
    assert stored["shop-0"]["metadata"]["annotations"] == {"kubernetes-fleet.io/CRP-generation": "1"}
    assert run(stored, without, "b").writes[-1].document["spec"].keys() == {"policyHash"}


HELD = '{"counts":[["2026-11-29T12:00:00Z",9]],"confirmed":{}}'


@pytest.mark.parametrize("limit", [1, 2])
def test_the_record_of_clusters_outlives_the_history(limit):
    stored = {}
    run(stored, make_placement(limit=limit), "first")
    (first,) = stored.values()
    stored[first["metadata"]["name"]] = with_metadata(first, annotations={CLUSTERS_HELD: HELD})
    for number in range(4):
        run(stored, make_placement(limit=limit), f"later-{number}")
        assert len(stored) == min(limit, number + 2)
        (latest,) = filter(is_labelled_latest, stored.values())
        assert annotation(latest, CLUSTERS_HELD) == HELD


@pytest.mark.parametrize("writes", range(4))
def test_the_record_of_clusters_survives_a_crash(writes):
    stored = {}
    run(stored, make_placement(limit=1), "first")
    (first,) = stored.values()
    stored[first["metadata"]["name"]] = with_metadata(first, annotations={CLUSTERS_HELD: HELD})
    plan = plan_policy_snapshots(make_placement(limit=1), list(stored.values()), "second")
    assert len(plan.writes) == 3
    apply(stored, replace(plan, writes=plan.writes[:writes]))
    assert ClustersHeld.of(stored.values()).largest == 9
    run(stored, make_placement(limit=1), "second")
    (latest,) = filter(is_labelled_latest, stored.values())
    assert annotation(latest, CLUSTERS_HELD) == HELD
