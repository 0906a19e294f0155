"""What a plan says about evictions that are created, with the disruption budgets that decide about them."""

import pytest

from scorer.api.kinds import EVICTION
from scorer.what_if.document import what_if
from scorer.what_if.state import HypotheticalChanges, identity_of
from tests.scorer.builders import pick_n
from tests.scorer.what_if.settled_hub import BY_NODES, FIXED, WEB, budget, cluster, placement, settled
from webhook.cli.planning.output import changes_anything

BUDGET = budget("web", maxUnavailable=1)
CLOSED = budget("web", maxUnavailable=0)
THREE = placement("web", pick_n(3, preferred=BY_NODES))


def eviction(name, of="web", **status):
    kind = {"apiVersion": EVICTION.api_version, "kind": EVICTION.kind}
    target = name.rpartition("-")[2]
    return {**kind, "metadata": {"name": name}, "spec": {"placementName": of, "clusterName": target}, **status}


def evict(state, *evictions, deleted=(), objects=()):
    changes = HypotheticalChanges(objects=[*objects, *evictions], deleted=frozenset(map(identity_of, deleted)))
    return what_if(state, changes)


def outcomes(plan, name="web"):
    entry = next(entry for entry in plan["placements"] if entry["name"] == name)
    return [(one["name"], one["cluster"], one["executed"]) for one in entry["rollout"]["evictions"]]


@pytest.mark.parametrize(
    ("state", "given", "expected"),
    [
        pytest.param(
            settled((WEB, ["dover", "genoa"])), [eviction("off-dover")], [("off-dover", "dover", True)], id="executed"
        ),
        pytest.param(
            settled((WEB, ["dover", "genoa"]), budgets=[CLOSED]),
            [eviction("off-dover")],
            [("off-dover", "dover", False)],
            id="against-the-budget",
        ),
        pytest.param(
            settled((THREE, ["dover", "genoa", "faro"]), budgets=[BUDGET]),
            [eviction("a-dover"), eviction("b-genoa")],
            [("a-dover", "dover", True), ("b-genoa", "genoa", False)],
            id="the-second-meets-the-first",
        ),
        pytest.param(
            settled((WEB, ["dover", "genoa"])), [eviction("off-oslo")], [("off-oslo", "oslo", False)], id="not-there"
        ),
    ],
)
def test_an_eviction_is_decided_as_by_its_controller(state, given, expected):
    plan = evict(state, *given)
    assert (outcomes(plan), changes_anything(plan)) == (expected, True)


def test_an_evicted_cluster_that_still_qualifies_is_picked_again():
    plan = evict(settled((WEB, ["dover", "genoa"])), eviction("off-dover"))
    entry = plan["placements"][0]
    assert (entry["moves"]["stays"], entry["rollout"]["steps"][-1]["bind"]) == (["dover", "genoa"], ["dover"])


def test_an_evicted_cluster_that_is_tainted_is_replaced():
    tainted = cluster("dover", taints=[("dock", "dry")])
    changes = HypotheticalChanges(members=[tainted], objects=[eviction("off-dover")])
    entry = what_if(settled((WEB, ["dover", "genoa"])), changes)["placements"][0]
    assert entry["moves"] == {"gained": ["faro"], "lost": ["dover"], "stays": ["genoa"]}


def test_a_budget_in_the_same_change_decides():
    state = settled((WEB, ["dover", "genoa"]), budgets=[CLOSED])
    assert outcomes(evict(state, eviction("off-dover"), objects=[BUDGET])) == [("off-dover", "dover", True)]
    assert outcomes(evict(state, eviction("off-dover"), deleted=[CLOSED])) == [("off-dover", "dover", True)]


def test_a_budget_alone_changes_nothing():
    assert not changes_anything(evict(settled((WEB, ["dover", "genoa"])), objects=[CLOSED]))


def test_an_answered_eviction_is_history():
    done = {"conditions": [{"type": "Executed", "status": "True"}]}
    plan = evict(settled((WEB, ["dover", "genoa"])), eviction("off-dover", status=done))
    assert (outcomes(plan), changes_anything(plan)) == ([], False)


def test_a_pick_fixed_placement_is_not_evicted_and_that_is_no_secret():
    plan = evict(settled((FIXED, ["dover", "faro"])), eviction("off-dover", "fixed"))
    assert outcomes(plan, "fixed") == [("off-dover", "dover", False)]
    assert plan["placements"][0]["moves"]["lost"] == []


def test_an_eviction_of_an_unknown_placement_has_an_outcome():
    plan = evict(settled((WEB, ["dover", "genoa"])), eviction("off-dover", "till"))
    (outcome,) = plan["outcomes"]
    assert (outcome["kind"], outcome["name"]) == ("ClusterResourcePlacementEviction", "off-dover")
    assert outcome["message"] == "the placement does not exist"
    assert not changes_anything(plan)
