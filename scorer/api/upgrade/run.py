"""ClusterUpgradeRun: one upgrade, applied along a copy of a strategy.

``spec`` and ``status`` hold everything needed to continue after a crash. The meaning of an absent
``upgrade.nodeImage`` depends on the type, so the schema gives it no default (upgrade-runs.md 4.2).

Source: upgrade-runs.md 3.3, 3.4, 4.2, 9 and 10.4.
"""

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from scorer.api.conditions import Conditions
from scorer.api.meta import ApiModel, ApiObject, Int32, Int64, JsonObject, Time
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
    """What the user wants a run to do."""

    INITIALIZE = "Initialize"
    RUN = "Run"
    STOP = "Stop"


class SkipTargetType(StrEnum):
    """What to skip."""

    MEMBER = "Member"
    GROUP = "Group"
    STAGE = "Stage"
    AFTER_STAGE_WAIT = "AfterStageWait"


class OnPendingTimeout(StrEnum):
    """What happens to a member that has been Pending for too long."""

    WAIT = "Wait"
    SKIP = "Skip"
    FAIL = "Fail"


class OnUnsupportedJump(StrEnum):
    """What happens to a member that is more than one minor version behind."""

    FAIL = "Fail"
    SKIP = "Skip"


class OnNotReady(StrEnum):
    """What happens to a member that is stopped or unreachable."""

    WAIT = "Wait"
    SKIP = "Skip"
    FAIL = "Fail"


class WindowMode(StrEnum):
    """Whether the run respects maintenance windows."""

    RESPECT = "Respect"
    IGNORE = "Ignore"


class WindowReservation(StrEnum):
    """Whether the run keeps a slot free for a member whose window is about to open."""

    NONE = "None"
    STRICT = "Strict"


class WindowTieBreak(StrEnum):
    """Which member goes first among those whose windows are open."""

    NAME = "Name"
    CLOSING_SOONEST = "ClosingSoonest"


class PlacementGuardMode(StrEnum):
    """Whether a placement may lose too many of its clusters at once."""

    OFF = "Off"
    WARN = "Warn"
    ENFORCE = "Enforce"


class NodeImageChoice(ApiModel):
    """Which node images members get; pools of a family that Custom does not list keep their image."""

    selection: NodeImageSelection = NodeImageSelection.LATEST
    """Latest: each member gets the newest image of its region. Consistent: all get the newest that is in every region.
    Custom: those of ``customVersions``."""
    custom_versions: tuple[NodeImageVersion, ...] = Field(
        default=(), max_length=MOST_NODE_IMAGES, json_schema_extra=_BY_FAMILY
    )
    """Images, one per family; families not listed keep theirs. Required by Custom, absent for the others."""


class Upgrade(ApiModel):
    """The goal of a run. ``X.Y`` means the newest patch of that minor version that is available to all members."""

    type: UpgradeType
    """What to upgrade. Full: control plane and nodes. ControlPlaneOnly: no nodes. NodeImageOnly: only the images of
    nodes."""
    kubernetes_version: KubernetesVersion | None = None
    """Version to upgrade to: ``1.31.2``, or ``1.31`` for its newest patch that all members can get. Required, but
    absent for NodeImageOnly."""
    node_image: NodeImageChoice | None = None
    """Which node images members get; not taken by ControlPlaneOnly. Absent: Latest."""


class SkipTarget(ApiModel):
    """Something to skip; a wait has the name of its stage."""

    type: SkipTargetType
    """What to skip: a member, a group, a stage, or the wait after a stage."""
    name: MemberName
    """Name of the member, group or stage; of a wait, that of its stage."""


