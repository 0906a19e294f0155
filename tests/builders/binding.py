"""Bindings as they stand on the wire."""

from collections.abc import Mapping
from typing import Any

from scorer.api.kinds import BINDING, NAMESPACED_BINDING
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_PLACEMENT


def make_binding(
    placement: str,
    cluster: str,
    *,
    namespace: str = "",
    state: str = "Bound",
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> JsonObject:
    """Make the binding of a placement to a cluster; nothing has been rolled out yet.

    Args:
        placement: Of the same namespace.
        cluster: ``spec.targetCluster``.
        namespace: ``metadata.namespace``; empty: of a ClusterResourcePlacement.
        state: ``spec.state``.
        metadata: More of it.
        spec: More of it.
    """
    kind = NAMESPACED_BINDING if namespace else BINDING
    head: JsonObject = {"name": f"{placement}-{cluster}", "labels": {PARENT_PLACEMENT: placement}}
    head |= {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {**head, **(metadata or {})},
        "spec": {
            "state": state,
            "targetCluster": cluster,
            "schedulingPolicySnapshotName": f"{placement}-0",
            "resourceSnapshotName": "",
            "clusterDecision": {"clusterName": cluster, "selected": True, "reason": "x"},
            **spec,
        },
    }
