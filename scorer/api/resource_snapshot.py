"""Resource snapshots: one numbered version of the objects that a placement selected.

Source: placement-api.md 3.4.
"""

from pydantic import Field

from scorer.api.conditions import Conditions
from scorer.api.meta import ApiModel, ApiObject, EmbeddedObject


class ResourceSnapshotSpec(ApiModel):
    """``spec`` of both resource snapshot kinds; immutable (X-95)."""

    selected_resources: tuple[EmbeddedObject, ...]
    """The objects as they were, without what only matters on the hub."""


class ResourceSnapshotStatus(ApiModel):
    """``status`` of both resource snapshot kinds."""

    conditions: Conditions = ()
    """Reserved; harbormaster writes none."""


class ClusterResourceSnapshot(ApiObject):
    """The objects of a ClusterResourcePlacement, or a part of them when one object cannot hold them all."""

    spec: ResourceSnapshotSpec
    """Objects that the placement selected at one time; never changed."""
    status: ResourceSnapshotStatus = Field(default_factory=ResourceSnapshotStatus)
    """What is reported about the snapshot."""


class ResourceSnapshot(ClusterResourceSnapshot):
    """The objects of a ResourcePlacement, or a part of them when one object cannot hold them all."""
