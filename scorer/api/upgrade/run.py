"""ClusterUpgradeRun: one upgrade, applied along a copy of a strategy.

``spec`` and ``status`` hold everything needed to continue after a crash. The meaning of an absent
``upgrade.nodeImage`` depends on the type, so the schema gives it no default (upgrade-runs.md 4.2).

Source: docs/specifications/upgrade-runs.md 3.3, 3.4, 4.2, 9 and 10.4.
"""

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from scorer.api.conditions import Conditions
from scorer.api.meta import ApiModel, ApiObject, Int32, Int64, JsonObject, Time, shared_default
from scorer.api.upgrade.fields import (
    MOST_NODE_IMAGES,
    KubernetesVersion,
    MemberName,
    NodeImageSelection,
    NodeImageVersion,
    StrategyReference,
    UpgradeError,
    UpgradeState,
    UpgradeType,
)
from scorer.api.upgrade.plan import UpgradePlan
from scorer.api.upgrade.strategy import GateType, StrategySpec
from scorer.api.values.label_selector import LabelSelector

MOST_SKIP_TARGETS: Final = 1000
LONGEST_TOKEN: Final = 64
DEFAULT_MEMBER_UPGRADE_SECONDS: Final = 4 * 3600
SHORTEST_MEMBER_UPGRADE_SECONDS: Final = 300
"""Unless it is 0, which means no limit."""
LONGEST_MEMBER_UPGRADE_SECONDS: Final = 7 * 24 * 3600

_BY_FAMILY: JsonObject = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["family"]}
_FILLED_IN: JsonObject = {"default": {}}
_ZERO: JsonObject = {"default": 0}
_FALSE: JsonObject = {"default": False}
"""Extras that write an obvious default into the stored object, so that users see the value in effect."""


class UpgradeRunState(StrEnum):
    """Desired state of a run."""

    INITIALIZE = "Initialize"
    RUN = "Run"
    STOP = "Stop"


class SkipTargetType(StrEnum):
    """Kind of target to skip."""

    MEMBER = "Member"
    GROUP = "Group"
    STAGE = "Stage"
    AFTER_STAGE_WAIT = "AfterStageWait"


class OnPendingTimeout(StrEnum):
    """Handling of a member that has been Pending for too long."""

    WAIT = "Wait"
    SKIP = "Skip"
    FAIL = "Fail"


class OnUnsupportedJump(StrEnum):
    """Handling of a member that is more than one minor version behind."""

    FAIL = "Fail"
    SKIP = "Skip"


class OnNotReady(StrEnum):
    """Handling of a member that is stopped or unreachable."""

    WAIT = "Wait"
    SKIP = "Skip"
    FAIL = "Fail"


class WindowMode(StrEnum):
    """Whether the run respects maintenance windows."""

    RESPECT = "Respect"
    IGNORE = "Ignore"


class WindowReservation(StrEnum):
    """Whether the run reserves a slot for a member whose window opens soon."""

    NONE = "None"
    STRICT = "Strict"


class WindowTieBreak(StrEnum):
    """Precedence among members whose windows are open."""

    NAME = "Name"
    CLOSING_SOONEST = "ClosingSoonest"


class PlacementGuardMode(StrEnum):
    """Handling of upgrades that would make too many clusters of a placement unavailable concurrently."""

    OFF = "Off"
    WARN = "Warn"
    ENFORCE = "Enforce"


class NodeImageChoice(ApiModel):
    """Node images for the members. Pools of a family that Custom does not list keep their image."""

    selection: NodeImageSelection = NodeImageSelection.LATEST
    """Latest: each member gets the newest image of its region. Consistent: all get the newest that is in every region.
    Custom: those of ``customVersions``."""
    custom_versions: tuple[NodeImageVersion, ...] = Field(
        default=(), max_length=MOST_NODE_IMAGES, json_schema_extra=_BY_FAMILY
    )
    """Images, one per family. Families not listed keep theirs. Required by Custom, absent for the others."""


class Upgrade(ApiModel):
    """The goal of a run. ``X.Y`` means the newest patch of that minor version that is available to all members."""

    type: UpgradeType
    """Parts to upgrade. Full: control plane and nodes. ControlPlaneOnly: no nodes. NodeImageOnly: only the images of
    nodes."""
    kubernetes_version: KubernetesVersion | None = None
    """Version to upgrade to: ``1.31.2``, or ``1.31`` for its newest patch that is available to all members. Required,
    but absent for NodeImageOnly."""
    node_image: NodeImageChoice | None = None
    """Selection of node images. Not allowed for ControlPlaneOnly. Absent: Latest."""


