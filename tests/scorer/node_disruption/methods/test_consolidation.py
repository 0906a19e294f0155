"""The price rules of consolidation: nodepool-disruption.md 6.3, and which nodes it looks at (5.3, 5.6, 5.7)."""

from datetime import timedelta

import pytest

from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog
from scorer.node_disruption.instance_types.price_table import read_instance_types
from scorer.node_disruption.methods.command import over_limits
from scorer.node_disruption.methods.consolidation import MOST_TYPES
from scorer.node_disruption.methods.planner import PlannerOptions, decide, pool_views
from tests.builders.node import make_requirement
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, make_catalog, make_cluster, make_pool_of, make_worker

CAPACITY, TYPE = "karpenter.sh/capacity-type", "node.kubernetes.io/instance-type"
SPOT = make_requirement(CAPACITY, "In", "spot")
EITHER = make_requirement(CAPACITY, "In", "spot", "on-demand")
ON_DEMAND = make_requirement(CAPACITY, "In", "on-demand")
BOTH = ("spot", "on-demand")


def busy(node, cores="1", **more):
    return make_pod(f"on-{node}", node, needs={"cpu": cores}, **more)


def decided(catalog, *documents, now=NOW, **settings):
    return decide(make_cluster(*documents), catalog, now, PlannerOptions(**settings))


def why(decision, node="a"):
    found = {each.node: each for each in decision.held if each.wanted == "Underutilized"}
    return found[node].reason if node in found else None


def names(command):
    return [[each.name for each in node.types] for node in command.replacements]


CATALOG = make_catalog({"large": 1.0, "small": 0.3, "tiny": 0.1}, cores={"small": 2, "tiny": 0.5})


def test_a_node_whose_pods_fit_elsewhere_is_deleted():
    found = decided(CATALOG, make_pool_of(), make_worker("a"), make_worker("b"), busy("a"), busy("b", "2.5"))
    assert (found.command.nodes, found.command.decided) == (("a",), "delete")
    assert (found.command.moves, found.command.savings) == ({"shop/on-a": "b"}, 1.0)
    assert found.command.validate_after == timedelta(seconds=15)


def test_a_node_is_replaced_by_a_cheaper_one():
    found = decided(CATALOG, make_pool_of(), make_worker("a"), busy("a"))
    assert names(found.command) == [["small"]]
    assert found.command.moves == {"shop/on-a": found.command.replacements[0].name}
    assert found.command.savings == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("catalog", "documents", "reason"),
    [
        pytest.param({"large": 1.0, "same": 1.0}, [busy("a")], "NoCheaperReplacement", id="equal-is-not-cheaper"),
        pytest.param({"large": 1.0, "same": 0.999}, [busy("a")], None, id="a-little-cheaper-is"),
        pytest.param(
            {"large": 1.0, "small": 0.1}, [busy("a", "3")], "NoCheaperReplacement", id="what-is-cheaper-is-too-small"
        ),
        pytest.param(
            {"large": 5.0, "small": 0.1},
            [make_pod(f"p{number}", "a", needs={"cpu": "1.5"}) for number in range(2)],
            "NoCheaperReplacement",
            id="no-cheaper-type-holds-all",
        ),
        pytest.param(
            {"large": 1.0}, [busy("a", nodeSelector={"disk": "fast"})], "NoCheaperReplacement", id="no-place-at-all"
        ),
    ],
)
def test_no_move(catalog, documents, reason):
    types = make_catalog(catalog, cores={"small": 2})
    assert why(decided(types, make_pool_of(), make_worker("a"), *documents)) == reason


@pytest.mark.parametrize(("count", "subject"), [(1, "1 pod fits on no"), (2, "2 pods fit on no")])
def test_the_message_of_no_cheaper_type_counts_the_pods(count, subject):
    pods = [make_pod(f"p{number}", "a", needs={"cpu": "1.5"}) for number in range(count)]
    types = make_catalog({"large": 1.0, "tiny": 0.1}, cores={"tiny": 0.5})
    [held] = decided(types, make_pool_of(), make_worker("a"), *pods).held
    assert held.message.startswith(f"{subject} other node, and no type with room for ")
    assert held.message.endswith("costs less than 1 per hour")


def test_a_pool_beyond_its_limits_may_make_a_smaller_node_in_place_of_its_own():
    """It is decided by what is left then; no claim is made before."""
    cluster = make_cluster(make_pool_of(limits={"cpu": "3"}), make_worker("a"), busy("a"))
    command = decide(cluster, CATALOG, NOW).command
    assert names(command) == [["small"]]
    assert over_limits(command, cluster).message == "NodePool general would exceed its limits"
    roomy = make_cluster(make_pool_of(limits={"cpu": "4"}), make_worker("a"), busy("a"))
    assert over_limits(decide(roomy, CATALOG, NOW).command, roomy) is None


