"""Evictions: one-time requests to remove a placement from a member cluster, and the budgets that limit them.

Source: docs/specifications/placement-api.md 3.10.
"""

from pydantic import Field

from scorer.api.conditions import Condition
from scorer.api.meta import ApiModel, ApiObject, shared_default
from scorer.api.values.int_or_percent import LARGEST, PERCENTS, IntOrString


class EvictionSpec(ApiModel):
    """``spec`` of an eviction, immutable."""

    placement_name: str = Field(max_length=255)
    """Name of the ClusterResourcePlacement."""
    cluster_name: str = Field(max_length=255)
    """Name of the member cluster to evict it from."""


class EvictionStatus(ApiModel):
    """``status`` of an eviction: ``Valid``, then ``Executed``."""

    conditions: tuple[Condition, ...] = ()
    """Valid, then Executed with True or False, which is final: the eviction is not retried."""


class ClusterResourcePlacementEviction(ApiObject):
    """Removes a ClusterResourcePlacement from one member cluster."""

    spec: EvictionSpec
    """The placement and the member cluster, immutable."""
    status: EvictionStatus = Field(default_factory=shared_default(EvictionStatus))
    """Outcome of the eviction, written by harbormaster."""


class DisruptionBudgetSpec(ApiModel):
    """``spec`` of a disruption budget: one of the two fields. Admission checks their grammar (B-02)."""

    max_unavailable: IntOrString | None = Field(
        default=None, json_schema_extra={"maximum": LARGEST, "pattern": PERCENTS}
    )
    """Maximum number of requested clusters without an available placement after an eviction, as a count or a
    percentage rounded up. Not together with ``minAvailable``. Absent: ``minAvailable`` applies. Without either field,
    evictions are only allowed where the placement has failed or reports differences."""
    min_available: IntOrString | None = Field(default=None, json_schema_extra={"maximum": LARGEST, "pattern": PERCENTS})
    """Minimum number of clusters with an available placement after an eviction, as a count or a percentage rounded
    up. Not together with ``maxUnavailable``. Absent: ``maxUnavailable`` applies. Without either field, evictions are
    only allowed where the placement has failed or reports differences."""


class ClusterResourcePlacementDisruptionBudget(ApiObject):
    """Limits evictions from the ClusterResourcePlacement of the same name."""

    spec: DisruptionBudgetSpec
    """The limit, one of the two fields."""
