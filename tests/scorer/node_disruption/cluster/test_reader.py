"""A cluster as it is read from a dump."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.node_disruption.cluster.constraints import Expression, NodeTerm, ParsedTaint
from scorer.node_disruption.cluster.reader import read_cluster
from scorer.node_disruption.cluster.requirements import ZONE
from scorer.node_disruption.cluster.snapshot import read_claim, read_pool
from scorer.node_disruption.scheduling.node_filter import ClusterCapacity
from scorer.node_disruption.scheduling.scheduler import place_all
from tests.builders.node import make_claim, make_node, make_pool, make_requirement, make_taint
from tests.builders.pod import apart, make_pod, on_nodes
from tests.builders.random_pods import RandomPods, make_volumes
from tests.scorer.node_pool_builders import guard
from tests.thoroughness import examples

NOW = datetime(2026, 7, 1, tzinfo=UTC)


def cluster(*documents):
    return read_cluster(documents, NOW)


def named(kind, name, namespace="", **more):
    return {"kind": kind, "metadata": {"name": name, "namespace": namespace}, **more}


def daemon_set(name, labels=(), **spec):
    template = {"metadata": {"labels": dict(labels)}, "spec": {"containers": [], **spec}}
    return {
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "sys", "uid": f"uid-{name}"},
        "spec": {"template": template},
    }


def test_everything_finds_its_place():
    found = cluster(
        make_pod("b", "n1"),
        make_pod("a", "n1"),
        make_pod("waits"),
        make_pod("done", phase="Succeeded"),
        make_claim("c1", "n1", terminationGracePeriod="1h"),
        make_pool(weight=7, limits={"cpu": "8", "nodes": 3}),
        make_node("n2"),
        make_node("n1", pool="general", zone="z1", taints=[make_taint("a")], unschedulable=True),
        guard("pdb"),
        named("Namespace", "shop"),
        named("ConfigMap", "x", "shop"),
        {"kind": "PodList", "items": [make_pod("c", "n2")]},
    )
    assert list(found.nodes) == ["n1", "n2"]
    node = found.nodes["n1"]
    assert (node.pool, node.zone, node.taints, node.unschedulable) == (
        "general",
        "z1",
        (ParsedTaint("a", "NoSchedule"),),
        True,
    )
    assert node.claim is not None
    assert (node.claim.name, node.claim.termination_grace, node.node.grace_bounded) == ("c1", timedelta(hours=1), True)
    assert node.allocatable == node.capacity == {"cpu": 4000, "memory": 16 * 2**30, "pods": 110}
    assert found.nodes["n2"].claim is None
    assert found.nodes["n2"].initialized
    assert {name: [pod.name for pod in pods] for name, pods in found.pods.items()} == {"n1": ["a", "b"], "n2": ["c"]}
    assert [pod.name for pod in found.pending] == ["waits"]
    assert (found.pools["general"].weight, found.pools["general"].limits) == (7, {"cpu": 8000, "nodes": 3})
    assert [each.name for each in found.guards["shop"]] == ["pdb"]
    assert found.namespaces == {"shop": {}}


def test_the_order_of_a_dump_makes_no_difference():
    documents = [make_node("n1"), make_node("n2"), make_pod("a", "n1"), make_pod("b", "n2"), make_pod("c"), make_pool()]
    assert cluster(*documents) == cluster(*reversed(documents))


def test_a_claim():
    document = make_claim("c", "n", expireAfter="Never")
    document["metadata"] |= {
        "annotations": {"karpenter.sh/nodepool-hash": "h"},
        "deletionTimestamp": "2026-06-30T00:00:00Z",
    }
    document["status"]["lastPodEventTime"] = "2026-06-29T00:00:00Z"
    document["status"]["conditions"] += [
        {
            "type": "Drifted",
            "status": "True",
            "reason": "NodePoolDrifted",
            "lastTransitionTime": "2026-06-28T00:00:00Z",
        },
        {"type": "Consolidatable", "status": "True"},
    ]
    claim = read_claim(document)
    assert claim.expire_after is None
    assert (claim.drift_reason, claim.drifted_since) == ("NodePoolDrifted", datetime(2026, 6, 28, tzinfo=UTC))
    assert (claim.last_pod_event, claim.deletion) == (
        datetime(2026, 6, 29, tzinfo=UTC),
        datetime(2026, 6, 30, tzinfo=UTC),
    )
    assert claim.initialized_since == datetime(2026, 6, 1, tzinfo=UTC)
    assert claim.consolidatable
    assert claim.annotations == {"karpenter.sh/nodepool-hash": "h"}
    assert (
        read_claim({"metadata": {"name": "c", "creationTimestamp": 3}, "spec": {"expireAfter": 7}, "status": []}).name
        == "c"
    )


def test_the_claim_of_a_former_machine_of_that_name_is_not_the_node_s():
    claims = [make_claim("c-1", "n"), make_claim("c-2", "n"), make_claim("c-3", "n")]
    for number, each in enumerate(claims, 1):
        each["status"]["providerID"] = f"i-{number}"
    found = cluster(*claims, make_node("n", pool="general", providerID="i-2"))
    assert found.nodes["n"].claim == read_claim(claims[1])
    found = cluster(*claims, make_node("n", pool="general"))
    assert found.nodes["n"].claim == read_claim(claims[0])
    assert cluster(*claims, make_node("n", pool="general", providerID="i-4")).nodes["n"].claim is None


def test_a_claim_is_found_by_name_or_by_instance():
    by_instance = make_claim("c", "")
    by_instance["status"]["providerID"] = "aws://1"
    found = cluster(by_instance, make_node("n", pool="general", providerID="aws://1"))
    assert found.nodes["n"].claim == read_claim(by_instance)


def test_a_pool():
    document = make_pool("p", template={"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, replicas=2)
    document["metadata"]["annotations"] = {
        "karpenter.sh/nodepool-hash": "h",
        "karpenter.sh/nodepool-hash-version": "v3",
    }
    document["status"] = {"resources": {"cpu": "5"}, "nodes": 2}
    pool = read_pool(document)
    assert (pool.replicas, pool.hash, pool.hash_version, pool.do_not_disrupt) == (2, "h", "v3", True)
    assert pool.in_use == {"cpu": 5000, "nodes": 2}


def test_alike_pods_share_one_shape():
    """A label that differs from pod to pod counts only once somebody asks for it."""
    alike = [make_pod(name, "n", labels={"app": "web", "pod": name}) for name in "abc"]
    one, other, third = cluster(make_node("n"), *alike).pods["n"]
    assert one.shape is other.shape is third.shape
    asking = make_pod("d", "n", affinity=apart("x", {"pod": "a"}))
    one, other, *_ = cluster(make_node("n"), *alike, asking).pods["n"]
    assert one.shape is not other.shape


def test_one_daemon_per_daemon_set_by_its_template_or_by_a_pod_that_runs():
    fields = [make_requirement("metadata.name", "In", "n")]
    pinned = on_nodes([make_requirement("disk", "In", "ssd")], fields=fields)
    by_name = on_nodes([], fields=fields)
    found = cluster(
        daemon_set("net", {"app": "net"}, tolerations=[{"operator": "Exists"}]),
        make_pod("log-2", "n", owner="DaemonSet", needs={"cpu": "1"}, affinity=pinned),
        make_pod("log-1", "n", owner="DaemonSet", needs={"cpu": "1"}, affinity=pinned),
    )
    log, net = found.daemons
    assert (log.name, log.node, log.requests["cpu"]) == ("log-1", "", 1000)
    assert log.shape.node_terms == (NodeTerm((Expression("disk", "In", ("ssd",)),)),)
    assert (net.name, net.labels, net.reschedulable) == ("net", {"app": "net"}, False)
    anywhere = cluster(make_pod("log", "n", owner="DaemonSet", affinity=by_name)).daemons
    assert anywhere[0].shape.node_terms is None


def test_volumes_hold_pods_where_they_can_be_reached():
    """Also those that a pod makes for itself; one that is not bound yet holds no pod."""
    terms = {"nodeSelectorTerms": [{"matchExpressions": [make_requirement(ZONE, "In", "z1")]}]}
    volume = named("PersistentVolume", "v", spec={"nodeAffinity": {"required": terms}})
    claims = [named("PersistentVolumeClaim", name, "shop", spec={"volumeName": "v"}) for name in ("data", "p-own")]
    open_claim = named("PersistentVolumeClaim", "open", "shop", spec={})
    volumes = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "own", "ephemeral": {}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "open"}},
        {"name": "c", "emptyDir": {}},
    ]
    found = cluster(volume, *claims, open_claim, make_pod("p", volumes=volumes))
    term = NodeTerm((Expression(ZONE, "In", ("z1",)),))
    assert found.pending[0].shape.volume_terms == ((term,), (term,))
    assert any("shop/open" in note for note in found.notes)


@pytest.mark.parametrize(
    ("status", "cores"),
    [
        pytest.param({}, 2000, id="as-requested"),
        pytest.param({"allocatable": {"cpu": "4"}}, 4000, id="as-launched"),
        pytest.param({"nodeName": "gone"}, None, id="its-node-is-gone"),
    ],
)
def test_a_node_that_is_launching(status, cores):
    claim = make_claim("w", "", resources={"requests": {"cpu": "2"}}, taints=[make_taint("t")])
    claim["status"] = status
    found = cluster(claim)
    assert (found.nodes, list(found.launching)) == ({}, ["w"] if cores else [])
    for node in found.launching.values():
        assert (node.allocatable["cpu"], node.pool, node.initialized, len(node.taints)) == (cores, "general", False, 1)
        assert node.labels["kubernetes.io/hostname"] == "w"


@pytest.mark.parametrize(
    ("documents", "note"),
    [
        pytest.param([make_node("n")], "nodes without a pool are kept, and can take pods: n", id="no-pool"),
        pytest.param([make_node("n", pool="gone")], "does not exist: n", id="unknown-pool"),
        pytest.param([make_pod("p", "gone")], "pods on nodes that do not exist are ignored: shop/p", id="unknown-node"),
        pytest.param([make_pod("p")], "pods that are pending: shop/p", id="pending"),
        pytest.param(
            [make_pod("p", schedulingGates=[{"name": "g"}])], "pods with scheduling gates: shop/p", id="gated"
        ),
        pytest.param(
            [make_claim("w", "w", "general")],
            "NodeClaims whose nodes do not exist are ignored: w",
            id="claim-alone",
        ),
        pytest.param(
            [make_claim("w", "")], "NodeClaims whose nodes have not joined yet: w", id="claim-of-a-node-to-come"
        ),
        pytest.param([{**make_pool(), "spec": 7}], "NodePool general is invalid", id="unreadable-pool"),
        pytest.param(
            [make_claim("c", "n"), make_node("n", pool="general")], "does not exist: n", id="claim-of-no-pool"
        ),
    ],
)
def test_notes(documents, note):
    assert any(note in each for each in cluster(*documents).notes)


def test_notes_name_a_few_and_count_the_rest():
    notes = cluster(*(make_pod(f"p{number}") for number in range(9))).notes
    assert notes == ("pods that are pending: shop/p0, shop/p1, shop/p2, shop/p3, shop/p4 and 4 more",)


def test_what_was_made_later_than_now_is_noted():
    early = datetime(2026, 5, 1, tzinfo=UTC)
    notes = read_cluster([make_node("n", pool="p"), make_claim("c", "n"), make_pod("p", "n")], early).notes
    assert "created in the future: c, n, shop/p" in notes


@pytest.mark.parametrize("field", ["metadata", "spec", "status"])
@pytest.mark.parametrize("wrong", [None, 7, "x", [], [7]])
def test_wrong_types_count_as_absent(field, wrong):
    for document in (make_node("n"), make_claim("c", "n"), make_pod("p", "n"), make_pool(), daemon_set("d")):
        assert cluster({**document, field: wrong}).guards == {}


JUNK = st.sampled_from(
    (None, True, -1, 7, 10**30, 1.5, "", "x", "Infinity", [], [None], ["x"], [[]], {}, {"x": None}, {"": {}})
)


@settings(max_examples=examples(300))
@given(seed=st.integers(0, 2**32), junk=st.lists(JUNK, min_size=1, max_size=4))
def test_junk_anywhere_is_read_as_absent(seed, junk):
    """Whatever stands at whatever place, a cluster is read, and pods are placed by what is left."""
    made = RandomPods(seed)
    documents = [make_pool(), make_claim("c", "node-1"), daemon_set("d"), *make_volumes()]
    documents += [{**made.node(f"node-{number}"), "kind": "Node"} for number in range(3)]
    documents += [made.pod() for _ in range(4)]
    documents[-1]["spec"]["nodeName"] = "node-1"
    for each in junk:
        replace_somewhere(made.random.choice(documents), made.random, each)
    found = cluster(*documents)
    place_all(ClusterCapacity(found), found.pending)


def replace_somewhere(value, random, junk):
    """Put *junk* in the place of something within *value*."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = random.choice(keys)
        if not isinstance(value[key], dict | list) or not value[key] or random.random() < 0.2:
            value[key] = junk
            return
        value = value[key]
