"""Evictions: one-time requests to remove a placement from a member cluster, within the disruption budget.

Source: placement-api.md 3.10.
"""

from pydantic import Field

from scorer.api.conditions import Condition
from scorer.api.meta import ApiModel, ApiObject


class EvictionSpec(ApiModel):
    """``spec`` of an eviction; immutable."""

    placement_name: str = Field(max_length=255)
    """Name of the ClusterResourcePlacement."""
    cluster_name: str = Field(max_length=255)
    """Name of the member cluster that is to lose it."""


class EvictionStatus(ApiModel):
    """``status`` of an eviction: ``Valid``, then ``Executed``."""

    conditions: tuple[Condition, ...] = ()
    """Valid, then Executed with True or False: with either the eviction is over and is not tried again."""


class ClusterResourcePlacementEviction(ApiObject):
    """Removes a ClusterResourcePlacement from one member cluster."""

    spec: EvictionSpec
    """What to evict, and from where; never changed."""
    status: EvictionStatus = Field(default_factory=EvictionStatus)
    """What came of it; written by harbormaster."""
