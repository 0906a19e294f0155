"""One placement with what was made for it, as documents, for the tests of the tree."""

from tests.builders.condition import condition

CRP = "kubernetes-fleet.io/parent-CRP"
BINDING = "kubernetes-fleet.io/parent-resource-binding"
SNAPSHOT = "kubernetes-fleet.io/parent-resource-snapshot-index"
GROUP = "placement.kubernetes-fleet.io/v1beta1"


def make_placement(*conditions, missing=(), policy=None, strategy=None, **metadata):
    """Return the ClusterResourcePlacement ``web``; *missing* are messages about clusters that were not found."""
    scheduled = condition("ClusterResourcePlacementScheduled")
    statuses = [{"conditions": [condition("Scheduled", "False", "ScheduleFailed", text)]} for text in missing]
    spec = {"resourceSelectors": [], "policy": policy or {"placementType": "PickN", "numberOfClusters": 2}}
    return {
        "apiVersion": GROUP,
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "web", "generation": 1, "uid": "u", **metadata},
        "spec": spec | ({"strategy": strategy} if strategy else {}),
        "status": {"conditions": list(conditions or [scheduled]), "placementStatuses": statuses},
    }


DONE = ("RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available")


def make_binding(cluster, *conditions, state="Bound", index=1, apply="ClientSideApply", **metadata):
    """Return the binding of one cluster; without *conditions* all is well there."""
    return {
        "apiVersion": GROUP,
        "kind": "ClusterResourceBinding",
        "metadata": {"name": f"web-{cluster}", "generation": 1, "labels": {CRP: "web"}, **metadata},
        "spec": {
            "state": state,
            "targetCluster": cluster,
            "resourceSnapshotName": "" if index is None else f"web-{index}-snapshot",
            "schedulingPolicySnapshotName": "web-0",
            "applyStrategy": {"type": apply},
        },
        "status": {"conditions": list(conditions or map(condition, DONE))},
    }


def make_work(cluster, *entries, name="web-work", generation=1, observed=1, manifests=None, **metadata):
    """Return a Work; *entries* are those of ``manifestConditions``, in the order of the manifests."""
    if manifests is None:
        manifests = [
            {
                "apiVersion": "v1",
                "kind": entry["identifier"]["kind"],
                "metadata": {key: entry["identifier"][key] for key in ("namespace", "name")},
                "data": {"content": "that nobody shows"},
            }
            for entry in entries
        ]
    labels = {CRP: "web", BINDING: f"web-{cluster}", SNAPSHOT: "1", **metadata.pop("labels", {})}
    told = [condition("Applied", generation=observed), condition("Available", generation=observed)] if observed else []
    return {
        "apiVersion": GROUP,
        "kind": "Work",
        "metadata": {
            "name": name,
            "namespace": f"fleet-member-{cluster}",
            "generation": generation,
            "labels": labels,
            **metadata,
        },
        "spec": {"workload": {"manifests": manifests}},
        "status": {"conditions": told, "manifestConditions": list(entries)},
    }


def entry(name, *conditions, ordinal=0, kind="ConfigMap", drifts=(), diffs=()):
    """Return what a Work says of one manifest; without *conditions* it is available."""
    conditions = conditions or (condition("Applied", reason="Applied"), condition("Available", reason="Available"))
    found = {
        "identifier": {"ordinal": ordinal, "version": "v1", "kind": kind, "namespace": "shop", "name": name},
        "conditions": list(conditions),
    }
    for key, inner, paths in (("driftDetails", "observedDrifts", drifts), ("diffDetails", "observedDiffs", diffs)):
        if paths:
            found[key] = {inner: [{"path": path, "valueInMember": "secret"} for path in paths]}
    return found


def make_snapshot(index=1):
    """Return the latest resource snapshot."""
    labels = {
        CRP: "web",
        "kubernetes-fleet.io/resource-index": str(index),
        "kubernetes-fleet.io/is-latest-snapshot": "true",
    }
    return {
        "apiVersion": GROUP,
        "kind": "ClusterResourceSnapshot",
        "metadata": {"name": f"web-{index}-snapshot", "labels": labels},
        "spec": {"selectedResources": []},
    }
