"""Staged updates: the strategy, the run that carries it out, and the approvals it waits for.

Source: docs/specifications/placement-api.md 3.7; docs/specifications/staged-updates.md 1 and 2.
"""

from enum import StrEnum

from pydantic import Field

from scorer.api.conditions import Conditions
from scorer.api.meta import ApiModel, ApiObject, Name, Time, shared_default
from scorer.api.placement.apply_strategy import ApplyStrategy
from scorer.api.placement.status import NamespacedName
from scorer.api.values.duration import LONGEST_DURATION
from scorer.api.values.int_or_percent import LARGEST, IntOrString
from scorer.api.values.label_selector import LabelKey, LabelSelector

DELETE_STAGE = "kubernetes-fleet.io/deleteStage"
APPROVED_BY_USER = "ApprovedByUser"
"""Reason of the condition Approved that commands set."""


class StageTaskType(StrEnum):
    """Kind of task that a stage waits for."""

    TIMED_WAIT = "TimedWait"
    APPROVAL = "Approval"


class StageTask(ApiModel):
    """A task before or after a stage. Admission checks the grammar of the wait time (S-10)."""

    type: StageTaskType
    """TimedWait: wait for ``waitTime``. Approval: wait until a user approves. Before a stage, only Approval is
    possible."""
    wait_time: str | None = Field(
        default=None,
        json_schema_extra={
            "maxLength": LONGEST_DURATION,
            "pattern": r"^(?:(?:0|[1-9][0-9]*)(\.[0-9]+)?(?:s|m|h))+$",
        },
    )
    """Duration of a TimedWait, in hours, minutes and seconds such as ``90s`` and ``1h30m``. Required there,
    absent for an Approval."""


class StageConfig(ApiModel):
    """Member clusters that are updated together. Without a label selector the stage has no cluster, with ``{}`` all.

    Admission checks the grammars of the name (S-02) and of ``maxConcurrency`` (S-03).
    """

    name: str = Field(max_length=63, json_schema_extra={"pattern": "^[a-z0-9]+$"})
    """Name of the stage, lowercase letters and digits, unique in the strategy."""
    label_selector: LabelSelector | None = None
    """Picked clusters that belong to the stage, by the labels of their MemberCluster. Absent: none. An empty selector:
    all."""
    sorting_label_key: LabelKey | None = None
    """Label of the MemberCluster whose value, a whole number, orders the clusters of the stage, lowest first. Absent:
    by name."""
    max_concurrency: IntOrString = Field(
        default=1, json_schema_extra={"maximum": LARGEST, "pattern": "^(100|[1-9][0-9]?)%$"}
    )
    """Maximum number of concurrent updates of clusters in the stage, as a count or as a percentage of the stage,
    rounded down to at least 1."""
    before_stage_tasks: tuple[StageTask, ...] = Field(default=(), max_length=1)
    """Tasks before the first cluster of the stage is updated. Absent: none."""
    after_stage_tasks: tuple[StageTask, ...] = Field(default=(), max_length=2)
    """Concurrent tasks after the last cluster of the stage, before the next stage, one per type. Absent: none."""


class UpdateStrategySpec(ApiModel):
    """``spec`` of both strategy kinds: the stages, in execution order."""

    stages: tuple[StageConfig, ...] = Field(max_length=31)
    """The stages in execution order, one after another. Every picked cluster belongs to exactly one."""


class ClusterStagedUpdateStrategy(ApiObject):
    """Stages for the placements of the whole hub."""

    spec: UpdateStrategySpec
    """The stages and what to wait for between them."""


class StagedUpdateStrategy(ClusterStagedUpdateStrategy):
    """Stages for the placements of one namespace."""


class RunState(StrEnum):
    """Desired state of a run."""

    INITIALIZE = "Initialize"
    RUN = "Run"
    STOP = "Stop"


class UpdateRunSpec(ApiModel):
    """``spec`` of both run kinds. Only the state may change."""

    placement_name: str = Field(max_length=255)
    """Name of the placement to update. Its rollout strategy must be External. Cannot be changed."""
    resource_snapshot_index: str = Field(default="", max_length=63)
    """Index of the resource snapshot to roll out, counted from 0. It may be an old one. Cannot be changed. Absent or
    empty: what the placement selects when the run is initialized."""
    staged_rollout_strategy_name: str = Field(max_length=255)
    """Name of the strategy, which is copied when the run is initialized. Cannot be changed."""
    state: RunState = RunState.INITIALIZE
    """Initialize: fix the plan and wait. Run: execute it. Stop: start nothing more. Run continues it."""


