"""Every kind that the system knows without discovery: group, versions, plural, scope.

The table of Kubernetes' own kinds exists so that the scope of a selected built-in kind never depends on
discovery (placement-api.md 7.1). `scorer.api.crd.definitions` has the printer columns and schemas of our kinds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scorer.api.names import CLUSTER_GROUP, PLACEMENT_GROUP


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object.

    Args:
        group: API group, empty for the core group.
        versions: Served versions, the preferred one first.
        kind: Name in CamelCase.
        plural: Name in URLs.
        namespaced: False: cluster-scoped.
        short_names: Short names that kubectl accepts instead of the plural.
        has_status: Whether status is a subresource, written separately.
        built_in: Whether it is one of Kubernetes' own.
    """

    group: str
    versions: tuple[str, ...]
    kind: str
    plural: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    has_status: bool = True
    built_in: bool = False

    def __hash__(self) -> int:
        return hash(self.kind)  # hot path: kinds are keys, and a hash over all fields would be slow

    @property
    def api_version(self) -> str:
        """``apiVersion`` with the preferred version."""
        return api_version(self.group, self.versions[0])

    @property
    def group_kind(self) -> tuple[str, str]:
        """Identity of the kind across its versions."""
        return self.group, self.kind

    @property
    def resource(self) -> str:
        """``plural.group``, or ``plural`` in the core group. A CustomResourceDefinition has this name."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


def api_version(group: str, version: str) -> str:
    """Join group and version as ``apiVersion`` does."""
    return f"{group}/{version}" if group else version


def split_api_version(text: str) -> tuple[str, str]:
    """Split ``apiVersion`` into group and version."""
    group, slash, version = text.rpartition("/")
    return (group, version) if slash else ("", text)


def group_kind(document: Mapping[str, Any]) -> tuple[str, str]:
    """Return group and kind of an object."""
    return split_api_version(str(document.get("apiVersion", "")))[0], str(document.get("kind", ""))


UPGRADE_GROUP = "upgrade.harbormaster.dev"

_BOTH = ("v1beta1", "v1")
_BETA = ("v1beta1",)
_ALPHA = ("v1alpha1",)


def _fleet(
    kind: str, *, namespaced: bool, short: str = "", versions: tuple[str, ...] = _BOTH, status: bool = True
) -> Kind:
    return Kind(PLACEMENT_GROUP, versions, kind, _plural(kind), namespaced, (short,) if short else (), status)


def _upgrade(kind: str, short: str) -> Kind:
    return Kind(UPGRADE_GROUP, _ALPHA, kind, _plural(kind), False, (short,))


_IRREGULAR = {"Endpoints": "endpoints", "CSIStorageCapacity": "csistoragecapacities"}


def _plural(kind: str) -> str:
    if kind in _IRREGULAR:
        return _IRREGULAR[kind]
    lower = kind.lower()
    if lower.endswith("y") and lower[-2] not in "aeiou":
        return lower[:-1] + "ies"
    return lower + ("es" if lower.endswith(("s", "x", "ch")) else "s")


PLACEMENT = _fleet("ClusterResourcePlacement", namespaced=False, short="crp")
RESOURCE_PLACEMENT = _fleet("ResourcePlacement", namespaced=True, short="rp")
PLACEMENT_STATUS = _fleet("ClusterResourcePlacementStatus", namespaced=True, short="crps", status=False)
POLICY_SNAPSHOT = _fleet("ClusterSchedulingPolicySnapshot", namespaced=False, short="csps")
NAMESPACED_POLICY_SNAPSHOT = _fleet("SchedulingPolicySnapshot", namespaced=True, short="sps", versions=_BETA)
RESOURCE_SNAPSHOT = _fleet("ClusterResourceSnapshot", namespaced=False, short="crs")
NAMESPACED_RESOURCE_SNAPSHOT = _fleet("ResourceSnapshot", namespaced=True, short="rs", versions=_BETA)
BINDING = _fleet("ClusterResourceBinding", namespaced=False, short="crb")
NAMESPACED_BINDING = _fleet("ResourceBinding", namespaced=True, short="rb", versions=_BETA)
WORK = _fleet("Work", namespaced=True)
APPLIED_WORK = _fleet("AppliedWork", namespaced=False)
STAGED_STRATEGY = _fleet("ClusterStagedUpdateStrategy", namespaced=False, short="csus")
NAMESPACED_STAGED_STRATEGY = _fleet("StagedUpdateStrategy", namespaced=True, short="sus", status=False)
STAGED_RUN = _fleet("ClusterStagedUpdateRun", namespaced=False, short="csur")
NAMESPACED_STAGED_RUN = _fleet("StagedUpdateRun", namespaced=True, short="sur")
APPROVAL_REQUEST = _fleet("ClusterApprovalRequest", namespaced=False, short="careq")
NAMESPACED_APPROVAL_REQUEST = _fleet("ApprovalRequest", namespaced=True, short="areq")
OVERRIDE = _fleet("ClusterResourceOverride", namespaced=False, status=False)
NAMESPACED_OVERRIDE = _fleet("ResourceOverride", namespaced=True, status=False)
OVERRIDE_SNAPSHOT = _fleet("ClusterResourceOverrideSnapshot", namespaced=False, status=False)
NAMESPACED_OVERRIDE_SNAPSHOT = _fleet("ResourceOverrideSnapshot", namespaced=True, status=False)
ENVELOPE = _fleet("ClusterResourceEnvelope", namespaced=False, versions=_BETA, status=False)
NAMESPACED_ENVELOPE = _fleet("ResourceEnvelope", namespaced=True, versions=_BETA, status=False)
EVICTION = _fleet("ClusterResourcePlacementEviction", namespaced=False, short="crpe", versions=_BETA)
DISRUPTION_BUDGET = _fleet(
    "ClusterResourcePlacementDisruptionBudget", namespaced=False, short="crpdb", versions=_BETA, status=False
)
MEMBER_CLUSTER = Kind(CLUSTER_GROUP, _BOTH, "MemberCluster", "memberclusters", False, ("cluster",))
INTERNAL_MEMBER_CLUSTER = Kind(CLUSTER_GROUP, _BOTH, "InternalMemberCluster", "internalmemberclusters", True, ("imc",))
NODE_POOL = Kind("karpenter.sh", ("v1",), "NodePool", "nodepools", False)
UPGRADE_STRATEGY = _upgrade("ClusterUpgradeStrategy", "cupstrat")
UPGRADE_RUN = _upgrade("ClusterUpgradeRun", "cuprun")
UPGRADE_GATE = _upgrade("ClusterUpgradeGate", "cupgate")
UPGRADE_PROFILE = _upgrade("ClusterUpgradeProfile", "cupprof")
MAINTENANCE_WINDOW = _upgrade("ClusterMaintenanceWindow", "cmwin")
VERSION_CATALOG = _upgrade("ClusterVersionCatalog", "cvcat")
UPGRADE_REQUEST = _upgrade("ClusterUpgradeRequest", "cupreq")

OUR_KINDS = tuple(value for value in globals().values() if isinstance(value, Kind))

CATEGORIES: Mapping[str, tuple[str, ...]] = {
    PLACEMENT_GROUP: ("fleet", "fleet-placement"),
    CLUSTER_GROUP: ("fleet", "fleet-cluster"),
    NODE_POOL.group: ("karpenter",),
    UPGRADE_GROUP: ("fleet", "fleet-upgrade"),
}
"""Categories for ``kubectl get``, by group. Each stands for several of our kinds."""

_CLUSTER_SCOPED = """
v1 Namespace:ns Node:no PersistentVolume:pv
rbac.authorization.k8s.io/v1 ClusterRole ClusterRoleBinding
storage.k8s.io/v1 StorageClass:sc CSIDriver CSINode VolumeAttachment VolumeAttributesClass:vac
scheduling.k8s.io/v1 PriorityClass:pc
networking.k8s.io/v1 IngressClass IPAddress:ip ServiceCIDR
node.k8s.io/v1 RuntimeClass
resource.k8s.io/v1 DeviceClass ResourceSlice
apiextensions.k8s.io/v1 CustomResourceDefinition:crd
admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration MutatingWebhookConfiguration
admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
admissionregistration.k8s.io/v1 MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
apiregistration.k8s.io/v1 APIService
certificates.k8s.io/v1 CertificateSigningRequest:csr
flowcontrol.apiserver.k8s.io/v1 FlowSchema PriorityLevelConfiguration
"""

_NAMESPACED = """
v1 ConfigMap:cm Secret Service:svc ServiceAccount:sa Pod:po PersistentVolumeClaim:pvc Endpoints:ep Event:ev
v1 LimitRange:limits ResourceQuota:quota ReplicationController:rc PodTemplate Binding
apps/v1 Deployment:deploy StatefulSet:sts DaemonSet:ds ReplicaSet ControllerRevision
batch/v1 Job CronJob:cj
autoscaling/v2,v1 HorizontalPodAutoscaler:hpa
policy/v1 PodDisruptionBudget:pdb
networking.k8s.io/v1 Ingress:ing NetworkPolicy:netpol
discovery.k8s.io/v1 EndpointSlice
coordination.k8s.io/v1 Lease
events.k8s.io/v1 Event
rbac.authorization.k8s.io/v1 Role RoleBinding
storage.k8s.io/v1 CSIStorageCapacity
resource.k8s.io/v1 ResourceClaim ResourceClaimTemplate
"""


def _built_in(table: str, *, namespaced: bool) -> list[Kind]:
    kinds = []
    for line in table.split("\n"):
        api_version, *words = line.split() or [""]
        group, versions = split_api_version(api_version)
        for word in words:
            name, _, short = word.partition(":")
            shorts = (short,) if short else ()
            kinds.append(
                Kind(group, tuple(versions.split(",")), name, _plural(name), namespaced, shorts, built_in=True)
            )
    return kinds


BUILT_IN = (*_built_in(_CLUSTER_SCOPED, namespaced=False), *_built_in(_NAMESPACED, namespaced=True))

NODE_CLAIM = Kind("karpenter.sh", ("v1",), "NodeClaim", "nodeclaims", False)
"""Karpenter's kind for one node of a pool. It is only read: Karpenter has its definition and its validation."""

