"""Node classes of a cluster, and the drift of nodes whose class changes: nodepool-disruption.md 3.6."""

from datetime import timedelta

import pytest

from scorer.node_disruption.cluster.node_classes import with_classes
from scorer.node_disruption.cluster.snapshot import HASH
from scorer.node_disruption.methods.drift import detect_drift
from scorer.node_disruption.simulation.simulator import simulate
from tests.builders.worker import NOW, make_cluster, make_pool_of, make_worker

MARK = "karpenter.azure.com/aksnodeclass-hash"
VERSION = f"{MARK}-version"
SUBNET = "/subscriptions/0/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/"


def node_class(digest="", version="v3", **spec):
    annotations = {MARK: digest, VERSION: version} if digest else {}
    return {
        "apiVersion": "karpenter.azure.com/v1beta1",
        "kind": "AKSNodeClass",
        "metadata": {"name": "default", "annotations": annotations},
        "spec": spec,
    }


def drift_of(cluster, name="a"):
    return detect_drift(cluster.nodes[name].claim, cluster.pools["general"], None, NOW)


@pytest.mark.parametrize(
    ("today", "claim", "drifts"),
    [
        pytest.param(node_class("1"), {MARK: "1", VERSION: "v3"}, False, id="same"),
        pytest.param(node_class("2"), {MARK: "1", VERSION: "v3"}, True, id="hashes-differ"),
        pytest.param(node_class("2", "v4"), {MARK: "1", VERSION: "v3"}, False, id="versions-differ"),
        pytest.param(node_class("2"), {}, False, id="the-claim-has-no-hash"),
        pytest.param(node_class(), {MARK: "1", VERSION: "v3"}, False, id="the-class-has-no-hash"),
    ],
)
def test_drift_that_the_provider_has_not_reported_yet(today, claim, drifts):
    found = drift_of(make_cluster(make_pool_of(), today, make_worker("a", claim=claim)))
    assert (found and found.reason) == ("NodeClassDrift" if drifts else None)


@pytest.mark.parametrize(
    ("today", "claim"),
    [
        pytest.param(node_class("1", imageFamily="Ubuntu"), {MARK: "1", VERSION: "v3"}, id="hashed-by-the-provider"),
        pytest.param(node_class("1", imageFamily="Ubuntu"), {}, id="claim-without-a-hash"),
        pytest.param(node_class(imageFamily="Ubuntu"), {MARK: "1", VERSION: "v3"}, id="class-without-a-hash"),
    ],
)
def test_a_changed_field_that_the_provider_hashes_drifts_all_nodes(today, claim):
    cluster = make_cluster(make_pool_of(), today, make_worker("a", claim=claim))
    changed, (change,), notes = with_classes(cluster, [node_class(imageFamily="AzureLinux")])
    assert (change.fields.hashed, change.nodes, notes) == (("imageFamily",), ["a"], ())
    assert drift_of(cluster) is None
    assert drift_of(changed).message == "AKSNodeClass default has changed: spec.imageFamily"


def test_replacements_of_drifted_nodes_have_not_drifted():
    cluster = make_cluster(make_pool_of(), node_class("1"), make_worker("a"))
    changed, _, _ = with_classes(cluster, [node_class(imageFamily="AzureLinux")])
    found = simulate(changed, None, NOW, timedelta(days=2))
    assert [event.nodes for event in found.happenings] == [("a",)]


@pytest.mark.parametrize(
    ("documents", "changed", "note"),
    [
        pytest.param(
            [node_class(vnetSubnetID=f"{SUBNET}a")],
            node_class(vnetSubnetID=f"{SUBNET}b"),
            "AKSNodeClass default: spec.vnetSubnetID changes between valid subnets, which AKS does not support: "
            "check the CIDR ranges. Nodes: a",
            id="seed-002",
        ),
        pytest.param(
            [],
            node_class(imageFamily="AzureLinux"),
            "AKSNodeClass default is not in the dump, so the drift caused by its changes is unknown",
            id="no-predecessor",
        ),
        pytest.param(
            [node_class()],
            node_class(brandNew=True),
            "AKSNodeClass default: spec.brandNew changed. Whether that drifts nodes is unknown",
            id="unknown-field",
        ),
        pytest.param(
            [node_class()],
            {**node_class(), "metadata": {"name": "other"}},
            "AKSNodeClass other is not used by a NodePool of the dump",
            id="unused",
        ),
    ],
)
def test_notes(documents, changed, note):
    _, _, notes = with_classes(make_cluster(make_pool_of(), *documents, make_worker("a")), [changed])
    assert notes == (note,)


def test_a_class_of_another_group_is_not_the_class_of_a_pool():
    other = {**node_class("2"), "apiVersion": "example.com/v1"}
    cluster = make_cluster(make_pool_of(), other, make_worker("a", claim={MARK: "1", VERSION: "v3", HASH: "x"}))
    assert cluster.pools["general"].node_class is None
