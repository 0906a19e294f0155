"""Location, resource group and subscription of a cluster on Azure, read from its nodes.

The agent reports a value only if all nodes on Azure agree on it. The hub turns the values into labels, see
`scorer.membership.joining.plan_member`.

The resource group is that of the cluster. AKS puts the nodes into a group of their own, whose name is by default
``MC_GROUP_CLUSTER_REGION``. If that name can be split in several ways, or has another form, the group is unknown. Nodes
that AKS does not manage are in the group of their cluster.

Source: seed 003; docs/specifications/scheduling.md 18; https://learn.microsoft.com/azure/aks/faq, node resource group.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from scorer.api.names import AZURE_LABELS
from scorer.api.unstructured.documents import labels_of, spec_of

REGION_LABEL: Final = "topology.kubernetes.io/region"
NODE_GROUP_LABEL: Final = "kubernetes.azure.com/cluster"
"""Label that AKS gives its nodes: the name of their resource group. Provider IDs have it in lower case."""

_PROVIDER_ID: Final = re.compile(r"azure:///subscriptions/([0-9a-fA-F-]{36})/resource[Gg]roups/([^/]+)/.+")
_NODE_GROUP_PREFIX: Final = "mc_"


class AzureNode(NamedTuple):
    """Properties of the cluster according to one of its nodes. An empty one is unknown."""

    location: str
    resource_group: str
    subscription_id: str


def read_azure_node(document: Mapping[str, Any]) -> AzureNode | None:
    """Return the properties of the cluster according to a node, or None if the node is not on Azure."""
    match = _PROVIDER_ID.fullmatch(str(spec_of(document).get("providerID") or ""))
    if match is None:
        return None
    labels = labels_of(document)
    location, node_group = str(labels.get(REGION_LABEL) or ""), str(labels.get(NODE_GROUP_LABEL) or "")
    group = _group_of(node_group, location) if node_group else match[2]
    return AzureNode(location, group, match[1].lower())


def _group_of(node_group: str, location: str) -> str:
    """Return the resource group of an AKS cluster, empty if the name of the nodes' group does not determine it."""
    suffix = f"_{location}"
    if not location or not node_group.lower().startswith(_NODE_GROUP_PREFIX) or not node_group.endswith(suffix):
        return ""
    group, _, cluster = node_group[len(_NODE_GROUP_PREFIX) : -len(suffix)].partition("_")
    return group if cluster and "_" not in cluster else ""


def azure_properties(nodes: Iterable[AzureNode | None]) -> dict[str, str]:
    """Return the properties of a cluster that all its nodes on Azure agree on, by name."""
    on_azure = {node for node in nodes if node is not None}
    columns = zip(*on_azure, strict=True)
    values = (column[0] if len(set(column)) == 1 else "" for column in columns)
    return {name: value for name, value in zip(AZURE_LABELS, values, strict=False) if value}
