"""ClusterUpgradeRequest: one upgrade attempt on one member, for an external upgrader, which writes the status.

Source: docs/specifications/upgrade-runs.md 4.4 and 13.4.
"""

from enum import StrEnum
from typing import Final

from pydantic import Field

from scorer.api.meta import ApiModel, ApiObject, Int32, Int64, Time, shared_default
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
"""Maximum number of pools of a report. So many still fit into the annotation that stores a report. A longer list is
accepted."""
LONGEST_OPERATION_ID: Final = 512
"""``<run uid>/<member>/<attempt>`` is far shorter."""


class RequestPhase(StrEnum):
    """Progress of an upgrader. It only moves forward, and the last three phases are final."""

    ACCEPTED = "Accepted"
    IN_PROGRESS = "InProgress"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


class UpgradeRequestSpec(ApiModel):
    """``spec`` of a request, immutable except for ``cancelRequested``. Without a deadline there is no time limit."""

    operation_id: str = Field(alias="operationID", min_length=1, max_length=LONGEST_OPERATION_ID)
    """Identity of the attempt, ``<run uid>/<member>/<attempt>``, the idempotency key for the upgrader."""
    run_name: Name
    """Name of the ClusterUpgradeRun that created the request."""
    member_name: MemberName
    """Name of the member to upgrade."""
    upgrade_type: UpgradeType
    """Parts to upgrade. Full: control plane and nodes. ControlPlaneOnly: no nodes. NodeImageOnly: only the images of
    nodes."""
    kubernetes_version: KubernetesVersion | None = None
    """Version to upgrade to, such as ``1.31.2``. Absent: unchanged, with NodeImageOnly."""
    node_images: tuple[NodeImageVersion, ...] = Field(
        default=(),
        max_length=MOST_NODE_IMAGES,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["family"]},
    )
    """Images to install on nodes, one per family. Absent: no image is prescribed."""
    deadline: Time | None = None
    """Time when the attempt counts as failed. Absent: never."""
    dry_run: bool = False
    """Whether to only check the upgrade. Absent: false."""
    cancel_requested: bool = False
    """Whether the run requests the upgrader to cancel the attempt. This is the only mutable field. Absent: false."""


class PoolInventory(ApiModel):
    """Present versions of a node pool."""

    name: ReportedName
    """Name of the node pool."""
    kubernetes_version: ReportedVersion = ""
    """Version of its kubelets, empty if unknown."""
    image_family: ReportedName = ""
    """Family of its node image, empty if unknown."""
    image_version: ReportedName = ""
    """Version of its node image, empty if unknown."""
    nodes: Int32 = Field(default=0, ge=0)
    """Number of its nodes."""


class UpgradeRequestStatus(ApiModel):
    """``status`` of a request: progress, result, and present versions. No phase: no upgrader has accepted it."""

    observed_generation: Int64 = 0
    """Generation of the request (``metadata.generation``) that the upgrader has seen."""
    phase: RequestPhase | None = None
    """Progress of the upgrader. It only moves forward. Succeeded, Failed and Cancelled are final. Absent: no upgrader
    has accepted the request."""
    progress_percent: Int32 = Field(default=0, ge=0, le=100)
    """Progress in percent, as estimated by the upgrader."""
    message: ReportedText = ""
    """Human-readable description of the progress."""
    error: UpgradeError | None = None
    """Why the attempt failed. Absent without a failure."""
    control_plane_version: ReportedVersion = ""
    """Present version of the member's control plane, empty if unknown."""
    pools: tuple[PoolInventory, ...] = Field(
        default=(),
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "maxItems": MOST_POOLS,
        },
    )
    """Present versions of the member's node pools."""
    heartbeat_time: Time | None = None
    """Time when the upgrader last reported, with or without progress."""
    finished_time: Time | None = None
    """Time when the attempt ended. Absent until then."""


class ClusterUpgradeRequest(ApiObject):
    """Requests the upgrade of one member from an external upgrader."""

    spec: UpgradeRequestSpec
    """The upgrade and its member. Only ``cancelRequested`` is mutable."""
    status: UpgradeRequestStatus = Field(default_factory=shared_default(UpgradeRequestStatus))
    """Progress and result, written by the upgrader."""
