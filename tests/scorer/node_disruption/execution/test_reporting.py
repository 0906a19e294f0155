"""What is said of a pass on pools, nodes and pods."""

from datetime import timedelta

import pytest

from scorer.node_disruption.execution.reporting import (
    Circumstance,
    NodePoolConditionReason,
    NodePoolEventReason,
    describe,
    notes,
    pool_conditions,
)
from scorer.node_disruption.methods.planner import PlannerOptions, decide, pool_views
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, drifted, make_catalog, make_cluster, make_pool_of, make_worker

SHUT = [{"nodes": "0"}]


def passed(*documents, now=NOW):
    cluster = make_cluster(*documents, now=now)
    return decide(cluster, None, now), cluster


def standing(*documents, **given):
    return pool_conditions(*passed(*documents), Circumstance(**given))["general"]


def told(*documents, acting=False, now=NOW):
    decision, cluster = passed(*documents, now=now)
    return [
        (each.kind, each.name, each.reason)
        for each in notes(decision, cluster, pool_views(cluster, PlannerOptions()), acts=acting)
    ]


@pytest.mark.parametrize(
    ("documents", "given", "wanted"),
    [
        pytest.param([make_pool_of()], {}, ("False", "NothingToDo", "no node would be disrupted"), id="nothing"),
        pytest.param([make_pool_of(), make_worker("a")], {}, ("True", "Advised", "Empty: delete a"), id="advised"),
        pytest.param(
            [make_pool_of(), make_worker("a")], {"acting": True}, ("True", "Disrupting", "Empty: delete a"), id="acting"
        ),
        pytest.param(
            [make_pool_of(after="Never"), make_worker("a", conditions=drifted())],
            {"acting": True, "under_way": {"a": "Drifted"}},
            ("True", "Disrupting", "being disrupted: Drifted: a"),
            id="under-way",
        ),
        pytest.param(
            [make_pool_of(), make_worker("a")],
            {"why_not": "Karpenter runs"},
            ("False", "NotActing", "advice only: Karpenter runs: Empty: delete a"),
            id="refused",
        ),
        pytest.param(
            [make_pool_of(budgets=SHUT), make_worker("a")],
            {},
            ("False", "Held", "nodes that are not disrupted, by blocker: Budget 1"),
            id="held",
        ),
        pytest.param(
            [make_pool_of()],
            {"trouble": "no prices"},
            ("False", "NothingToDo", "no node would be disrupted; no prices"),
            id="odd",
        ),
    ],
)
def test_what_is_said_on_a_pool(documents, given, wanted):
    found = standing(*documents, **given)
    assert (found.status, found.reason, found.message.split("; nodes that")[0]) == wanted
    assert found.reason in set(NodePoolConditionReason)


def test_a_pass_that_finds_the_same_says_the_same():
    documents = [make_pool_of(), make_worker("a"), make_worker("b"), make_pod("web", "b")]
    first, later = (
        pool_conditions(*passed(*documents, now=NOW + timedelta(minutes=n)), Circumstance()) for n in (0, 7)
    )
    assert first == later


def test_advice_is_told_on_the_nodes_and_nothing_of_it_when_it_is_done_anyway():
    documents = [make_pool_of(), make_worker("a")]
    assert ("Node", "a", NodePoolEventReason.CANDIDATE) in told(*documents)
    assert ("Node", "a", NodePoolEventReason.CANDIDATE) not in told(*documents, acting=True)


def test_a_shut_pool_is_told_and_its_nodes_are_not():
    found = told(make_pool_of(budgets=SHUT), make_worker("a"))
    assert ("NodePool", "general", NodePoolEventReason.BLOCKED) in found
    assert not any(kind == "Node" for kind, *_ in found)


def test_it_is_said_until_when_budgets_keep_nodes():
    window = [{"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"}, {"nodes": "0", "reasons": ["Unhealthy"]}]
    documents = [make_pool_of(budgets=window), make_worker("a")]
    assert standing(*documents).message == (
        "nodes that are not disrupted, by blocker: Budget 1 (the first until 2026-06-10T17:00:00Z)"
    )
    decision, cluster = passed(*documents)
    [found] = [
        each.message
        for each in notes(decision, cluster, pool_views(cluster, PlannerOptions()), acts=False)
        if each.kind == "NodePool"
    ]
    assert found == (
        "budgets allow 0 disruptions now for Underutilized until 2026-06-10T17:00:00Z, Empty until "
        "2026-06-10T17:00:00Z, Drifted until 2026-06-10T17:00:00Z, Unhealthy"
    )


def test_a_pod_says_until_when_it_is_protected_and_when_that_is_over():
    pod = make_pod("web", "a", annotations={"karpenter.sh/do-not-disrupt": "2h"})
    documents = [make_pool_of(after="Never"), make_worker("a"), pod]
    assert ("Pod", "web", NodePoolEventReason.PROTECTED_UNTIL) in told(*documents)
    assert ("Pod", "web", NodePoolEventReason.PROTECTION_OVER) in told(*documents, now=NOW + timedelta(hours=1))
    assert not any(kind == "Pod" for kind, *_ in told(*documents, now=NOW + timedelta(hours=2)))


def test_what_holds_a_node_is_told_with_what_it_is_wanted_for():
    guarded = make_pod("web", "a", annotations={"karpenter.sh/do-not-disrupt": "true"})
    decision, cluster = passed(make_pool_of(), make_worker("a", conditions=drifted()), guarded)
    found = notes(decision, cluster, {}, acts=True)
    assert any(each.reason == "DisruptionBlocked" and each.message.startswith("Drifted: ") for each in found)


def test_a_replacement_is_counted_with_its_noun():
    documents = [make_pool_of(), make_worker("a", conditions=drifted()), make_pod("web", "a", needs={"cpu": "3"})]
    command = decide(make_cluster(*documents), make_catalog({"large": 1.0}), NOW).command
    assert "replace a with 1 new node of NodePool general" in describe(command)
