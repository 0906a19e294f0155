"""The order of a Work's manifests: objects that others need come before them.

Source: rollout.md 2.7; KubeFleet pkg/controllers/placement/resource_selector.go.
"""

from scorer.api.documents import name_of, namespace_of
from scorer.api.kinds import split_api_version
from scorer.api.meta import JsonObject

_ORDER = """
PriorityClass Namespace NetworkPolicy ResourceQuota LimitRange PodDisruptionBudget ServiceAccount Secret ConfigMap
StorageClass PersistentVolume PersistentVolumeClaim CustomResourceDefinition ClusterRole ClusterRoleBinding Role
RoleBinding Service DaemonSet Pod ReplicationController ReplicaSet Deployment HorizontalPodAutoscaler StatefulSet Job
CronJob IngressClass Ingress APIService MutatingWebhookConfiguration ValidatingWebhookConfiguration
"""
_RANKS = {kind: rank for rank, kind in enumerate(_ORDER.split())}


def order_key(document: JsonObject) -> tuple[int, str, str]:
    """Return the sort key of a selected object; a fixed order makes an unchanged selection an unchanged snapshot."""
    kind = str(document.get("kind"))
    group, version = split_api_version(str(document.get("apiVersion")))
    rank = _RANKS.get(kind, len(_RANKS))
    family = f"{group}/{version}" if rank < len(_RANKS) else f"{group}/{version}, Kind={kind}"
    return rank, family, f"{namespace_of(document)}/{name_of(document)}"
