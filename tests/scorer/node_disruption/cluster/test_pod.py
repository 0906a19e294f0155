"""What is read from a pod."""

from datetime import UTC, datetime, timedelta

import pytest

from scorer.node_disruption.cluster.constraints import (
    Expression,
    HostPort,
    NodeTerm,
    ParsedTaint,
    ParsedToleration,
    PodShape,
    Selector,
)
from scorer.node_disruption.cluster.pod import Owner, read_pod
from tests.builders.node import HOST, ZONE
from tests.builders.pod import LONG_AGO, REQUIRED, apart, beside, make_pod, make_spread, on_nodes


def test_a_pod_as_it_is():
    document = make_pod(
        "p",
        "n",
        owner="ReplicaSet",
        labels={"app": "web"},
        needs={"cpu": "1"},
        priority=7,
        terminationGracePeriodSeconds=90,
    )
    pod = read_pod(document | {"spec": document["spec"] | {"priorityClassName": "system-node-critical"}})
    assert (pod.key, pod.node, pod.uid, pod.labels) == ("shop/p", "n", "uid-shop-p", {"app": "web"})
    assert (pod.priority, pod.grace, pod.critical) == (7, timedelta(seconds=90), True)
    assert (pod.owner, pod.owner_uid, pod.phase) == (Owner.OTHER, "uid-ReplicaSet", "Running")
    assert pod.created == datetime.fromisoformat(LONG_AGO)
    assert pod.requests == {"cpu": 1000, "pods": 1} == dict(pod.shape.requests)
    assert pod.active
    assert pod.reschedulable


def test_wrong_types_count_as_absent():
    odd = {
        "metadata": {"name": 7, "labels": [], "ownerReferences": "x", "annotations": {"a": 1}},
        "spec": 3,
        "status": None,
    }
    pod = read_pod(odd)
    assert pod.shape == PodShape()
    assert (pod.key, pod.grace, pod.owner, pod.priority) == ("/", timedelta(seconds=30), Owner.NONE, None)
    terms = {
        "affinity": {"nodeAffinity": 1, "podAffinity": {REQUIRED: 2}},
        "tolerations": [3],
        "nodeSelector": 4,
        "containers": 5,
    }
    assert read_pod(make_pod("p", **terms)).shape.node_terms is None


@pytest.mark.parametrize(
    ("owner", "deleting", "phase", "expected"),
    [
        pytest.param("", "", "", True, id="by-itself"),
        pytest.param("ReplicaSet", "", "", True, id="of-a-replica-set"),
        pytest.param("ReplicaSet", LONG_AGO, "", False, id="ending"),
        pytest.param("StatefulSet", LONG_AGO, "", True, id="ending-of-a-stateful-set"),
        pytest.param("StatefulSet", LONG_AGO, "Failed", False, id="ended-of-a-stateful-set"),
        pytest.param("DaemonSet", "", "", False, id="of-a-daemon-set"),
        pytest.param("Node", "", "", False, id="mirror"),
        pytest.param("", "", "Succeeded", False, id="finished"),
    ],
)
def test_reschedulable(owner, deleting, phase, expected):
    """nodepool-disruption.md 5.5."""
    assert read_pod(make_pod("p", "n", owner=owner, deleting=deleting, phase=phase)).reschedulable is expected


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, 0, id="none"),
        pytest.param({"controller.kubernetes.io/pod-deletion-cost": "-5"}, -5, id="deletion-cost"),
        pytest.param(
            {"controller.kubernetes.io/pod-deletion-cost": "5", "karpenter.sh/disruption-cost": "7"},
            7,
            id="disruption-cost-wins",
        ),
        pytest.param(
            {"controller.kubernetes.io/pod-deletion-cost": "5", "karpenter.sh/disruption-cost": "x"},
            0,
            id="unparsable-wins-too",
        ),
        pytest.param({"karpenter.sh/disruption-cost": "2147483648"}, 0, id="33-bits"),
        pytest.param({"karpenter.sh/disruption-cost": "1.5"}, 0, id="no-integer"),
    ],
)
def test_deletion_cost(annotations, expected):
    """nodepool-disruption.md 6.1."""
    assert read_pod(make_pod("p", annotations=annotations)).deletion_cost == expected


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"),
    [
        pytest.param({"operator": "Exists"}, ("a", "NoExecute", "x"), True, id="everything"),
        pytest.param({"key": "a", "operator": "Exists"}, ("a", "NoSchedule", "x"), True, id="any-value"),
        pytest.param({"key": "a", "value": "x"}, ("a", "NoSchedule", "x"), True, id="equal-is-the-default"),
        pytest.param({"key": "a", "value": "y"}, ("a", "NoSchedule", "x"), False, id="another-value"),
        pytest.param({"key": "b", "value": "x"}, ("a", "NoSchedule", "x"), False, id="another-key"),
        pytest.param(
            {"key": "a", "value": "x", "effect": "NoExecute"}, ("a", "NoSchedule", "x"), False, id="another-effect"
        ),
        pytest.param(
            {"key": "a", "operator": "Gt", "value": "1"}, ("a", "NoSchedule", "5"), False, id="gt-is-off-by-default"
        ),
    ],
)
def test_tolerations(toleration, taint, expected):
    key, effect, value = taint
    shape = read_pod(make_pod("p", tolerations=[toleration])).shape
    assert shape.tolerates(ParsedTaint(key, effect, value)) is expected
    assert ParsedToleration("a").tolerates(ParsedTaint("a", "NoSchedule"))


