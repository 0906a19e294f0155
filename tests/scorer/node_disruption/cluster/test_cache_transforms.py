"""What is kept of pods and nodes is all that planning and the gate read of them."""

import pytest

from scorer.node_budgets.blockers import read_node_pod
from scorer.node_disruption.cluster.cache_transforms import planned_node, planned_pod
from scorer.node_disruption.cluster.pod import read_pod
from scorer.node_disruption.cluster.snapshot import read_node
from tests.builders.node import make_node, make_taint
from tests.builders.pod import apart, make_pod, make_spread, on_nodes

RESIZED = {
    "name": "main",
    "resources": {"requests": {"cpu": "2"}},
    "allocatedResources": {"cpu": "2"},
}


@pytest.mark.parametrize(
    ("pod", "status"),
    [
        pytest.param(make_pod("p", "a", needs={"cpu": "1"}, owner="StatefulSet", priority=7), {}, id="plain"),
        pytest.param(
            make_pod(
                "p", "a", annotations={"karpenter.sh/do-not-disrupt": "4h", "x": "y"}, deleting="2026-06-10T12:00:00Z"
            ),
            {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Initialized", "status": "True"}]},
            id="protected-unready-ending",
        ),
        pytest.param(
            make_pod(
                "p", affinity=on_nodes([{"key": "k", "operator": "In", "values": ["v"]}]) | apart("zone", {"a": "b"})
            ),
            {},
            id="affinity",
        ),
        pytest.param(make_pod("p", topologySpreadConstraints=[make_spread("zone", {"a": "b"})]), {}, id="spread"),
        pytest.param(make_pod("p", schedulingGates=[{"name": "g"}]), {}, id="gated"),
        pytest.param(make_pod("p", "a", needs={"cpu": "1"}), {"containerStatuses": [RESIZED]}, id="resized"),
        pytest.param(
            make_pod("p", "a", needs={"cpu": "2"}), {"containerStatuses": [{**RESIZED, "image": "x"}]}, id="as-asked"
        ),
        pytest.param(
            make_pod("p", "a", initContainers=[{"name": "i", "restartPolicy": "Always", "ports": [{"hostPort": 80}]}]),
            {},
            id="sidecar-with-host-port",
        ),
        pytest.param(make_pod("p", "a", owner="Node", priorityClassName="system-node-critical"), {}, id="mirror"),
        pytest.param(
            make_pod("p", "a", annotations={"karpenter.sh/disruption-cost": "5"}, overhead={"cpu": "1"}), {}, id="costs"
        ),
    ],
)
def test_a_pod_is_read_alike(pod, status):
    pod = {**pod, "status": {**pod["status"], **status}}
    kept = planned_pod(pod)
    assert read_pod(kept) == read_pod(pod)
    assert read_node_pod(kept) == read_node_pod(pod)
    assert planned_pod(kept) == kept


def test_a_node_is_read_alike():
    node = make_node("a", pool="p", zone="z", taints=[make_taint("t")], unschedulable=True, providerID="x://a")
    node["status"]["images"] = [{"names": ["big"]}]
    kept = planned_node(node)
    assert read_node(kept) == read_node(node)
    assert "images" not in kept["status"]


def test_volumes_are_kept_as_far_as_they_hold_a_pod():
    pod = make_pod(
        "p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "e", "emptyDir": {}}]
    )
    assert planned_pod(pod)["spec"]["volumes"] == [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