class SkipTarget(ApiModel):
    """A target to skip. A wait has the name of its stage."""

    type: SkipTargetType
    """Kind of target: a member, a group, a stage, or the wait after a stage."""
    name: MemberName
    """Name of the member, group or stage. For a wait, the name of its stage."""


class Timeouts(ApiModel):
    """Timeouts of the steps, in seconds. 0 means no limit."""

    member_upgrade_seconds: Int32 = Field(
        default=DEFAULT_MEMBER_UPGRADE_SECONDS, ge=0, le=LONGEST_MEMBER_UPGRADE_SECONDS
    )
    """Timeout of the upgrade of one member, in seconds. Afterwards it counts as failed. 0 sets no limit. Other values
    are at least 300."""
    pending_seconds: Int32 = Field(default=0, ge=0, json_schema_extra=_ZERO)
    """Maximum time that a member may be continuously Pending, in seconds, before ``onPendingTimeout`` applies. 0:
    unlimited."""
    on_pending_timeout: OnPendingTimeout = OnPendingTimeout.WAIT
    """Handling of a member that has been Pending for too long: Wait continues to wait, Skip omits it, Fail counts it as
    failed."""
    gate_seconds: Int32 = Field(default=0, ge=0, json_schema_extra=_ZERO)
    """Maximum time that a gate may hold the run, in seconds, before the run is stopped. 0: unlimited."""
    cancel_on_timeout: bool = Field(default=False, json_schema_extra=_FALSE)
    """Whether to request the cancellation of an attempt that has timed out."""


class VersionPolicy(ApiModel):
    """Handling of members that cannot be upgraded in their present state."""

    on_unsupported_jump: OnUnsupportedJump = OnUnsupportedJump.FAIL
    """Handling of a member that is more than one minor version behind: Fail or Skip."""
    on_not_ready: OnNotReady = OnNotReady.WAIT
    """Handling of a member that is stopped or unreachable at its turn: Wait, Skip or Fail."""


class WindowPolicy(ApiModel):
    """Use of the maintenance windows of members."""

    mode: WindowMode = WindowMode.RESPECT
    """Respect: members start in their maintenance windows only. Ignore: at any time, which requires a separate
    right."""
    reservation: WindowReservation = WindowReservation.NONE
    """Strict reserves the last free slot for a member whose window opens soon. None does not."""
    tie_break: WindowTieBreak = WindowTieBreak.NAME
    """Precedence among members with an open window: by Name, or the one whose window closes first (ClosingSoonest)."""
    require_fit: bool = Field(default=False, json_schema_extra=_FALSE)
    """Whether a member only starts if its upgrade is likely to end before its window closes."""


class PlacementGuard(ApiModel):
    """Prevents a placement from losing too many of its clusters concurrently."""

    mode: PlacementGuardMode = PlacementGuardMode.OFF
    """Enforce: a member waits while its upgrade would take too many clusters from one placement. Warn: the plan has a
    warning. Off: no check."""


class UpgradeRunSpec(ApiModel):
    """``spec`` of a run. The strategy is given by name or in full. Without one, members are upgraded one by one."""

    state: UpgradeRunState = UpgradeRunState.INITIALIZE
    """Initialize: fix the plan and wait. Run: execute it. Stop: start no more members. Run continues it."""
    restart_token: str = Field(default="", max_length=LONGEST_TOKEN)
    """Any new value restarts a failed or stopped run. Absent: empty, which never does."""
    strategy_ref: StrategyReference | None = None
    """The strategy to follow, copied when the run starts. Not together with ``strategy``. Absent: ``strategy``, or else
    one member at a time."""
    strategy: StrategySpec | None = None
    """The stages, given here. Not together with ``strategyRef``. Absent: ``strategyRef``, or else one member at a time.
    """
    member_selector: LabelSelector | None = None
    """Members of the run, by label, before stages and groups choose among them. Absent: all."""
    upgrade: Upgrade
    """Target of the upgrade."""
    skip_targets: tuple[SkipTarget, ...] = Field(default=(), max_length=MOST_SKIP_TARGETS)
    """Targets to skip. Each entry is executed once. Entries can be added, not removed. Absent: none."""
    timeouts: Timeouts = Field(default_factory=shared_default(Timeouts), json_schema_extra=_FILLED_IN)
    """Timeouts of the steps. Absent: the default of each field."""
    version_policy: VersionPolicy = Field(default_factory=shared_default(VersionPolicy), json_schema_extra=_FILLED_IN)
    """Handling of members that cannot be upgraded in their present state. Absent: the default of each field."""
    window_policy: WindowPolicy = Field(default_factory=shared_default(WindowPolicy), json_schema_extra=_FILLED_IN)
    """Use of the maintenance windows of members. Absent: the default of each field."""
    placement_guard: PlacementGuard = Field(
        default_factory=shared_default(PlacementGuard), json_schema_extra=_FILLED_IN
    )
    """Whether placements are protected from losing too many clusters concurrently. Absent: no."""
    ttl_seconds_after_finished: Int32 | None = Field(default=None, ge=0)
    """Time to keep the finished run, in seconds. Absent: until a user deletes it."""


