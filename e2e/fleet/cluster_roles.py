"""ClusterRoles that are placed."""

from e2e.controlplane.cluster import JsonObject
from scorer.api.kinds import KINDS

CLUSTER_ROLE = KINDS["rbac.authorization.k8s.io", "ClusterRole"]


def cluster_role(name: str) -> JsonObject:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {"of": "e2e-roles"}},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
    }
