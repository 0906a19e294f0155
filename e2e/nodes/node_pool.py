"""A NodePool with ready nodes on a hub without Karpenter, as the gate counts them."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.fleet.objects import MERGE

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
POOLS = "/apis/karpenter.sh/v1/nodepools"
NODES = "/api/v1/nodes"
NODE_CLAIMS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "nodeclaims.karpenter.sh"},
    "spec": {
        "group": "karpenter.sh",
        "names": {"kind": "NodeClaim", "listKind": "NodeClaimList", "plural": "nodeclaims", "singular": "nodeclaim"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
"""What harbormaster reads of NodeClaims needs no more of a schema."""


@contextlib.contextmanager
def pool_of_nodes(hub: Cluster, name: str, nodes: int, limit: int) -> Iterator[None]:
    """While the block lasts, the hub has a pool; the definition of NodeClaims stays.

    Args:
        hub: Where.
        name: Of the pool, and what names of its nodes begin with.
        nodes: How many it has.
        limit: How many of them may be disrupted at a time.
    """
    names = [f"{name}-{number}" for number in range(nodes)]
    ignoring(409, hub.request, "POST", DEFINITIONS, NODE_CLAIMS)
    hub.request("POST", POOLS, _pool(name, limit))
    for each in names:
        hub.request("POST", NODES, _node(each, name))
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        hub.request("PATCH", f"{NODES}/{each}/status", ready, content_type=MERGE)
        claim = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": each}}
        hub.request("POST", CLAIMS, claim)
        hub.request("PATCH", f"{CLAIMS}/{each}/status", {"status": {"nodeName": each}}, content_type=MERGE)
    try:
        yield
    finally:
        for each in names:
            hub.request("DELETE", f"{CLAIMS}/{each}")
            hub.request("DELETE", f"{NODES}/{each}")
        hub.request("DELETE", f"{POOLS}/{name}")


def ignoring(code: int, ask: Callable[..., object], *arguments: object, **more: Any) -> None:
    """Ask for something that may be there, or gone, already."""
    try:
        ask(*arguments, **more)
    except ApiError as error:
        if error.code != code:
            raise


def _pool(name: str, limit: int) -> JsonObject:
    reference = {"group": "example.com", "kind": "NodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": []}},
            "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": str(limit)}]},
        },
    }


def _node(name: str, pool: str) -> JsonObject:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": pool, "karpenter.sh/initialized": "true"}},
        "spec": {"providerID": f"example://{name}", "taints": [taint]},
    }
