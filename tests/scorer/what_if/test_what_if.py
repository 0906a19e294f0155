"""What-if on a hub of documents: what changes say about placements, and what stays as it is."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.cluster.member_cluster import CORDON
from scorer.api.kinds import KINDS, Kind
from scorer.api.meta import format_time
from scorer.api.names import UPGRADE_WINDOWS
from scorer.fleet import Fleet
from scorer.placement.request import read_request
from scorer.placement.schedule import schedule
from scorer.rollout.confirmation.policy import ConfirmationMode, RemovalPolicy
from scorer.rollout.snapshots.resources import resource_hash
from scorer.what_if.comparison import compare
from scorer.what_if.document import what_if
from scorer.what_if.state import HubState, HypotheticalChanges, ObjectKey, identity_of
from tests.scorer.builders import (
    NODES,
    NOW,
    make_cluster,
    members,
    modest,
    pick_fixed,
    pick_n,
    pick_n_policies,
    policy,
    prefer,
)
from tests.scorer.what_if.settled_hub import (
    ALL,
    BY_NODES,
    FIXED,
    NODE_COUNTS,
    RATES,
    SHOP,
    WEB,
    binding,
    budget,
    cluster,
    placement,
    settled,
    window,
)
from webhook.cli.planning.output import changes_anything


def entry_of(plan, name):
    return next(entry for entry in plan["placements"] if entry["name"] == name)


def test_one_entry_in_full():
    state = settled((WEB, ["dover", "genoa"]))
    wanted = {**WEB, "spec": {**WEB["spec"], "policy": pick_n(3, preferred=BY_NODES)}}
    plan = what_if(state, HypotheticalChanges(objects=[wanted]))
    assert plan == {
        "placements": [
            {
                "name": "web",
                "namespace": "",
                "type": "PickN",
                "wanted": 3,
                "picked": [
                    {"cluster": "faro", "rank": 1, "new": True, "score": {"topologySpread": 0, "affinity": 50}},
                    {"cluster": "genoa", "rank": 2, "new": False, "score": {"topologySpread": 0, "affinity": 3}},
                    {"cluster": "dover", "rank": 3, "new": False, "score": {"topologySpread": 0, "affinity": 3}},
                ],
                "notPicked": [{"cluster": "oslo", "score": {"topologySpread": 0, "affinity": 0}}],
                "filtered": [],
                "dropped": [],
                "satisfied": True,
                "message": "found all clusters needed: 3 clusters",
                "before": [
                    {"cluster": "dover", "score": {"topologySpread": 0, "affinity": 3}},
                    {"cluster": "genoa", "score": {"topologySpread": 0, "affinity": 3}},
                ],
                "moves": {"gained": ["faro"], "lost": [], "stays": ["dover", "genoa"]},
                "rollout": {
                    "type": "RollingUpdate",
                    "snapshot": "web-0-snapshot",
                    "contentHash": resource_hash([SHOP, RATES]),
                    "maxUnavailable": "25%",
                    "maxSurge": "25%",
                    "evictions": [],
                    "applyStrategy": [],
                    "waits": [],
                    "steps": [
                        {
                            "step": 1,
                            "update": [],
                            "bind": ["faro"],
                            "remove": [],
                            "waiting": [],
                            "budget": {
                                "target": 3,
                                "ready": 2,
                                "canBeReady": 2,
                                "mayVanish": 0,
                                "maxToRemove": 0,
                                "maxToAdd": 2,
                            },
                        }
                    ],
                    "more": 0,
                    "failures": [],
                    "removals": [],
                    "contentRemovals": [],
                    "blocked": None,
                },
                "changed": True,
            }
        ],
        "outcomes": [],
        "fleet": {"gained": [], "changed": [], "lost": [], "drained": []},
        "evaluatedAt": "2026-11-20T12:00:00Z",
    }


def test_a_settled_hub_stays_as_it_is():
    plan = what_if(settled((WEB, ["dover", "genoa"]), (ALL, list(NODE_COUNTS)), (FIXED, ["dover", "faro"])))
    assert not changes_anything(plan)
    assert [entry["rollout"]["steps"] for entry in plan["placements"]] == [[], [], []]


def test_a_lost_cluster_is_replaced_and_its_binding_is_removed():
    plan = what_if(settled((WEB, ["dover", "genoa"]), (ALL, list(NODE_COUNTS))), HypotheticalChanges(lost=["dover"]))
    web, everywhere = entry_of(plan, "web"), entry_of(plan, "all")
    assert web["moves"] == {"gained": ["faro"], "lost": ["dover"], "stays": ["genoa"]}
    assert web["dropped"] == [{"cluster": "dover", "binding": "web-dover-1"}]
    assert [(step["bind"], step["remove"]) for step in web["rollout"]["steps"]] == [(["faro"], ["dover"])]
    assert everywhere["moves"] == {"gained": [], "lost": ["dover"], "stays": ["faro", "genoa", "oslo"]}
    assert plan["fleet"]["lost"] == ["dover"]


def test_a_lost_cluster_that_nothing_replaces_is_lacking_and_not_just_unready():
    state = settled((FIXED, ["dover", "faro"]))
    blocked = entry_of(what_if(state, HypotheticalChanges(lost=["dover", "faro"])), "fixed")["rollout"]["blocked"]
    assert blocked["clusters"] == ["faro"]
    assert blocked["message"].startswith("1 of 2 clusters is ready, 1 can be, 2 cannot be picked, and")


def test_a_deleted_cluster_leaves():
    gone = ObjectKey("cluster.kubernetes-fleet.io", "MemberCluster", "dover")
    plan = what_if(settled((FIXED, ["dover", "faro"])), HypotheticalChanges(deleted=frozenset({gone})))
    entry = entry_of(plan, "fixed")
    assert (entry["moves"]["lost"], entry["satisfied"], plan["fleet"]["lost"]) == (["dover"], False, ["dover"])
    assert entry["filtered"][0]["reason"].startswith("ClusterLeaving")


def test_a_drained_cluster_is_tainted_and_its_placements_are_evicted():
    state = settled((WEB, ["dover", "genoa"]), (FIXED, ["dover", "faro"]))
    plan = what_if(state, HypotheticalChanges(drained=["dover"]))
    web, fixed = entry_of(plan, "web"), entry_of(plan, "fixed")
    assert web["moves"] == {"gained": ["faro"], "lost": ["dover"], "stays": ["genoa"]}
    assert {one["cluster"]: one["plugin"] for one in web["filtered"]} == {"dover": "TaintToleration"}
    assert web["rollout"]["evictions"] == [
        {
            "name": "",
            "cluster": "dover",
            "executed": True,
            "reason": "ClusterResourcePlacementEvictionExecuted",
            "message": "there is no disruption budget",
            "budget": "",
        }
    ]
    assert [step["bind"] for step in web["rollout"]["steps"]] == [["faro"]]
    assert (fixed["moves"]["lost"], fixed["changed"]) == ([], True)
    assert fixed["rollout"]["evictions"][0]["reason"] == "ClusterResourcePlacementEvictionInvalid"
    assert plan["fleet"]["drained"] == ["dover"]


def test_a_disruption_budget_blocks_and_the_second_eviction_meets_what_the_first_took():
    state = settled((WEB, ["dover", "genoa"]), budgets=[budget("web", maxUnavailable=1)])
    evictions = entry_of(what_if(state, HypotheticalChanges(drained=["genoa", "dover"])), "web")["rollout"]["evictions"]
    assert [(one["cluster"], one["executed"], one["budget"]) for one in evictions] == [
        ("genoa", True, "web"),
        ("dover", False, "web"),
    ]
    assert evictions[1]["message"] == "budget web has maxUnavailable 1; 1 of 2 clusters is available"


def test_a_budget_that_is_given_counts_and_one_that_is_deleted_does_not():
    state = settled((WEB, ["dover", "genoa"]), budgets=[budget("web", maxUnavailable=0)])
    held = entry_of(what_if(state, HypotheticalChanges(drained=["dover"])), "web")
    assert held["moves"]["lost"] == []
    freed = HypotheticalChanges(drained=["dover"], deleted=frozenset({identity_of(budget("web"))}))
    assert entry_of(what_if(state, freed), "web")["moves"]["lost"] == ["dover"]
    looser = HypotheticalChanges(drained=["dover"], objects=[budget("web", maxUnavailable=1)])
    assert entry_of(what_if(state, looser), "web")["moves"]["lost"] == ["dover"]


def test_a_placement_that_tolerates_everything_comes_back():
    subject = placement("web", pick_n(1, preferred=BY_NODES, tolerations=[{"operator": "Exists"}]))
    entry = entry_of(what_if(settled((subject, ["dover"])), HypotheticalChanges(drained=["dover"])), "web")
    assert entry["moves"] == {"gained": [], "lost": [], "stays": ["dover"]}
    assert entry["rollout"]["evictions"][0]["executed"] is True
    assert [step["bind"] for step in entry["rollout"]["steps"]] == [["dover"]]


def test_a_resource_placement_cannot_be_evicted():
    subject = placement("cart", pick_n(1), namespace="shop")
    held = binding("cart", "dover")
    held = {**held, "kind": "ResourceBinding", "metadata": {**held["metadata"], "namespace": "shop"}}
    fleet = Fleet.of([cluster(name, collects="True", namespaces=["shop"]) for name in NODE_COUNTS])
    state = HubState(fleet, NOW, placements=[subject], bindings=[held])
    entry = entry_of(what_if(state, HypotheticalChanges(drained=["dover"])), "cart")
    assert (entry["moves"]["stays"], entry["rollout"]["evictions"][0]["executed"]) == (["dover"], False)


def test_a_new_cluster_is_taken_by_who_takes_all():
    state = settled((WEB, ["dover", "genoa"]), (ALL, list(NODE_COUNTS)))
    plan = what_if(state, HypotheticalChanges(members=[cluster("zeebrugge")]))
    assert entry_of(plan, "all")["moves"]["gained"] == ["zeebrugge"]
    assert entry_of(plan, "web")["changed"] is False
    assert plan["fleet"]["gained"] == ["zeebrugge"]


def test_a_changed_cluster_is_told_only_when_something_is_different():
    state = settled((WEB, ["dover", "genoa"]))
    same, other = cluster("dover"), cluster("faro", taints=[("dock", "dry")])
    plan = what_if(state, HypotheticalChanges(members=[same, other]))
    assert plan["fleet"]["changed"] == ["faro"]
    assert not changes_anything(plan)


def test_a_cluster_that_nobody_gets_changes_no_placement_whatever_the_message_says():
    """The message of a placement that does not get all counts the clusters of the fleet; a text is no change."""
    state = settled((placement("web", pick_n(9)), list(NODE_COUNTS)), (ALL, list(NODE_COUNTS)))
    plan = what_if(state, HypotheticalChanges(members=[cluster("zeebrugge", taints=[("dock", "dry")])]))
    assert "1 of 5 does not qualify" in entry_of(plan, "web")["message"]
    assert not changes_anything(plan)


def test_a_new_placement_and_a_shortage_are_changes_though_nothing_moves():
    state = settled((WEB, ["dover", "genoa"]), fleet=("dover", "genoa"))
    more = {**WEB, "spec": {**WEB["spec"], "policy": pick_n(3, preferred=BY_NODES)}}
    plan = what_if(state, HypotheticalChanges(objects=[more, placement("none", pick_fixed("atlantis"))]))
    for name in ("web", "none"):
        entry = entry_of(plan, name)
        assert (entry["moves"]["gained"], entry["satisfied"], entry["changed"]) == ([], False, True)


def test_a_binding_that_breaks_blocks_its_placement_newly():
    state = settled((WEB, ["dover", "genoa"]))
    broken = {**state.bindings[0], "spec": {**state.bindings[0]["spec"], "state": "Lost"}}
    entry = entry_of(what_if(state, HypotheticalChanges(objects=[broken])), "web")
    assert (entry["rollout"]["blocked"]["reason"], entry["changed"]) == ("BrokenBinding", True)


def test_what_is_under_way_anyway_is_no_change():
    state = settled((WEB, ["dover"]), (ALL, list(NODE_COUNTS)))
    assert entry_of(what_if(state), "web")["changed"] is True
    plan = what_if(state, HypotheticalChanges(members=[cluster("oslo", labels={"a": "b"})]))
    assert entry_of(plan, "web")["rollout"]["steps"]
    assert not changes_anything(plan)


def test_another_policy_with_the_same_clusters_moves_nothing():
    state = settled((WEB, ["dover", "genoa"]))
    edited = placement("web", pick_n(2, preferred=[prefer(50, NODES)]))
    entry = entry_of(what_if(state, HypotheticalChanges(objects=[edited])), "web")
    assert entry["moves"] == {"gained": [], "lost": [], "stays": ["dover", "genoa"]}
    assert [pick["new"] for pick in entry["picked"]] == [False, False]
    assert (entry["rollout"]["steps"], entry["changed"]) == ([], False)


@pytest.mark.parametrize(
    ("decision", "score"),
    [
        pytest.param({"clusterScore": {"affinityScore": 3}}, {"topologySpread": 0, "affinity": 3}, id="one-part"),
        pytest.param({"clusterScore": {"priorityScore": -1}}, {"topologySpread": -1, "affinity": 0}, id="the-other"),
        pytest.param({"clusterScore": {}}, {"topologySpread": 0, "affinity": 0}, id="no-parts"),
        pytest.param({}, None, id="no-score"),
        pytest.param(None, None, id="no-decision"),
    ],
)
def test_what_a_binding_does_not_record_of_its_score_counts_nothing(decision, score):
    state = settled((WEB, ["dover", "genoa"]))
    held = binding("web", "dover", clusterDecision=decision)
    entry = entry_of(what_if(replace(state, bindings=[held, state.bindings[1]])), "web")
    assert entry["before"][0] == {"cluster": "dover", "score": score}


def test_a_deleted_placement_loses_everything_at_once():
    state = replace(settled((WEB, ["dover", "genoa"])), removal=RemovalPolicy(placement=ConfirmationMode.OFF))
    plan = what_if(state, HypotheticalChanges(deleted=frozenset({identity_of(WEB)})))
    entry = entry_of(plan, "web")
    assert (entry["moves"]["lost"], entry["rollout"]["type"], entry["picked"]) == (["dover", "genoa"], "Deletion", [])
    assert entry["changed"] is True


@pytest.mark.parametrize(
    ("changes", "snapshot"),
    [
        pytest.param(
            HypotheticalChanges(objects=[{**RATES, "data": {"a": "2"}}]), "web-1-snapshot", id="other-content"
        ),
        pytest.param(HypotheticalChanges(objects=[RATES | {"status": {}}]), "web-0-snapshot", id="same-content"),
        pytest.param(
            HypotheticalChanges(objects=[{**RATES, "metadata": {"name": "new", "namespace": "shop"}}]),
            "web-1-snapshot",
            id="more",
        ),
        pytest.param(
            HypotheticalChanges(objects=[{**RATES, "metadata": {"name": "rates", "namespace": "till"}}]),
            "web-0-snapshot",
            id="in-another-namespace",
        ),
        pytest.param(HypotheticalChanges(deleted=frozenset({identity_of(RATES)})), "web-1-snapshot", id="less"),
        pytest.param(
            HypotheticalChanges(
                objects=[
                    placement(
                        "web",
                        pick_n(2, preferred=BY_NODES),
                        resourceSelectors=[{"group": "", "version": "v1", "kind": "Namespace", "name": "till"}],
                    )
                ]
            ),
            "web-1-snapshot",
            id="other-selectors",
        ),
    ],
)
def test_changed_content_is_rolled_out_in_order(changes, snapshot):
    entry = entry_of(what_if(settled((WEB, ["dover", "genoa"])), changes), "web")
    assert entry["rollout"]["snapshot"] == snapshot
    updates = [step["update"] for step in entry["rollout"]["steps"]]
    assert updates == ([] if snapshot == "web-0-snapshot" else [["dover"], ["genoa"]])
    assert entry["changed"] is bool(updates)


def test_a_new_custom_resource_is_new_content():
    widget = Kind("example.com", ("v1",), "Widget", "widgets", namespaced=True)
    state = replace(settled((WEB, ["dover", "genoa"])), kinds={**KINDS, widget.group_kind: widget})
    made = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "shop"}}
    entry = entry_of(what_if(state, HypotheticalChanges(objects=[made])), "web")
    assert (entry["changed"], entry["rollout"]["snapshot"]) == (True, "web-1-snapshot")


def test_a_cluster_whose_windows_are_closed_is_rolled_out_last_and_says_until_when():
    opens = NOW.replace(minute=0) + timedelta(hours=3)
    state = settled((WEB, ["dover", "genoa"]))
    named = cluster("dover", annotations={UPGRADE_WINDOWS: "nights"})
    state = replace(state, fleet=state.fleet.updated([named]), windows=[window("nights", opens)])
    changes = HypotheticalChanges(objects=[{**RATES, "data": {"a": "2"}}])
    rollout = entry_of(what_if(state, changes), "web")["rollout"]
    assert [step["update"] for step in rollout["steps"]] == [["genoa"], ["dover"]]
    message = f"maintenance window nights is closed until {format_time(opens)}"
    assert rollout["waits"] == [{"cluster": "dover", "until": format_time(opens), "message": message}]


def test_a_broken_binding_stops_its_placement_and_no_other():
    state = settled((WEB, ["dover", "genoa"]), (ALL, list(NODE_COUNTS)))
    broken = [
        {**each, "spec": {**each["spec"], "state": "Lost"}} if each["metadata"]["name"] == "web-dover-1" else each
        for each in state.bindings
    ]
    plan = what_if(
        HubState(state.fleet, NOW, state.placements, broken, state.policy_snapshots, state.resource_snapshots),
        HypotheticalChanges(lost=["oslo"]),
    )
    assert entry_of(plan, "web")["rollout"]["blocked"]["reason"] == "BrokenBinding"
    assert "'Lost' is not a valid state of a binding" in entry_of(plan, "web")["message"]
    assert entry_of(plan, "all")["moves"]["lost"] == ["oslo"]


def test_only_some_are_told_about():
    state = settled((WEB, ["dover", "genoa"]), (ALL, list(NODE_COUNTS)))
    plan = what_if(state, HypotheticalChanges(lost=["dover"]), only=[identity_of(WEB)])
    assert [entry["name"] for entry in plan["placements"]] == ["web"]


def test_a_drained_cluster_keeps_a_taint_it_has():
    tainted = make_cluster("dover", taints=[("cordon-key", "mine")])
    state = HubState(Fleet.of([tainted]), NOW)
    assert what_if(state, HypotheticalChanges(drained=["dover"]))["fleet"]["drained"] == ["dover"]
    assert CORDON.key == "cordon-key"


def test_two_policies_side_by_side():
    fleet = [cluster(name) for name in ("dover", "faro", "genoa")] + [cluster("oslo", taints=[("dock", "dry")])]
    state = HubState(
        Fleet.of(fleet),
        NOW,
        placements=[placement("a", pick_n(1, preferred=BY_NODES)), placement("b", pick_fixed("faro"))],
    )
    plan = what_if(state)
    answer = compare(entry_of(plan, "a"), entry_of(plan, "b"))
    assert (answer["left"]["found"], answer["right"]["type"], answer["differs"]) == (1, "PickFixed", True)
    verdicts = [
        (one["cluster"], one["left"]["verdict"], one["left"]["rank"], one["right"]["verdict"], one["differs"])
        for one in answer["clusters"]
    ]
    assert verdicts == [
        ("dover", "Picked", 1, "NotListed", True),
        ("genoa", "ScoreTooLow", 2, "NotListed", True),
        ("faro", "ScoreTooLow", 3, "Picked", True),
        ("oslo", "TaintNotTolerated", None, "NotListed", True),
    ]
    assert answer["clusters"][0]["why"] == "right: the policy does not list it"
    named = compare(entry_of(plan, "a"), entry_of(plan, "b"), names=("a.yaml", "b.yaml"))
    assert named["clusters"][2]["why"] == "a.yaml: others score higher; affinity 50 with a.yaml, 0 with b.yaml"
    same = compare(entry_of(plan, "a"), entry_of(plan, "a"))
    assert not same["differs"]
    assert not any(one["differs"] or one["why"] for one in same["clusters"])


@given(data=st.data())
@modest(80)
def test_with_no_changes_a_settled_hub_stays_as_it_is(data):
    """Whatever the policy picks, once it is there the plan is empty; and changes that change nothing, too."""
    fleet = data.draw(members(ill=False))
    wanted = data.draw(st.one_of(pick_n_policies(), st.just(policy()), st.just(pick_fixed("port-1", "port-2"))))
    run = schedule(read_request(wanted), Fleet.of(fleet), (), NOW)
    state = settled((placement("web", wanted), [pick.cluster for pick in run.picked]), members_=fleet)
    assert not changes_anything(what_if(state))
    plan = what_if(state, HypotheticalChanges(members=fleet, objects=list(state.placements)))
    assert not changes_anything(plan)
    assert json.dumps(plan["placements"]) == json.dumps(what_if(state)["placements"])


@given(data=st.data())
@modest(80)
def test_moves_account_for_every_cluster_held_before_and_then(data):
    fleet = data.draw(members())
    names = sorted(member.metadata.name for member in fleet)
    held = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    wanted, then = data.draw(pick_n_policies()), data.draw(pick_n_policies())
    some = st.lists(st.sampled_from(names), unique=True, max_size=3) if names else st.just([])
    changes = HypotheticalChanges(objects=[placement("web", then)], lost=data.draw(some), drained=[])
    entry = entry_of(what_if(settled((placement("web", wanted), held), members_=fleet), changes), "web")
    moves, picked = entry["moves"], {pick["cluster"] for pick in entry["picked"]}
    assert sorted([*moves["stays"], *moves["lost"]]) == sorted(held) == [one["cluster"] for one in entry["before"]]
    assert sorted([*moves["stays"], *moves["gained"]]) == sorted(picked)
    moved = [name for step in entry["rollout"]["steps"] for part in ("update", "bind", "remove") for name in step[part]]
    assert len(moved) == len(set(moved))
    waiting = (entry["rollout"]["blocked"] or {"clusters": []})["clusters"]
    kept = [removal["cluster"] for removal in entry["rollout"]["removals"]]
    assert set(moves["gained"]) | set(moves["lost"]) <= {*moved, *waiting, *kept}
