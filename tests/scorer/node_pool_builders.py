"""Nodes of a pool, their claims, pods and PodDisruptionBudgets, as documents."""

from scorer.api.meta import without_nulls

POOL = "general"


def node(name, pool=POOL, *, ready="True", initialized=True, annotations=None, taints=(), deleting=None, instance=None):
    labels = {"karpenter.sh/nodepool": pool, "karpenter.sh/initialized": "true" if initialized else None}
    return without_nulls(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": labels,
                "annotations": annotations or {},
                "deletionTimestamp": deleting,
            },
            "spec": {"taints": list(taints), "providerID": instance},
            "status": {"conditions": [{"type": "Ready", "status": ready}] if ready else []},
        }
    )


def claim(name, node=None, *, deleting=None, conditions=(), grace=None, instance=None):
    return without_nulls(
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": POOL}, "deletionTimestamp": deleting},
            "spec": {"terminationGracePeriod": grace},
            "status": {
                "nodeName": node,
                "providerID": instance,
                "conditions": [{"type": kind, "status": status} for kind, status in conditions],
            },
        }
    )


def pod(name, node="n", *, namespace="shop", labels=None, annotations=None, spec=None, status=None, metadata=None):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app": "web"} if labels is None else labels,
            "annotations": annotations or {},
            **(metadata or {}),
        },
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "main"}], **(spec or {})},
        "status": {"phase": "Running", "startTime": "2026-06-10T11:00:00Z", **(status or {})},
    }


def guard(name, *, namespace="shop", allowed=0, selector=None, policy=None):
    return without_nulls(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "minAvailable": 1,
                "selector": {"matchLabels": {"app": "web"}} if selector is None else selector,
                "unhealthyPodEvictionPolicy": policy,
            },
            "status": {"disruptionsAllowed": allowed},
        }
    )


def pool(name=POOL, budgets=None, *, annotations=None):
    """Return a NodePool; *budgets* None: none are given."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"annotations": annotations or {}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"},
                    "requirements": [],
                },
            },
            "disruption": {} if budgets is None else {"budgets": budgets},
        },
    }
