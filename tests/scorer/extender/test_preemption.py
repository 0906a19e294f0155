"""``preempt``: which candidates stay (serving.md 2.7)."""

import pytest

from scorer.extender.reading import MalformedArgsError
from tests.scorer.builders import AVAILABLE_CPU, has, make_cluster, policy, term
from tests.scorer.extender_builders import Hub, node, placement, pod

CLUSTERS = [make_cluster("east", available={"cpu": "10"}), make_cluster("west", available={"cpu": "10"})]
NODES = [node("e", "east"), node("w", "west"), node("plain")]
LACKING = placement("p", policy(required=[term(properties=[has(AVAILABLE_CPU, "Ge", "20")])]))


def meta(*uids: str, violations: int = 0) -> dict:
    return {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}


def whole(*uids: str, mark: str = "") -> dict:
    annotations = {"karpenter.sh/do-not-disrupt": mark} if mark else {}
    return {"Pods": [{"metadata": {"uid": uid, "annotations": annotations}} for uid in uids], "NumPDBViolations": 0}


def test_nodes_with_an_obstacle_are_dropped_and_the_rest_is_copied():
    hub = Hub(CLUSTERS, NODES, updating=["west"])
    given = {"w": meta("u3"), "e": meta("u2", "u1", violations=7), "plain": meta("u4")}
    assert hub.preempt(pod(), NodeNameToVictims=None, NodeNameToMetaVictims=given) == {
        "e": meta("u2", "u1", violations=7),
        "plain": meta("u4"),
    }


def test_lacking_capacity_is_no_obstacle_because_room_is_being_made():
    hub = Hub(CLUSTERS, NODES, placements=[LACKING], reject_unknown=True, reject_ordinary=False)
    given = {"e": meta("u1"), "ghost": meta("u2")}
    assert hub.preempt(pod("p"), NodeNameToMetaVictims=given) == given


def test_no_room_is_made_on_ordinary_nodes_for_a_pod_that_names_a_placement():
    hub = Hub(CLUSTERS, NODES, placements=[LACKING])
    given = {"e": meta("u1"), "plain": meta("u2"), "ghost": meta("u3")}
    assert hub.preempt(pod("p"), NodeNameToMetaVictims=given) == {"e": meta("u1")}
    assert hub.preempt(pod(), NodeNameToMetaVictims=given) == given


@pytest.mark.parametrize("victims", [None, {}, meta(), {"Pods": None, "NumPDBViolations": 1}])
def test_a_node_without_victims_is_dropped(victims):
    """A null would make kube-scheduler crash; no victim is an error to it."""
    assert Hub().preempt(pod(), NodeNameToMetaVictims={"a": victims, "b": meta("u1")}) == {"b": meta("u1")}


def test_whole_pods_are_answered_with_their_uids():
    hub = Hub()
    assert hub.preempt(pod(), NodeNameToVictims={"a": whole("u1", "u2")}) == {"a": meta("u1", "u2")}
    both = {"NodeNameToMetaVictims": {"b": meta("u9")}, "NodeNameToVictims": {"a": whole("u1")}}
    assert hub.preempt(pod(), **both) == {"b": meta("u9")}


@pytest.mark.parametrize(
    ("value", "protect", "kept"),
    [
        pytest.param("true", True, False, id="protected"),
        pytest.param("true", False, True, id="not-protected-by-the-settings"),
        pytest.param("false", True, True, id="not-asked-for"),
        pytest.param("True", True, True, id="only-this-word"),
    ],
)
def test_pods_that_must_not_be_disrupted_keep_their_node(value, protect, kept):
    hub = Hub(protect_undisturbed=protect)
    found = hub.preempt(pod(), NodeNameToVictims={"a": whole("u1", "u2", mark=value), "b": whole("u3")})
    assert list(found) == (["a", "b"] if kept else ["b"])


@pytest.mark.parametrize("given", [{}, {"NodeNameToVictims": None}, {"NodeNameToMetaVictims": {}}])
def test_nothing_left_is_an_empty_object(given):
    assert Hub().preempt(pod(), **given) == {}


def test_without_a_pod_there_is_no_answer():
    with pytest.raises(MalformedArgsError, match="Pod must be set"):
        Hub().preempt(None, NodeNameToMetaVictims={"a": meta("u1")})