def test_one_node_does_not_become_several():
    pool = make_pool_of("general", make_requirement(TYPE, "In", "small", "large"))
    other = make_pool_of("fast", make_requirement("disk", "In", "fast"))
    pods = [busy("a", "0.1"), make_pod("q", "a", needs={"cpu": "0.1"}, nodeSelector={"disk": "fast"})]
    found = decided(CATALOG, pool, other, make_worker("a"), *pods)
    assert why(found) == "SeveralNodesNeeded"


def test_all_pods_must_find_a_place():
    pods = [busy("a", "0.1"), make_pod("q", "a", needs={"cpu": "0.1"}, nodeSelector={"disk": "fast"})]
    found = decided(CATALOG, make_pool_of(), make_worker("a"), *pods)
    assert why(found) == "PodsDoNotFit"
    assert "shop/q: 0/0 nodes are available" in next(each.message for each in found.held)


def test_a_pending_pod_that_fits_nowhere_holds_nothing():
    stuck = make_pod("stuck", needs={"cpu": "900"})
    found = decided(CATALOG, make_pool_of(), make_worker("a"), busy("a"), stuck)
    assert names(found.command) == [["small"]]


def test_the_worst_price_of_the_type_counts():
    """In zone z2 the replacement would cost as much as the node: it may come there, unless its pods say otherwise."""
    offerings = [
        {"name": "large", "cpu": 4, "memory": "16Gi", "zone": "z1", "price": 1.0},
        {"name": "small", "cpu": 2, "memory": "8Gi", "zone": "z1", "price": 0.3},
        {"name": "small", "cpu": 2, "memory": "8Gi", "zone": "z2", "price": 1.0},
    ]
    catalog = InstanceTypeCatalog(read_instance_types(offerings))
    documents = [make_pool_of(), make_worker("a")]
    assert why(decided(catalog, *documents, busy("a"))) == "NoCheaperReplacement"
    pinned = busy("a", nodeSelector={"topology.kubernetes.io/zone": "z1"})
    assert names(decided(catalog, *documents, pinned).command) == [["small"]]


def test_an_on_demand_node_is_replaced_by_spot_only():
    """6.3, rule 4: a spot shortage must not end in a dearer on-demand node."""
    catalog = make_catalog({"large": 1.0, "small": 0.3}, cores={"small": 2}, capacity=BOTH)
    found = decided(catalog, make_pool_of("general", EITHER), make_worker("a"), busy("a"))
    (replacement,) = found.command.replacements
    assert replacement.requirements[CAPACITY].values == {"spot"}
    assert names(found.command) == [["small", "large"]], "large as spot is cheaper than large on demand"
    assert found.command.savings == pytest.approx(0.85)


def test_it_stays_on_demand_where_the_pool_says_so():
    catalog = make_catalog({"large": 1.0, "small": 0.3}, cores={"small": 2}, capacity=BOTH)
    found = decided(catalog, make_pool_of("general", ON_DEMAND), make_worker("a"), busy("a"))
    (replacement,) = found.command.replacements
    assert replacement.requirements[CAPACITY].values == {"on-demand"}
    assert names(found.command) == [["small"]]


def spot_types(number, first=0.01):
    prices = {f"t{index:02}": first * (index + 1) for index in range(number)}
    return make_catalog({**prices, "large": 1.0}, capacity=BOTH)


@pytest.mark.parametrize(
    ("number", "gate", "reason"),
    [
        pytest.param(20, False, "SpotToSpotDisabled", id="the-gate-is-off"),
        pytest.param(14, True, "TooFewCheaperSpotTypes", id="fewer-than-15"),
        pytest.param(15, True, None, id="just-15"),
        pytest.param(20, True, None, id="more"),
    ],
)
def test_spot_to_spot(number, gate, reason):
    """6.3, rule 5."""
    documents = [make_pool_of("general", SPOT), make_worker("a", capacity="spot"), busy("a")]
    found = decided(spot_types(number), *documents, spot_to_spot=gate)
    assert why(found) == reason
    if reason is None:
        assert names(found.command) == [[f"t{index:02}" for index in range(15)]], "the 15 cheapest"


