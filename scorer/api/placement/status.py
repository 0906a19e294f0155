"""Status of a placement, cluster by cluster and object by object, and its copy that namespace owners may read.

Source: docs/specifications/placement-api.md 3.1 and 3.2.
"""

from typing import Literal

from pydantic import Field

from scorer.api.conditions import Condition, Conditions
from scorer.api.meta import ApiModel, ApiObject, Int64, Time


class EnvelopeIdentifier(ApiModel):
    """The envelope that an object was wrapped in."""

    name: str
    """Name of the envelope."""
    namespace: str = ""
    """Namespace of the envelope, empty for a cluster-scoped one."""
    type: Literal["ConfigMap", "ClusterResourceEnvelope", "ResourceEnvelope"] = "ConfigMap"
    """Kind of the envelope."""


class ResourceIdentifier(ApiModel):
    """Names one placed object."""

    group: str = ""
    """API group of the object, empty for the core group."""
    version: str
    """API version of the object."""
    kind: str
    """Kind of the object."""
    name: str
    """Name of the object."""
    namespace: str = ""
    """Namespace of the object, empty for a cluster-scoped one."""
    envelope: EnvelopeIdentifier | None = None
    """The envelope of the object. Absent for a directly selected object."""


class FailedResourcePlacement(ResourceIdentifier):
    """An object that could not be applied, or is not available."""

    condition: Condition
    """The failed condition, and its reason."""


class PatchDetail(ApiModel):
    """One field that differs between hub and member."""

    path: str
    """The field, as a JSON Pointer (RFC 6901)."""
    value_in_member: str = ""
    """Its value on the member, as text, empty if missing."""
    value_in_hub: str = ""
    """Its value on the hub, as text, empty if missing."""


class DriftedResourcePlacement(ResourceIdentifier):
    """A placed object that another client changed on the member."""

    observation_time: Time
    """Time when the drift was last seen."""
    target_cluster_observed_generation: Int64
    """Generation of the object on the member at that time."""
    first_drifted_observed_time: Time
    """Time when this object was first seen drifted."""
    observed_drifts: tuple[PatchDetail, ...] = ()
    """The fields that differ. Long lists are truncated."""


class DiffedResourcePlacement(ResourceIdentifier):
    """An object on the member that harbormaster does not own and that differs from the hub's."""

    observation_time: Time
    """Time when the difference was last seen."""
    target_cluster_observed_generation: Int64 | None = None
    """Generation of the object on the member at that time. Absent if the object does not exist."""
    first_diffed_observed_time: Time
    """Time when a difference of this object was first seen."""
    observed_diffs: tuple[PatchDetail, ...] = ()
    """The fields that differ. Long lists are truncated."""


class NamespacedName(ApiModel):
    """A reference to a namespaced object."""

    name: str
    """Name of the object."""
    namespace: str
    """Namespace of the object."""


class PerClusterPlacementStatus(ApiModel):
    """The progress of the placement on one cluster. An entry without a name represents a missing cluster."""

    cluster_name: str = ""
    """The member cluster, empty for a desired cluster that could not be found."""
    observed_resource_index: str = ""
    """Index of the resource snapshot that the cluster has or is about to get, counted from 0."""
    applicable_resource_overrides: tuple[NamespacedName, ...] = ()
    """Snapshots of ResourceOverrides that change objects for this cluster."""
    applicable_cluster_resource_overrides: tuple[str, ...] = ()
    """Names of the snapshots of ClusterResourceOverrides that change objects for this cluster."""
    failed_placements: tuple[FailedResourcePlacement, ...] = Field(default=(), max_length=100)
    """Objects that could not be applied or are not available. Not all, if too many."""
    drifted_placements: tuple[DriftedResourcePlacement, ...] = Field(default=(), max_length=100)
    """Objects that another client changed on the member. Not all, if too many."""
    diffed_placements: tuple[DiffedResourcePlacement, ...] = Field(default=(), max_length=100)
    """Objects on the member that harbormaster does not manage and that differ from the hub's. Not all, if too many."""
    conditions: tuple[Condition, ...] = ()
    """Progress of the rollout on this cluster, from Scheduled to Available. DiffReported with apply type ReportDiff."""


class PlacementStatus(ApiModel):
    """``status`` of both placement kinds."""

    selected_resources: tuple[ResourceIdentifier, ...] = ()
    """The objects that the selectors have found."""
    observed_resource_index: str = ""
    """Index of the latest resource snapshot, counted from 0. With an External strategy only where all clusters report
    the same one."""
    placement_statuses: tuple[PerClusterPlacementStatus, ...] = ()
    """Progress on each picked cluster, and an entry without a name for each requested cluster that was not found."""
    conditions: Conditions = ()
    """Progress of the whole placement. Each type starts with the name of the kind, as in
    ClusterResourcePlacementScheduled."""


class ClusterResourcePlacementStatus(ApiObject):
    """The status of the ClusterResourcePlacement of the same name. It exists only with ``NamespaceAccessible``."""

    source_status: PlacementStatus
    """Copy of the placement's status."""
    last_updated_time: Time
    """Time when the copy was last brought up to date."""
