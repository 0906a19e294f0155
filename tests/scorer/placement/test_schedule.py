"""Whole runs: the three placement types (scheduling.md 14), stability (16), invalid policies (DV-5)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.fleet import Fleet
from scorer.placement.request import read_request
from scorer.placement.schedule import hold, schedule
from tests.scorer.builders import (
    BOUND,
    NODES,
    NOW,
    SCHEDULED,
    UNSCHEDULED,
    bindings_for,
    dropped,
    held,
    kept,
    make_cluster,
    members,
    modest,
    obsolete,
    pick_fixed,
    pick_n,
    pick_n_policies,
    picked,
    policy,
    prefer,
    run,
    spread,
    term,
)


def ports(names, **facts):
    return [make_cluster(name, **facts) for name in names]


def missed(schedule):
    return [(name, str(rejection.category)) for name, rejection in schedule.missed]


# PickAll


def test_pick_all_takes_every_passing_cluster_by_name():
    clusters = [*ports("ca"), make_cluster("b", heartbeat=None)]
    judged = run(policy(), clusters)
    assert [(pick.cluster, pick.topology, pick.affinity) for pick in judged.picked] == [("a", 0, 0), ("c", 0, 0)]
    assert judged.satisfied


@pytest.mark.parametrize("wanted", [None, {}, {"placementType": "PickAll"}, {"placementType": None}])
def test_no_policy_means_pick_all(wanted):
    assert picked(run(wanted, ports("ab"))) == ["a", "b"]


def test_pick_all_is_fulfilled_with_nothing():
    judged = run(policy(), [make_cluster("a", taints=[("gpu", "")])])
    assert (judged.selected_count, judged.satisfied) == (0, True)


def test_pick_all_keeps_the_taken_and_drops_obsolete_ones_that_do_not_pass():
    clusters = [*ports("ab", labels={"env": "prod"}), *ports("cd")]
    bindings = [held("c"), obsolete("a"), obsolete("d")]
    judged = run(policy(required=[term({"env": "prod"})]), clusters, bindings)
    assert (picked(judged), kept(judged), dropped(judged)) == (["a", "b"], ["c"], ["d"])


def test_pick_all_uses_neither_preferences_nor_spread():
    clusters = ports("ab", labels={"region": "n"}, properties={NODES: "3"})
    wanted = policy(preferred=[prefer(50)], constraints=[spread("region")])
    assert [(pick.cluster, pick.topology, pick.affinity) for pick in run(wanted, clusters).picked] == [
        ("a", 0, 0),
        ("b", 0, 0),
    ]


# PickN


@pytest.mark.parametrize(
    ("number", "bindings", "expected"),
    [
        pytest.param(0, [], ([], [], []), id="none-wanted"),
        pytest.param(2, [], (["e", "d"], [], []), id="pick-two"),
        pytest.param(9, [], (["e", "d", "c", "b", "a"], [], []), id="fewer-than-needed"),
        pytest.param(2, [held("a"), held("b")], ([], ["a", "b"], []), id="met"),
        pytest.param(3, [held("a"), held("b")], (["e"], ["a", "b"], []), id="one-more"),
        pytest.param(2, [held("a"), held("b"), obsolete("c")], ([], ["a", "b"], ["c"]), id="met-drops-obsolete"),
        pytest.param(1, [held("a"), held("b"), obsolete("c")], ([], ["b"], ["c", "a"]), id="scale-down-obsolete-first"),
        pytest.param(0, [held("a"), obsolete("c")], ([], [], ["c", "a"]), id="down-to-nothing"),
        pytest.param(2, [obsolete("a"), obsolete("b")], (["b", "a"], [], []), id="policy-changed-holders-stay-by-tie"),
        pytest.param(1, [obsolete("a"), obsolete("b")], (["b"], [], ["a"]), id="policy-changed-fewer"),
        pytest.param(3, [held("a"), obsolete("b")], (["b", "e"], ["a"], []), id="obsolete-is-a-candidate"),
        pytest.param(
            2, [held("a", UNSCHEDULED, previous_state=BOUND)], (["e", "d"], [], []), id="no-bonus-for-unscheduled"
        ),
        pytest.param(1, [held("gone")], (["e"], [], ["gone"]), id="dangling-is-replaced"),
    ],
)
def test_pick_n(number, bindings, expected):
    judged = run(pick_n(number), ports("abcde"), bindings)
    assert (picked(judged), kept(judged), dropped(judged)) == expected
    assert judged.satisfied is (judged.selected_count >= number)


def test_the_annotation_outranks_the_number_in_the_policy():
    assert picked(run(pick_n(5), ports("abc"), number=1)) == ["c"]
    assert picked(run(policy("PickN"), ports("abc"), number=2)) == ["c", "b"]


def test_scale_down_uses_recorded_scores():
    clusters = [make_cluster("a", properties={NODES: "100"}), make_cluster("b", properties={NODES: "1"})]
    bindings = [held("a", topology=0, affinity=3), held("b", topology=0, affinity=80)]
    judged = run(pick_n(1, preferred=[prefer(100, NODES)]), clusters, bindings)
    assert (kept(judged), dropped(judged)) == (["b"], ["a"])


def test_scale_down_takes_waiting_ones_first():
    bindings = [held("a", BOUND, topology=-9, affinity=0), held("b", SCHEDULED, topology=9, affinity=9)]
    assert dropped(run(pick_n(1), ports("ab"), bindings)) == ["b"]


# PickFixed


def test_pick_fixed():
    clusters = [*ports("abc"), make_cluster("silent", heartbeat=None), make_cluster("sick", healthy=None)]
    judged = run(pick_fixed("sick", "b", "nowhere", "silent", "a"), clusters)
    assert picked(judged) == ["b", "a"]
    assert missed(judged) == [("sick", "HealthUnknown"), ("silent", "HeartbeatStale"), ("nowhere", "TargetNotFound")]
    assert not judged.satisfied


@pytest.mark.parametrize(
    ("names", "bindings", "expected", "satisfied"),
    [
        pytest.param([], [], ([], [], []), True, id="DV-6-empty"),
        pytest.param([], [obsolete("a")], ([], [], ["a"]), True, id="DV-6-empty-drops-obsolete"),
        pytest.param(["a"], [held("a")], ([], ["a"], []), True, id="taken-stays"),
        pytest.param(["silent"], [held("silent")], ([], ["silent"], []), True, id="DV-7-taken-stays-while-ineligible"),
        pytest.param(
            ["silent"], [obsolete("silent")], ([], [], ["silent"]), False, id="obsolete-and-ineligible-is-dropped"
        ),
        pytest.param(["a"], [obsolete("a"), obsolete("b")], (["a"], [], ["b"]), True, id="list-re-evaluated"),
        pytest.param(["a", "gone"], [held("gone")], (["a"], [], ["gone"]), False, id="gone"),
        pytest.param(["tainted"], [], (["tainted"], [], []), True, id="taints-do-not-apply"),
        pytest.param(
            ["a"], [held("a", UNSCHEDULED, previous_state=BOUND)], (["a"], [], []), True, id="reuses-unscheduled"
        ),
        pytest.param(["b", "a", "b"], [], (["b", "a"], [], []), True, id="listed-twice"),
    ],
)
def test_pick_fixed_cases(names, bindings, expected, satisfied):
    clusters = [*ports("ab"), make_cluster("silent", heartbeat=None), make_cluster("tainted", taints=[("gpu", "")])]
    judged = run(pick_fixed(*names), clusters, bindings)
    assert (picked(judged), kept(judged), dropped(judged)) == expected
    assert judged.satisfied is satisfied


def test_pick_fixed_runs_no_plugin_but_eligibility():
    wanted = pick_fixed("a") | {k: v for k, v in pick_n(1, required=[term({"env": "prod"})]).items() if k == "affinity"}
    assert picked(run(wanted, ports("a"), namespace="shop")) == ["a"]


# Stability (scheduling.md 16)

PROD = {"env": "prod"}
WANTED = {
    "PickAll": policy(required=[term(PROD)]),
    "PickN": pick_n(2, required=[term(PROD)], preferred=[prefer(100, NODES)]),
    "PickFixed": pick_fixed("a", "b"),
}
TAKEN = [held("a", topology=0, affinity=5), held("b", topology=0, affinity=5)]


def prod(name, nodes="5", **facts):
    return make_cluster(name, labels=PROD, properties={NODES: nodes}, **facts)


@pytest.mark.parametrize(
    ("changed", "outcome"),
    [
        pytest.param(make_cluster("a", labels={"env": "dev"}), {}, id="label-no-longer-matches"),
        pytest.param(prod("a", taints=[("gpu", "")]), {}, id="tainted"),
        pytest.param(prod("a", heartbeat=None), {}, id="silent"),
        pytest.param(prod("a", healthy="False"), {}, id="unhealthy"),
        pytest.param(prod("a", joined="False"), {}, id="not-joined"),
        pytest.param(
            prod("a", leaving=True),
            {"PickAll": (["c"], ["a"]), "PickN": (["c"], ["a"]), "PickFixed": ([], ["a"])},
            id="leaving-is-dropped-and-replaced",
        ),
        pytest.param(prod("z", nodes="500"), {"PickAll": (["c", "z"], [])}, id="better-cluster-appears"),
    ],
)
def test_what_moves_a_workload(changed, outcome):
    clusters = {cluster.metadata.name: cluster for cluster in (prod("a"), prod("b"), prod("c"), changed)}
    for kind, wanted in WANTED.items():
        judged = run(wanted, clusters.values(), TAKEN)
        expected = outcome.get(kind, (["c"] if kind == "PickAll" else [], []))
        assert (picked(judged), dropped(judged)) == expected, kind


def test_number_up_only_adds_and_down_only_removes():
    clusters = [prod(name) for name in "abcdef"]
    up = run(WANTED["PickN"], clusters, TAKEN, number=4)
    assert (picked(up), dropped(up)) == (["f", "e"], [])
    down = run(WANTED["PickN"], clusters, TAKEN, number=1)
    assert (picked(down), dropped(down)) == ([], ["a"])


def test_a_policy_edit_re_evaluates_all_with_a_bonus_for_holders():
    clusters = [prod("a"), prod("b"), prod("c"), prod("d")]
    bindings = [obsolete("a"), obsolete("b")]
    assert picked(run(WANTED["PickN"], clusters, bindings)) == ["b", "a"]
    clusters[0] = make_cluster("a")
    judged = run(WANTED["PickN"], clusters, bindings)
    assert (picked(judged), dropped(judged)) == (["b", "d"], ["a"])


@given(data=st.data())
@modest(70)
def test_a_second_run_changes_nothing(data):
    """What a run decides is what the next run finds, whatever the policy."""
    clusters = data.draw(members())
    bindings = data.draw(bindings_for(clusters))
    names = st.lists(st.sampled_from([f"port-{number}" for number in range(1, 10)]), unique=True, max_size=5)
    wanted = data.draw(
        st.one_of(pick_n_policies(), st.just(policy()), st.builds(lambda given_: pick_fixed(*given_), names))
    )
    first = run(wanted, clusters, bindings)
    now_held = [held(pick.cluster, topology=pick.topology, affinity=pick.affinity) for pick in first.picked]
    again = run(wanted, clusters, [*now_held, *first.kept])
    assert (picked(again), dropped(again)) == ([], [])
    assert again.satisfied is first.satisfied
    assert again.selected_count == first.selected_count


@given(data=st.data())
@modest(50)
def test_decisions_do_not_depend_on_the_order_of_members_or_bindings(data):
    clusters = data.draw(members())
    bindings = data.draw(bindings_for(clusters))
    wanted = data.draw(pick_n_policies())
    one = run(wanted, clusters, bindings)
    other = run(wanted, data.draw(st.permutations(clusters)), data.draw(st.permutations(bindings)))
    assert (one.picked, one.kept, one.dropped, one.missed) == (other.picked, other.kept, other.dropped, other.missed)
    if one.last is not None:
        assert one.last.unselected() == other.last.unselected()
        assert one.last.rejected_rows().tolist() == other.last.rejected_rows().tolist()


@given(data=st.data())
@modest(100)
def test_what_another_run_has_found_changes_no_decision(data):
    """Whatever that other run was: of this policy or another, of this fleet or another, now or later."""
    fleet = Fleet.of(data.draw(members(8)))
    bindings = data.draw(bindings_for([*fleet.members]))
    wanted = data.draw(st.one_of(pick_n_policies(), st.just(policy()), st.just(pick_fixed("port-1"))))
    other_policy = data.draw(st.one_of(st.just(wanted), pick_n_policies()))
    other_fleet = data.draw(st.sampled_from([fleet, fleet.updated([make_cluster("port-1")])]))
    later = data.draw(st.sampled_from([timedelta(), timedelta(minutes=6)]))
    namespace = data.draw(st.sampled_from(["", "payments"]))
    request, other_request = read_request(wanted), read_request(other_policy, namespace=namespace)
    known = schedule(other_request, other_fleet, data.draw(bindings_for([*fleet.members])), NOW + later)
    ours, alone = schedule(request, fleet, bindings, NOW, known), schedule(request, fleet, bindings, NOW)
    assert (ours.picked, ours.kept, ours.dropped) == (alone.picked, alone.kept, alone.dropped)
    assert (ours.missed, ours.satisfied) == (alone.missed, alone.satisfied)
    assert (ours.last is None) is (alone.last is None)
    if ours.last is not None:
        assert ours.last.unselected() == alone.last.unselected()
        assert ours.last.rejected_rows().tolist() == alone.last.rejected_rows().tolist()
        assert ours.last.turned_away() == alone.last.turned_away()


def test_a_fleet_is_judged_once_for_two_runs_of_a_policy():
    fleet, request = Fleet.of(ports("abc")), read_request(pick_n(1))
    first = schedule(request, fleet, [], NOW)
    second = schedule(read_request(pick_n(2)), fleet, [held("a")], NOW, first)
    assert second.last.screened is first.last.screened
    assert picked(second) == ["c"]


@given(data=st.data())
@modest(50)
def test_every_binding_is_kept_picked_again_dropped_or_ignored(data):
    clusters = data.draw(members())
    bindings = data.draw(bindings_for(clusters))
    judged = run(data.draw(pick_n_policies()), clusters, bindings)
    live = {binding.cluster for binding in bindings if binding.state is not UNSCHEDULED}
    assert len(kept(judged)) == len(set(kept(judged)))
    assert live <= {*kept(judged), *picked(judged), *dropped(judged)}
    assert not {*kept(judged), *picked(judged)} & set(dropped(judged))
    assert judged.selected_count <= max(judged.request.wanted, 0)


# Invalid policies (DV-5)


def test_hold_drops_dangling_bindings_and_moves_nothing_else():
    bindings = [held("b"), obsolete("a"), held("gone"), held("c", UNSCHEDULED)]
    judged = hold("spec.policy.x: nonsense", Fleet.of(ports("abc")), bindings, NOW)
    assert (picked(judged), kept(judged), dropped(judged)) == ([], ["a", "b"], ["gone"])
    assert not judged.satisfied
    assert not judged.changes_nothing
    assert judged.invalid == "spec.policy.x: nonsense"


@pytest.mark.parametrize(
    "wanted", [policy(), pick_n(0), pick_n(3), pick_n(3, constraints=[spread("region")]), pick_fixed("a")]
)
def test_an_empty_fleet(wanted):
    judged = run(wanted, [])
    assert judged.selected_count == 0
    assert judged.satisfied is (wanted["placementType"] == "PickAll" or wanted.get("numberOfClusters") == 0)


@given(clusters=members(12), wanted=pick_n_policies(6))
@modest(100)
def test_what_each_filter_turned_away_adds_up_to_the_categories(clusters, wanted):
    found = run(wanted, clusters)
    if found.last is not None:
        assert sum(found.last.turned_away().values()) == sum(found.last.categories().values())