class ClusterUpdatingStatus(ApiModel):
    """The progress of one cluster of a stage."""

    cluster_name: str
    """The member cluster."""
    resource_override_snapshots: tuple[NamespacedName, ...] = ()
    """Snapshots of ResourceOverrides that this cluster gets."""
    cluster_resource_override_snapshots: tuple[str, ...] = ()
    """Names of the snapshots of ClusterResourceOverrides that this cluster gets."""
    conditions: Conditions = ()
    """Whether the update of the cluster has started, and succeeded."""


class StageTaskStatus(ApiModel):
    """The progress of one task of a stage."""

    type: StageTaskType
    """Which task."""
    approval_request_name: str = ""
    """Name of the approval request that the run has created, empty for a timed wait."""
    conditions: Conditions = ()
    """Whether the request was created and approved, or the time has passed."""


class StageUpdatingStatus(ApiModel):
    """The progress of one stage."""

    stage_name: str
    """Name of the stage."""
    clusters: tuple[ClusterUpdatingStatus, ...]
    """The clusters of the stage in the order of their update."""
    before_stage_task_status: tuple[StageTaskStatus, ...] = Field(default=(), max_length=1)
    """Progress of the tasks before the stage."""
    after_stage_task_status: tuple[StageTaskStatus, ...] = Field(default=(), max_length=2)
    """Progress of the tasks after the stage."""
    start_time: Time | None = None
    """Time when the stage started. Absent until then."""
    end_time: Time | None = None
    """Time when the stage ended. Absent until then."""
    conditions: Conditions = ()
    """Whether the stage is progressing, and has succeeded."""


class UpdateRunStatus(ApiModel):
    """``status`` of both run kinds: the plan fixed at initialization, and the progress through it."""

    policy_snapshot_index_used: str = ""
    """Index of the policy snapshot that the plan is based on, counted from 0."""
    policy_observed_cluster_count: int = 0
    """Number of clusters that the policy has picked."""
    resource_snapshot_index_used: str = ""
    """Index of the resource snapshot that the clusters get, counted from 0."""
    applied_strategy: ApplyStrategy | None = None
    """Copy of the placement's apply strategy."""
    staged_update_strategy_snapshot: UpdateStrategySpec | None = None
    """Copy of the strategy. Later changes to the original do not affect this run."""
    stages_status: tuple[StageUpdatingStatus, ...] = ()
    """Progress of the stages, in order."""
    deletion_stage_status: StageUpdatingStatus | None = None
    """Progress of the last stage, which removes the placement from clusters that are no longer picked."""
    conditions: Conditions = ()
    """Whether the run is initialized, progressing, and has succeeded."""


class ClusterStagedUpdateRun(ApiObject):
    """Rolls out a ClusterResourcePlacement in the stages of a strategy."""

    spec: UpdateRunSpec
    """Placement and strategy of the run. Only the state can be changed."""
    status: UpdateRunStatus = Field(default_factory=shared_default(UpdateRunStatus))
    """The plan fixed at initialization and its progress, written by harbormaster."""


class StagedUpdateRun(ClusterStagedUpdateRun):
    """Rolls out a ResourcePlacement in the stages of a strategy."""


class ApprovalRequestSpec(ApiModel):
    """``spec`` of both approval kinds, immutable."""

    parent_stage_rollout: Name
    """Name of the requesting update run."""
    target_stage: Name
    """Name of the waiting stage."""


class ApprovalRequestStatus(ApiModel):
    """``status`` of both approval kinds: ``Approved`` by a user, ``ApprovalAccepted`` by the run."""

    conditions: Conditions = ()
    """Approved, set by a user for the current generation. ApprovalAccepted, set by the run once it continues: revoking
    the approval has no effect after that."""


class ClusterApprovalRequest(ApiObject):
    """Requests approval for a ClusterStagedUpdateRun to continue."""

    spec: ApprovalRequestSpec
    """The requesting stage and run, immutable."""
    status: ApprovalRequestStatus = Field(default_factory=shared_default(ApprovalRequestStatus))
    """The answer."""


class ApprovalRequest(ClusterApprovalRequest):
    """Requests approval for a StagedUpdateRun to continue."""