KINDS: Mapping[tuple[str, str], Kind] = {kind.group_kind: kind for kind in (*BUILT_IN, *OUR_KINDS, NODE_CLAIM)}
"""All known kinds by group and kind."""

NAMESPACE = KINDS["", "Namespace"]
VOLUME_CLAIM = KINDS["", "PersistentVolumeClaim"]
NODE = KINDS["", "Node"]
POD = KINDS["", "Pod"]
CONFIG_MAP = KINDS["", "ConfigMap"]
SECRET = KINDS["", "Secret"]
EVENT = KINDS["events.k8s.io", "Event"]
POD_DISRUPTION_BUDGET = KINDS["policy", "PodDisruptionBudget"]
LEASE = KINDS["coordination.k8s.io", "Lease"]
CUSTOM_RESOURCE_DEFINITION = KINDS["apiextensions.k8s.io", "CustomResourceDefinition"]


def find_kind(word: str, custom: Iterable[Kind] = ()) -> Kind | None:
    """Return the kind that *word* names, or None: by kind, plural or short name, each with or without the group.

    *custom* are further known kinds.
    """
    name, _, group = word.lower().partition(".")
    for kind in (*OUR_KINDS, NODE_CLAIM, *BUILT_IN, *custom):
        if name in (kind.plural, kind.kind.lower(), *kind.short_names) and group in ("", kind.group):
            return kind
    return None
