"""ClusterUpgradeRequest: one upgrade attempt on one member, for an external upgrader, which writes the status.

Source: upgrade-runs.md 4.4 and 13.4.
"""

from enum import StrEnum
from typing import Final

from pydantic import Field

from scorer.api.meta import ApiModel, ApiObject, Int32, Int64, Time
from scorer.api.upgrade.fields import (
    MOST_NODE_IMAGES,
    KubernetesVersion,
    MemberName,
    Name,
    NodeImageVersion,
    ReportedName,
    ReportedText,
    ReportedVersion,
    UpgradeError,
    UpgradeType,
)

MOST_POOLS: Final = 500
"""That many still fit the annotation in which a report is kept; a longer list is read all the same."""
LONGEST_OPERATION_ID: Final = 512
"""``<run uid>/<member>/<attempt>`` is far shorter."""


class RequestPhase(StrEnum):
    """How far an upgrader has got; it only moves forward, and the last three are final."""

    ACCEPTED = "Accepted"
    IN_PROGRESS = "InProgress"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


class UpgradeRequestSpec(ApiModel):
    """``spec`` of a request; immutable except for ``cancelRequested``. Without a deadline there is no time limit."""

    operation_id: str = Field(alias="operationID", min_length=1, max_length=LONGEST_OPERATION_ID)
    run_name: Name
    member_name: MemberName
    upgrade_type: UpgradeType
    kubernetes_version: KubernetesVersion | None = None
    node_images: tuple[NodeImageVersion, ...] = Field(
        default=(),
        max_length=MOST_NODE_IMAGES,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["family"]},
    )
    deadline: Time | None = None
    dry_run: bool = False
    cancel_requested: bool = False


class PoolInventory(ApiModel):
    """What a node pool runs now."""

    name: ReportedName
    kubernetes_version: ReportedVersion = ""
    image_family: ReportedName = ""
    image_version: ReportedName = ""
    nodes: Int32 = Field(default=0, ge=0)


class UpgradeRequestStatus(ApiModel):
    """``status`` of a request: progress, result, and what the member runs now. No phase: no upgrader has taken it."""

    observed_generation: Int64 = 0
    phase: RequestPhase | None = None
    progress_percent: Int32 = Field(default=0, ge=0, le=100)
    message: ReportedText = ""
    error: UpgradeError | None = None
    control_plane_version: ReportedVersion = ""
    pools: tuple[PoolInventory, ...] = Field(
        default=(),
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "maxItems": MOST_POOLS,
        },
    )
    heartbeat_time: Time | None = None
    finished_time: Time | None = None


class ClusterUpgradeRequest(ApiObject):
    """Asks an external upgrader to upgrade one member."""

    spec: UpgradeRequestSpec
    status: UpgradeRequestStatus = Field(default_factory=UpgradeRequestStatus)
