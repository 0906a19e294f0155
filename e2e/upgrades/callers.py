"""Accounts that order upgrade runs over HTTPS, and the run that they order."""

from e2e.controlplane.cluster import Cluster, JsonObject
from e2e.fleet.objects import Objects
from e2e.fleet.processes import SYSTEM

API = "upgrade.harbormaster.dev/v1alpha1"
AUDIENCE = f"harbormaster.{SYSTEM}.svc"
RBAC = "rbac.authorization.k8s.io"
RUN = {"state": "Initialize", "upgrade": {"type": "Full", "kubernetesVersion": "1.31.2"}}
RIGHTS: list[JsonObject] = [
    {
        "apiGroups": ["upgrade.harbormaster.dev"],
        "resources": [
            "clusterupgraderuns",
            "clusterupgradegates",
            "clusterupgradegates/status",
            "clusterupgradeprofiles",
        ],
        "verbs": ["get", "update", "create"],
    }
]
PATHS = [{"nonResourceURLs": ["/v1/upgrade/*"], "verbs": ["post"]}]


def account(hub: Cluster, name: str, rules: list[JsonObject]) -> None:
    """Make an account with these rights."""
    subject = {"kind": "ServiceAccount", "namespace": SYSTEM, "name": name}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"orders-{name}"}
    about = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": f"orders-{name}"}}
    Objects(hub).apply(
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": SYSTEM}},
            {**about, "kind": "ClusterRole", "rules": rules},
            {**about, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]},
        ]
    )