class ResolvedVersions(ApiModel):
    """The versions chosen at the first start. Node images only for Consistent and Custom."""

    kubernetes_version: str = ""
    """The version that members get, without an alias. Empty with NodeImageOnly."""
    node_images: Annotated[tuple[NodeImageVersion, ...], Field(json_schema_extra=_BY_FAMILY)] = ()
    """The images that members get, one per family, only with Consistent and Custom."""


class MemberCounts(ApiModel):
    """Number of members of the run in each state."""

    total: Int32 = 0
    """All members of the run."""
    completed: Int32 = 0
    """Members that have been upgraded."""
    skipped: Int32 = 0
    """Members that were left out."""
    failed: Int32 = 0
    """Members whose upgrade failed."""
    running: Int32 = 0
    """Members in upgrade."""
    pending: Int32 = 0
    """Members that are next but must wait."""
    not_started: Int32 = 0
    """Members that have not been reached."""
    stopped: Int32 = 0
    """Members that had not started when the run was stopped."""


class MemberStatus(ApiModel):
    """The progress of one member. A member in upgrade is Running, even while the run stops."""

    name: str
    """Name of the member."""
    state: UpgradeState
    """State of the member."""
    reason: str = ""
    """Reason for the state, as one word. May be empty."""
    message: str = ""
    """Reason for the state, as a sentence."""
    attempt: Int32 = 0
    """Number of the latest attempt, 0 before the first."""
    operation_id: str = Field(default="", alias="operationID")
    """ID of the latest attempt, in the form ``<run uid>/<member>/<attempt>``. Empty before the first attempt."""
    upgrader: str = ""
    """The upgrader that executes the attempt."""
    operation_open: bool = Field(
        default=False,
    )
    """Whether the run has abandoned the attempt, although its upgrader has not reported its end. No other upgrade of
    the member starts until then, or until the run is deleted."""
    start_time: Time | None = None
    """Time when the latest attempt started. Absent before the first."""
    completion_time: Time | None = None
    """Time when the member reached its final state. Absent until then."""
    pending_since: Time | None = None
    """Time since which it has been continuously Pending. Absent otherwise."""
    next_window_open: Time | None = None
    """Time when its next maintenance window opens. Absent if it does not wait for one."""
    from_version: str = ""
    """Kubernetes version before the upgrade."""
    to_version: str = ""
    """Kubernetes version that it is upgraded to."""
    error: UpgradeError | None = None
    """Why the latest attempt failed. Absent without a failure."""


class GateReport(ApiModel):
    """The progress of one gate. ``gate`` names the ClusterUpgradeGate, empty until the run reaches the gate."""

    type: GateType
    """Kind of the gate."""
    state: UpgradeState
    """State of the gate."""
    display_name: str = ""
    """Question for the approver."""
    gate: str = ""
    """Name of the ClusterUpgradeGate, empty until the run reaches the gate."""
    absolute_start_time: Time | None = None
    """Time when a scheduled gate opens. Absent for an approval."""
    start_time: Time | None = None
    """Time when the run reached the gate. Absent until then."""
    completion_time: Time | None = None
    """Time when the gate opened or was skipped. Absent until then."""
    message: str = ""
    """Reason for the wait, or the user who opened it, as a sentence."""


GateReports: TypeAlias = tuple[GateReport, ...]


class WaitStatus(ApiModel):
    """The progress of the wait after a stage."""

    seconds: Int32 = 0
    """Length of the wait in seconds."""
    state: UpgradeState
    """State of the wait."""
    start_time: Time | None = None
    """Time when the wait started. Absent until then."""
    completion_time: Time | None = None
    """Time when the wait ended. Absent until then."""


