"""Pods and what they ask for, as documents."""

from collections.abc import Mapping, Sequence
from typing import Any

from scorer.api.meta import JsonObject

LONG_AGO = "2026-06-10T11:00:00Z"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def make_pod(
    name: str,
    node: str = "",
    *,
    namespace: str = "shop",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    needs: Mapping[str, Any] | None = None,
    owner: str = "",
    deleting: str = "",
    phase: str = "",
    **spec: Any,
) -> JsonObject:
    """Make a pod with one container.

    Args:
        name: Its own.
        node: Where it runs; empty: it is pending.
        namespace: Its own.
        labels: Its own.
        annotations: Its own.
        needs: What its container requests.
        owner: Kind of its controller.
        deleting: Its deletionTimestamp.
        phase: Of its status; else it is Running where it has a node.
        spec: More of its spec.
    """
    metadata: JsonObject = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{namespace}-{name}",
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
        "creationTimestamp": LONG_AGO,
    }
    if owner:
        api_version = "v1" if owner == "Node" else "apps/v1"
        reference = {
            "apiVersion": api_version,
            "kind": owner,
            "name": "owner",
            "uid": f"uid-{owner}",
            "controller": True,
        }
        metadata["ownerReferences"] = [reference]
    if deleting:
        metadata["deletionTimestamp"] = deleting
    container = {"name": "main", "image": "main", "resources": {"requests": dict(needs or {})}}
    status = {"phase": phase or ("Running" if node else "Pending")}
    whole = {"containers": [container], **({"nodeName": node} if node else {}), **spec}
    if node:
        status["startTime"] = LONG_AGO
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole, "status": status}


def on_nodes(*terms: Sequence[JsonObject], fields: Sequence[JsonObject] = ()) -> JsonObject:
    """Make a node affinity that requires one of *terms*, each a list of expressions; *fields* go to every term."""
    listed = [{"matchExpressions": list(each), **({"matchFields": list(fields)} if fields else {})} for each in terms]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": listed}}}


def beside(key: str, labels: Mapping[str, str] | None, **more: Any) -> JsonObject:
    """Make a pod affinity to pods with *labels*; None: it names no pods."""
    return {"podAffinity": {REQUIRED: [make_term(key, labels, **more)]}}


def apart(key: str, labels: Mapping[str, str] | None, **more: Any) -> JsonObject:
    """Make a pod anti-affinity to pods with *labels*; None: it names no pods."""
    return {"podAntiAffinity": {REQUIRED: [make_term(key, labels, **more)]}}


def make_term(key: str, labels: Mapping[str, str] | None, **more: Any) -> JsonObject:
    """Make a term of either."""
    selector = {} if labels is None else {"labelSelector": {"matchLabels": dict(labels)}}
    return {"topologyKey": key, **selector, **more}


def make_spread(key: str, labels: Mapping[str, str] | None, skew: int = 1, **more: Any) -> JsonObject:
    """Make a topology spread constraint that must be met."""
    selector = {} if labels is None else {"labelSelector": {"matchLabels": dict(labels)}}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **selector, **more}
