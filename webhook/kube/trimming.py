"""What the cache keeps of objects that are large and numerous."""

from scorer.api.documents import dict_at, dicts_at
from scorer.api.meta import JsonObject


def essential_node(node: JsonObject) -> JsonObject:
    """Return what answers need of a node; whole, with its images and conditions, it is nine times as large.

    Pools are counted by the condition Ready, and find the claim of a node by its providerID.
    """
    spec = dict_at(node, "spec")
    kept = {name: spec[name] for name in ("providerID", "unschedulable") if name in spec}
    conditions = [
        {"type": "Ready", "status": condition.get("status")}
        for condition in dicts_at(node, "status", "conditions")
        if condition.get("type") == "Ready"
    ]
    return {
        "apiVersion": node["apiVersion"],
        "kind": node["kind"],
        "metadata": node["metadata"],
        "spec": {**kept, "taints": spec.get("taints") or []},
        "status": {"conditions": conditions},
    }
