"""One pass: the order of the methods, expiration, why nodes stay, and when to look again."""

from datetime import timedelta

import pytest

from scorer.node_disruption.methods.planner import PASS, PlannerOptions, decide, pool_views
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, drifted, make_catalog, make_cluster, make_pool_of, make_worker

CATALOG = make_catalog({"large": 1.0, "small": 0.3}, cores={"small": 2})
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"


def busy(node, cores="1", **more):
    return make_pod(f"on-{node}", node, needs={"cpu": cores}, **more)


def decided(*documents, now=NOW, catalog=CATALOG, **settings):
    return decide(make_cluster(*documents), catalog, now, PlannerOptions(**settings))


EMPTY = [make_worker("empty")]
STATIC = [
    make_pool_of("static", replicas=1),
    make_worker("static", pool="static", conditions=drifted()),
    busy("static"),
]
DRIFTED = [make_worker("drifted", conditions=drifted()), busy("drifted", "3")]
MULTI = [make_worker("m1"), make_worker("m2"), busy("m1", "0.5"), busy("m2", "0.5")]
SINGLE = [make_worker("s1"), busy("s1", "1.5")]
FULL = [make_worker("full"), busy("full", "4")]


@pytest.mark.parametrize(
    ("documents", "method"),
    [
        pytest.param([EMPTY, STATIC, DRIFTED, MULTI], "Emptiness", id="emptiness"),
        pytest.param([STATIC, DRIFTED, MULTI], "StaticDrift", id="static-drift"),
        pytest.param([DRIFTED, MULTI], "Drift", id="drift"),
        pytest.param([MULTI], "MultiNodeConsolidation", id="multi-node"),
        pytest.param([SINGLE, FULL], "SingleNodeConsolidation", id="single-node"),
        pytest.param([FULL], None, id="nothing"),
    ],
)
def test_the_first_method_that_finds_something_acts(documents, method):
    """The order of 5.1."""
    found = decided(make_pool_of(), *documents)
    assert (found.command and found.command.method) == method


@pytest.mark.parametrize("ready", ["False", "Unknown"])
@pytest.mark.parametrize(
    ("documents", "wanted"),
    [
        pytest.param(DRIFTED, "Drifted", id="drift"),
        pytest.param(MULTI, "Underutilized", id="multi-node"),
        pytest.param([SINGLE, make_worker("room"), busy("room", "1")], "Underutilized", id="single-node"),
    ],
)
def test_nodes_with_pods_stay_while_no_pool_is_ready(documents, wanted, ready):
    static = make_pool_of("static", replicas=0)
    assert decided(make_pool_of(), static, documents).commands
    found = decided(make_pool_of(ready=ready), static, documents)
    assert not found.commands
    assert ("NoReadyNodePool", wanted) in {(each.reason, each.wanted) for each in found.held}
    assert decided(make_pool_of(ready=ready), make_pool_of("other", ready="True"), documents).commands


@pytest.mark.parametrize("documents", [pytest.param(EMPTY, id="emptiness"), pytest.param(STATIC, id="static-drift")])
def test_nodes_without_pods_to_move_go_while_no_pool_is_ready(documents):
    assert decided(make_pool_of(ready="False"), documents).commands


def test_nothing_at_all():
    found = decided()
    assert (found.commands, found.held, found.next_at) == ((), (), None)


def test_every_node_of_a_pool_is_shown_with_its_figures():
    found = decided(make_pool_of(), DRIFTED, SINGLE, make_worker("x", annotations={DO_NOT_DISRUPT: "true"}))
    assert sorted(found.nodes) == ["drifted", "s1", "x"]
    assert (found.nodes["s1"].price, found.nodes["s1"].cost, found.nodes["s1"].savings_ratio) == (1.0, 2.0, 0.5)
    assert [each.reason for each in found.nodes["x"].blockers] == ["DoNotDisrupt"]
    assert found.drifted["drifted"].reason == "NodeClassDrifted"
    assert found.eligible == {("general", "Drifted"): 1, ("general", "Underutilized"): 2}


def test_a_node_that_is_chosen_is_not_told_to_stay():
    found = decided(make_pool_of(after="Never"), DRIFTED)
    assert found.command.nodes == ("drifted",)
    assert not found.held


@pytest.mark.parametrize(
    ("age", "is_expired"),
    [
        pytest.param(timedelta(hours=24), True, id="just-that-old"),
        pytest.param(timedelta(hours=24, seconds=-1), False, id="a-second-younger"),
    ],
)
@pytest.mark.parametrize("budgets", [[{"nodes": "0"}], [{"nodes": "100%"}]])
def test_expiration_is_forceful(age, is_expired, budgets):
    """Chapter 10: no budget, no candidate filter, no do-not-disrupt."""
    worker = make_worker("a", created=NOW - age, expireAfter="24h", annotations={DO_NOT_DISRUPT: "true"})
    found = decided(make_pool_of(budgets=budgets), worker, busy("a"))
    assert found.expired == (("a",) if is_expired else ())
    assert [(each.node, each.at) for each in found.expiring] == [("a", NOW - age + timedelta(hours=24))]
    if not is_expired:
        assert found.next_at == NOW + timedelta(seconds=1)


