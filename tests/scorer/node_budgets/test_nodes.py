"""Which nodes of a pool count, and as what (nodepool-disruption.md 4.1)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.node_budgets.budgets import NodeCounts
from scorer.node_budgets.nodes import PoolNode, count_nodes, read_pool_node
from tests.scorer.node_pool_builders import claim, node

WHEN = "2026-06-10T11:00:00Z"
DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}


def counted(document, its_claim):
    read = read_pool_node(document, its_claim)
    counts = count_nodes([] if read is None else [read])
    return counts.total, counts.deleting, counts.not_ready


@pytest.mark.parametrize(
    ("document", "its_claim", "counts"),
    [
        pytest.param(node("n"), claim("c", "n"), (1, 0, 0), id="in-order"),
        pytest.param(node("n"), None, (0, 0, 0), id="no-claim"),
        pytest.param(node("n", pool=""), claim("c", "n"), (0, 0, 0), id="no-pool"),
        pytest.param(node("n", initialized=False), claim("c", "n"), (0, 0, 0), id="not-initialized"),
        pytest.param(
            node("n", initialized=False),
            claim("c", "n", conditions=[("Rebooting", "True")]),
            (1, 1, 0),
            id="rebooting-is-not-initialized-and-counts",
        ),
        pytest.param(node("n"), claim("c", "n", conditions=[("Rebooting", "False")]), (1, 0, 0), id="rebooted"),
        pytest.param(node("n"), claim("c", "n", deleting=WHEN), (1, 1, 0), id="claim-deleted"),
        pytest.param(node("n", deleting=WHEN), claim("c", "n"), (1, 1, 0), id="node-deleted"),
        pytest.param(node("n", taints=[DISRUPTED]), claim("c", "n"), (1, 1, 0), id="command-has-tainted-it"),
        pytest.param(
            node("n"), claim("c", "n", conditions=[("DisruptionReason", "True")]), (1, 1, 0), id="command-has-marked-it"
        ),
        pytest.param(
            node("n", taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
            claim("c", "n"),
            (1, 0, 0),
            id="cordoned-only",
        ),
        pytest.param(
            node("n"),
            claim("c", "n", deleting=WHEN, conditions=[("InstanceTerminating", "True")]),
            (0, 0, 0),
            id="instance-gone",
        ),
        pytest.param(node("n", ready="False"), claim("c", "n"), (1, 0, 1), id="not-ready"),
        pytest.param(node("n", ready="Unknown"), claim("c", "n"), (1, 0, 1), id="unknown"),
        pytest.param(node("n", ready=None), claim("c", "n"), (1, 0, 1), id="no-condition"),
        pytest.param(node("n", ready="False"), claim("c", "n", deleting=WHEN), (1, 1, 0), id="both-counts-once"),
    ],
)
def test_what_a_node_counts_as(document, its_claim, counts):
    assert counted(document, its_claim) == counts


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"metadata": {"name": "n"}}, id="nothing"),
        pytest.param({"metadata": {"name": "n", "labels": "general"}}, id="labels"),
        pytest.param({"metadata": {"name": "n", "labels": {"karpenter.sh/nodepool": 1}}}, id="pool"),
    ],
)
def test_a_node_of_no_pool_is_none(broken):
    assert read_pool_node(broken, claim("c", "n")) is None


def test_what_has_a_wrong_type_counts_as_absent():
    document = {**node("n"), "spec": {"taints": "none"}, "status": {"conditions": [None, {"type": "Ready"}]}}
    read = read_pool_node(document, {"metadata": None, "spec": [], "status": "ok"})
    assert read == PoolNode("n", "general", ready=False)


@pytest.mark.parametrize(
    ("text", "protected"),
    [("true", True), ("True", False), ("false", False), ("4h", False), ("", False)],
)
def test_only_the_exact_word_protects_a_node(text, protected):
    document = node("n", annotations={"karpenter.sh/do-not-disrupt": text})
    assert read_pool_node(document, claim("c", "n")).do_not_disrupt is protected


def test_a_grace_period_bounds_the_drain():
    assert read_pool_node(node("n"), claim("c", "n", grace="0s")).grace_bounded
    assert not read_pool_node(node("n"), claim("c", "n")).grace_bounded


def test_held_nodes_count_as_deleting_once():
    nodes = [
        PoolNode("a", "p", "c"),
        PoolNode("b", "p", "c", ready=False),
        PoolNode("c", "p", "c", deleting=True),
        PoolNode("d", "p", "c", initialized=False),
        PoolNode("e", "p", "c"),
    ]
    assert count_nodes(nodes) == NodeCounts(4, 1, 1)
    assert count_nodes(nodes, {"a", "b", "c", "d", "gone"}) == NodeCounts(4, 3, 0)


flags = st.booleans()


@given(
    st.lists(
        st.builds(
            PoolNode,
            name=st.sampled_from("abcdef"),
            pool=st.just("p"),
            claim=st.sampled_from(["", "c"]),
            deleting=flags,
            ready=flags,
            rebooting=flags,
            initialized=flags,
            instance_gone=flags,
        )
    ),
    st.sets(st.sampled_from("abcdefg")),
)
def test_holding_nodes_never_changes_the_total(nodes, held):
    free, reserved = count_nodes(nodes), count_nodes(nodes, held)
    assert free.total == reserved.total <= len(nodes)
    assert free.deleting <= reserved.deleting
    assert free.deleting + free.not_ready <= reserved.deleting + reserved.not_ready <= free.total
