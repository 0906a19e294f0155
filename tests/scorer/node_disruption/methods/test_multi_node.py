"""Multi-node consolidation: nodepool-disruption.md 7."""

from datetime import timedelta

import pytest

from scorer.node_disruption.candidates.refusals import Refusal
from scorer.node_disruption.instance_types.new_node import NewNode
from scorer.node_disruption.methods.command import Command
from scorer.node_disruption.methods.context import survey
from scorer.node_disruption.methods.multi_node import MOST_NODES, same_type_guard
from scorer.node_disruption.methods.planner import PlannerOptions, decide, pool_views
from tests.builders.node import make_requirement
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, make_catalog, make_cluster, make_pool_of, make_worker

TYPE = "node.kubernetes.io/instance-type"
CATALOG = make_catalog({"large": 1.0, "small": 0.3}, cores={"small": 2})


def busy(node, cores="1", **more):
    return make_pod(f"on-{node}", node, needs={"cpu": cores}, **more)


def decided(*documents, catalog=CATALOG, **settings):
    return decide(make_cluster(*documents), catalog, NOW, PlannerOptions(**settings))


def group(number, cores="1", **more):
    """Make nodes with a pod each."""
    found = []
    for index in range(number):
        found += [*make_worker(f"n{index:03}", **more), busy(f"n{index:03}", cores)]
    return found


def test_several_nodes_become_one_cheaper_one():
    found = decided(make_pool_of(), group(2))
    (command,) = found.commands
    assert (command.method, command.reason, command.decided) == ("MultiNodeConsolidation", "Underutilized", "replace")
    assert command.nodes == ("n000", "n001")
    assert command.savings == pytest.approx(1.7)
    assert len(set(command.moves.values())) == 1


def test_the_longest_prefix_that_can_go_goes():
    """Four pods of a core fit on one node that stays: of five nodes, four can go."""
    only_large = make_catalog({"large": 1.0})
    found = decided(make_pool_of(), group(5, "0.8"), catalog=only_large)
    assert found.command.nodes == ("n000", "n001", "n002", "n003")
    assert found.command.decided == "delete"
    assert set(found.command.moves.values()) == {"n004"}


def test_the_highest_savings_ratio_comes_first():
    catalog = make_catalog({"large": 1.0, "larger": 2.0})
    found = decided(
        make_pool_of(),
        make_worker("a"),
        make_worker("b", "larger"),
        make_worker("c", "larger"),
        busy("a", "0.5"),
        busy("b", "0.5"),
        busy("c", "0.5"),
        catalog=catalog,
    )
    assert found.command.nodes == ("b", "c")


def test_it_takes_two_nodes_at_least():
    found = decided(make_pool_of(budgets=[{"nodes": "1"}]), group(3, "0.5"))
    assert found.command.method == "SingleNodeConsolidation"


@pytest.mark.parametrize(
    ("budgets", "going"),
    [
        pytest.param([{"nodes": "100%"}], 4, id="all"),
        pytest.param([{"nodes": "3"}], 3, id="each-takes-one"),
        pytest.param([{"nodes": "1", "reasons": ["Empty"]}, {"nodes": "2"}], 2, id="of-its-own-reason"),
    ],
)
def test_budgets(budgets, going):
    found = decided(make_pool_of(budgets=budgets), group(5, "0.8"), catalog=make_catalog({"large": 1.0}))
    assert len(found.command.nodes) == going
    held = [each.node for each in found.held if each.reason == "Budget"]
    assert len(held) == (0 if going == 4 else 5 - going)


def test_nodes_beyond_the_budget_are_looked_at_one_by_one_when_none_can_go_together():
    found = decided(make_pool_of(budgets=[{"nodes": "2"}]), group(3, "4"))
    assert {each.node: each.reason for each in found.held} == dict.fromkeys(
        ("n000", "n001", "n002"), "NoCheaperReplacement"
    )


