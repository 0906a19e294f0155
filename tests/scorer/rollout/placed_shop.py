"""A binding of the placement shop, and the snapshots of what it selects."""

from datetime import UTC, datetime

from scorer.rollout.snapshots.groups import snapshot_groups
from scorer.rollout.snapshots.resources import UNTHROTTLED, plan_resource_snapshots

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
GROUP = "placement.kubernetes-fleet.io/v1beta1"
FLEET = "kubernetes-fleet.io/"


def make_object(name, kind="ConfigMap", size=1, api_version="v1", namespace="x", **more):
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": metadata,
        **more,
        **({"d": "z" * size} if size > 1 else {}),
    }


def make_group(objects, namespace=""):
    metadata = {"name": "shop", "uid": "u"} | ({"namespace": namespace} if namespace else {})
    placement = {"apiVersion": GROUP, "kind": "K", "metadata": metadata, "spec": {}}
    plan = plan_resource_snapshots(placement, [], objects, NOW, UNTHROTTLED)
    return snapshot_groups(write.document for write in plan.writes)[0]


def make_binding(namespace="", state="Bound", conditions=(), **spec):
    metadata = {"name": "shop-a-1", "generation": 2, "labels": {FLEET + "parent-CRP": "shop"}}
    metadata |= {"namespace": namespace} if namespace else {}
    spec = {"state": state, "targetCluster": "a", "resourceSnapshotName": "shop-0-snapshot", **spec}
    return {"metadata": metadata, "spec": spec, "status": {"conditions": list(conditions)}}
