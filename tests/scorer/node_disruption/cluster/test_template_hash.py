"""The digest of a template: nodepool-disruption.md 3.1."""

import pytest

from scorer.node_disruption.cluster.snapshot import read_pool
from scorer.node_disruption.cluster.template_hash import template_digest
from tests.builders.node import make_pool, make_requirement

TAINTS = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute", "value": "v"}]


def digest(change=None, *, spec=None, pool=None):
    document = make_pool(
        "general", make_requirement("kubernetes.io/arch", "In", "amd64"), taints=TAINTS, **(pool or {})
    )
    template = document["spec"]["template"]
    template["spec"] |= {"expireAfter": "720h", **(spec or {})}
    for key, value in (change or {}).items():
        template["metadata"][key] = value
    return template_digest(read_pool(document).model)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"change": {"labels": {"a": "b"}}}, id="labels"),
        pytest.param({"change": {"annotations": {"a": "b"}}}, id="annotations"),
        pytest.param({"spec": {"taints": TAINTS[:1]}}, id="taints"),
        pytest.param({"spec": {"startupTaints": TAINTS[:1]}}, id="startup-taints"),
        pytest.param({"spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "other"}}}, id="node-class"),
        pytest.param({"spec": {"terminationGracePeriod": "1h"}}, id="grace-period"),
        pytest.param({"spec": {"expireAfter": "Never"}}, id="age"),
    ],
)
def test_what_makes_nodes_drift(changed):
    assert digest(**changed) != digest()


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"spec": {"requirements": []}}, id="requirements-have-a-check-of-their-own"),
        pytest.param({"spec": {"taints": TAINTS[::-1]}}, id="order"),
        pytest.param({"spec": {"expireAfter": "43200m"}}, id="spelling-of-durations"),
        pytest.param({"spec": {"startupTaints": []}, "change": {"labels": {}}}, id="empty-is-absent"),
        pytest.param({"pool": {"weight": 7, "limits": {"cpu": "9"}}}, id="weight-and-limits"),
        pytest.param({"pool": {"disruption": {"consolidateAfter": "5m"}}}, id="disruption"),
    ],
)
def test_what_does_not(changed):
    assert digest(**changed) == digest()
