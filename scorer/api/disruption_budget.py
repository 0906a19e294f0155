"""Disruption budgets: from how many clusters evictions may remove the placement of the same name.

Source: placement-api.md 3.10.
"""

from pydantic import Field

from scorer.api.int_or_percent import LARGEST, IntOrString
from scorer.api.meta import ApiModel, ApiObject

_PERCENT = "^(100|[0-9]{1,2})%$"


class DisruptionBudgetSpec(ApiModel):
    """``spec`` of a disruption budget: one of the two fields. Admission checks their grammar (B-02)."""

    max_unavailable: IntOrString | None = Field(
        default=None, json_schema_extra={"maximum": LARGEST, "pattern": _PERCENT}
    )
    """How many of the wanted clusters may be without an available placement after an eviction, as a count or a
    percentage rounded up; not together with ``minAvailable``. Absent: no such limit."""
    min_available: IntOrString | None = Field(default=None, json_schema_extra={"maximum": LARGEST, "pattern": _PERCENT})
    """How many clusters must keep an available placement after an eviction, as a count or a percentage rounded up; not
    together with ``maxUnavailable``. Absent: no such limit."""


class ClusterResourcePlacementDisruptionBudget(ApiObject):
    """Limits evictions from the ClusterResourcePlacement of the same name."""

    spec: DisruptionBudgetSpec
    """The limit; one of the two fields."""
