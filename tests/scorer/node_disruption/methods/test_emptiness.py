"""Emptiness: nodepool-disruption.md 5.5, 5.7 and 7."""

from datetime import timedelta

import pytest

from scorer.node_disruption.methods.planner import decide
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, make_catalog, make_cluster, make_pool_of, make_worker

CATALOG = make_catalog({"large": 1.0, "larger": 2.0})
CHEAP = {"annotations": {"karpenter.sh/disruption-cost": "-2000000000"}}


def workers(*names, **more):
    return [each for name in names for each in make_worker(name, **more)]


def decided(*documents, catalog=CATALOG):
    return decide(make_cluster(*documents), catalog, NOW)


def reasons(decision, wanted="Empty"):
    return {each.node: each.reason for each in decision.held if each.wanted == wanted}


@pytest.mark.parametrize(
    ("pods", "is_empty"),
    [
        pytest.param([], True, id="nothing-runs"),
        pytest.param([make_pod("p", "a", owner="DaemonSet")], True, id="daemons-only"),
        pytest.param([make_pod("p", "a", owner="Node")], True, id="mirror-pods-only"),
        pytest.param([make_pod("p", "a", phase="Succeeded")], True, id="finished-pods-only"),
        pytest.param([make_pod("p", "a", **CHEAP)], True, id="pods-of-negative-cost"),
        pytest.param([make_pod("p", "a", **CHEAP), make_pod("q", "a")], False, id="and-one-other"),
        pytest.param([make_pod("p", "a")], False, id="a-pod"),
    ],
)
@pytest.mark.parametrize("catalog", [CATALOG, None])
def test_what_is_empty(pods, is_empty, catalog):
    """The rule of 5.5, with and without prices."""
    found = decided(make_pool_of(), workers("a"), *pods, catalog=catalog).command
    assert (found is not None and found.method == "Emptiness") is is_empty


def test_all_empty_nodes_go_by_one_command():
    found = decided(make_pool_of(), workers("a", "c"), workers("b", kind="larger"), workers("d"), make_pod("p", "d"))
    (command,) = found.commands
    assert command.nodes == ("b", "a", "c"), "the highest savings ratio first, then by name"
    assert (command.decided, command.reason, command.savings) == ("delete", "Empty", 4.0)
    assert command.validate_after == timedelta(seconds=15)
    assert found.next_at == NOW + timedelta(seconds=15)


def test_each_takes_one_of_the_budget_of_its_pool():
    budgets = [{"nodes": "2", "reasons": ["Empty"]}, {"nodes": "0", "reasons": ["Drifted"]}]
    found = decided(
        make_pool_of(budgets=budgets), make_pool_of("other"), workers("a", "b", "c"), workers("d", pool="other")
    )
    assert sorted(found.command.nodes) == ["a", "b", "d"]
    assert reasons(found) == {"c": "Budget"}
    (held,) = found.held
    assert held.message == "budget 0 of NodePool general allows 2 disruptions for Empty, 2 used by this command"
    assert held.until is None


def test_a_window_says_until_when_a_node_stays():
    budgets = [{"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"}]
    found = decided(make_pool_of(budgets=budgets), workers("a"))
    assert not found.commands
    assert [each.until for each in found.held] == [NOW.replace(hour=17)]
    assert found.next_at == NOW.replace(hour=17)


@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        pytest.param({"policy": "WhenEmpty"}, None, id="when-empty"),
        pytest.param({"policy": "WhenEmptyOrUnderutilized"}, None, id="when-empty-or-underutilized"),
        pytest.param({"policy": "Balanced"}, None, id="balanced"),
        pytest.param({"after": "Never"}, "ConsolidationDisabled", id="never"),
        pytest.param({"after": "8000h"}, "ConsolidateAfter", id="not-quiet-for-long-enough"),
        pytest.param({"budgets": [{"nodes": "0"}]}, "Budget", id="budget"),
    ],
)
def test_policies(pool, reason):
    """The table of 5.7: every policy deletes empty nodes."""
    found = decided(make_pool_of(**pool), workers("a"))
    assert bool(found.commands) is (reason is None)
    assert reasons(found) == ({} if reason is None else {"a": reason})


def test_static_pools_keep_their_empty_nodes():
    found = decided(make_pool_of(replicas=1), workers("a"))
    assert not found.commands
    assert not found.held


def test_a_blocked_empty_node_is_told():
    found = decided(make_pool_of(), workers("a", annotations={"karpenter.sh/do-not-disrupt": "true"}))
    assert reasons(found) == {"a": "DoNotDisrupt"}
    assert found.held[0].event == "DisruptionBlocked"


def test_a_node_that_is_going_is_not_told():
    found = decided(make_pool_of(), workers("a", deleting=NOW))
    assert not found.commands
    assert not found.held