class Timeouts(ApiModel):
    """How long each step may take, in seconds; 0 means no limit."""

    member_upgrade_seconds: Int32 = Field(
        default=DEFAULT_MEMBER_UPGRADE_SECONDS, ge=0, le=LONGEST_MEMBER_UPGRADE_SECONDS
    )
    """How long the upgrade of one member may take, in seconds; then it counts as failed. 0 sets no limit, the least
    limit is 300."""
    pending_seconds: Int32 = Field(default=0, ge=0, json_schema_extra=_ZERO)
    """How long a member may be Pending without a break, in seconds, before ``onPendingTimeout`` applies; 0 sets no
    limit."""
    on_pending_timeout: OnPendingTimeout = OnPendingTimeout.WAIT
    """What happens to a member that has been Pending for too long: Wait goes on, Skip leaves it out, Fail counts it as
    failed."""
    gate_seconds: Int32 = Field(default=0, ge=0, json_schema_extra=_ZERO)
    """How long a gate may hold the run, in seconds, before the run is stopped; 0 sets no limit."""
    cancel_on_timeout: bool = Field(default=False, json_schema_extra=_FALSE)
    """Whether the upgrader is asked to give up an attempt whose time is up."""


class VersionPolicy(ApiModel):
    """What happens to members that cannot be upgraded as they are."""

    on_unsupported_jump: OnUnsupportedJump = OnUnsupportedJump.FAIL
    """What happens to a member that is more than one minor version behind: Fail or Skip."""
    on_not_ready: OnNotReady = OnNotReady.WAIT
    """What happens to a member that is stopped or unreachable at its turn: Wait, Skip or Fail."""


class WindowPolicy(ApiModel):
    """How the run uses the maintenance windows of members."""

    mode: WindowMode = WindowMode.RESPECT
    """Respect: members start in their maintenance windows only. Ignore: at any time, which needs a right of its own."""
    reservation: WindowReservation = WindowReservation.NONE
    """Strict keeps the last free slot for a member whose window is about to open; None does not."""
    tie_break: WindowTieBreak = WindowTieBreak.NAME
    """Which of several members in an open window goes first: by Name, or the one whose window closes first
    (ClosingSoonest)."""
    require_fit: bool = Field(default=False, json_schema_extra=_FALSE)
    """Whether a member only starts when its upgrade will in all likelihood end before its window closes."""


class PlacementGuard(ApiModel):
    """Keeps a placement from losing too many of its clusters at once."""

    mode: PlacementGuardMode = PlacementGuardMode.OFF
    """Enforce: a member waits while its upgrade would take too many clusters from one placement. Warn: the plan says
    so. Off: nothing."""


class UpgradeRunSpec(ApiModel):
    """``spec`` of a run. The strategy is given by name or in full; without one, members are upgraded one by one."""

    state: UpgradeRunState = UpgradeRunState.INITIALIZE
    """Initialize: fix the plan and wait. Run: carry it out. Stop: start no more members; Run continues."""
    restart_token: str = Field(default="", max_length=LONGEST_TOKEN)
    """Any text not seen before starts a failed or stopped run again. Absent: empty, which never does."""
    strategy_ref: StrategyReference | None = None
    """The strategy to follow, copied when the run starts; not together with ``strategy``. Absent: ``strategy``, or else
    one member at a time."""
    strategy: StrategySpec | None = None
    """The stages, given here; not together with ``strategyRef``. Absent: ``strategyRef``, or else one member at a time.
    """
    member_selector: LabelSelector | None = None
    """Members of the run, by label, before stages and groups choose among them. Absent: all."""
    upgrade: Upgrade
    """What to upgrade to."""
    skip_targets: tuple[SkipTarget, ...] = Field(default=(), max_length=MOST_SKIP_TARGETS)
    """What to leave out, each entry obeyed once; entries can be added, not removed. Absent: nothing."""
    timeouts: Timeouts = Field(default_factory=Timeouts, json_schema_extra=_FILLED_IN)
    """How long steps may take. Absent: the default of each field."""
    version_policy: VersionPolicy = Field(default_factory=VersionPolicy, json_schema_extra=_FILLED_IN)
    """What happens to members that cannot be upgraded as they are. Absent: the default of each field."""
    window_policy: WindowPolicy = Field(default_factory=WindowPolicy, json_schema_extra=_FILLED_IN)
    """How the maintenance windows of members are used. Absent: the default of each field."""
    placement_guard: PlacementGuard = Field(default_factory=PlacementGuard, json_schema_extra=_FILLED_IN)
    """Whether placements are kept from losing too many clusters at once. Absent: they are not."""
    ttl_seconds_after_finished: Int32 | None = Field(default=None, ge=0)
    """How long the finished run is kept, in seconds. Absent: until somebody deletes it."""


