"""Staged updates: the strategy, the run that carries it out, and the approvals it waits for.

Source: placement-api.md 3.7; staged-updates.md 1 and 2.
"""

from enum import StrEnum

from pydantic import Field

from scorer.api.conditions import Conditions
from scorer.api.duration import LONGEST_DURATION
from scorer.api.int_or_percent import LARGEST, IntOrString
from scorer.api.label_selector import LabelKey, LabelSelector
from scorer.api.meta import ApiModel, ApiObject, Name, Time
from scorer.api.placement import ApplyStrategy, NamespacedName

DELETE_STAGE = "kubernetes-fleet.io/deleteStage"


class StageTaskType(StrEnum):
    """What a stage waits for."""

    TIMED_WAIT = "TimedWait"
    APPROVAL = "Approval"


class StageTask(ApiModel):
    """What a run waits for before or after a stage; admission checks the grammar of the wait time (S-10)."""

    type: StageTaskType
    wait_time: str | None = Field(
        default=None,
        json_schema_extra={
            "maxLength": LONGEST_DURATION,
            "pattern": r"^(?:(?:0|[1-9][0-9]*)(\.[0-9]+)?(?:s|m|h))+$",
        },
    )


class Stage(ApiModel):
    """Member clusters that are updated together. Without a label selector the stage has no cluster, with ``{}`` all.

    Admission checks the grammars of the name (S-02) and of ``maxConcurrency`` (S-03).
    """

    name: str = Field(max_length=63, json_schema_extra={"pattern": "^[a-z0-9]+$"})
    label_selector: LabelSelector | None = None
    sorting_label_key: LabelKey | None = None
    max_concurrency: IntOrString = Field(
        default=1, json_schema_extra={"maximum": LARGEST, "pattern": "^(100|[1-9][0-9]?)%$"}
    )
    before_stage_tasks: tuple[StageTask, ...] = Field(default=(), max_length=1)
    after_stage_tasks: tuple[StageTask, ...] = Field(default=(), max_length=2)


class UpdateStrategySpec(ApiModel):
    """``spec`` of both strategy kinds: the stages, in the order in which they run."""

    stages: tuple[Stage, ...] = Field(max_length=31)


class ClusterStagedUpdateStrategy(ApiObject):
    """Stages for the placements of the whole hub."""

    spec: UpdateStrategySpec


class StagedUpdateStrategy(ClusterStagedUpdateStrategy):
    """Stages for the placements of one namespace."""


class RunState(StrEnum):
    """What the user wants a run to do."""

    INITIALIZE = "Initialize"
    RUN = "Run"
    STOP = "Stop"


class UpdateRunSpec(ApiModel):
    """``spec`` of both run kinds; only the state may change."""

    placement_name: str = Field(max_length=255)
    resource_snapshot_index: str = Field(
        default="", max_length=63, description="Empty: what is selected at initialisation."
    )
    staged_rollout_strategy_name: str = Field(max_length=255)
    state: RunState = RunState.INITIALIZE


class ClusterUpdatingStatus(ApiModel):
    """The progress of one cluster of a stage."""

    cluster_name: str
    resource_override_snapshots: tuple[NamespacedName, ...] = ()
    cluster_resource_override_snapshots: tuple[str, ...] = ()
    conditions: Conditions = ()


class StageTaskStatus(ApiModel):
    """The progress of one task of a stage."""

    type: StageTaskType
    approval_request_name: str = ""
    conditions: Conditions = ()


class StageStatus(ApiModel):
    """The progress of one stage."""

    stage_name: str
    clusters: tuple[ClusterUpdatingStatus, ...]
    before_stage_task_status: tuple[StageTaskStatus, ...] = Field(default=(), max_length=1)
    after_stage_task_status: tuple[StageTaskStatus, ...] = Field(default=(), max_length=2)
    start_time: Time | None = None
    end_time: Time | None = None
    conditions: Conditions = ()


class UpdateRunStatus(ApiModel):
    """``status`` of both run kinds: the plan fixed at initialisation, and the progress through it."""

    policy_snapshot_index_used: str = ""
    policy_observed_cluster_count: int = 0
    resource_snapshot_index_used: str = ""
    applied_strategy: ApplyStrategy | None = None
    staged_update_strategy_snapshot: UpdateStrategySpec | None = None
    stages_status: tuple[StageStatus, ...] = ()
    deletion_stage_status: StageStatus | None = None
    conditions: Conditions = ()


class ClusterStagedUpdateRun(ApiObject):
    """Takes a ClusterResourcePlacement through the stages of a strategy."""

    spec: UpdateRunSpec
    status: UpdateRunStatus = Field(default_factory=UpdateRunStatus)


class StagedUpdateRun(ClusterStagedUpdateRun):
    """Takes a ResourcePlacement through the stages of a strategy."""


class ApprovalRequestSpec(ApiModel):
    """``spec`` of both approval kinds; immutable."""

    parent_stage_rollout: Name = Field(description="Name of the update run.")
    target_stage: Name


class ApprovalRequestStatus(ApiModel):
    """``status`` of both approval kinds: ``Approved`` by a person, ``ApprovalAccepted`` by the run."""

    conditions: Conditions = ()


class ClusterApprovalRequest(ApiObject):
    """Asks a person to let a ClusterStagedUpdateRun continue."""

    spec: ApprovalRequestSpec
    status: ApprovalRequestStatus = Field(default_factory=ApprovalRequestStatus)


class ApprovalRequest(ClusterApprovalRequest):
    """Asks a person to let a StagedUpdateRun continue."""
