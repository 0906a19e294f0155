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
    """Identity of the attempt, ``<run uid>/<member>/<attempt>``; an upgrader that knows it already does nothing twice.
    """
    run_name: Name
    """Name of the ClusterUpgradeRun that asks."""
    member_name: MemberName
    """Name of the member to upgrade."""
    upgrade_type: UpgradeType
    """What to upgrade. Full: control plane and nodes. ControlPlaneOnly: no nodes. NodeImageOnly: only the images of
    nodes."""
    kubernetes_version: KubernetesVersion | None = None
    """Version to upgrade to, such as ``1.31.2``. Absent: it stays, with NodeImageOnly."""
    node_images: tuple[NodeImageVersion, ...] = Field(
        default=(),
        max_length=MOST_NODE_IMAGES,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["family"]},
    )
    """Images that nodes are to get, one per family. Absent: no certain ones."""
    deadline: Time | None = None
    """When the attempt counts as failed. Absent: never."""
    dry_run: bool = False
    """Whether only to check what would be done. Absent: false."""
    cancel_requested: bool = False
    """Whether the upgrader is asked to give up; the only field that changes. Absent: false."""


class PoolInventory(ApiModel):
    """What a node pool runs now."""

    name: ReportedName
    """Name of the node pool."""
    kubernetes_version: ReportedVersion = ""
    """Version of its kubelets; empty when unknown."""
    image_family: ReportedName = ""
    """Family of its node image; empty when unknown."""
    image_version: ReportedName = ""
    """Version of its node image; empty when unknown."""
    nodes: Int32 = Field(default=0, ge=0)
    """Number of its nodes."""


class UpgradeRequestStatus(ApiModel):
    """``status`` of a request: progress, result, and what the member runs now. No phase: no upgrader has taken it."""

    observed_generation: Int64 = 0
    """Generation of the request (``metadata.generation``) that the upgrader has seen."""
    phase: RequestPhase | None = None
    """How far the upgrader has got; only moves forward. Succeeded, Failed and Cancelled are final. Absent: no upgrader
    has taken the request."""
    progress_percent: Int32 = Field(default=0, ge=0, le=100)
    """How much is done, in percent, as the upgrader estimates it."""
    message: ReportedText = ""
    """What is going on, as a sentence for people."""
    error: UpgradeError | None = None
    """Why the attempt failed; absent when it did not."""
    control_plane_version: ReportedVersion = ""
    """Version of the member's control plane now; empty when unknown."""
    pools: tuple[PoolInventory, ...] = Field(
        default=(),
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "maxItems": MOST_POOLS,
        },
    )
    """What the member's node pools run now."""
    heartbeat_time: Time | None = None
    """When the upgrader last reported, with or without progress."""
    finished_time: Time | None = None
    """When the attempt ended; absent before that."""


class ClusterUpgradeRequest(ApiObject):
    """Asks an external upgrader to upgrade one member."""

    spec: UpgradeRequestSpec
    """What to do with which member; only ``cancelRequested`` changes."""
    status: UpgradeRequestStatus = Field(default_factory=UpgradeRequestStatus)
    """Progress and result; written by the upgrader."""
