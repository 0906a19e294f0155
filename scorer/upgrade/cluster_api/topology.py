"""A Cluster of Cluster API with a topology, and the objects that belong to it.

Two shapes are read: that of ``v1beta2``, and that of ``v1beta1`` with its older conditions.

Source: docs/specifications/upgrade-runs.md 13.3; Cluster API v1.13, api/core/v1beta2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from scorer.api.kinds import split_api_version
from scorer.api.meta import JsonObject
from scorer.api.names import OURS
from scorer.api.unstructured.documents import (
    annotation,
    conditions_of,
    dict_at,
    dicts_at,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    text_at,
    texts_at,
)

GROUP: Final = "cluster.x-k8s.io"
NEW_VERSION: Final = "v1beta2"
OLD_VERSION: Final = "v1beta1"
CLUSTER_NAME: Final = "cluster.x-k8s.io/cluster-name"
"""Label of every object of a Cluster."""
DEPLOYMENT_NAME: Final = "topology.cluster.x-k8s.io/deployment-name"
POOL_NAME: Final = "topology.cluster.x-k8s.io/pool-name"
OPERATION: Final = OURS + "upgrade-operation"
"""Annotation of a Cluster: the operation that changed it last."""
CLUSTER: Final = OURS + "capi-cluster"
"""Annotation of a MemberCluster: namespace and name of its Cluster."""
IMAGE_VARIABLE: Final = OURS + "capi-image-variable"
"""Annotation of a MemberCluster: the variable of the ClusterClass that carries the node image."""
PAUSED: Final = "cluster.x-k8s.io/paused"
"""Annotation of a paused Cluster, which Cluster API does not change."""
FAMILY: Final = "linux"
"""Family of the node images that the variable names."""


class NoClusterError(ValueError):
    """A member names no Cluster, or one that does not exist. The message has the reason."""


@dataclass(frozen=True, slots=True)
class ClusterApiRef:
    """Location of the Cluster of a member, and how its node image is set.

    Args:
        namespace: Namespace of the Cluster.
        name: Name of the Cluster.
        variable: Variable that carries the node image, empty if unset.
    """

    namespace: str
    name: str
    variable: str = ""

    @classmethod
    def of(cls, member: str, annotations: Mapping[str, str]) -> "ClusterApiRef":
        """Parse the annotations of a MemberCluster.

        Raises:
            NoClusterError: The annotations do not name a Cluster.
        """
        text = annotations.get(CLUSTER, "")
        namespace, slash, name = text.partition("/")
        if not (namespace and slash and name) or "/" in name:
            problem = f"is {text[:128]!r}: must be namespace/name" if text else "is missing"
            raise NoClusterError(f"annotation {CLUSTER} of member {member} {problem}")
        return cls(namespace, name, annotations.get(IMAGE_VARIABLE, ""))

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ClusterApiObjects:
    """A Cluster and its objects.

    Args:
        cluster: The Cluster.
        control_plane: Control plane object, empty if unset or missing.
        deployments: MachineDeployments.
        pools: MachinePools.
        cluster_class: ClusterClass, empty if unset or missing.
    """

    cluster: JsonObject
    control_plane: JsonObject = field(default_factory=dict)
    deployments: Sequence[JsonObject] = ()
    pools: Sequence[JsonObject] = ()
    cluster_class: JsonObject = field(default_factory=dict)

    @property
    def versions(self) -> Sequence[str]:
        """Versions that its ClusterClass lists, oldest first, or empty without a list."""
        return texts_at(self.cluster_class, "spec", "kubernetesVersions")

    @property
    def is_chained(self) -> bool:
        """Whether Cluster API passes through minor versions by itself.

        It does so by a list of versions or by the plan of an extension.

        Source: Cluster API v1.13, internal/webhooks/cluster.go, shouldValidateVersionCeiling.
        """
        extension = text_at(self.cluster_class, "spec", "upgrade", "external", "generateUpgradePlanExtension")
        return bool(self.versions or extension)

    @property
    def is_old(self) -> bool:
        """Whether it has the older version of the API."""
        return split_api_version(text_at(self.cluster, "apiVersion"))[1] == OLD_VERSION

    def condition(self, kind: str) -> Mapping[str, Any]:
        """Return a condition of the Cluster, or an empty mapping.

        The older API version stores conditions of the newer kind in a separate field.
        """
        new = dicts_at(self.cluster, "status", "v1beta2", "conditions") if self.is_old else ()
        return next(
            (condition for condition in (*new, *conditions_of(self.cluster)) if condition.get("type") == kind), {}
        )

    @property
    def has_new_conditions(self) -> bool:
        """Whether the Cluster itself has conditions about its machines."""
        return bool(self.condition("RollingOut"))


def topology_of(cluster: Mapping[str, Any]) -> JsonObject:
    """Return the topology of a Cluster, or an empty mapping."""
    return dict_at(spec_of(cluster), "topology")


def version_of(cluster: Mapping[str, Any]) -> str:
    """Return the version that the topology of a Cluster requests, without ``v``."""
    return text_at(topology_of(cluster), "version").removeprefix("v")


def class_of(cluster: Mapping[str, Any]) -> tuple[str, str]:
    """Return namespace and name of the ClusterClass of a Cluster. The name is empty without one."""
    topology, namespace = topology_of(cluster), namespace_of(cluster)
    ref = dict_at(topology, "classRef")
    if ref:
        return text_at(ref, "namespace") or namespace, text_at(ref, "name")
    return text_at(topology, "classNamespace") or namespace, text_at(topology, "class")


def control_plane_ref(cluster: Mapping[str, Any]) -> tuple[tuple[str, str], str]:
    """Return the group, kind and name of the control plane of a Cluster. It has the namespace of the Cluster."""
    ref = dict_at(spec_of(cluster), "controlPlaneRef")
    group = text_at(ref, "apiGroup") or split_api_version(text_at(ref, "apiVersion"))[0]
    return (group, text_at(ref, "kind")), text_at(ref, "name")


def image_of(parts: ClusterApiObjects, variable: str, machines: Mapping[str, Any] | None = None) -> str:
    """Return the node image that a variable carries, or an empty string.

    Args:
        parts: The Cluster and its objects.
        variable: Name of the variable. If the topology does not set it, the default of the ClusterClass counts.
        machines: One set of machines of the topology, whose override wins.
    """
    overrides = dicts_at(machines or {}, "variables", "overrides")
    for override in (*overrides, *dicts_at(topology_of(parts.cluster), "variables")):
        if override.get("name") == variable and isinstance(value := override.get("value"), str):
            return value
    for definition in dicts_at(parts.cluster_class, "spec", "variables"):
        if definition.get("name") == variable:
            return text_at(definition, "schema", "openAPIV3Schema", "default")
    return ""


def is_paused(cluster: Mapping[str, Any]) -> bool:
    """Return whether a Cluster is paused. The annotation counts with any value.

    Source: Cluster API v1.13, util/annotations, HasPaused.
    """
    return spec_of(cluster).get("paused") is True or PAUSED in dict_at(cluster, "metadata", "annotations")


def operation_on(cluster: Mapping[str, Any]) -> str:
    """Return the operation that changed a Cluster last, or an empty string."""
    return annotation(cluster, OPERATION)


def full_name(cluster: Mapping[str, Any]) -> str:
    """Return the name of a Cluster for messages."""
    return f"{namespace_of(cluster)}/{name_of(cluster)}"


def versions_of(machines: Mapping[str, Any]) -> str:
    """Return the version that a MachineDeployment or MachinePool requests, without ``v``."""
    return text_at(spec_of(machines), "template", "spec", "version").removeprefix("v")


def replicas_of(machines: Mapping[str, Any]) -> int:
    """Return the number of machines in a set's spec, or else in its status."""
    for replicas in (spec_of(machines).get("replicas"), status_of(machines).get("replicas")):
        if type(replicas) is int:
            return replicas
    return 0