class ResolvedVersions(ApiModel):
    """The versions chosen at the first start; node images only for Consistent and Custom."""

    kubernetes_version: str = ""
    """The version that members get, without an alias; empty with NodeImageOnly."""
    node_images: Annotated[tuple[NodeImageVersion, ...], Field(json_schema_extra=_BY_FAMILY)] = ()
    """The images that members get, one per family; only with Consistent and Custom."""


class MemberCounts(ApiModel):
    """Members of the run by state."""

    total: Int32 = 0
    """All members of the run."""
    completed: Int32 = 0
    """Members that are upgraded."""
    skipped: Int32 = 0
    """Members that were left out."""
    failed: Int32 = 0
    """Members whose upgrade failed."""
    running: Int32 = 0
    """Members in upgrade."""
    pending: Int32 = 0
    """Members whose turn it is and that have to wait."""
    not_started: Int32 = 0
    """Members whose turn has not come."""
    stopped: Int32 = 0
    """Members that had not started when the run was stopped."""


class MemberStatus(ApiModel):
    """The progress of one member; a member in upgrade is Running, even while the run stops."""

    name: str
    """Name of the member."""
    state: UpgradeState
    """How far the member has got."""
    reason: str = ""
    """Why it is in this state, as one word; empty when there is nothing to explain."""
    message: str = ""
    """Why it is in this state, as a sentence."""
    attempt: Int32 = 0
    """Number of the latest attempt; 0 before the first."""
    operation_id: str = Field(default="", alias="operationID")
    """Identity of the latest attempt, ``<run uid>/<member>/<attempt>``; empty before the first."""
    upgrader: str = ""
    """Which upgrader carries the attempt out."""
    operation_open: bool = Field(
        default=False,
    )
    """Whether the run has given the attempt up while its upgrader has not reported the end: until it does, or the run
    ends, nobody upgrades the member."""
    start_time: Time | None = None
    """When the latest attempt started; absent before the first."""
    completion_time: Time | None = None
    """When the member reached its final state; absent before that."""
    pending_since: Time | None = None
    """Since when it has been Pending without a break; absent when it is not."""
    next_window_open: Time | None = None
    """When its next maintenance window opens; absent when it waits for none."""
    from_version: str = ""
    """Kubernetes version before the upgrade."""
    to_version: str = ""
    """Kubernetes version that it is upgraded to."""
    error: UpgradeError | None = None
    """Why the latest attempt failed; absent when it did not."""


class GateReport(ApiModel):
    """The progress of one gate; ``gate`` names the ClusterUpgradeGate, empty until the run reaches the gate."""

    type: GateType
    """What the gate waits for."""
    state: UpgradeState
    """How far the gate has got."""
    display_name: str = ""
    """What people are asked."""
    gate: str = ""
    """Name of the ClusterUpgradeGate; empty until the run reaches the gate."""
    absolute_start_time: Time | None = None
    """When a scheduled gate opens by itself; absent of an approval."""
    start_time: Time | None = None
    """When the run reached the gate; absent before that."""
    completion_time: Time | None = None
    """When the gate opened or was skipped; absent before that."""
    message: str = ""
    """What it waits for or who opened it, as a sentence."""


GateReports: TypeAlias = tuple[GateReport, ...]


class WaitStatus(ApiModel):
    """The progress of the wait after a stage."""

    seconds: Int32 = 0
    """How long the wait is, in seconds."""
    state: UpgradeState
    """How far the wait has got."""
    start_time: Time | None = None
    """When the wait began; absent before that."""
    completion_time: Time | None = None
    """When the wait ended; absent before that."""