def test_more_than_15_where_min_values_needs_them():
    pool = make_pool_of("general", SPOT, make_requirement(TYPE, "Exists", minValues=18))
    found = decided(spot_types(20), pool, make_worker("a", capacity="spot"), busy("a"), spot_to_spot=True)
    assert len(found.command.replacements[0].types) == 18


def test_a_spot_node_may_become_a_cheaper_on_demand_one_without_the_gate():
    catalog = make_catalog({"large": 4.0, "small": 0.3}, cores={"small": 2}, capacity=BOTH)
    pod = busy("a", nodeSelector={CAPACITY: "on-demand"})
    found = decided(catalog, make_pool_of(), make_worker("a", capacity="spot"), pod)
    assert names(found.command) == [["small"]]


def test_min_values_must_hold_after_the_price_filter():
    pool = make_pool_of("general", make_requirement(TYPE, "Exists", minValues=2))
    found = decided(CATALOG, pool, make_worker("a"), busy("a"))
    assert why(found) == "MinValues"
    assert "the eligible types have 1 value" in next(each.message for each in found.held)


def test_no_more_than_600_types_are_asked_for():
    prices = {f"t{index:03}": 0.001 * (index + 1) for index in range(MOST_TYPES + 20)}
    found = decided(make_catalog({**prices, "large": 1.0}), make_pool_of(), make_worker("a"), busy("a"))
    assert len(found.command.replacements[0].types) == MOST_TYPES
    assert found.command.replacements[0].types[-1].name == "t599"


@pytest.mark.parametrize(
    ("pool", "worker", "reason"),
    [
        pytest.param({}, {"kind": "unheard-of"}, "InstanceTypeUnknown", id="type-unknown"),
        pytest.param({}, {"zone": ""}, "ZoneMissing", id="zone-missing"),
        pytest.param({}, {"capacity": ""}, "CapacityTypeMissing", id="capacity-type-missing"),
        pytest.param({"after": "Never"}, {}, "ConsolidationDisabled", id="never"),
        pytest.param({"policy": "WhenEmpty"}, {}, "WhenEmpty", id="policy-when-empty"),
        pytest.param({"after": "5m"}, {"last_pod_event": NOW - timedelta(minutes=4)}, "ConsolidateAfter", id="not-yet"),
        pytest.param({"budgets": [{"nodes": "0"}]}, {}, "Budget", id="budget"),
        pytest.param({}, {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, "DoNotDisrupt", id="blocked"),
    ],
)
def test_which_nodes_are_looked_at(pool, worker, reason):
    found = decided(CATALOG, make_pool_of(**pool), make_worker("a", created=NOW, **worker), busy("a"))
    assert not found.commands
    assert why(found) == reason


def test_static_pools_are_not_consolidated():
    found = decided(CATALOG, make_pool_of(replicas=1), make_worker("a"), busy("a"))
    assert (found.commands, found.held) == ((), ())


def test_without_a_catalog_nothing_is_consolidated():
    found = decided(None, make_pool_of(), make_worker("a"), make_worker("b"), busy("a"), busy("b"))
    assert not found.commands
    assert why(found) == "NoCatalog"


def test_nodes_inside_their_consolidate_after_take_no_pods():
    quiet = {"last_pod_event": NOW - timedelta(hours=1)}
    documents = [make_pool_of(after="5m"), make_worker("a", **quiet), busy("a", "3"), busy("b", "0.5")]
    inside = decided(CATALOG, *documents, make_worker("b", last_pod_event=NOW))
    assert why(inside) == "NoCheaperReplacement"
    assert inside.next_at == NOW + timedelta(minutes=5)
    found = decided(CATALOG, *documents, make_worker("b", last_pod_event=NOW - timedelta(minutes=5)))
    assert found.command.moves == {"shop/on-a": "b"}


def test_reserved_nodes_take_no_pods():
    cluster = make_cluster(make_pool_of(), make_worker("a"), make_worker("b"), busy("a", "3"), busy("b", "0.5"))
    views = pool_views(cluster, PlannerOptions())
    views["general"] = views["general"].with_held(["b"])
    assert why(decide(cluster, CATALOG, NOW, views=views)) == "NoCheaperReplacement"


def test_limits_do_not_count_the_node_that_goes():
    pool = make_pool_of(limits={"cpu": "5"})
    assert names(decided(CATALOG, pool, make_worker("a"), busy("a")).command) == [["small"]]
    tight = make_pool_of(limits={"cpu": "5"})
    found = decided(CATALOG, tight, make_worker("a"), make_worker("b"), busy("a"), busy("b", "3.5"))
    assert why(found) == "PodsDoNotFit", "four of five cores are still there"
