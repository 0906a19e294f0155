"""Static drift: nodepool-disruption.md 7."""

from datetime import timedelta

import pytest

from scorer.node_disruption.execution.command_annotation import order_of
from scorer.node_disruption.execution.replacement_claims import claims_of
from scorer.node_disruption.methods.planner import decide
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, POOL, drifted, make_catalog, make_cluster, make_pool_of, make_worker

CATALOG = make_catalog({"large": 1.0, "small": 0.3})


def old(name, hours=1, **more):
    return make_worker(name, conditions=drifted(timedelta(hours=hours)), **more)


def busy(*nodes):
    return [make_pod(f"on-{node}", node, needs={"cpu": "1"}) for node in nodes]


def decided(pool, *documents, catalog=CATALOG):
    spec = {"replicas": 2, **pool}
    found = decide(make_cluster(make_pool_of(**spec), *documents), catalog, NOW)
    return [each.nodes for each in found.commands], {each.node: each.reason for each in found.held}, found


@pytest.mark.parametrize(
    ("pool", "going", "held"),
    [
        pytest.param({}, ["b", "a"], {}, id="all-the-oldest-first"),
        pytest.param({"budgets": [{"nodes": "1"}]}, ["b"], {"a": "Budget"}, id="as-many-as-the-budget-lets"),
        pytest.param({"budgets": [{"nodes": "0"}]}, [], {"a": "Budget", "b": "Budget"}, id="none"),
        pytest.param({"limits": {"nodes": "3"}}, ["b"], {"a": "NodePoolAtItsLimit"}, id="within-the-limit"),
        pytest.param(
            {"limits": {"nodes": "2"}}, [], {"a": "NodePoolAtItsLimit", "b": "NodePoolAtItsLimit"}, id="at-the-limit"
        ),
        pytest.param({"replicas": 1}, [], {"a": "ScalingDown", "b": "ScalingDown"}, id="too-many-nodes"),
    ],
)
def test_how_many_go(pool, going, held):
    nodes, kept, _ = decided(pool, old("a"), old("b", 2), busy("a", "b"))
    assert nodes == [(name,) for name in going]
    assert kept == held


@pytest.mark.parametrize("catalog", [CATALOG, None])
def test_each_has_a_replacement_of_its_own_by_the_template(catalog):
    _, _, found = decided({}, old("a"), old("b"), busy("a", "b"), catalog=catalog)
    assert [[node.pool for node in each.replacements] for each in found.commands] == [["general"], ["general"]]
    assert len({node.name for each in found.commands for node in each.replacements}) == 2
    assert all(each.method == "StaticDrift" and each.decided == "replace" for each in found.commands)


def test_a_replacement_is_of_a_type_that_the_pool_asks_for():
    """The cheapest type of all would drift as soon as it is launched, and be replaced for ever."""
    big = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["big"]}
    pool = make_pool_of(POOL, big, replicas=1)
    catalog = make_catalog({"big": 0.4, "tiny": 0.01})
    found = decide(make_cluster(pool, old("a", kind="big"), busy("a")), catalog, NOW)
    (node,) = found.command.replacements
    assert [each.name for each in node.types] == ["big"]
    assert found.command.savings == 0
    (claim,) = claims_of(order_of(found.command, ["u"], NOW), found.command.replacements, {POOL: pool})
    assert claim["spec"]["requirements"] == [big]


def test_blocked_nodes_stay():
    going, kept, _ = decided(
        {}, old("a", annotations={"karpenter.sh/do-not-disrupt": "true"}), old("b"), busy("a", "b")
    )
    assert (going, kept) == ([("b",)], {"a": "DoNotDisrupt"})


def test_it_comes_before_drift_and_after_emptiness():
    other = make_pool_of("other")
    _, _, found = decided({}, other, old("a"), busy("a", "c"), old("c", pool="other"))
    assert found.command.method == "StaticDrift"
    _, _, found = decided({}, other, old("a"), busy("a"), make_worker("c", pool="other"))
    assert found.command.method == "Emptiness"
