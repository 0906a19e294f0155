"""What writes of NodePools and node classes do to existing nodes: nodepool-disruption.md 2.10."""

from dataclasses import replace

import pytest

from tests.builders.node import make_requirement
from tests.builders.worker import NOW, drifted, make_pool_of, make_worker
from tests.webhook.validation.moving_clock import Watch
from webhook.access.user import UserInfo
from webhook.admission.judge import judge
from webhook.validation.framework.context import Context
from webhook.validation.live import node_pool

ARCH = "kubernetes.io/arch"
SUBNET = "/subscriptions/0/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/"
OPEN = [{"nodes": "100%"}]
SLOW = [
    {"nodes": "2", "schedule": "0 14 * * *", "duration": "1m"},
    {"nodes": "0", "schedule": "1 14 * * *", "duration": "23h59m"},
]


def pool(*requirements, template=None, **more):
    document = make_pool_of("general", *requirements, template=template, **more)
    document["spec"]["template"]["spec"]["expireAfter"] = "720h"
    return document


def claims(count, **more):
    return [make_worker(f"node-{number}", **more)[1] for number in range(count)]


def warnings(operation, document, old, *hub):
    context = Context.of_objects(hub, user=UserInfo("someone"), now=NOW)
    judgement = judge(operation, document, old, context)
    assert judgement.allowed, judgement.message
    return list(judgement.warnings)


@pytest.mark.parametrize(
    ("new", "told"),
    [
        pytest.param(pool(), [], id="nothing"),
        pytest.param(pool(weight=7), [], id="behavioural-field"),
        pytest.param(
            pool(template={"labels": {"team": "new"}}),
            [
                "spec.template: drifts 2 of 2 nodes, all replaced at 2026-06-10T12:01:35Z at the earliest: "
                "node-0, node-1",
            ],
            id="template",
        ),
        pytest.param(
            pool(make_requirement(ARCH, "In", "arm64")),
            ["spec.template: drifts 1 of 2 nodes, all replaced at 2026-06-10T12:01:35Z at the earliest: node-0"],
            id="requirements",
        ),
        pytest.param(
            pool(template={"labels": {"team": "new"}}, budgets=[{"nodes": "0"}]),
            [
                "spec.template: drifts 2 of 2 nodes, not all replaced within two weeks: node-0, node-1",
                "spec.disruption.budgets: drift of 2 nodes exceeds the 0 that budgets allow in a day",
            ],
            id="closed",
        ),
    ],
)
def test_an_update_tells_which_nodes_drift_and_when(new, told):
    hub = [make_worker("node-0", labels={ARCH: "amd64"})[1], make_worker("node-1", labels={ARCH: "arm64"})[1]]
    assert warnings("UPDATE", new, pool(), *hub) == told


def test_a_drift_that_takes_longer_than_a_day_is_told_with_the_figure():
    """Two nodes in one minute of each day: five nodes take three days."""
    new = pool(template={"labels": {"team": "new"}}, budgets=SLOW)
    assert warnings("UPDATE", new, pool(), *claims(5)) == [
        "spec.template: drifts 5 of 5 nodes, all replaced at 2026-06-12T14:01:35Z at the earliest: "
        "node-0, node-1 and 3 more",
        "spec.disruption.budgets: drift of 5 nodes exceeds the 2 that budgets allow in a day",
    ]


def test_nodes_that_have_drifted_already_do_not_count():
    hub = [*claims(1), make_worker("old", conditions=drifted())[1], make_worker("other", pool="other")[1]]
    told = warnings("UPDATE", pool(template={"labels": {"team": "new"}}), pool(), *hub)
    assert told == ["spec.template: drifts 1 of 2 nodes, all replaced at 2026-06-10T12:01:35Z at the earliest: node-0"]


def test_a_policy_that_moves_pods_is_told():
    told = warnings("UPDATE", pool(), pool(policy="WhenEmpty"), *claims(3))
    assert told == ["spec.disruption.consolidationPolicy: allows consolidation of 3 nodes even if pods run on them"]


