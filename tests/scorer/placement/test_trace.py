"""The trace: its numbers are those of the decision, and every cluster is explained (scheduling.md 22)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.columns import round_half_away
from scorer.fleet import Fleet
from scorer.placement.schedule import hold
from scorer.placement.trace import explain
from scorer.properties import read_property
from tests.scorer.builders import (
    CONSTRAINTS,
    COST,
    NODES,
    NOW,
    PREFERENCES,
    SCHEDULED,
    UNSCHEDULED,
    bindings_for,
    has,
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
    term,
)

FILTER_OF = {
    "AffinityMismatch": "affinity",
    "NamespaceDataMissing": "namespace",
    "NamespaceMissing": "namespace",
    "TaintNotTolerated": "taints",
    "TopologySpreadViolated": "topology",
}

CANDIDATES = ("Picked", "Kept", "ScoreTooLow", "NotNeeded", "Dropped")


def by_name(items):
    return {item["cluster"]: item for item in items}


@st.composite
def runs(draw, most=10):
    """Draw a run; in every other one the clusters are healthy, some are taken, and there are losers."""
    if draw(st.booleans()):
        clusters = draw(members(most))
        return run(draw(pick_n_policies(6)), clusters, draw(bindings_for(clusters)))
    clusters = draw(members(most, ill=False))
    taken = (
        draw(st.lists(st.sampled_from(clusters), max_size=3, unique_by=lambda one: one.metadata.name))
        if clusters
        else []
    )
    bindings = [
        held(cluster.metadata.name, topology=draw(st.integers(-1, 1)), affinity=draw(st.integers(0, 90)))
        for cluster in taken
    ]
    constraints = draw(st.lists(CONSTRAINTS, max_size=1))
    wanted = draw(st.integers(1, 4))
    preferred = draw(st.lists(PREFERENCES, min_size=1, max_size=2))
    return run(pick_n(wanted, preferred=preferred, constraints=constraints), clusters, bindings)


@given(runs())
@modest(60)
def test_every_cluster_is_explained_exactly_once(judged):
    """Those of the fleet, and those that are gone and have just lost the placement."""
    lost = {binding.cluster for binding in judged.dropped}
    assert sorted(item["cluster"] for item in explain(judged)) == sorted({*judged.fleet.names, *lost})


def members_of_the_fleet(judged):
    return [item for item in explain(judged) if judged.fleet.row(item["cluster"]) is not None]


@given(runs())
@modest(60)
def test_points_add_up_to_the_scores_of_the_run(judged):
    scores = {pick.cluster: (pick.topology, pick.affinity) for pick in judged.picked}
    if judged.last is not None:
        scores |= {lost.cluster: (lost.topology, lost.affinity) for lost in judged.last.unselected()}
    for item in members_of_the_fleet(judged):
        parts = [(item["affinity"]["score"], item["affinity"]["terms"])]
        if "topology" in item:
            parts.append((item["topology"]["score"], item["topology"]["constraints"]))
        for score, entries in parts:
            assert score == sum(entry["points"] for entry in entries), item
        if item["cluster"] in scores:
            assert (item.get("topology", {"score": 0})["score"], item["affinity"]["score"]) == scores[item["cluster"]]


@given(runs())
@modest(60)
def test_ranks_reproduce_the_order(judged):
    items = explain(judged)
    ranked = [item for item in items if item["rank"] is not None]
    assert items[: len(ranked)] == ranked
    assert [item["rank"] for item in ranked] == list(range(1, len(ranked) + 1))
    verdicts = [item["verdict"] for item in ranked]
    assert verdicts == sorted(verdicts, key=["Picked", "Kept", "ScoreTooLow", "NotNeeded"].index)
    assert [item["cluster"] for item in ranked[: len(judged.picked)]] == [pick.cluster for pick in judged.picked]
    assert [item["batch"] for item in ranked[: len(judged.picked)]] == [pick.batch for pick in judged.picked]

    def keys(item):
        return item.get("topology", {"score": 0})["score"], item["affinity"]["score"], item["tieBonus"], item["cluster"]

    losers = [keys(item) for item in ranked if item["verdict"] in ("ScoreTooLow", "NotNeeded")]
    assert losers == sorted(losers, reverse=True)
    if not judged.request.profile.spread.constraints:
        picked = [keys(item) for item in ranked if item["verdict"] == "Picked"]
        assert picked + losers == sorted(picked + losers, reverse=True)


@given(runs())
@modest(60)
def test_the_gap_names_the_first_key_that_differs_from_the_last_picked(judged):
    if not judged.picked:
        return
    last = judged.picked[-1]
    losers = {lost.cluster: lost for lost in judged.last.unselected()}
    for item in explain(judged):
        if item["verdict"] != "ScoreTooLow":
            assert "gap" not in item
            continue
        lost = losers[item["cluster"]]
        pairs = [
            ("topologySpread", lost.topology, last.topology),
            ("affinity", lost.affinity, last.affinity),
            ("tieBonus", int(lost.bonus), int(last.bonus)),
        ]
        decided = next(((key, own - other) for key, own, other in pairs if own != other), ("name", 0))
        assert item["gap"] == {"toLastPicked": last.cluster, "decidedBy": decided[0], "difference": decided[1]}
        assert decided[1] < 0 or (decided[0] == "name" and item["cluster"] < last.cluster)
        assert item["reason"].startswith("ScoreTooLow: ")


@given(runs())
@modest(60)
def test_the_range_names_clusters_that_have_the_smallest_and_largest_value(judged):
    fleet = judged.fleet
    items = by_name(members_of_the_fleet(judged))
    for item in items.values():
        for entry in item["affinity"]["terms"]:
            sorter = entry.get("sorter")
            if sorter is None:
                continue
            readings = {member.metadata.name: read_property(member, sorter["name"]) for member in fleet.members}
            known = {name: found.quantity for name, found in readings.items() if found and found.quantity}
            if not known:
                assert sorter["note"]
                continue
            for side, pick in (("min", min), ("max", max)):
                shown = sorter[side]
                assert known[shown["cluster"]] == pick(known.values())
                assert shown["value"] == readings[shown["cluster"]].text
                other = items[shown["cluster"]]
                matches = other.get("binding", {}).get("wouldStillMatch", True)
                assert shown["eligible"] is (other["verdict"] in CANDIDATES and matches)
            own = readings[item["cluster"]]
            assert sorter["observed"] == (own and own.text)
            assert sorter.get("missing", False) is (own is None)
            assert sorter.get("unreadable", False) is (own is not None and own.quantity is None)
            if "ratio" in sorter:
                assert 0 <= sorter["ratio"] <= 1
                assert abs(sorter["raw"] - sorter["ratio"] * entry["weight"]) < 1e-3
                gated = entry.get("labels", {"pass": True})["pass"]
                assert not gated or abs(sorter["raw"] - entry["points"]) <= 0.5 + 1e-6
            else:
                assert entry["points"] == 0


@given(runs())
@modest(60)
def test_the_verdict_of_a_refused_cluster_is_its_first_failing_filter(judged):
    for item in members_of_the_fleet(judged):
        failing = [entry["name"] for entry in item["filters"] if not entry["pass"]]
        if item["verdict"] in ("Picked", "ScoreTooLow", "NotNeeded"):
            assert failing == []
        elif item["verdict"] not in ("Kept", "Dropped"):
            assert failing[0] == FILTER_OF.get(item["verdict"], "eligibility")
            assert item["reason"].startswith(f"{item['verdict']}: ")


@given(runs())
@modest(60)
def test_kept_clusters_say_what_they_hold_and_whether_they_would_match(judged):
    kept = {binding.cluster: binding for binding in judged.kept}
    for item in explain(judged):
        assert (item["verdict"] == "Kept") is (item["cluster"] in kept)
        if item["verdict"] != "Kept":
            continue
        binding = kept[item["cluster"]]
        assert item["binding"]["name"] == binding.name
        assert item["binding"]["state"] == str(binding.state)
        assert item["binding"]["wouldStillMatch"] is all(
            entry["pass"] for entry in item["filters"] if entry["name"] != "topology"
        )
        assert ("recordedScore" in item["binding"]) is (binding.affinity is not None)


@given(data=st.data())
@modest(40)
def test_names_choose_what_is_explained_and_change_nothing_else(data):
    judged = data.draw(runs())
    everything = by_name(explain(judged))
    names = data.draw(st.lists(st.sampled_from(judged.fleet.names), unique=True)) if len(judged.fleet) else []
    assert by_name(explain(judged, names)) == {name: everything[name] for name in everything if name in names}


def test_the_example_of_the_specification():
    """A loser with a filter of two terms, a cost sorter and a spread constraint."""
    clusters = [
        make_cluster(
            "dover",
            labels={"region": "north", "tier": "1"},
            properties={NODES: "4", COST: "0.048"},
            taints=[("dry-dock", "")],
        ),
        make_cluster("genoa", labels={"region": "south", "tier": "1"}, properties={NODES: "9", COST: "0.040"}),
        make_cluster("faro", labels={"region": "south"}, properties={COST: "0.031"}, heartbeat=None),
        make_cluster("oslo", labels={"region": "north"}, properties={COST: "0.076"}, heartbeat=None),
    ]
    wanted = pick_n(
        1,
        required=[term(properties=[has(NODES, "Ge", "5")]), term({"tier": "1"})],
        preferred=[prefer(20, COST, "Ascending")],
        constraints=[spread("region")],
        tolerations=[{"key": "dry-dock", "operator": "Exists"}],
    )
    items = explain(run(wanted, clusters))
    dover = by_name(items)["dover"]
    assert [item["cluster"] for item in items] == ["genoa", "dover", "faro", "oslo"]
    assert (dover["verdict"], dover["rank"]) == ("ScoreTooLow", 2)
    affinity, eligibility, taints, topology = dover["filters"]
    assert affinity["terms"][0]["match"] is False
    assert affinity["terms"][0]["properties"] == [
        {"name": NODES, "op": "Ge", "want": "5", "observed": "4", "age": "41s", "pass": False}
    ]
    assert affinity["terms"][1]["match"] is True
    assert (affinity["pass"], eligibility["pass"], taints["pass"], topology["pass"]) == (True, True, True, True)
    assert eligibility["heartbeatAge"] == "23s"
    assert taints["tolerated"] == [{"taint": "dry-dock:NoSchedule", "by": 0}]
    (constraint,) = dover["topology"]["constraints"]
    shown = {key: constraint[key] for key in ("key", "domain", "counts", "skew", "change", "maxSkew", "points")}
    assert shown == {
        "key": "region",
        "domain": "north",
        "counts": {"north": 0, "south": 0},
        "skew": 0,
        "change": 1,
        "maxSkew": 1,
        "points": -1,
    }
    (entry,) = dover["affinity"]["terms"]
    assert entry["sorter"] == {
        "name": COST,
        "order": "Ascending",
        "observed": "0.048",
        "age": "41s",
        "min": {"value": "0.031", "cluster": "faro", "eligible": False, "age": "41s"},
        "max": {"value": "0.076", "cluster": "oslo", "eligible": False, "age": "41s"},
        "ratio": 0.622222,
        "raw": 12.444444,
        "points": 12,
    }
    assert dover["affinity"]["score"] == 12
    assert dover["tieBonus"] is False
    assert dover["gap"] == {"toLastPicked": "genoa", "decidedBy": "affinity", "difference": -4}
    assert round_half_away(round(20 * 0.8, 9)) == 16  # what genoa earns


def test_losers_are_compared_with_the_last_one_picked_not_with_kept_ones():
    clusters = [
        make_cluster(name, properties={NODES: nodes})
        for name, nodes in [("a", "1"), ("b", "50"), ("c", "90"), ("d", "100")]
    ]
    kept = held("a", topology=0, affinity=70)
    items = by_name(explain(run(pick_n(2, preferred=[prefer(100, NODES)]), clusters, [kept])))
    assert [items[name]["verdict"] for name in "abcd"] == ["Kept", "ScoreTooLow", "ScoreTooLow", "Picked"]
    assert items["c"]["gap"] == {"toLastPicked": "d", "decidedBy": "affinity", "difference": -10}
    assert items["b"]["gap"] == {"toLastPicked": "d", "decidedBy": "affinity", "difference": -51}


def test_what_is_not_needed_is_compared_with_the_present_score_of_a_kept_cluster():
    clusters = [
        make_cluster(name, properties={NODES: nodes}) for name, nodes in [("a", "1"), ("b", "50"), ("c", "100")]
    ]
    kept = held("a", topology=0, affinity=70)
    items = by_name(explain(run(pick_n(1, preferred=[prefer(100, NODES)]), clusters, [kept])))
    assert [items[name]["verdict"] for name in "abc"] == ["Kept", "NotNeeded", "NotNeeded"]
    assert items["c"]["gap"] == {"toLastPicked": "a", "decidedBy": "affinity", "difference": 100}


@pytest.mark.parametrize(
    ("smallest", "largest", "cause"),
    [
        pytest.param("7", "7", "all values are equal", id="equal"),
        pytest.param("-1e308", "1e308", "the range is too large for a double", id="overflow"),
    ],
)
def test_a_sorter_without_points_gives_its_cause(smallest, largest, cause):
    clusters = [make_cluster("a", properties={NODES: smallest}), make_cluster("b", properties={NODES: largest})]
    for item in explain(run(pick_n(1, preferred=[prefer(100, NODES)]), clusters)):
        (entry,) = item["affinity"]["terms"]
        assert (entry["points"], entry["sorter"]["note"]) == (0, f"{cause}, so no cluster gets points")


def test_a_cluster_outside_the_spread_says_so():
    clusters = [make_cluster("a"), make_cluster("b", labels={"region": "n"})]
    items = by_name(explain(run(pick_n(1, constraints=[spread("region")]), clusters)))
    assert items["a"]["topology"]["constraints"][0]["note"] == "outside the spread"
    assert items["a"]["topology"]["constraints"][0]["domain"] is None
    assert "note" not in items["b"]["topology"]["constraints"][0]


@pytest.mark.parametrize(
    ("observed", "stale"),
    [
        pytest.param(timedelta(minutes=3), False, id="three-periods"),
        pytest.param(timedelta(minutes=3, seconds=1), True, id="more-than-three-periods"),
    ],
)
def test_old_values_are_marked(observed, stale):
    clusters = [
        make_cluster("a", properties={NODES: "3"}, observed=observed),
        make_cluster("b", properties={NODES: "1"}),
    ]
    (entry,) = by_name(explain(run(pick_n(1, preferred=[prefer(5, NODES)]), clusters)))["a"]["affinity"]["terms"]
    assert entry["sorter"].get("stale", False) is stale


def test_a_run_that_needed_nobody_says_who_would_have_been_next():
    clusters = [make_cluster("a"), make_cluster("b"), make_cluster("c", heartbeat=None)]
    items = by_name(explain(run(pick_n(1), clusters, [held("a", topology=0, affinity=3)])))
    assert [items[name]["verdict"] for name in "abc"] == ["Kept", "NotNeeded", "HeartbeatStale"]
    assert items["a"]["summary"].startswith("a: kept")
    assert "has all requested clusters" in items["b"]["reason"]


def test_a_kept_cluster_that_would_not_be_picked_today_says_why():
    items = by_name(explain(run(policy(), [make_cluster("a", heartbeat=None), make_cluster("b")], [held("a")])))
    assert items["a"]["binding"]["wouldStillMatch"] is False
    assert items["a"]["binding"]["wouldBeRefused"].startswith("HeartbeatStale: ")
    assert "would not be picked today" in items["a"]["summary"]


@pytest.mark.parametrize(
    ("dropped", "cause"),
    [
        (held("a", SCHEDULED, affinity=9), "is not rolled out yet"),
        (held("a", affinity=1), "was recorded with the lowest score"),
    ],
)
def test_a_cluster_that_a_smaller_number_drops_says_why(dropped, cause):
    items = by_name(explain(run(pick_n(1), [make_cluster("a"), make_cluster("b")], [dropped, held("b", affinity=5)])))
    assert items["a"]["reason"] == f"Dropped: the placement requests fewer clusters, and this one {cause}"


def test_pick_fixed():
    clusters = [make_cluster("a"), make_cluster("b", heartbeat=None), make_cluster("c"), make_cluster("d")]
    items = by_name(explain(run(pick_fixed("a", "b", "x"), clusters, [obsolete("c")])))
    assert {name: item["verdict"] for name, item in items.items()} == {
        "a": "Picked",
        "b": "HeartbeatStale",
        "c": "Dropped",
        "d": "NotListed",
        "x": "TargetNotFound",
    }
    assert [entry["name"] for entry in items["a"]["filters"]] == ["eligibility"]
    assert "affinity" not in items["a"]


def test_pick_all():
    clusters = [make_cluster("a"), make_cluster("b", taints=[("gpu", "")]), make_cluster("c", taints=[("gpu", "")])]
    items = by_name(explain(run(policy(), clusters, [obsolete("c")])))
    assert {name: item["verdict"] for name, item in items.items()} == {
        "a": "Picked",
        "b": "TaintNotTolerated",
        "c": "TaintNotTolerated",
    }
    assert items["b"]["filters"][2]["tolerated"] == [{"taint": "gpu:NoSchedule", "by": None}]


def test_an_invalid_policy_is_not_blamed_on_the_clusters():
    fleet = Fleet.of([make_cluster("a"), make_cluster("b"), make_cluster("c")])
    judged = hold("spec.policy.x: nonsense", fleet, [held("a"), held("c", UNSCHEDULED)], NOW)
    items = by_name(explain(judged))
    assert items["a"]["verdict"] == "Kept"
    for name in "bc":
        assert "clusterNames" not in items[name]["reason"]
        assert "nonsense" in items[name]["reason"]


def test_every_item_has_words():
    clusters = [make_cluster("a"), make_cluster("b", heartbeat=None), make_cluster("c")]
    for item in explain(run(pick_n(1), clusters)):
        assert item["summary"].startswith(f"{item['cluster']}: ")
        assert (item["reason"] == "") is (item["verdict"] == "Picked")
