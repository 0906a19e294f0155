"""A Cluster of Cluster API with a topology, and the objects that belong to it.

Two shapes are read: that of ``v1beta2``, and that of ``v1beta1`` with its older conditions.

Source: upgrade-runs.md 13.3; Cluster API v1.13, api/core/v1beta2.
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
"""Label of everything that belongs to a Cluster."""
DEPLOYMENT_NAME: Final = "topology.cluster.x-k8s.io/deployment-name"
POOL_NAME: Final = "topology.cluster.x-k8s.io/pool-name"
OPERATION: Final = OURS + "upgrade-operation"
"""On a Cluster: the operation that has changed it last."""
CLUSTER: Final = OURS + "capi-cluster"
"""On a MemberCluster: namespace and name of its Cluster."""
IMAGE_VARIABLE: Final = OURS + "capi-image-variable"
"""On a MemberCluster: the variable of the ClusterClass that carries the node image."""
_PAUSED: Final = "cluster.x-k8s.io/paused"
FAMILY: Final = "linux"
"""The family of the node images that the variable names."""


class NoClusterError(ValueError):
    """A member does not say which Cluster it is, or there is no such; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class ClusterApiRef:
    """Where the Cluster of a member is, and how its node image is set.

    Args:
        namespace: Of the Cluster.
        name: Of the Cluster.
        variable: The variable that carries the node image; empty: none does.
    """

    namespace: str
    name: str
    variable: str = ""

    @classmethod
    def of(cls, member: str, annotations: Mapping[str, str]) -> "ClusterApiRef":
        """Read the annotations of a MemberCluster.

        Raises:
            NoClusterError: They do not name a Cluster.
        """
        text = annotations.get(CLUSTER, "")
        namespace, slash, name = text.partition("/")
        if not (namespace and slash and name) or "/" in name:
            problem = f"is {text[:128]!r}, no namespace/name" if text else "is missing"
            raise NoClusterError(f"annotation {CLUSTER} of member {member} {problem}")
        return cls(namespace, name, annotations.get(IMAGE_VARIABLE, ""))

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ClusterApiObjects:
    """A Cluster with what belongs to it.

    Args:
        cluster: The Cluster.
        control_plane: The object of its control plane; empty: there is none, or it cannot be read.
        deployments: Its MachineDeployments.
        pools: Its MachinePools.
        cluster_class: Its ClusterClass; empty: it cannot be read.
    """

    cluster: JsonObject
    control_plane: JsonObject = field(default_factory=dict)
    deployments: Sequence[JsonObject] = ()
    pools: Sequence[JsonObject] = ()
    cluster_class: JsonObject = field(default_factory=dict)

    @property
    def versions(self) -> Sequence[str]:
        """The versions that its ClusterClass lists, from the oldest on; empty: it lists none."""
        return texts_at(self.cluster_class, "spec", "kubernetesVersions")

    @property
    def is_chained(self) -> bool:
        """Whether Cluster API goes through minor versions by itself: by a list of versions, or as an extension plans.

        Source: Cluster API v1.13, internal/webhooks/cluster.go, shouldValidateVersionCeiling.
        """
        extension = text_at(self.cluster_class, "spec", "upgrade", "external", "generateUpgradePlanExtension")
        return bool(self.versions or extension)

    @property
    def is_old(self) -> bool:
        """Whether it is of the older version of the API."""
        return split_api_version(text_at(self.cluster, "apiVersion"))[1] == OLD_VERSION

    def condition(self, kind: str) -> Mapping[str, Any]:
        """Return a condition of the Cluster; empty: it has none of that type.

        In the older version of the API, the conditions of the newer one have a place of their own.
        """
        new = dicts_at(self.cluster, "status", "v1beta2", "conditions") if self.is_old else ()
        return next(
            (condition for condition in (*new, *conditions_of(self.cluster)) if condition.get("type") == kind), {}
        )

    @property
    def has_new_conditions(self) -> bool:
        """Whether the Cluster says by conditions of its own how far its machines are."""
        return bool(self.condition("RollingOut"))


def topology_of(cluster: Mapping[str, Any]) -> JsonObject:
    """Return the topology of a Cluster; empty: it has none."""
    return dict_at(spec_of(cluster), "topology")


def version_of(cluster: Mapping[str, Any]) -> str:
    """Return the version that the topology of a Cluster asks for, without ``v``."""
    return text_at(topology_of(cluster), "version").removeprefix("v")


def class_of(cluster: Mapping[str, Any]) -> tuple[str, str]:
    """Return namespace and name of the ClusterClass of a Cluster; an empty name: it has none."""
    topology, namespace = topology_of(cluster), namespace_of(cluster)
    ref = dict_at(topology, "classRef")
    if ref:
        return text_at(ref, "namespace") or namespace, text_at(ref, "name")
    return text_at(topology, "classNamespace") or namespace, text_at(topology, "class")


def control_plane_ref(cluster: Mapping[str, Any]) -> tuple[tuple[str, str], str]:
    """Return group and kind of the control plane of a Cluster, and its name; it is in the namespace of the Cluster."""
    ref = dict_at(spec_of(cluster), "controlPlaneRef")
    group = text_at(ref, "apiGroup") or split_api_version(text_at(ref, "apiVersion"))[0]
    return (group, text_at(ref, "kind")), text_at(ref, "name")


def image_of(parts: ClusterApiObjects, variable: str, machines: Mapping[str, Any] | None = None) -> str:
    """Return the node image that a variable carries; empty: none.

    Args:
        parts: The Cluster and what belongs to it.
        variable: Name of the variable. Where the topology gives it no value, the default of the ClusterClass counts.
        machines: One set of machines of the topology, which may have a value of its own.
    """
    overrides = dicts_at(machines or {}, "variables", "overrides")
    for each in (*overrides, *dicts_at(topology_of(parts.cluster), "variables")):
        if each.get("name") == variable and isinstance(value := each.get("value"), str):
            return value
    for declared in dicts_at(parts.cluster_class, "spec", "variables"):
        if declared.get("name") == variable:
            return text_at(declared, "schema", "openAPIV3Schema", "default")
    return ""


def is_paused(cluster: Mapping[str, Any]) -> bool:
    """Say whether a Cluster is paused; an annotation does that whatever its value.

    Source: Cluster API v1.13, util/annotations, HasPaused.
    """
    return spec_of(cluster).get("paused") is True or _PAUSED in dict_at(cluster, "metadata", "annotations")


def operation_on(cluster: Mapping[str, Any]) -> str:
    """Return the operation that has changed a Cluster last; empty: none has."""
    return annotation(cluster, OPERATION)


def full_name(cluster: Mapping[str, Any]) -> str:
    """Return how messages name a Cluster."""
    return f"{namespace_of(cluster)}/{name_of(cluster)}"


def versions_of(machines: Mapping[str, Any]) -> str:
    """Return the version that a MachineDeployment or MachinePool asks for, without ``v``."""
    return text_at(spec_of(machines), "template", "spec", "version").removeprefix("v")


def replicas_of(machines: Mapping[str, Any]) -> int:
    """Return how many machines a set asks for, or has."""
    for replicas in (spec_of(machines).get("replicas"), status_of(machines).get("replicas")):
        if type(replicas) is int:
            return replicas
    return 0