class GroupStatus(ApiModel):
    """The progress of one group, and its limits as numbers."""

    name: str
    """Name of the group."""
    state: UpgradeState
    """How far the group has got."""
    reason: str = Field(
        default="",
    )
    """SkippedByUser from the moment the user skips the group, even while a member of it is still in upgrade; else
    empty."""
    start_time: Time | None = None
    """When the group began; absent before that."""
    completion_time: Time | None = None
    """When the group ended; absent before that."""
    message: str = ""
    """Why it is in this state, as a sentence."""
    failure_count: Int32 = 0
    """Number of its members that failed."""
    max_concurrency: Int32 = 0
    """How many members are upgraded at once, as a number of members."""
    max_allowed_failures: Int32 = 0
    """How many members may fail, as a number of members."""
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
    """How far the stage has got."""
    reason: str = Field(
        default="",
    )
    """SkippedByUser from the moment the user skips the stage, even while a member of it is still in upgrade; else
    empty."""
    start_time: Time | None = None
    """When the stage began; absent before that."""
    completion_time: Time | None = None
    """When the stage ended; absent before that."""
    message: str = ""
    """Why it is in this state, as a sentence."""
    failure_count: Int32 = 0
    """Number of its members that failed."""
    max_concurrency: Int32 = 0
    """How many members are upgraded at once, as a number of members."""
    max_allowed_failures: Int32 = 0
    """How many members may fail, as a number of members."""
    before_gates: GateReports = ()
    """Progress of the gates before the stage."""
    after_gates: GateReports = ()
    """Progress of the gates after the stage."""
    after_stage_wait: WaitStatus | None = None
    """Progress of the wait after the stage; absent when there is none."""
    groups: tuple[GroupStatus, ...] = ()
    """Progress of its groups."""


class UpgradeRunStatus(ApiModel):
    """``status`` of a run: its copy of the strategy, the versions chosen at its start, and its progress."""

    state: UpgradeState = UpgradeState.NOT_STARTED
    """How far the run has got."""
    start_time: Time | None = None
    """When the run first started; absent before that."""
    completion_time: Time | None = None
    """When the run ended; absent before that."""
    restarts: Int32 = 0
    """How often the run was started again."""
    observed_generation: Int64 = 0
    """Generation of the run (``metadata.generation``) that the status is about."""
    observed_restart_token: str = ""
    """The last restart token that was obeyed."""
    observed_skip_targets: Int32 = 0
    """How many entries of ``spec.skipTargets`` were obeyed."""
    strategy_snapshot: StrategySpec | None = None
    """Copy of the strategy; later changes of the original do not matter to this run."""
    strategy_snapshot_of: str = Field(
        default="",
    )
    """Name of the strategy that was copied; empty when the run has its own."""
    resolved: ResolvedVersions = Field(default_factory=ResolvedVersions)
    """The versions chosen at the start."""
    counts: MemberCounts = Field(default_factory=MemberCounts)
    """Number of members in each state."""
    failure_count: Int32 = 0
    """Number of members that failed."""
    next_wakeup: Time | None = None
    """When something happens next without anybody doing anything; absent when nothing will."""
    stages: tuple[StageStatus, ...] = ()
    """Progress of the stages, in order."""
    plan: UpgradePlan | None = None
    """What is expected to happen when; absent before the first forecast."""
    conditions: Conditions = ()
    """What is to be said about the run: Initialized, Preflight, Progressing, Succeeded, Healthy, MembershipDrifted."""


class ClusterUpgradeRun(ApiObject):
    """One upgrade of members, in stages and groups."""

    spec: UpgradeRunSpec
    """What to upgrade, which members, and in which order."""
    status: UpgradeRunStatus = Field(default_factory=UpgradeRunStatus)
    """The run's copy of the strategy, the chosen versions, and progress; written by harbormaster."""