def test_node_terms_that_are_empty_or_invalid_match_nothing():
    good = {"key": ZONE, "operator": "In", "values": ["a"]}
    bad = [
        {"key": ZONE, "operator": "In", "values": []},
        {"key": ZONE, "operator": "Exists", "values": ["a"]},
        {"key": ZONE, "operator": "Gt", "values": ["a"]},
        {"key": ZONE, "operator": "Near", "values": ["a"]},
    ]
    terms = read_pod(make_pod("p", affinity=on_nodes([good], [], *([good, each] for each in bad)))).shape.node_terms
    assert terms == (NodeTerm((Expression(ZONE, "In", ("a",)),)),)
    assert read_pod(make_pod("p", affinity=on_nodes())).shape.node_terms == ()
    assert read_pod(make_pod("p", affinity=on_nodes([], fields=[bad[0]]))).shape.node_terms == ()


def test_own_values_join_the_selectors_of_terms():
    """Those that the API server has written are not written again."""
    labels = {"app": "web", "hash": "1"}
    for affinity in (
        beside(ZONE, {"app": "web"}, matchLabelKeys=["hash", "absent"]),
        beside(ZONE, {"app": "web", "hash": "1"}, matchLabelKeys=["hash"]),
    ):
        (term,) = read_pod(make_pod("p", labels=labels, affinity=affinity)).shape.affinity
        assert term.selector == Selector((Expression("app", "In", ("web",)), Expression("hash", "In", ("1",))))
    (term,) = read_pod(
        make_pod("p", labels=labels, affinity=apart(HOST, {}, mismatchLabelKeys=["hash"]))
    ).shape.anti_affinity
    assert term.selector == Selector((Expression("hash", "NotIn", ("1",)),))
    (term,) = read_pod(
        make_pod("p", labels=labels, affinity=apart(HOST, None, matchLabelKeys=["hash"]))
    ).shape.anti_affinity
    assert term.selector is None
    spread = make_spread(ZONE, {"app": "web"}, matchLabelKeys=["hash"])
    (constraint,) = read_pod(make_pod("p", labels=labels, topologySpreadConstraints=[spread])).shape.spreads
    assert constraint.selector == Selector((Expression("app", "In", ("web",)), Expression("hash", "In", ("1",))))


def test_pods_that_differ_in_labels_that_nobody_asks_for_have_equal_shapes():
    one, other = (read_pod(make_pod("p", labels={"app": "web", "pod": str(number)})).shape for number in (1, 2))
    assert one != other
    assert one.narrow({"app"}) == other.narrow({"app"})
    assert one.narrow({"app", "pod"}) is one


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(HostPort(80), HostPort(80), True, id="same"),
        pytest.param(HostPort(80), HostPort(81), False, id="other-port"),
        pytest.param(HostPort(80), HostPort(80, "UDP"), False, id="other-protocol"),
        pytest.param(HostPort(80, "TCP", "10.0.0.1"), HostPort(80), True, id="every-address"),
        pytest.param(HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.2"), False, id="other-address"),
    ],
)
def test_host_ports(one, other, expected):
    assert one.conflicts(other) is other.conflicts(one) is expected


def test_held_is_what_the_gate_reads():
    pod = read_pod(make_pod("p", "n", annotations={"karpenter.sh/do-not-disrupt": "true"}))
    assert pod.held.is_protected(datetime(2026, 7, 1, tzinfo=UTC))
