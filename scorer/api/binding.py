"""Bindings: one placement on one member cluster, and how far its rollout has got there.

Source: placement-api.md 3.5.
"""

from enum import StrEnum

from pydantic import Field

from scorer.api.conditions import Conditions
from scorer.api.meta import ApiModel, ApiObject
from scorer.api.placement import (
    ApplyStrategy,
    DiffedResourcePlacement,
    DriftedResourcePlacement,
    FailedResourcePlacement,
    NamespacedName,
)
from scorer.api.policy_snapshot import ClusterDecision


class BindingState(StrEnum):
    """How far a binding has got between the scheduler's decision and the member cluster."""

    SCHEDULED = "Scheduled"
    BOUND = "Bound"
    UNSCHEDULED = "Unscheduled"


class BindingSpec(ApiModel):
    """``spec`` of both binding kinds.

    The state is free text here and an enum in the CRD: existing hubs do not check it (X-96).
    """

    state: str = Field(json_schema_extra={"enum": [state.value for state in BindingState]})
    resource_snapshot_name: str = Field(description="First resource snapshot of the group; empty until bound.")
    scheduling_policy_snapshot_name: str
    target_cluster: str
    cluster_decision: ClusterDecision
    resource_override_snapshots: tuple[NamespacedName, ...] = ()
    cluster_resource_override_snapshots: tuple[str, ...] = ()
    apply_strategy: ApplyStrategy | None = None


class BindingStatus(ApiModel):
    """``status`` of both binding kinds, written by the work generator."""

    conditions: Conditions = ()
    failed_placements: tuple[FailedResourcePlacement, ...] = Field(default=(), max_length=100)
    drifted_placements: tuple[DriftedResourcePlacement, ...] = Field(default=(), max_length=100)
    diffed_placements: tuple[DiffedResourcePlacement, ...] = Field(default=(), max_length=100)


class ClusterResourceBinding(ApiObject):
    """A ClusterResourcePlacement on one member cluster."""

    spec: BindingSpec
    status: BindingStatus = Field(default_factory=BindingStatus)


class ResourceBinding(ClusterResourceBinding):
    """A ResourcePlacement on one member cluster."""
