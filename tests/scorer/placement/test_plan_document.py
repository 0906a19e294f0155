"""The plan of the command line: what a run would do, as one document."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.names import IS_LATEST_SNAPSHOT, PARENT_PLACEMENT
from scorer.fleet import Fleet
from scorer.placement.plan_document import children_of, decide, plan_entry
from tests.scorer.builders import (
    NODES,
    NOW,
    bindings_for,
    has,
    make_cluster,
    members,
    modest,
    pick_fixed,
    pick_n,
    pick_n_policies,
    policy,
    prefer,
    run,
    spread,
    term,
)


def placement(name, wanted, namespace=""):
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"metadata": metadata, "spec": {"policy": wanted} if wanted is not None else {}}


def plan(placements, fleet, bindings, snapshots, now):
    """Return the entries of *placements*."""
    return [
        plan_entry(one, decide(one, fleet, children_of(one, bindings), children_of(one, snapshots), now))
        for one in placements
    ]


def binding(cluster, parent="payments", state="Bound", snapshot="payments-0", namespace="", score=None):
    metadata = {"name": f"b-{cluster}", "labels": {PARENT_PLACEMENT: parent}}
    decision = {"clusterName": cluster, "selected": True, "reason": ""} | ({"clusterScore": score} if score else {})
    spec = {
        "state": state,
        "targetCluster": cluster,
        "schedulingPolicySnapshotName": snapshot,
        "clusterDecision": decision,
    }
    return {"metadata": metadata | ({"namespace": namespace} if namespace else {}), "spec": spec}


def snapshot(wanted, name="payments-0", parent="payments", latest="true"):
    return {
        "metadata": {"name": name, "labels": {PARENT_PLACEMENT: parent, IS_LATEST_SNAPSHOT: latest}},
        "spec": {"policy": wanted},
    }


FLEET = Fleet.of(
    [
        make_cluster("a", labels={"region": "n"}, properties={NODES: "9"}),
        make_cluster("b", labels={"region": "n"}, properties={NODES: "5"}),
        make_cluster("c", labels={"region": "s"}, properties={NODES: "1"}),
        make_cluster("d", labels={"region": "s"}, heartbeat=None),
    ]
)


def test_one_entry():
    wanted = pick_n(2, preferred=[prefer(100, NODES)], constraints=[spread("region")])
    documents = [binding("gone"), binding("b", score={"affinityScore": 50, "priorityScore": -1})]
    (entry,) = plan([placement("payments", wanted)], FLEET, documents, [], NOW)
    assert entry == {
        "name": "payments",
        "namespace": "",
        "type": "PickN",
        "wanted": 2,
        "picked": [
            {"cluster": "c", "rank": 1, "new": True, "score": {"topologySpread": 1, "affinity": 0}},
            {"cluster": "b", "rank": 2, "new": False, "score": {"topologySpread": -1, "affinity": 50}},
        ],
        "notPicked": [],
        "filtered": entry["filtered"],
        "dropped": [{"cluster": "gone", "binding": "b-gone"}],
        "satisfied": True,
        "message": "found all clusters needed: 2 clusters",
    }
    assert [(one["cluster"], one["plugin"], one["reason"].partition(":")[0]) for one in entry["filtered"]] == [
        ("a", "TopologySpreadConstraints", "TopologySpreadViolated"),
        ("d", "ClusterEligibility", "HeartbeatStale"),
    ]


def test_losers_and_unknown_targets():
    entries = plan(
        [placement("n", pick_n(1)), placement("fixed", pick_fixed("a", "x")), placement("all", None)],
        FLEET,
        [],
        [],
        NOW,
    )
    assert [entry["type"] for entry in entries] == ["PickN", "PickFixed", "PickAll"]
    assert [entry["wanted"] for entry in entries] == [1, 2, None]
    assert [loser["cluster"] for loser in entries[0]["notPicked"]] == ["b", "a"]
    assert entries[1]["filtered"] == [
        {"cluster": "x", "plugin": "PickFixed", "reason": "TargetNotFound: there is no member cluster of this name"}
    ]
    assert [entry["satisfied"] for entry in entries] == [True, False, True]


def test_an_invalid_policy_is_explained():
    wanted = pick_n(3, required=[term(properties=[has(NODES, "About", "5")])])
    (entry,) = plan([placement("payments", wanted)], FLEET, [binding("a")], [], NOW)
    assert (entry["type"], entry["satisfied"]) == ("PickN", False)
    assert "About" in entry["message"]
    assert [pick["cluster"] for pick in entry["picked"]] == ["a"]
    assert entry["filtered"] == entry["notPicked"] == entry["dropped"] == []


def test_bindings_and_snapshots_belong_to_their_placement():
    documents = [
        binding("a"),
        binding("b", parent="other"),
        binding("c", namespace="shop"),
        {"metadata": {"name": "stray"}, "spec": {}},
    ]
    entries = plan(
        [placement("payments", pick_n(1)), placement("payments", pick_n(1), "shop")], FLEET, documents, [], NOW
    )
    assert [[pick["cluster"] for pick in entry["picked"]] for entry in entries] == [["a"], ["c"]]
    assert entries[1]["namespace"] == "shop"


OLD = pick_n(2, preferred=[prefer(1)])


@pytest.mark.parametrize(
    ("snapshots", "classes"),
    [
        pytest.param([], (["a"], []), id="no-snapshots-all-current"),
        pytest.param([snapshot(pick_n(5))], (["a"], []), id="same-policy-but-the-number"),
        pytest.param([snapshot(OLD)], ([], ["a"]), id="policy-changed"),
        pytest.param([snapshot(pick_n(2), latest="false")], ([], ["a"]), id="not-the-latest"),
        pytest.param([snapshot(OLD), snapshot(pick_n(2), "payments-1")], ([], ["a"]), id="made-under-an-earlier-one"),
        pytest.param(
            [snapshot(OLD, "payments-7", latest="false"), snapshot(pick_n(2))], (["a"], []), id="made-under-the-latest"
        ),
    ],
)
def test_the_latest_snapshot_decides_which_bindings_are_current(snapshots, classes):
    decided = decide(placement("payments", pick_n(2)), FLEET, [binding("a")], snapshots, NOW)
    holdings = decided.holdings
    assert ([held.cluster for held in holdings.taken], [held.cluster for held in holdings.obsolete]) == classes


def test_a_namespaced_placement_is_judged_by_its_namespace():
    fleet = Fleet.of([make_cluster("a", collects="True", namespaces=["till"])])
    (entry,) = plan([placement("payments", policy(), "shop")], fleet, [], [], NOW)
    assert entry["filtered"][0]["plugin"] == "NamespaceAffinity"


def test_a_cluster_picked_again_under_another_policy_is_not_new():
    held = [binding("a"), binding("gone")]
    (entry,) = plan([placement("payments", pick_n(2))], FLEET, held, [snapshot(OLD)], NOW)
    assert {pick["cluster"]: pick["new"] for pick in entry["picked"]} == {"a": False, "c": True}


@given(data=st.data())
@modest(50)
def test_an_entry_accounts_for_every_cluster_once_whatever_the_order(data):
    clusters = data.draw(members())
    bindings = data.draw(bindings_for(clusters))
    wanted = data.draw(pick_n_policies())
    entry = plan_entry(placement("payments", wanted), run(wanted, clusters, bindings))
    again = run(wanted, data.draw(st.permutations(clusters)), data.draw(st.permutations(bindings)))
    assert json.dumps(plan_entry(placement("payments", wanted), again)) == json.dumps(entry)
    parts = [[one["cluster"] for one in entry[part]] for part in ("picked", "notPicked", "filtered")]
    seen = [name for part in parts for name in part]
    assert len(seen) == len(set(seen))
    assert [pick["rank"] for pick in entry["picked"]] == list(range(1, len(entry["picked"]) + 1))
    if any(pick["new"] for pick in entry["picked"]):
        assert set(seen) == {cluster.metadata.name for cluster in clusters}
