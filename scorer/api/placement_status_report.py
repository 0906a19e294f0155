"""ClusterResourcePlacementStatus: a placement's status, copied to where its namespace's owners can read it.

Source: placement-api.md 3.2.
"""

from scorer.api.meta import ApiObject, Time
from scorer.api.placement import PlacementStatus


class ClusterResourcePlacementStatus(ApiObject):
    """The status of the ClusterResourcePlacement of the same name; exists only with ``NamespaceAccessible``."""

    source_status: PlacementStatus
    """Copy of the placement's status."""
    last_updated_time: Time
    """When the copy was last brought up to date."""
