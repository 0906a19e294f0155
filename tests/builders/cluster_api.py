"""A Cluster of Cluster API at rest, with all that belongs to it."""

from typing import Any

from scorer.api.meta import JsonObject
from scorer.upgrade.cluster_api.topology import CLUSTER_NAME, DEPLOYMENT_NAME, POOL_NAME, ClusterApiObjects

LONG_AGO = "2026-01-05T00:00:00Z"
API = "cluster.x-k8s.io/v1beta2"
GOOD = {
    "TopologyReconciled": ("True", "ReconcileSucceeded"),
    "RollingOut": ("False", "NotRollingOut"),
    "ControlPlaneMachinesUpToDate": ("True", "UpToDate"),
    "WorkerMachinesUpToDate": ("True", "UpToDate"),
    "ControlPlaneAvailable": ("True", "Available"),
    "Available": ("True", "Available"),
}
"""The conditions of a Cluster at rest."""


def condition(kind: str, status: str, reason: str, *, since: str = LONG_AGO, generation: int = 1) -> JsonObject:
    """Make a condition."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": f"{kind} {reason}",
        "lastTransitionTime": since,
        "observedGeneration": generation,
    }


def make_cluster(name: str = "c1", version: str = "1.30.4", **conditions: tuple[str, str]) -> JsonObject:
    """Make a Cluster with two sets of workers, at rest but for *conditions*."""
    return {
        "apiVersion": API,
        "kind": "Cluster",
        "metadata": {"name": name, "namespace": "quays", "generation": 1, "resourceVersion": "7"},
        "spec": {
            "controlPlaneRef": {
                "apiGroup": "controlplane.cluster.x-k8s.io",
                "kind": "KubeadmControlPlane",
                "name": f"{name}-cp",
            },
            "topology": {
                "classRef": {"name": "berth"},
                "version": f"v{version}",
                "controlPlane": {"replicas": 3},
                "variables": [{"name": "image", "value": "100"}, {"name": "zone", "value": {"name": "a"}}],
                "workers": {
                    "machineDeployments": [
                        {"class": "w", "name": "blue", "replicas": 2},
                        {"class": "w", "name": "red", "replicas": 1},
                    ]
                },
            },
        },
        "status": {
            "observedGeneration": 1,
            "conditions": [condition(kind, *found) for kind, found in {**GOOD, **conditions}.items()],
            "controlPlane": {"desiredReplicas": 3, "replicas": 3, "upToDateReplicas": 3},
            "workers": {"desiredReplicas": 3, "replicas": 3, "upToDateReplicas": 3},
        },
    }


def make_control_plane(name: str = "c1", version: str = "1.30.4") -> JsonObject:
    """Make its control plane."""
    return {
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
        "kind": "KubeadmControlPlane",
        "metadata": {"name": f"{name}-cp", "namespace": "quays", "generation": 1},
        "spec": {"version": f"v{version}", "replicas": 3},
        "status": {"observedGeneration": 1, "version": f"v{version}", "replicas": 3, "upToDateReplicas": 3},
    }


def make_deployment(name: str, cluster: str = "c1", version: str = "1.30.4", replicas: int = 2) -> JsonObject:
    """Make a set of workers."""
    return {
        "apiVersion": API,
        "kind": "MachineDeployment",
        "metadata": {
            "name": f"{cluster}-{name}",
            "namespace": "quays",
            "generation": 1,
            "labels": {CLUSTER_NAME: cluster, DEPLOYMENT_NAME: name},
        },
        "spec": {"clusterName": cluster, "replicas": replicas, "template": {"spec": {"version": f"v{version}"}}},
        "status": {"observedGeneration": 1, "replicas": replicas, "upToDateReplicas": replicas},
    }


def make_pool(name: str, cluster: str = "c1", version: str = "1.30.4", replicas: int = 2) -> JsonObject:
    """Make a set of workers that a provider manages as one: it has no conditions of the newer kind."""
    made = make_deployment(name, cluster, version, replicas)
    labels = {CLUSTER_NAME: cluster, POOL_NAME: name}
    return {**made, "kind": "MachinePool", "metadata": {**made["metadata"], "labels": labels}}


WITH_POOLS = {
    "RollingOut": ("Unknown", "RollingOutUnknown"),
    "Available": ("Unknown", "AvailableUnknown"),
    "WorkersAvailable": ("Unknown", "AvailableUnknown"),
    "RemoteConnectionProbe": ("True", "ProbeSucceeded"),
    "InfrastructureReady": ("True", "Ready"),
}
"""What conditions of a Cluster at rest are like when it has MachinePools."""


def with_topology(cluster: JsonObject, **members: Any) -> JsonObject:
    """Return a Cluster with other members of its topology."""
    topology = {**cluster["spec"]["topology"], **members}
    return {**cluster, "spec": {**cluster["spec"], "topology": topology}}


def make_class(**spec: Any) -> JsonObject:
    """Make the ClusterClass of a Cluster."""
    return {
        "apiVersion": API,
        "kind": "ClusterClass",
        "metadata": {"name": "berth", "namespace": "quays"},
        "spec": spec,
    }


def make_parts(version: str = "1.30.4", workers: str = "", **others: Any) -> ClusterApiObjects:
    """Make a Cluster at rest with all that belongs to it; *others* replace parts of it."""
    found: dict[str, Any] = {
        "cluster": make_cluster(version=version),
        "control_plane": make_control_plane(version=version),
        "deployments": [
            make_deployment("blue", version=workers or version),
            make_deployment("red", version=workers or version, replicas=1),
        ],
    }
    return ClusterApiObjects(**{**found, **others})
