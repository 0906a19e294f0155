"""Location, resource group and subscription of a cluster, from its nodes."""

import pytest

from webhook.member.properties.azure import azure_properties, read_azure_node
from webhook.member.properties.usage import Usage

SUBSCRIPTION = "8ECADFC9-D1A3-4EA4-B844-0D9F87E4D7C8"
LOCATION, GROUP, ID = (f"fleet.azure.com/{name}" for name in ("location", "resource-group", "subscription-id"))


def make_node(group="rg-prod", *, node_group=None, region="westus", provider_id=None, name="a"):
    """Return a node of a scale set. *node_group* makes it one of AKS."""
    path = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{group}/providers/Microsoft.Compute"
    own = f"azure://{path}/virtualMachineScaleSets/pool/virtualMachines/0"
    labels = {"topology.kubernetes.io/region": region, "kubernetes.azure.com/cluster": node_group}
    return {
        "metadata": {"name": name, "labels": {key: value for key, value in labels.items() if value}},
        "spec": {"providerID": own if provider_id is None else provider_id},
    }


def properties_of(*nodes):
    return azure_properties(map(read_azure_node, nodes))


def test_a_cluster_that_aks_does_not_manage_is_in_the_group_of_its_nodes():
    assert properties_of(make_node()) == {LOCATION: "westus", GROUP: "rg-prod", ID: SUBSCRIPTION.lower()}


@pytest.mark.parametrize(
    ("node_group", "region", "group"),
    [
        pytest.param("MC_rg-prod_lion_westus", "westus", "rg-prod", id="default-name"),
        pytest.param("MC_Rg.Prod_lion_westus", "westus", "Rg.Prod", id="the-label-keeps-the-case"),
        pytest.param("MC_rg_prod_lion_westus", "westus", None, id="a-group-or-a-cluster-with-an-underscore"),
        pytest.param("MC_rg-prod_westus", "westus", None, id="no-cluster"),
        pytest.param("MC_rg-prod_lion_west", "westus", None, id="cut-off"),
        pytest.param("MC_rg-prod_lion_westus", "", None, id="without-a-region"),
        pytest.param("nodes-of-lion", "westus", None, id="a-name-of-the-user"),
    ],
)
def test_the_group_of_a_cluster_of_aks_is_not_that_of_its_nodes(node_group, region, group):
    node = make_node(node_group.lower(), node_group=node_group, region=region)
    assert properties_of(node).get(GROUP) == group
    assert properties_of(node)[ID] == SUBSCRIPTION.lower()


@pytest.mark.parametrize(
    "provider_id",
    [
        pytest.param("", id="none"),
        pytest.param("aws:///us-west-2a/i-0123456789abcdef0", id="aws"),
        pytest.param("gce://project/us-central1-a/node", id="gce"),
        pytest.param(f"azure:///subscriptions/{SUBSCRIPTION}/resourceGroups/", id="cut-off"),
        pytest.param("azure:///subscriptions/mine/resourceGroups/rg/providers/x", id="not-a-subscription"),
        pytest.param(7, id="not-a-text"),
    ],
)
def test_nodes_elsewhere_do_not_count(provider_id):
    elsewhere = make_node(region="us-west-2", provider_id=provider_id)
    assert properties_of(elsewhere) == {}
    assert properties_of(elsewhere, make_node())[LOCATION] == "westus"


def test_a_value_on_which_nodes_differ_is_omitted():
    assert properties_of(make_node(), make_node(region="eastus")) == {GROUP: "rg-prod", ID: SUBSCRIPTION.lower()}
    assert properties_of() == {}


def test_usage_follows_the_nodes():
    usage = Usage()
    usage.put_node(make_node())
    assert usage.azure_properties[LOCATION] == "westus"
    usage.drop_node("a")
    assert usage.azure_properties == {}