def test_more_nodes_may_go_together_when_a_window_ends():
    budgets = [{"nodes": "1", "schedule": "0 12 * * *", "duration": "30m"}]
    found = decided(make_pool_of(budgets=budgets), group(3, "4"))
    assert found.next_at == NOW + timedelta(minutes=30)


def test_the_search_goes_no_further_than_a_hundred():
    """As in the reference, the last prefix has one node more (7: low 1, high min(n-1, 100), the first mid+1 nodes)."""
    pool = make_pool_of()
    catalog = make_catalog({"large": 1.0, "larger": 1.0}, cores={"larger": 200})
    found = decided(pool, group(150, "0.01"), catalog=catalog)
    assert len(found.command.nodes) == MOST_NODES + 1


def test_the_search_stops_after_so_many_simulations():
    """The minute of the reference: the best found so far is used."""
    only_large = make_catalog({"large": 1.0})
    assert (
        len(decided(make_pool_of(), group(5, "0.8"), catalog=only_large, multi_node_simulations=1).command.nodes) == 3
    )
    found = decided(make_pool_of(), group(5, "0.8"), catalog=only_large, multi_node_simulations=0)
    assert found.command.method == "SingleNodeConsolidation"


def guarded(types, going, prices):
    """Return what is left of a replacement that may be one of *types* when nodes of the types *going* go."""
    catalog = make_catalog(prices)
    cluster = make_cluster(make_pool_of(), *(make_worker(f"n{index}", kind) for index, kind in enumerate(going)))
    settings = PlannerOptions()
    nodes = survey(cluster, catalog, NOW, settings, pool_views(cluster, settings)).nodes
    node = NewNode("general", tuple(catalog.by_name[name] for name in types))
    found = same_type_guard(node, list(nodes.values()))
    return None if isinstance(found, Refusal) else [each.name for each in found.types]


PRICES = {"t3a.nano": 1, "t3a.small": 2, "t3a.xlarge": 8, "t3a.2xlarge": 16}
GOING = ("t3a.2xlarge", "t3a.2xlarge", "t3a.small")


@pytest.mark.parametrize(
    ("types", "kept"),
    [
        pytest.param(("t3a.small", "t3a.xlarge", "t3a.2xlarge"), None, id="reference-keep-the-small-one-instead"),
        pytest.param(("t3a.nano", "t3a.small", "t3a.xlarge", "t3a.2xlarge"), ["t3a.nano"], id="reference-only-cheaper"),
        pytest.param(("t3a.nano", "t3a.xlarge"), ["t3a.nano", "t3a.xlarge"], id="none-of-the-types-that-go"),
        pytest.param(("t3a.nano", "t3a.xlarge", "t3a.2xlarge"), ["t3a.nano", "t3a.xlarge"], id="the-cheapest-shared"),
    ],
)
def test_same_type_guard(types, kept):
    assert guarded(types, GOING, PRICES) == kept


def test_a_replacement_by_the_type_of_a_node_that_goes_is_no_move():
    """Deleting one and keeping the other does the same with less trouble."""
    pool = make_pool_of("general", make_requirement(TYPE, "In", "large"))
    documents = [busy("n000"), busy("n001"), make_worker("n000", cores=1.5), make_worker("n001", cores=1.5)]
    assert not decided(pool, documents, catalog=make_catalog({"large": 1.0})).commands


def test_spot_nodes_together_need_no_15_types():
    catalog = make_catalog({"large": 1.0, "small": 0.3}, cores={"small": 2}, capacity=("spot", "on-demand"))
    found = decided(make_pool_of(), group(2, capacity="spot"), catalog=catalog, spot_to_spot=True)
    assert isinstance(found.command, Command)
    assert [each.name for each in found.command.replacements[0].types] == ["small"]
    assert not decided(make_pool_of(), group(2, "3", capacity="spot"), catalog=catalog).commands
