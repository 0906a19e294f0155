"""States that are made of a settled one find for each pod what a look at all nodes finds."""

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from scorer.node_disruption.cluster.pod import read_pod
from scorer.node_disruption.cluster.reader import read_cluster
from scorer.node_disruption.scheduling.node_filter import ClusterCapacity, FeasibilityIndex, NodeView
from tests.builders.node import make_node
from tests.builders.pod import make_pod
from tests.builders.random_pods import RandomPods, make_volumes
from tests.builders.worker import NOW
from tests.thoroughness import examples

MOVED = NodeView(moved=True)
"""A pod that is moved: the first nodes with room for its kind are kept."""


@settings(max_examples=examples(240))
@given(seed=st.integers(0, 2**32), nodes=st.integers(1, 12), data=st.data())
def test_a_settled_state_finds_the_same(seed, nodes, data):
    """Also when nodes go or close, pods come, and, what is seldom, pods go."""
    made = RandomPods(seed)
    names = [f"node-{number:02}" for number in range(nodes)]
    running = [made.pod() for _ in range(nodes)]
    for pod in running:
        pod["spec"]["nodeName"] = made.random.choice(names)
    kinds = [made.pod() for _ in range(8)]
    pods = [
        {**each, "metadata": {**each["metadata"], "name": f"{turn}-{each['metadata']['name']}"}}
        for each in kinds
        for turn in range(2)
    ]
    for pod in pods:
        pod["spec"]["tolerations"] = [{"operator": "Exists"}]
    workers = [{**made.node(name), "kind": "Node"} for name in names]
    cluster = read_cluster([*make_volumes(), *workers, *running, *pods], NOW)
    plain = one = ClusterCapacity(cluster)
    settled = other = plain.settled()
    found_some = False
    for _ in range(4):
        gone = data.draw(st.sets(st.sampled_from([*names, "unknown"]), max_size=2))
        closed = data.draw(st.sampled_from(((), (), names[:1])))
        if data.draw(st.booleans()):
            one, other = plain, settled
        one, other = one.without(gone, closed=closed), other.without(gone, closed=closed)
        for pod in made.random.sample(cluster.pending, len(cluster.pending)):
            assert other.first(pod, MOVED) == one.first(pod) == first_of(one, pod)
            assert other.feasible(pod).tolist() == one.feasible(pod).tolist()
            if (found := one.first(pod)) is not None and made.random.random() < 0.8:
                found_some = True
                one.place(pod, found)
                other.place(pod, found)
                if made.random.random() < 0.1:
                    one.remove(pod, found)
                    other.remove(pod, found)
        if made.random.random() < 0.3 and (there := [each for each in cluster.pods.items() if each[0] not in gone]):
            name, several = made.random.choice(there)
            one.remove(several[0], name)
            other.remove(several[0], name)
        for pod in cluster.pending:
            assert other.first(pod, MOVED) == one.first(pod)
            assert other.has_room(pod) or one.first(pod) is None
            assert other.reasons(pod) == one.reasons(pod)
    event(f"some pod found a place: {found_some}")


def first_of(state, pod):
    """Initialized nodes come first, then the others, both by name."""
    fits = [name for name, each in zip(state.names, state.feasible(pod), strict=True) if each]
    return next((name for name in fits if state.initialized[state.names.index(name)]), next(iter(fits), None))


def test_more_nodes_than_are_kept():
    """When the first ones have been filled, all are looked at again."""
    names = [f"node-{number:03}" for number in range(100)]
    pods = [make_pod(f"p{number}", needs={"cpu": "1"}) for number in range(100)]
    cluster = read_cluster([*(make_node(name, has={"cpu": "1", "pods": "9"}) for name in names), *pods], NOW)
    state = ClusterCapacity(cluster).settled().without(())
    for pod in cluster.pending:
        state.place(pod, state.first(pod, MOVED))
    assert state.first(cluster.pending[0], MOVED) is None
    assert (state._occupancy.free("cpu") == 0).all()


@pytest.mark.parametrize(
    ("initialized", "others", "rows", "are_all"),
    [
        pytest.param(2, 2, [2, 3, 0, 1], True, id="initialized-ones-come-first"),
        pytest.param(30, 2, [*range(2, 32), 0, 1], True, id="as-many-as-are-kept"),
        pytest.param(31, 2, [*range(2, 33), 0], False, id="one-more"),
        pytest.param(2, 31, [31, 32, *range(30)], False, id="one-more-that-is-not-initialized"),
        pytest.param(50, 2, [*range(2, 34)], False, id="many-more"),
    ],
)
def test_the_first_nodes_are_kept(initialized, others, rows, are_all):
    column = np.array([False] * others + [True] * initialized)
    choice = FeasibilityIndex(lambda _: np.ones_like(column), column).of(read_pod(make_pod("p")))
    assert (list(choice.rows), choice.are_all) == (rows, are_all)


def test_a_settled_state_does_not_look_at_all_nodes_again(monkeypatch):
    names = [f"node-{number}" for number in range(3)]
    cluster = read_cluster([*map(make_node, names), make_pod("p")], NOW)
    state = ClusterCapacity(cluster).settled()
    assert state.first(cluster.pending[0], MOVED) == "node-0"
    monkeypatch.setattr(ClusterCapacity, "_roomy", None)
    assert state.without(["node-0"]).first(cluster.pending[0], MOVED) == "node-1"


def test_choices_are_made_once_for_each_kind_of_pod():
    asked = []

    def roomy(pod):
        asked.append(pod.name)
        return np.array([True, False, True])

    cluster = read_cluster([make_pod("p"), make_pod("q"), make_pod("r", needs={"cpu": "1"})], NOW)
    choices = FeasibilityIndex(roomy, np.array([False, True, True]))
    assert [choices.of(pod).rows for pod in cluster.pending] == [(2, 0)] * 3
    assert asked == ["p", "r"]
    assert choices.of(cluster.pending[0]).are_all
