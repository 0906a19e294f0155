"""Bindings: one placement on one member cluster, and how far its rollout has got there.

Source: docs/specifications/placement-api.md 3.5.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import Field

from scorer.api.conditions import Conditions
from scorer.api.meta import ApiModel, ApiObject, shared_default
from scorer.api.names import PREVIOUS_BINDING_STATE, REMOVAL_PENDING
from scorer.api.placement.apply_strategy import ApplyStrategy
from scorer.api.placement.snapshots import ClusterDecision
from scorer.api.placement.status import (
    DiffedResourcePlacement,
    DriftedResourcePlacement,
    FailedResourcePlacement,
    NamespacedName,
)
from scorer.api.unstructured.documents import annotation


class BindingState(StrEnum):
    """Progress of a binding from the scheduler's decision to the member cluster."""

    SCHEDULED = "Scheduled"
    BOUND = "Bound"
    UNSCHEDULED = "Unscheduled"


def previous_state(binding: Mapping[str, Any]) -> BindingState | None:
    """Return the state of an Unscheduled binding before it was dropped. None: unknown, another client has set it.

    While a removal is pending, its record alone shows that the binding was Bound. Without the record, the binding is
    one that another client has set to Unscheduled. Deleting the record therefore orders no removal.
    """
    text = annotation(binding, PREVIOUS_BINDING_STATE)
    if text in (BindingState.SCHEDULED, BindingState.BOUND):
        return BindingState(text)
    return BindingState.BOUND if annotation(binding, REMOVAL_PENDING) else None


class BindingSpec(ApiModel):
    """``spec`` of both binding kinds.

    The state is free text here and an enum in the CRD: existing hubs do not check it (X-96).
    """

    state: str = Field(json_schema_extra={"enum": [state.value for state in BindingState]})
    """Scheduled: picked, but not reached by the rollout yet. Bound: the cluster gets the objects. Unscheduled: the
    cluster is no longer picked and loses them."""
    resource_snapshot_name: str
    """Name of the first snapshot in the group of resource snapshots for the cluster. Empty until the state is Bound."""
    scheduling_policy_snapshot_name: str
    """Name of the policy snapshot that the decision is based on."""
    target_cluster: str
    """Name of the member cluster."""
    cluster_decision: ClusterDecision
    """Why this cluster was picked."""
    resource_override_snapshots: tuple[NamespacedName, ...] = ()
    """Snapshots of ResourceOverrides to apply on the way to this cluster. Absent: none."""
    cluster_resource_override_snapshots: tuple[str, ...] = ()
    """Names of the snapshots of ClusterResourceOverrides to apply on the way to this cluster. Absent: none."""
    apply_strategy: ApplyStrategy | None = None
    """Copy of the placement's apply strategy. Absent: the default of each field."""


class BindingStatus(ApiModel):
    """``status`` of both binding kinds, written by the work generator."""

    conditions: Conditions = ()
    """Progress of the objects on this cluster, from RolloutStarted to Available."""
    failed_placements: tuple[FailedResourcePlacement, ...] = Field(default=(), max_length=100)
    """Objects that could not be applied or are not available. Not all, if too many."""
    drifted_placements: tuple[DriftedResourcePlacement, ...] = Field(default=(), max_length=100)
    """Objects that another client changed on the member. Not all, if too many."""
    diffed_placements: tuple[DiffedResourcePlacement, ...] = Field(default=(), max_length=100)
    """Objects on the member that harbormaster does not manage and that differ from the hub's. Not all, if too many."""


class ClusterResourceBinding(ApiObject):
    """A ClusterResourcePlacement on one member cluster."""

    spec: BindingSpec
    """The decision for one member cluster and its desired content, written by the scheduler and the rollout."""
    status: BindingStatus = Field(default_factory=shared_default(BindingStatus))
    """Rollout state on this cluster, written by harbormaster."""


class ResourceBinding(ClusterResourceBinding):
    """A ResourcePlacement on one member cluster."""
