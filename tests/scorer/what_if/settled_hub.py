"""A hub of documents on which every placement is rolled out to the clusters that it has."""

from scorer.api.kinds import MAINTENANCE_WINDOW
from scorer.api.names import (
    IS_LATEST_SNAPSHOT,
    NUMBER_OF_RESOURCE_SNAPSHOTS,
    PARENT_PLACEMENT,
    RESOURCE_HASH,
    RESOURCE_INDEX,
)
from scorer.fleet import Fleet
from scorer.placement.policy_hash import policy_hash
from scorer.what_if.state import HubState
from tests.scorer.builders import (
    NODES,
    NOW,
    make_cluster,
    pick_fixed,
    pick_n,
    policy,
    prefer,
)

GROUP = "placement.kubernetes-fleet.io"
AVAILABLE = [{"type": "Available", "status": "True", "reason": "AllWorkAreAvailable", "observedGeneration": 1}]
BY_NODES = [prefer(100, NODES)]
NODE_COUNTS = {"dover": "9", "faro": "5", "genoa": "7", "oslo": "1"}
RATES = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "rates", "namespace": "shop"},
    "data": {"a": "1"},
}
SHOP = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}


def cluster(name, **facts):
    return make_cluster(name, properties={NODES: NODE_COUNTS.get(name, "3")}, **facts)


def placement(name, wanted, namespace="", **spec):
    kind = "ResourcePlacement" if namespace else "ClusterResourcePlacement"
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    selectors = [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]
    made = {"resourceSelectors": selectors, **({"policy": wanted} if wanted else {}), **spec}
    return {"apiVersion": f"{GROUP}/v1beta1", "kind": kind, "metadata": metadata, "spec": made}


def binding(parent, name, *, available=True, **spec):
    return {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "ClusterResourceBinding",
        "metadata": {"name": f"{parent}-{name}-1", "labels": {PARENT_PLACEMENT: parent}, "generation": 1},
        "spec": {
            "state": "Bound",
            "targetCluster": name,
            "resourceSnapshotName": f"{parent}-0-snapshot",
            "schedulingPolicySnapshotName": f"{parent}-0",
            "clusterDecision": {
                "clusterName": name,
                "selected": True,
                "clusterScore": {"affinityScore": 3, "priorityScore": 0},
            },
        }
        | spec,
        "status": {"conditions": AVAILABLE if available else []},
    }


def snapshots(parent, wanted):
    """Return the policy snapshot and the resource snapshot of a placement."""
    labels = {PARENT_PLACEMENT: parent, IS_LATEST_SNAPSHOT: "true"}
    kind = {"apiVersion": f"{GROUP}/v1beta1"}
    resources = {
        **kind,
        "kind": "ClusterResourceSnapshot",
        "metadata": {
            "name": f"{parent}-0-snapshot",
            "labels": {**labels, RESOURCE_INDEX: "0"},
            "annotations": {RESOURCE_HASH: "x", NUMBER_OF_RESOURCE_SNAPSHOTS: "1"},
        },
        "spec": {"selectedResources": [SHOP, RATES]},
    }
    taken = {key: value for key, value in (wanted or {}).items() if key != "numberOfClusters"}
    policies = {
        **kind,
        "kind": "ClusterSchedulingPolicySnapshot",
        "metadata": {"name": f"{parent}-0", "labels": labels},
        "spec": {"policy": taken, "policyHash": policy_hash(wanted)},
    }
    return policies, resources


def budget(name, **limits):
    return {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "ClusterResourcePlacementDisruptionBudget",
        "metadata": {"name": name},
        "spec": limits,
    }


def settled(*placed, fleet=("dover", "faro", "genoa", "oslo"), budgets=(), members_=None):
    """Return a hub on which every (placement, clusters) is rolled out to these clusters."""
    made = [snapshots(subject["metadata"]["name"], subject["spec"].get("policy")) for subject, _ in placed]
    return HubState(
        Fleet.of(members_ if members_ is not None else [cluster(name) for name in fleet]),
        NOW,
        placements=[subject for subject, _ in placed],
        bindings=[binding(subject["metadata"]["name"], name) for subject, names in placed for name in names],
        policy_snapshots=[policies for policies, _ in made],
        resource_snapshots=[resources for _, resources in made],
        budgets=budgets,
    )


WEB = placement("web", pick_n(2, preferred=BY_NODES))
ALL = placement("all", policy())
FIXED = placement("fixed", pick_fixed("dover", "faro"))


def window(name, opens, **spec):
    """Return a maintenance window that opens at that time of every day, for four hours."""
    kind = {"apiVersion": MAINTENANCE_WINDOW.api_version, "kind": MAINTENANCE_WINDOW.kind}
    daily = {"schedule": {"daily": {"intervalDays": 1}}, "startTime": f"{opens:%H:%M}"}
    return {**kind, "metadata": {"name": name}, "spec": daily | spec}
