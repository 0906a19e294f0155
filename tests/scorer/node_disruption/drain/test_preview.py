"""What a drain would do: who goes where, who is held by what, who finds no place and why."""

from datetime import timedelta

import pytest

from scorer.node_disruption.drain.preview import UnknownNodesError, preview_document, preview_drain
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, make_cluster, make_pool_of, make_worker

WEB = {"app": "web"}


def previewed(*documents, nodes=("a",)):
    return preview_drain(make_cluster(make_pool_of(), make_worker("a"), make_worker("b"), *documents), nodes, NOW)


def pod(name, node="a", **more):
    return make_pod(name, node, needs={"cpu": more.pop("cores", "1")}, **{"owner": "ReplicaSet", **more})


def guard(allowed=0):
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": WEB}},
        "status": {"disruptionsAllowed": allowed},
    }


def test_pods_go_to_the_nodes_that_remain():
    found = previewed(pod("p"))
    (only,) = found.pods
    assert (only.pod, only.fate, only.onto, found.is_clear, found.others) == ("shop/p", "goes", "b", True, 1)


def test_pods_of_several_nodes_are_placed_together():
    """Each alone would fit on c, both do not."""
    found = previewed(make_worker("c"), pod("p", cores="3"), pod("q", "b", cores="3"), nodes=("a", "b"))
    assert sorted(each.onto for each in found.pods) == ["", "c"]
    assert [dict(each.nowhere) for each in found.pods if each.nowhere] == [{"Insufficient cpu": 1}]
    assert not found.is_clear


def test_without_another_node_there_is_no_place():
    found = previewed(pod("p"), nodes=("a", "b"))
    assert [dict(each.nowhere) for each in found.pods] == [{"there is no other node": 1}]


def test_daemons_and_mirror_pods_stay():
    found = previewed(pod("d", owner="DaemonSet"), pod("m", owner="Node"))
    assert [(each.fate, each.onto) for each in found.pods] == [("stays", ""), ("stays", "")]
    assert found.is_clear


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        pytest.param({"labels": WEB}, "PodDisruptionBudget", id="guarded"),
        pytest.param({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, "DoNotDisrupt", id="protected"),
    ],
)
def test_daemons_are_evicted_and_may_be_held(more, reason):
    """The node does not go before they do; they need no place."""
    found = previewed(guard(0), pod("d", owner="DaemonSet", **more))
    assert [(each.fate, each.reason, each.onto, dict(each.nowhere)) for each in found.pods] == [
        ("held", reason, "", {})
    ]
    assert not found.is_clear


def test_a_pod_that_tolerates_the_taint_is_not_evicted():
    """It needs a place all the same, once the node is gone."""
    found = previewed(guard(0), pod("p", labels=WEB, tolerations=[{"operator": "Exists"}]))
    (only,) = found.pods
    assert (only.fate, only.onto, only.why) == (
        "stays",
        "b",
        "tolerates karpenter.sh/disrupted: it is deleted with the node",
    )
    assert (found.is_clear, found.guards) == (True, ())


def test_a_pod_that_does_not_run_yet_is_not_held():
    found = previewed(guard(0), pod("p", labels=WEB, phase="Pending"))
    assert ([each.fate for each in found.pods], found.guards) == (["goes"], ())


def test_a_guard_holds_pods():
    found = previewed(guard(0), pod("p", labels=WEB))
    (only,) = found.pods
    assert (only.fate, only.reason, only.onto, only.until) == ("held", "PodDisruptionBudget", "b", None)
    assert "shop/web" in only.why
    (around,) = found.guards
    assert (around.guard, around.allowed, around.pods) == ("shop/web", 0, ("shop/p",))


def test_an_annotation_holds_a_pod_until_it_ends():
    """The pod started at 11:00."""
    (only,) = previewed(pod("p", annotations={"karpenter.sh/do-not-disrupt": "3h"})).pods
    assert (only.fate, only.until) == ("held", NOW + timedelta(hours=2))


def test_a_bound_ends_the_holding():
    worker = make_worker("t", terminationGracePeriod="1h")
    held = pod("p", "t", labels=WEB, terminationGracePeriodSeconds=600)
    (only,) = previewed(worker, guard(0), held, nodes=("t",)).pods
    assert only.forced_after == timedelta(minutes=50)


def test_unknown_nodes_are_named():
    with pytest.raises(UnknownNodesError, match="there is no node x, y"):
        previewed(nodes=("a", "x", "y"))


def test_the_document_has_all_of_it():
    document = preview_document(previewed(guard(0), pod("p", labels=WEB), pod("q", cores="5")))
    assert (document["nodes"], document["otherNodes"], document["clear"]) == (["a"], 1, False)
    first, second = document["pods"]
    assert (first["fate"], first["goesTo"], first["reason"]) == ("held", "b", "PodDisruptionBudget")
    assert (second["fate"], second["goesTo"], second["noPlace"]) == ("goes", None, {"Insufficient cpu": 1})
    assert document["podDisruptionBudgets"] == [{"name": "shop/web", "disruptionsAllowed": 0, "pods": ["shop/p"]}]
