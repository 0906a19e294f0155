"""What is kept while nodes and pods come and go is what one would find anew."""

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.node_disruption.cluster.reader import read_cluster
from scorer.node_disruption.scheduling.node_filter import ClusterCapacity, SimulatedCapacity
from tests.builders.random_pods import RandomPods, make_volumes
from tests.thoroughness import examples

NOW = datetime(2026, 7, 1, tzinfo=UTC)


@settings(max_examples=examples(100))
@given(seed=st.integers(0, 2**32), first=st.integers(1, 6), later=st.integers(1, 6), lost=st.integers(0, 3))
def test_what_is_kept_is_what_is_found_anew(seed, first, later, lost):
    """Some nodes come later, with pods; pods move; some nodes go."""
    made = RandomPods(seed)
    names = [f"node-{number:02}" for number in range(first + later)]
    documents = [*make_volumes(), *({"kind": "Node", **made.node(name)} for name in names)]
    for _ in range(3 * len(names)):
        pod = made.pod()
        pod["spec"]["nodeName"] = made.random.choice(names)
        documents.append({"kind": "Pod", **pod})
    asked = [{"kind": "Pod", **made.pod()} for _ in range(5)]
    cluster = read_cluster([*documents, *asked], NOW)
    present = {name: cluster.nodes[name] for name in names[:first]}
    pods = {name: cluster.pods.get(name, ()) for name in names}
    others = tuple(pod for name in names[first:] for pod in pods[name])
    start = replace(
        cluster,
        nodes=present,
        pods={name: pods[name] for name in names[:first]},
        pending=(*cluster.pending, *others),
    )
    room = SimulatedCapacity(start)
    room.add(())
    room.add([cluster.nodes[name] for name in names[first:]])
    for name in names[first:]:
        room.place_pods(pods[name], name)
    moved = pods[names[0]]
    room.remove_pods(moved, names[0])
    room.place_pods(moved, names[0])
    gone = names[:lost]
    room.lose(gone)
    anew = ClusterCapacity(cluster, without=gone)
    for pod in cluster.pending:
        assert named(room, pod) == named(anew, pod)
        assert room.reasons(pod) == anew.reasons(pod)


def named(fitting, pod):
    return {name for name, fits in zip(fitting.names, fitting.feasible(pod), strict=True) if fits}
