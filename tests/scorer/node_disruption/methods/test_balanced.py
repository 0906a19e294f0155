"""Policy Balanced: nodepool-disruption.md 6.4."""

import pytest

from scorer.node_disruption.methods.balanced import move_scores, pool_totals
from scorer.node_disruption.methods.command import DisruptionScore
from scorer.node_disruption.methods.context import survey
from scorer.node_disruption.methods.planner import PlannerOptions, decide, pool_views
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, make_catalog, make_cluster, make_pool_of, make_worker


@pytest.mark.parametrize(
    ("savings", "disruption", "expected"),
    [
        pytest.param(2, 5, 0.8, id="6.4-approved"),
        pytest.param(1, 5, 0.4, id="6.4-rejected"),
        pytest.param(0, 5, 0, id="nothing-saved"),
        pytest.param(-1, 5, 0, id="a-loss"),
    ],
)
def test_the_example(savings, disruption, expected):
    """A pool that costs 10 with a disruption of 20."""
    assert DisruptionScore(savings, disruption, 10, 20).value == pytest.approx(expected)


def test_a_pool_without_cost_approves_nothing():
    assert DisruptionScore(1, 1, 0, 20).value == 0


PRICES = make_catalog({"large": 1.0, "dear": 4.0, "small": 0.9}, cores={"small": 2})


def busy(node, cores="3", pods=1):
    share = f"{int(float(cores) * 1000 / pods)}m"
    return [make_pod(f"{node}-{index}", node, needs={"cpu": share}) for index in range(pods)]


def looked(*documents):
    cluster, settings = make_cluster(*documents), PlannerOptions()
    return survey(cluster, PRICES, NOW, settings, pool_views(cluster, settings)).nodes


def test_totals_are_over_all_nodes():
    nodes = looked(
        make_pool_of(policy="Balanced"),
        make_worker("a", annotations={"karpenter.sh/do-not-disrupt": "true"}),
        make_worker("b", "dear"),
        make_worker("c", "unheard-of"),
        *busy("a", pods=3),
        *busy("b"),
    )
    totals = pool_totals(nodes.values())["general"]
    assert (totals.cost, totals.disruption) == (5.0, 4.0 + 2.0 + 1.0)


@pytest.mark.parametrize(
    ("worker", "expected"),
    [
        pytest.param({}, 2.0, id="candidate"),
        pytest.param({"deleting": NOW}, 4.0, id="deleting"),
        pytest.param({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, 4.0, id="blocked"),
    ],
)
def test_static_and_terminating_pods_count_where_a_node_is_no_candidate(worker, expected):
    pods = [
        make_pod("web", "a"),
        make_pod("ending", "a", deleting="2026-06-10T11:59:00Z"),
        make_pod("static", "a", owner="Node"),
        make_pod("daemon", "a", owner="DaemonSet"),
        make_pod("done", "a", phase="Failed"),
    ]
    nodes = looked(make_pool_of(policy="Balanced"), make_worker("a", **worker), *pods)
    assert pool_totals(nodes.values())["general"].disruption == expected


def test_savings_are_shared_out_by_price_and_others_are_not_scored():
    nodes = looked(
        make_pool_of("p", policy="Balanced"),
        make_pool_of("q", policy="Balanced"),
        make_pool_of("r"),
        make_worker("a", pool="p"),
        make_worker("b", "dear", pool="q"),
        make_worker("c", pool="r"),
        *busy("a"),
        *busy("b", pods=2),
        *busy("c"),
    )
    found = move_scores(3.0, list(nodes.values()), pool_totals(nodes.values()))
    assert {pool: (score.savings, score.disruption) for pool, score in found.items()} == {
        "p": (pytest.approx(0.5), 2.0),
        "q": (pytest.approx(2.0), 3.0),
    }


def decided(policy, *documents):
    return decide(make_cluster(make_pool_of(policy=policy), *documents), PRICES, NOW)


def reasons(found):
    return {each.node: each.reason for each in found.held if each.reason != "NoCheaperReplacement"}


SMALL_SAVING = [make_worker("a"), *busy("a", "1.5")]
"""A node whose replacement saves a tenth of what the pool costs, and disturbs all of it: a score of 0.1."""


def test_a_move_that_saves_too_little_for_its_trouble_is_rejected():
    assert decided("WhenEmptyOrUnderutilized", *SMALL_SAVING).command.savings == pytest.approx(0.1)
    found = decided("Balanced", *SMALL_SAVING)
    assert not found.commands
    assert reasons(found) == {"a": "ScoreTooLow"}
    (held,) = found.held
    assert held.event == "ConsolidationRejected"
    assert "a score of 0.1 below 0.5" in held.message


def test_a_move_that_is_worth_it_is_approved_with_its_score():
    found = decided("Balanced", make_worker("a", "dear"), *busy("a"))
    assert found.command.scores["general"].value == pytest.approx(0.75)


def test_a_node_whose_deletion_could_not_pass_is_not_tried():
    """One of two nodes of equal price, with most of the pods: (1/2) / (10/12) is 0.6; with more pods it is below."""
    documents = [make_worker("a"), make_worker("b", "dear"), *busy("a", "3.9", pods=30), *busy("b", "3.9", pods=2)]
    found = decided("Balanced", *documents)
    assert reasons(found) == {"a": "ScoreTooLow"} or found.command.nodes == ("b",)


def test_a_multi_node_move_is_scored_as_a_whole():
    found = decided("Balanced", make_worker("a"), make_worker("b"), *busy("a", "0.5"), *busy("b", "0.5"))
    assert (found.command.method, found.command.nodes) == ("MultiNodeConsolidation", ("a", "b"))
    assert found.command.scores["general"].value == pytest.approx(1.1 / 2)
