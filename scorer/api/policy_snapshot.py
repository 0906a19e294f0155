"""Scheduling policy snapshots: one numbered version of a placement's policy, and the scheduler's decisions by it.

Source: placement-api.md 3.3; scheduling.md 1 and 17.
"""

from pydantic import Field

from scorer.api.conditions import Conditions
from scorer.api.meta import ALWAYS_WRITTEN, ApiModel, ApiObject, Base64Text, Int32, Int64
from scorer.api.placement import PlacementPolicy


class ClusterScore(ApiModel):
    """The points of a cluster; ``priorityScore`` is the topology-spread score."""

    affinity_score: Int32 | None = None
    priority_score: Int32 | None = None


class ClusterDecision(ApiModel):
    """Why a cluster was or was not picked; clusters that a filter rejected have no score."""

    cluster_name: str
    selected: bool
    reason: str
    cluster_score: ClusterScore | None = None


class PolicySnapshotSpec(ApiModel):
    """``spec`` of both policy snapshot kinds; immutable (X-95)."""

    policy: PlacementPolicy | None = None
    policy_hash: Base64Text = Field(description="SHA-256 of the policy without numberOfClusters.")


class PolicySnapshotStatus(ApiModel):
    """``status`` of both policy snapshot kinds, written by the scheduler."""

    observed_crp_generation: Int64 = Field(default=0, alias="observedCRPGeneration", json_schema_extra=ALWAYS_WRITTEN)
    conditions: Conditions = ()
    target_clusters: tuple[ClusterDecision, ...] = Field(default=(), max_length=1000)


class ClusterSchedulingPolicySnapshot(ApiObject):
    """A version of the policy of a ClusterResourcePlacement."""

    spec: PolicySnapshotSpec
    status: PolicySnapshotStatus = Field(default_factory=PolicySnapshotStatus)


class SchedulingPolicySnapshot(ClusterSchedulingPolicySnapshot):
    """A version of the policy of a ResourcePlacement."""
