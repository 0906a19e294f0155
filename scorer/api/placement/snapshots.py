"""Snapshots of a placement: versions of its policy, with the scheduler's decisions, and of the selected objects.

Source: docs/specifications/placement-api.md 3.3 and 3.4; docs/specifications/scheduling.md 1 and 17.
"""

from pydantic import Field

from scorer.api.conditions import Conditions
from scorer.api.meta import (
    ALWAYS_WRITTEN,
    ApiModel,
    ApiObject,
    Base64Text,
    EmbeddedObject,
    Int32,
    Int64,
    shared_default,
)
from scorer.api.placement.placement import PlacementPolicy


class ClusterScore(ApiModel):
    """Points of a cluster. ``priorityScore`` is the topology-spread score."""

    affinity_score: Int32 | None = None
    """Points from preferred affinity terms. Absent without such terms."""
    priority_score: Int32 | None = None
    """Points from topology spread constraints. Absent without constraints."""


class ClusterDecision(ApiModel):
    """Decision on one cluster, with its reason. Clusters that a filter rejected have no score."""

    cluster_name: str
    """The member cluster."""
    selected: bool
    """Whether it was picked."""
    reason: str
    """Reason that it was picked or not, as a sentence."""
    cluster_score: ClusterScore | None = None
    """Its points. Absent if a filter rejected it before."""


class PolicySnapshotSpec(ApiModel):
    """``spec`` of both policy snapshot kinds, immutable (X-95)."""

    policy: PlacementPolicy | None = None
    """The policy at that time. Absent: the placement had none, which means PickAll."""
    policy_hash: Base64Text
    """SHA-256 of the policy without ``numberOfClusters``, to tell versions apart."""


class PolicySnapshotStatus(ApiModel):
    """``status`` of both policy snapshot kinds, written by the scheduler."""

    observed_crp_generation: Int64 = Field(default=0, alias="observedCRPGeneration", json_schema_extra=ALWAYS_WRITTEN)
    """Generation of the placement that the decisions are based on."""
    conditions: Conditions = ()
    """Whether the policy could be fulfilled (Scheduled), and if not, why."""
    target_clusters: tuple[ClusterDecision, ...] = Field(default=(), max_length=1000)
    """Decision about each cluster, picked ones first. Not all, if too many."""


class ClusterSchedulingPolicySnapshot(ApiObject):
    """A version of the policy of a ClusterResourcePlacement."""

    spec: PolicySnapshotSpec
    """The policy of the placement at one time, immutable."""
    status: PolicySnapshotStatus = Field(default_factory=shared_default(PolicySnapshotStatus))
    """Decisions of the scheduler with this policy."""


class SchedulingPolicySnapshot(ClusterSchedulingPolicySnapshot):
    """A version of the policy of a ResourcePlacement."""


class ResourceSnapshotSpec(ApiModel):
    """``spec`` of both resource snapshot kinds, immutable (X-95)."""

    selected_resources: tuple[EmbeddedObject, ...]
    """The objects at that time, without fields that matter only on the hub."""


class ResourceSnapshotStatus(ApiModel):
    """``status`` of both resource snapshot kinds."""

    conditions: Conditions = ()
    """Reserved. harbormaster writes none."""


class ClusterResourceSnapshot(ApiObject):
    """The objects of a ClusterResourcePlacement, or a part of them when one object cannot hold them all."""

    spec: ResourceSnapshotSpec
    """Objects that the placement selected at one time, immutable."""
    status: ResourceSnapshotStatus = Field(default_factory=shared_default(ResourceSnapshotStatus))
    """Status of the snapshot."""


class ResourceSnapshot(ClusterResourceSnapshot):
    """The objects of a ResourcePlacement, or a part of them when one object cannot hold them all."""