def test_an_expired_node_counts_as_going():
    """It takes from the budgets of other methods, is no candidate, and takes no pods."""
    pool = make_pool_of(budgets=[{"nodes": "1"}])
    expired = make_worker("a", created=NOW - timedelta(days=2), expireAfter="24h")
    found = decided(pool, expired, busy("a"), make_worker("b"), make_worker("c"))
    assert found.expired == ("a",)
    assert not found.commands
    assert {each.node for each in found.held if each.reason == "Budget"} == {"c"}, "the pod of a comes to b"


@pytest.mark.parametrize(
    ("budgets", "annotations", "going", "reason"),
    [
        pytest.param([{"nodes": "1"}], {}, ("a",), None, id="within-the-budget"),
        pytest.param([{"nodes": "0"}], {}, (), "Budget", id="a-budget-without-reasons-holds-it"),
        pytest.param([{"nodes": "0", "reasons": ["Drifted"]}], {}, ("a",), None, id="one-with-reasons-does-not"),
        pytest.param([{"nodes": "1"}], {DO_NOT_DISRUPT: "true"}, (), "DoNotDisrupt", id="do-not-disrupt-holds-it"),
    ],
)
def test_graceful_expiration(budgets, annotations, going, reason):
    """The switch of chapter 10."""
    worker = make_worker("a", created=NOW - timedelta(days=2), expireAfter="24h", annotations=annotations)
    found = decided(make_pool_of(budgets=budgets, after="Never"), worker, busy("a"), graceful_expiration=True)
    assert found.expired == going
    assert [each.reason for each in found.held if each.wanted == "Expired"] == ([reason] if reason else [])


def web_protected(duration):
    return busy("a", "4", annotations={DO_NOT_DISRUPT: duration})


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        pytest.param([make_pool_of(), FULL], None, id="never"),
        pytest.param([make_pool_of(), EMPTY], timedelta(seconds=15), id="validation"),
        pytest.param([make_pool_of(after="Never"), DRIFTED], PASS, id="a-command-that-waits-for-nothing"),
        pytest.param(
            [make_pool_of(after="1h"), make_worker("a", last_pod_event=NOW)], timedelta(hours=1), id="consolidate-after"
        ),
        pytest.param(
            [make_pool_of(budgets=[{"nodes": "0", "schedule": "0 12 * * *", "duration": "30m"}]), EMPTY],
            timedelta(minutes=30),
            id="the-end-of-a-window",
        ),
        pytest.param([make_pool_of(), make_worker("a"), web_protected("2h")], timedelta(hours=1), id="do-not-disrupt"),
        pytest.param(
            [make_pool_of(), make_worker("a", created=NOW, expireAfter="3h"), busy("a", "4")],
            timedelta(hours=3),
            id="expiration",
        ),
    ],
)
def test_when_to_look_again(documents, expected):
    found = decided(*documents)
    assert found.next_at == (None if expected is None else NOW + expected)


def test_a_protected_pod_says_until_when_its_node_stays():
    found = decided(make_pool_of(), make_worker("a"), web_protected("2h"))
    (held,) = found.held
    assert (held.reason, held.until) == ("DoNotDisrupt", NOW + timedelta(hours=1))


def test_everything_in_the_way_of_a_node_is_told():
    worker = make_worker("a", annotations={DO_NOT_DISRUPT: "true"}, last_pod_event=NOW)
    found = decided(make_pool_of(after="1h"), worker, web_protected("2h"))
    assert [each.reason for each in found.held] == ["ConsolidateAfter", "DoNotDisrupt", "DoNotDisrupt"]


def test_an_invalid_budget_is_told():
    found = decided(make_pool_of(budgets=[{"nodes": "many"}]), EMPTY)
    (held,) = found.held
    assert held.message.startswith("budget 0 of NodePool general is invalid: nodes 'many'")
    assert held.until is None


def test_reservations_count_as_going():
    cluster = make_cluster(make_pool_of(budgets=[{"nodes": "1"}]), make_worker("a"), make_worker("b"))
    views = pool_views(cluster, PlannerOptions())
    views["general"] = views["general"].with_held(["a"])
    found = decide(cluster, CATALOG, NOW, views=views)
    assert not found.commands
    assert {each.node: each.reason for each in found.held} == {"a": "Reserved", "b": "Budget"}


def test_what_is_odd_about_the_cluster_is_handed_on():
    assert decided(make_pool_of(), make_worker("a", pool="gone")).notes
