"""Single-node consolidation: nodepool-disruption.md 6.2 and 7."""

import pytest

from scorer.node_disruption.methods.context import survey
from scorer.node_disruption.methods.planner import PlannerOptions, decide, pool_views
from scorer.node_disruption.methods.single_node import interleave_pools
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, make_catalog, make_cluster, make_pool_of, make_worker

CATALOG = make_catalog({"large": 1.0, "larger": 2.0, "small": 0.3}, cores={"small": 2})


def busy(node, cores="3", **more):
    return make_pod(f"on-{node}", node, needs={"cpu": cores}, **more)


def decided(*documents, unseen=(), **settings):
    return decide(make_cluster(*documents), CATALOG, NOW, PlannerOptions(**settings), unseen_pools=unseen)


def full(*names, **more):
    """Make nodes that are full: neither do they go, nor do they take pods."""
    return [each for name in names for each in (*make_worker(name, **more), busy(name))]


def test_pools_take_turns():
    documents = [
        *(make_pool_of(name) for name in ("p", "q", "r")),
        *full("p1", "p2", "p3", pool="p"),
        *full("q1", kind="larger", pool="q"),
        *full("r1", pool="r"),
        *full("r2", kind="larger", pool="r"),
    ]
    cluster, settings = make_cluster(*documents), PlannerOptions()
    nodes = survey(cluster, CATALOG, NOW, settings, pool_views(cluster, settings)).nodes.values()
    assert [each.name for each in interleave_pools(nodes)] == ["q1", "r2", "p1", "r1", "p2", "p3"]
    assert [each.name for each in interleave_pools(nodes, {"p"})] == ["p1", "q1", "r2", "p2", "r1", "p3"]


def test_the_first_that_can_go_goes():
    found = decided(make_pool_of(), full("a", "c"), make_worker("b"), busy("b", "2"))
    assert (found.command.method, found.command.nodes) == ("SingleNodeConsolidation", ("b",))
    assert {each.node: each.reason for each in found.held} == {"a": "NoCheaperReplacement"}, "c was not looked at"


def test_pools_without_budget_are_skipped():
    found = decided(
        make_pool_of(budgets=[{"nodes": "0"}]),
        make_pool_of("other"),
        make_worker("a"),
        busy("a", "2"),
        make_worker("b", pool="other"),
        busy("b", "2"),
    )
    assert found.command.nodes == ("b",)
    assert [(each.node, each.reason) for each in found.held] == [("a", "Budget")]


def test_it_gives_up_after_so_many_simulations_and_begins_there_next_time():
    """The three minutes of the reference."""
    documents = [make_pool_of("p"), make_pool_of("q"), full("p1", "p2", pool="p"), full("q1", pool="q")]
    first = decided(*documents, single_node_simulations=1)
    assert not first.commands
    assert first.unseen == {"q"}
    assert {each.node: each.reason for each in first.held if each.reason != "Budget"} == {
        "p1": "NoCheaperReplacement",
        "p2": "NotReached",
        "q1": "NotReached",
    }
    assert first.next_at is not None
    second = decided(*documents, unseen=first.unseen, single_node_simulations=1)
    assert second.unseen == {"p"}
    assert {each.node for each in second.held if each.reason == "NoCheaperReplacement"} == {"q1"}


@pytest.mark.parametrize("simulations", [1, 9])
def test_what_was_not_reached_is_kept_while_other_methods_act(simulations):
    found = decided(make_pool_of(), make_worker("a"), unseen=["q"], single_node_simulations=simulations)
    assert found.command.method == "Emptiness"
    assert found.unseen == {"q"}
