"""Evictions: requests to take a placement off one member cluster, once, within the disruption budget.

Source: placement-api.md 3.10.
"""

from pydantic import Field

from scorer.api.conditions import Condition
from scorer.api.meta import ApiModel, ApiObject


class EvictionSpec(ApiModel):
    """``spec`` of an eviction; immutable."""

    placement_name: str = Field(max_length=255)
    cluster_name: str = Field(max_length=255)


class EvictionStatus(ApiModel):
    """``status`` of an eviction: ``Valid``, then ``Executed``."""

    conditions: tuple[Condition, ...] = ()


class ClusterResourcePlacementEviction(ApiObject):
    """Takes a ClusterResourcePlacement off one member cluster."""

    spec: EvictionSpec
    status: EvictionStatus = Field(default_factory=EvictionStatus)
