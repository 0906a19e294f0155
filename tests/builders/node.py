"""Nodes, claims and pools of a cluster, as documents."""

from collections.abc import Mapping, Sequence
from typing import Any

from scorer.api.meta import JsonObject

LONG_AGO = "2026-06-01T00:00:00Z"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def make_node(
    name: str,
    *,
    pool: str = "",
    zone: str = "",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[JsonObject] = (),
    has: Mapping[str, Any] | None = None,
    **spec: Any,
) -> JsonObject:
    """Make a node that is ready.

    Args:
        name: Its own; the label of the host name is the same.
        pool: Its NodePool; it is initialized then.
        zone: Its label.
        labels: More of them.
        taints: Its own.
        has: What pods may take, besides 4 cores, 16Gi and 110 pods.
        spec: More of its spec.
    """
    own = {HOST: name}
    if zone:
        own[ZONE] = zone
    if pool:
        own |= {"karpenter.sh/nodepool": pool, "karpenter.sh/initialized": "true"}
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110", **(has or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**own, **(labels or {})}, "creationTimestamp": LONG_AGO},
        "spec": {"taints": list(taints), **spec},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def make_taint(key: str, effect: str = "NoSchedule", value: str = "") -> JsonObject:
    """Make a taint."""
    return {"key": key, "effect": effect, "value": value}


def make_claim(name: str, node: str, pool: str = "general", **spec: Any) -> JsonObject:
    """Make the initialized NodeClaim of a node; *spec*: as on the wire."""
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": LONG_AGO}
        for kind in ("Launched", "Registered", "Initialized")
    ]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": pool}, "creationTimestamp": LONG_AGO},
        "spec": {"expireAfter": "720h", **spec},
        "status": {"nodeName": node, "conditions": conditions},
    }


def make_pool(
    name: str = "general", *requirements: JsonObject, template: JsonObject | None = None, **spec: Any
) -> JsonObject:
    """Make a NodePool.

    Args:
        name: Its own.
        requirements: On its nodes.
        template: Labels and annotations of its nodes.
        spec: More of its spec; ``taints`` are those of its nodes.
    """
    taints = spec.pop("taints", [])
    reference = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": template or {},
                "spec": {"nodeClassRef": reference, "requirements": list(requirements), "taints": taints},
            },
            **spec,
        },
    }


def make_requirement(key: str, operator: str, *values: str, **more: Any) -> JsonObject:
    """Make a requirement of a pool, or an expression of a node affinity."""
    return {"key": key, "operator": operator, "values": list(values), **more}
