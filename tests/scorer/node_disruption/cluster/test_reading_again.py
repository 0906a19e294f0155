"""A cluster that is read again is what it is when it is read for the first time, made of what has been read before."""

from copy import deepcopy

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from scorer.node_disruption.cluster.reader import read_cluster, read_incrementally
from tests.builders.node import make_claim, make_node, make_pool
from tests.builders.pod import make_pod
from tests.builders.random_pods import RandomPods, make_volumes
from tests.builders.worker import NOW
from tests.thoroughness import examples

POOL, NODE, CLAIM = make_pool(), make_node("a", pool="general", providerID="i-2"), make_claim("a", "a")
ONE, OTHER, PENDING = make_pod("one", "a"), make_pod("other", "a"), make_pod("pending")
DOCUMENTS = [POOL, NODE, CLAIM, ONE, OTHER, PENDING]
SELECTING = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"tier": "db"}}}
            ]
        }
    }
}


def make_claim_of(instance):
    claim = make_claim("a", "a")
    claim["status"]["providerID"] = instance
    return claim


@settings(max_examples=examples(150))
@given(seed=st.integers(0, 2**32), data=st.data())
def test_reading_again_makes_no_difference(seed, data):
    """Whatever comes, goes and changes: pods, nodes, claims, pools, volumes, and the labels that pods ask for."""
    made, reading = RandomPods(seed), None
    documents = {}
    for _ in range(4):
        for document in data.draw(st.permutations(changes(made)))[:5]:
            documents[document["kind"], document["metadata"]["name"]] = document
        for key in data.draw(st.permutations(sorted(documents)))[:1]:
            del documents[key]
        reading = read_incrementally(
            documents.values(), NOW, data.draw(st.sampled_from([reading, reading, reading, None]))
        )
        cluster = read_cluster(deepcopy(list(documents.values())), NOW)
        assert reading.cluster == cluster
        assert list(reading.cluster.pods) == list(cluster.pods)
        shapes = shapes_of(reading.cluster)
        assert len(set(map(id, shapes))) == len(set(shapes))
        event(f"some pod asks for labels: {any(shape.selected_keys() for shape in shapes)}")


def changes(made):
    """Some objects, of few names, so that most come in the place of others."""
    name = f"node-{made.random.randint(0, 2)}"
    pods = [made.pod() for _ in range(4)]
    for number, pod in enumerate(pods):
        pod["metadata"]["name"] = f"pod-{number}"
        pod["spec"]["nodeName"] = made.random.choice((name, "node-0", ""))
    pods[0]["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "uid": "d", "name": "d", "controller": True}]
    node = {"kind": "Node", **made.node(name)}
    node["metadata"]["labels"]["karpenter.sh/nodepool"] = "general"
    pool = {"kind": "NodePool", **make_pool(weight=made.random.randint(1, 3))}
    return [*pods, node, make_claim("claim", name, expireAfter=f"{made.random.randint(1, 9)}h"), pool, *make_volumes()]


def read_twice(before, after):
    first = read_incrementally(before, NOW)
    return first.cluster, read_incrementally(after, NOW, first).cluster


def test_the_same_documents_are_the_same_objects():
    first, again = read_twice(DOCUMENTS, DOCUMENTS[::-1])
    assert again.nodes["a"] is first.nodes["a"]
    assert again.pools["general"] is first.pools["general"]
    assert again.pods["a"] is first.pods["a"]
    assert again.pending[0] is first.pending[0]


@pytest.mark.parametrize(
    ("document", "stay"),
    [
        pytest.param(make_node("a", pool="general", zone="z", providerID="i-2"), {"pools", "pods"}, id="a-node"),
        pytest.param(make_claim("a", "a", expireAfter="1h"), {"pools", "pods"}, id="its-claim"),
        pytest.param(make_pool(weight=7), {"nodes", "pods"}, id="its-pool"),
        pytest.param(make_pod("one", "a", labels={"app": "web"}), {"nodes", "pools"}, id="a-pod"),
        pytest.param(make_pod("third", "a"), {"nodes", "pools"}, id="another-pod"),
        pytest.param(
            make_pod("gated", schedulingGates=[{"name": "quota"}]), {"nodes", "pools", "pods"}, id="a-gated-pod"
        ),
        pytest.param(make_claim_of("i-1"), {"pools", "pods"}, id="a-claim-of-another-instance"),
        pytest.param(make_pod("pending", **SELECTING), set(), id="the-labels-that-are-asked-for"),
    ],
)
def test_what_is_another_document_is_read(document, stay):
    after = [*(each for each in DOCUMENTS if key_of(each) != key_of(document)), document]
    first, again = read_twice(DOCUMENTS, after)
    assert again == read_cluster(after, NOW) != first
    assert len(set(map(id, shapes_of(again)))) == len(set(shapes_of(again)))
    same = {
        "nodes": first.nodes["a"] is again.nodes["a"],
        "pools": first.pools["general"] is again.pools["general"],
        "pods": first.pods["a"] is again.pods["a"],
    }
    assert {name for name, is_same in same.items() if is_same} == stay


def test_a_volume_that_is_bound_elsewhere_is_noticed():
    """Its pod is the same document; the nodes that it may run on are others."""
    pod = make_pod("one", "a", namespace="blue", volumes=[{"persistentVolumeClaim": {"claimName": "near"}}])
    unbound, bound = [NODE, pod], [NODE, pod, *make_volumes()]
    for before, after in ((unbound, bound), (bound, unbound)):
        first, again = read_twice(before, after)
        assert again == read_cluster(after, NOW) != first


def test_pods_on_a_node_are_told_apart_from_those_that_left():
    first, again = read_twice(DOCUMENTS, [POOL, NODE, CLAIM, ONE])
    assert [pod.name for pod in again.pods["a"]] == ["one"]
    assert again.pods["a"][0] is first.pods["a"][0]


def shapes_of(cluster):
    return [pod.shape for pods in (*cluster.pods.values(), cluster.daemons, cluster.pending) for pod in pods]


def key_of(document):
    return document["kind"], document["metadata"]["name"]
