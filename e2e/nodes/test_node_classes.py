"""Updates of node classes on a real API server with the providers' definitions: warnings that name the nodes."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.conftest import StartService, wait_served
from e2e.controlplane.cluster import Cluster
from e2e.fleet.objects import MERGE, Objects
from e2e.fleet.waiting import wait_until
from e2e.karpenter.module_files import read_files
from e2e.karpenter.scene import Pools
from e2e.nodes.karpenter_hub import karpenter_definitions
from e2e.nodes.providers import AWS, AZURE
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from scorer.api.node_class import AKS_NODE_CLASS, EC2_NODE_CLASS
from webhook.kube.client.paths import path_of

NUMBERS = itertools.count(1)
SUBNET = (
    "/subscriptions/0b1f6471-1bf0-4dda-aec3-cb9272f09590/resourceGroups/network/providers/Microsoft.Network"
    "/virtualNetworks/fleet/subnets/{}"
)
SPECS: dict[Kind, dict[str, Any]] = {
    AKS_NODE_CLASS: {"vnetSubnetID": SUBNET.format("a"), "imageFamily": "Ubuntu"},
    EC2_NODE_CLASS: {
        "role": "node",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"fleet": "prod"}}],
        "securityGroupSelectorTerms": [{"tags": {"fleet": "prod"}}],
    },
}


@pytest.fixture(scope="module")
def cluster(own_hub: Cluster, start_service: StartService) -> Iterator[Cluster]:
    """A hub with the definitions of Karpenter and of two providers, whose writes a replica reviews."""
    classes = {AKS_NODE_CLASS: AZURE, EC2_NODE_CLASS: AWS}
    with karpenter_definitions(own_hub):
        for kind, module in classes.items():
            definition = read_files(module, [f"pkg/apis/crds/{kind.group}_{kind.plural}.yaml"])
            own_hub.kubectl("apply", "--server-side", "-f", "-", given=definition)
            wait_served(own_hub, kind)
        start_service(own_hub).register()
        yield own_hub
        for kind in classes:
            Objects(own_hub).delete(CUSTOM_RESOURCE_DEFINITION, kind.resource)


def put_nodes(cluster: Cluster, kind: Kind, count: int) -> str:
    """Make a class with a pool and its nodes, and return its name, which all of them share."""
    name = f"class-{next(NUMBERS)}"
    document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": SPECS[kind]}
    cluster.request("POST", path_of(kind), document)
    Pools(cluster, {"group": kind.group, "kind": kind.kind, "name": name}).add_pool(name, {"nodes": "1"}, nodes=count)
    return name


def warnings_of(cluster: Cluster, kind: Kind, name: str, change: dict[str, Any]) -> list[str]:
    """Return the warnings of an update that is not stored."""
    path = f"{path_of(kind, '', name)}?dryRun=All"
    return cluster.request("PATCH", path, {"spec": change}, content_type=MERGE)[1]


def assert_warned(cluster: Cluster, kind: Kind, name: str, change: dict[str, Any], texts: list[str]) -> None:
    """Wait until the replica has seen both nodes and gives these warnings. Those about drift name the nodes."""
    wanted = [f"{text}: {name}-0, {name}-1" if "drift" in text else text for text in texts]

    def problem() -> str:
        found = warnings_of(cluster, kind, name, change)
        fits = len(found) == len(wanted) and all(map(str.startswith, found, wanted))
        return "" if fits else str(found)

    wait_until(f"the warnings are {wanted}", problem)


@pytest.mark.parametrize(
    ("kind", "change", "texts"),
    [
        pytest.param(
            AKS_NODE_CLASS,
            {"vnetSubnetID": SUBNET.format("b")},
            [
                "spec.vnetSubnetID: moves to another valid subnet, which AKS does not support: check the CIDR ranges",
                "spec.vnetSubnetID: drifts 2 nodes of 1 NodePool",
            ],
            id="aks-subnet",
        ),
        pytest.param(
            AKS_NODE_CLASS,
            {"imageFamily": "AzureLinux"},
            ["spec.imageFamily: drifts 2 nodes of 1 NodePool"],
            id="aks-image-family",
        ),
        pytest.param(
            EC2_NODE_CLASS,
            {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]},
            [
                "spec.amiFamily: drifts 2 nodes of 1 NodePool",
                "spec.amiSelectorTerms: may drift nodes that no longer match what the provider finds",
            ],
            id="ec2-image-family",
        ),
        pytest.param(
            EC2_NODE_CLASS,
            {"subnetSelectorTerms": [{"tags": {"fleet": "test"}}]},
            ["spec.subnetSelectorTerms: may drift nodes that no longer match what the provider finds"],
            id="ec2-subnets",
        ),
    ],
)
def test_an_update_names_the_nodes_that_drift(cluster, kind, change, texts):
    assert_warned(cluster, kind, put_nodes(cluster, kind, 2), change, texts)


def test_an_update_that_drifts_nothing_has_no_warning(cluster):
    name = put_nodes(cluster, AKS_NODE_CLASS, 2)
    family = {"imageFamily": "AzureLinux"}
    assert_warned(cluster, AKS_NODE_CLASS, name, family, ["spec.imageFamily: drifts 2 nodes of 1 NodePool"])
    assert warnings_of(cluster, AKS_NODE_CLASS, name, {"tags": {"team": "shop"}}) == []
    cluster.request(
        "PATCH", path_of(AKS_NODE_CLASS, "", name), {"spec": {"tags": {"team": "shop"}}}, content_type=MERGE
    )
