"""Pools, claims, nodes and pods as they look when Karpenter has made them."""

from typing import Any, Final

from e2e.controlplane.cluster import Cluster, JsonObject
from e2e.fleet.objects import Objects
from scorer.api.kinds import NODE, NODE_CLAIM, NODE_POOL, POD
from scorer.api.node_pool import NODE_POOL_LABEL

TERMINATION: Final = "karpenter.sh/termination"
INITIALIZED: Final = "karpenter.sh/initialized"
NOT_READY: Final = "node-not-ready.stage.kwok.x-k8s.io"
"""A label: kwok lets such a node fail, as long as it is there."""
NODE_CLASS: Final[JsonObject] = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}


class Pools:
    """What a test puts into a cluster.

    Args:
        cluster: Where.
        node_class: What the pools and claims name as their class.
    """

    def __init__(self, cluster: Cluster, node_class: JsonObject = NODE_CLASS) -> None:
        self.objects = Objects(cluster)
        self._node_class = node_class

    def add_pool(self, name: str, *budgets: JsonObject, nodes: int = 0) -> list[str]:
        """Make a NodePool with these budgets, and so many nodes, whose names are returned."""
        template = {"spec": {"nodeClassRef": self._node_class, "requirements": []}}
        self.objects.create(
            {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodePool",
                "metadata": {"name": name},
                "spec": {"template": template, "disruption": {"budgets": list(budgets)}},
            }
        )
        names = [f"{name}-{number}" for number in range(nodes)]
        for node in names:
            self.add_node(name, node)
        return names

    def set_budgets(self, name: str, *budgets: JsonObject) -> None:
        """Give a pool other budgets."""
        self.objects.patch(NODE_POOL, name, {"spec": {"disruption": {"budgets": list(budgets)}}})

    def add_node(self, pool: str, name: str, *, initialized: bool = True) -> None:
        """Make a node with its claim; kwok makes it ready."""
        labels = {NODE_POOL_LABEL: pool, "karpenter.sh/registered": "true"}
        owner = self.objects.get(NODE_POOL, pool)["metadata"]
        reference: JsonObject = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "name": pool,
            "uid": owner["uid"],
            "blockOwnerDeletion": True,
        }
        self.objects.create(
            {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodeClaim",
                "metadata": _metadata(name, labels, ownerReferences=[reference]),
                "spec": {"nodeClassRef": self._node_class, "requirements": []},
            }
        )
        self.objects.patch_status(NODE_CLAIM, name, {"nodeName": name, "providerID": f"kwok://{name}"})
        marks = {INITIALIZED: "true"} if initialized else {}
        self.objects.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": _metadata(name, labels | marks),
                "spec": {"providerID": f"kwok://{name}"},
            }
        )

    def label(self, node: str, key: str, value: str | None) -> None:
        """Give a node a label, or take it away."""
        self.objects.patch(NODE, node, {"metadata": {"labels": {key: value}}})

    def finish(self, node: str) -> None:
        """Let go what Karpenter holds until the instance is gone: the node, and its claim with it."""
        self.objects.delete(NODE_CLAIM, node)
        for kind in (NODE, NODE_CLAIM):
            if self.objects.find(kind, node) is not None:
                self.objects.patch(kind, node, {"metadata": {"finalizers": None}})

    def add_pod(self, name: str, node: str) -> None:
        """Run a pod on a node."""
        container = {"name": "main", "image": "example.com/web:1"}
        self.objects.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"nodeName": node, "containers": [container], "automountServiceAccountToken": False},
            }
        )

    def is_going(self, node: str) -> bool:
        """Whether somebody has deleted a node."""
        found = self.objects.find(NODE, node)
        return found is None or "deletionTimestamp" in found["metadata"]

    def has_pod(self, name: str) -> bool:
        """Whether a pod is there and nobody has asked it to go."""
        found = self.objects.find(POD, name, "default")
        return found is not None and "deletionTimestamp" not in found["metadata"]


def _metadata(name: str, labels: dict[str, str], **more: Any) -> JsonObject:
    return {"name": name, "labels": labels, "finalizers": [TERMINATION], **more}