class GroupStatus(ApiModel):
    """The progress of one group, and its limits as numbers."""

    name: str
    """Name of the group."""
    state: UpgradeState
    """State of the group."""
    reason: str = Field(
        default="",
    )
    """SkippedByUser as soon as the user skips the group, even while a member of it is still in upgrade. Otherwise
    empty."""
    start_time: Time | None = None
    """Time when the group started. Absent until then."""
    completion_time: Time | None = None
    """Time when the group ended. Absent until then."""
    message: str = ""
    """Reason for the state, as a sentence."""
    failure_count: Int32 = 0
    """Number of its members that failed."""
    max_concurrency: Int32 = 0
    """Maximum number of concurrent upgrades, as a number of members."""
    max_allowed_failures: Int32 = 0
    """Maximum number of failed members."""
    before_gates: GateReports = ()
    """Progress of the gates before the group."""
    after_gates: GateReports = ()
    """Progress of the gates after the group."""
    members: tuple[MemberStatus, ...] = ()
    """Progress of its members, in the order of their turns."""


class StageStatus(ApiModel):
    """The progress of one stage, and its limits as numbers."""

    name: str
    """Name of the stage."""
    state: UpgradeState
    """State of the stage."""
    reason: str = Field(
        default="",
    )
    """SkippedByUser as soon as the user skips the stage, even while a member of it is still in upgrade. Otherwise
    empty."""
    start_time: Time | None = None
    """Time when the stage started. Absent until then."""
    completion_time: Time | None = None
    """Time when the stage ended. Absent until then."""
    message: str = ""
    """Reason for the state, as a sentence."""
    failure_count: Int32 = 0
    """Number of its members that failed."""
    max_concurrency: Int32 = 0
    """Maximum number of concurrent upgrades, as a number of members."""
    max_allowed_failures: Int32 = 0
    """Maximum number of failed members."""
    before_gates: GateReports = ()
    """Progress of the gates before the stage."""
    after_gates: GateReports = ()
    """Progress of the gates after the stage."""
    after_stage_wait: WaitStatus | None = None
    """Progress of the wait after the stage. Absent without a wait."""
    groups: tuple[GroupStatus, ...] = ()
    """Progress of its groups."""


class UpgradeRunStatus(ApiModel):
    """``status`` of a run: its copy of the strategy, the versions chosen at its start, and its progress."""

    state: UpgradeState = UpgradeState.NOT_STARTED
    """State of the run."""
    start_time: Time | None = None
    """Time when the run first started. Absent until then."""
    completion_time: Time | None = None
    """Time when the run ended. Absent until then."""
    restarts: Int32 = 0
    """Number of restarts of the run."""
    observed_generation: Int64 = 0
    """Generation of the run (``metadata.generation``) that the status is about."""
    observed_restart_token: str = ""
    """The last restart token that was processed."""
    observed_skip_targets: Int32 = 0
    """Number of processed entries of ``spec.skipTargets``."""
    strategy_snapshot: StrategySpec | None = None
    """Copy of the strategy. Later changes to the original do not affect this run."""
    strategy_snapshot_of: str = Field(
        default="",
    )
    """Name of the strategy that was copied, empty if the run has its own."""
    resolved: ResolvedVersions = Field(default_factory=shared_default(ResolvedVersions))
    """The versions chosen at the start."""
    counts: MemberCounts = Field(default_factory=shared_default(MemberCounts))
    """Number of members in each state."""
    failure_count: Int32 = 0
    """Number of members that failed."""
    next_wakeup: Time | None = None
    """Time at which the run next changes without an event, such as when a window opens. Absent: unknown or never."""
    stages: tuple[StageStatus, ...] = ()
    """Progress of the stages, in order."""
    plan: UpgradePlan | None = None
    """Forecast of the run. Absent before the first one."""
    conditions: Conditions = ()
    """Conditions of the run: Initialized, Preflight, Progressing, Succeeded, Healthy, MembershipDrifted."""


class ClusterUpgradeRun(ApiObject):
    """One upgrade of members, in stages and groups."""

    spec: UpgradeRunSpec
    """Target, members and order of the upgrade."""
    status: UpgradeRunStatus = Field(default_factory=shared_default(UpgradeRunStatus))
    """The run's copy of the strategy, the chosen versions, and progress, written by harbormaster."""
