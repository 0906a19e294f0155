"""Static pools: how many nodes they lack, and which of too many go."""

import pytest

from scorer.node_disruption.simulation.static_pools import missing_nodes, surplus
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, make_cluster, make_pool_of, make_worker

PROTECTED = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}


def cluster(*documents, **pool):
    return make_cluster(make_pool_of(**pool), *documents)


def workers(*names, **more):
    return [make_worker(name, **more) for name in names]


@pytest.mark.parametrize(
    ("pool", "documents", "number"),
    [
        pytest.param({"replicas": 3}, workers("a"), 2, id="too-few"),
        pytest.param({"replicas": 1}, workers("a", "b"), 0, id="too-many"),
        pytest.param({"replicas": 2}, [*workers("a"), *workers("b", deleting=NOW)], 1, id="one-goes"),
        pytest.param({"replicas": 3, "limits": {"nodes": "2"}}, workers("a"), 1, id="limit"),
        pytest.param({"replicas": 2, "limits": {"nodes": "2"}}, workers("a", "b", deleting=NOW), 0, id="at-the-limit"),
        pytest.param({}, workers("a"), 0, id="not-static"),
    ],
)
def test_how_many_a_pool_lacks(pool, documents, number):
    found = cluster(*documents, **pool)
    assert missing_nodes(found.pools["general"], found.nodes.values()) == number


@pytest.mark.parametrize(
    ("documents", "names"),
    [
        pytest.param([*workers("a", "b"), make_pod("p", "a", owner="ReplicaSet")], ("b",), id="empty-first"),
        pytest.param([*workers("a", "b"), make_pod("d", "b", owner="DaemonSet")], ("a",), id="daemons-do-not-count"),
        pytest.param(
            [*workers("a", "b"), make_pod("d", "a", owner="DaemonSet", **PROTECTED)], ("b",), id="protected-daemon"
        ),
        pytest.param(
            [
                *workers("a", "b"),
                make_pod("p", "a", owner="ReplicaSet", **PROTECTED),
                *(make_pod(f"q{number}", "b", owner="ReplicaSet") for number in range(3)),
            ],
            ("b",),
            id="protected-last",
        ),
        pytest.param(
            [
                *workers("a", "b"),
                *(make_pod(f"p{number}", "a", owner="ReplicaSet") for number in range(2)),
                make_pod("q", "b", owner="ReplicaSet"),
            ],
            ("b",),
            id="cheapest-first",
        ),
        pytest.param([*workers("a"), *workers("b", deleting=NOW)], (), id="one-goes-already"),
    ],
)
def test_which_of_too_many_go(documents, names):
    found = cluster(*documents, replicas=1)
    assert surplus(found.pools["general"], found.nodes.values(), found.pods, NOW) == names