def test_a_deletion_tells_the_cascade():
    document = pool()
    told = warnings("DELETE", None, document, *claims(3), make_worker("other", pool="other")[1])
    assert told == ["metadata.name: deletes 3 nodes concurrently, without budgets: node-0, node-1, node-2"]
    document["spec"]["template"]["spec"]["terminationGracePeriod"] = "1h"
    assert "concurrently within 1h, without" in warnings("DELETE", None, document, *claims(1))[0]


def node_class(kind="AKSNodeClass", version="karpenter.azure.com/v1beta1", **spec):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "default"}, "spec": spec}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        pytest.param(
            node_class(imageFamily="Ubuntu"),
            node_class(imageFamily="AzureLinux"),
            ["spec.imageFamily: drifts 2 nodes of 1 NodePool: node-0, node-1"],
            id="hashed",
        ),
        pytest.param(
            node_class(vnetSubnetID=f"{SUBNET}a"),
            node_class(vnetSubnetID=f"{SUBNET}b"),
            [
                "spec.vnetSubnetID: moves to another valid subnet, which AKS does not support: check the CIDR ranges: "
                "node-0, node-1",
                "spec.vnetSubnetID: drifts 2 nodes of 1 NodePool: node-0, node-1",
            ],
            id="seed-002-between-valid-subnets",
        ),
        pytest.param(
            node_class(vnetSubnetID="oops"),
            node_class(vnetSubnetID=f"{SUBNET}b"),
            ["spec.vnetSubnetID: drifts 2 nodes of 1 NodePool: node-0, node-1"],
            id="seed-002-repair",
        ),
        pytest.param(node_class(tags={"a": "b"}), node_class(tags={"a": "c"}), [], id="ignored"),
        pytest.param(
            node_class(brandNew=1),
            node_class(brandNew=2),
            ["spec.brandNew: may drift nodes: the provider does not document whether it does: node-0, node-1"],
            id="unknown",
        ),
    ],
)
def test_an_update_of_a_class_tells_the_nodes(old, new, told):
    assert warnings("UPDATE", new, old, pool(), *claims(2)) == told


def test_a_class_that_no_pool_names_has_no_effect():
    other = node_class("EC2NodeClass", "karpenter.k8s.aws/v1", userData="a")
    assert warnings("UPDATE", {**other, "spec": {"userData": "b"}}, other, pool(), *claims(1)) == []


def test_the_budgets_of_the_pools_of_a_class_count():
    told = warnings("UPDATE", node_class(maxPods=9), node_class(), pool(budgets=SLOW), *claims(5))
    assert told == [
        "spec.maxPods: drifts 5 nodes of 1 NodePool: node-0, node-1, node-2, node-3, node-4",
        "spec: drift of 5 nodes of NodePool general exceeds the 2 that budgets allow in a day",
    ]


def test_the_budgets_of_many_pools_of_a_class_are_not_read_beyond_the_deadline():
    names = [f"pool-{number}" for number in range(5)]
    pools = [make_pool_of(name, budgets=[{"nodes": "0"}]) for name in names]
    nodes = [make_worker(f"node-of-{name}", pool=name)[1] for name in names]
    context = replace(Context.of_objects([*pools, *nodes], user=UserInfo("someone"), now=NOW), clock=Watch(0.02))
    judgement = judge("UPDATE", node_class(maxPods=9), node_class(), context)
    assert [warning.partition(" exceeds")[0] for warning in judgement.warnings[1:]] == [
        "spec: drift of 1 node of NodePool pool-0"
    ]


def test_an_unreadable_pool_does_not_hide_the_nodes_of_a_class():
    broken = make_pool_of("broken", budgets=[{"nodes": []}])
    told = warnings("UPDATE", node_class(maxPods=9, brandNew=1), node_class(), pool(), broken, *claims(1))
    assert told == [
        "spec.maxPods: drifts 1 node of 2 NodePools: node-0",
        "spec.brandNew: may drift nodes: the provider does not document whether it does: node-0",
    ]


def test_a_class_is_never_refused():
    """Its provider validates it."""
    assert warnings("UPDATE", {**node_class(), "spec": "odd"}, node_class(), pool(), *claims(1)) == []


def test_the_work_is_bounded(monkeypatch):
    monkeypatch.setattr(node_pool, "MOST_CLAIMS", 2)
    assert warnings("UPDATE", pool(template={"labels": {"a": "b"}}), pool(), *claims(3)) == []
