"""ClusterUpgradeRun: one upgrade, applied along a copy of a strategy.

``spec`` and ``status`` hold everything needed to continue after a crash. The meaning of an absent
``upgrade.nodeImage`` depends on the type, so the schema gives it no default (upgrade-runs.md 4.2).

Source: upgrade-runs.md 3.3, 3.4, 4.2, 9 and 10.4.
"""

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from scorer.api.conditions import Conditions
from scorer.api.label_selector import LabelSelector
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


class RunState(StrEnum):
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
    custom_versions: tuple[NodeImageVersion, ...] = Field(
        default=(), max_length=MOST_NODE_IMAGES, json_schema_extra=_BY_FAMILY
    )


class Upgrade(ApiModel):
    """The goal of a run. ``X.Y`` means the newest patch of that minor version that is available to all members."""

    type: UpgradeType
    kubernetes_version: KubernetesVersion | None = None
    node_image: NodeImageChoice | None = None


class SkipTarget(ApiModel):
    """Something to skip; a wait has the name of its stage."""

    type: SkipTargetType
    name: MemberName


class Timeouts(ApiModel):
    """How long each step may take, in seconds; 0 means no limit."""

    member_upgrade_seconds: Int32 = Field(
        default=DEFAULT_MEMBER_UPGRADE_SECONDS, ge=0, le=LONGEST_MEMBER_UPGRADE_SECONDS
    )
    pending_seconds: Int32 = Field(default=0, ge=0, json_schema_extra=_ZERO)
    on_pending_timeout: OnPendingTimeout = OnPendingTimeout.WAIT
    gate_seconds: Int32 = Field(default=0, ge=0, json_schema_extra=_ZERO)
    cancel_on_timeout: bool = Field(default=False, json_schema_extra=_FALSE)


class VersionPolicy(ApiModel):
    """What happens to members that cannot be upgraded as they are."""

    on_unsupported_jump: OnUnsupportedJump = OnUnsupportedJump.FAIL
    on_not_ready: OnNotReady = OnNotReady.WAIT


class WindowPolicy(ApiModel):
    """How the run uses the maintenance windows of members."""

    mode: WindowMode = WindowMode.RESPECT
    reservation: WindowReservation = WindowReservation.NONE
    tie_break: WindowTieBreak = WindowTieBreak.NAME
    require_fit: bool = Field(default=False, json_schema_extra=_FALSE)


class PlacementGuard(ApiModel):
    """Keeps a placement from losing too many of its clusters at once."""

    mode: PlacementGuardMode = PlacementGuardMode.OFF


class UpgradeRunSpec(ApiModel):
    """``spec`` of a run. The strategy is given by name or in full; without one, members are upgraded one by one."""

    state: RunState = RunState.INITIALIZE
    restart_token: str = Field(
        default="",
        max_length=LONGEST_TOKEN,
        description="A token not seen before starts a failed or stopped run again.",
    )
    strategy_ref: StrategyReference | None = None
    strategy: StrategySpec | None = None
    member_selector: LabelSelector | None = None
    upgrade: Upgrade
    skip_targets: tuple[SkipTarget, ...] = Field(
        default=(), max_length=MOST_SKIP_TARGETS, description="Grows at its end only."
    )
    timeouts: Timeouts = Field(default_factory=Timeouts, json_schema_extra=_FILLED_IN)
    version_policy: VersionPolicy = Field(default_factory=VersionPolicy, json_schema_extra=_FILLED_IN)
    window_policy: WindowPolicy = Field(default_factory=WindowPolicy, json_schema_extra=_FILLED_IN)
    placement_guard: PlacementGuard = Field(default_factory=PlacementGuard, json_schema_extra=_FILLED_IN)
    ttl_seconds_after_finished: Int32 | None = Field(default=None, ge=0)


class ResolvedVersions(ApiModel):
    """The versions chosen at the first start; node images only for Consistent and Custom."""

    kubernetes_version: str = ""
    node_images: Annotated[tuple[NodeImageVersion, ...], Field(json_schema_extra=_BY_FAMILY)] = ()


class MemberCounts(ApiModel):
    """Members of the run by state."""

    total: Int32 = 0
    completed: Int32 = 0
    skipped: Int32 = 0
    failed: Int32 = 0
    running: Int32 = 0
    pending: Int32 = 0
    not_started: Int32 = 0
    stopped: Int32 = 0


class MemberStatus(ApiModel):
    """The progress of one member; a member in upgrade is Running, even while the run stops."""

    name: str
    state: UpgradeState
    reason: str = ""
    message: str = ""
    attempt: Int32 = 0
    operation_id: str = Field(
        default="", alias="operationID", description="Of the latest attempt: <run uid>/<member>/<attempt>."
    )
    upgrader: str = ""
    operation_open: bool = Field(
        default=False,
        description="The run has given the attempt up, and its upgrader has not reported the end: so long, neither this"
        " run nor another one upgrades the member. It ends with a report, or with the run.",
    )
    start_time: Time | None = None
    completion_time: Time | None = None
    pending_since: Time | None = None
    next_window_open: Time | None = None
    from_version: str = ""
    to_version: str = ""
    error: UpgradeError | None = None


class GateReport(ApiModel):
    """The progress of one gate; ``gate`` names the ClusterUpgradeGate, empty until the run reaches the gate."""

    type: GateType
    state: UpgradeState
    display_name: str = ""
    gate: str = ""
    absolute_start_time: Time | None = None
    start_time: Time | None = None
    completion_time: Time | None = None
    message: str = ""


GateReports: TypeAlias = tuple[GateReport, ...]


class WaitStatus(ApiModel):
    """The progress of the wait after a stage."""

    seconds: Int32 = 0
    state: UpgradeState
    start_time: Time | None = None
    completion_time: Time | None = None


class GroupStatus(ApiModel):
    """The progress of one group, and its limits as numbers."""

    name: str
    state: UpgradeState
    reason: str = Field(
        default="", description="SkippedByUser as soon as the user skips it, also while a member is still in upgrade."
    )
    start_time: Time | None = None
    completion_time: Time | None = None
    message: str = ""
    failure_count: Int32 = 0
    max_concurrency: Int32 = 0
    max_allowed_failures: Int32 = 0
    before_gates: GateReports = ()
    after_gates: GateReports = ()
    members: tuple[MemberStatus, ...] = ()


class StageStatus(ApiModel):
    """The progress of one stage, and its limits as numbers."""

    name: str
    state: UpgradeState
    reason: str = Field(
        default="", description="SkippedByUser as soon as the user skips it, also while a member is still in upgrade."
    )
    start_time: Time | None = None
    completion_time: Time | None = None
    message: str = ""
    failure_count: Int32 = 0
    max_concurrency: Int32 = 0
    max_allowed_failures: Int32 = 0
    before_gates: GateReports = ()
    after_gates: GateReports = ()
    after_stage_wait: WaitStatus | None = None
    groups: tuple[GroupStatus, ...] = ()


class UpgradeRunStatus(ApiModel):
    """``status`` of a run: its copy of the strategy, the versions chosen at its start, and its progress."""

    state: UpgradeState = UpgradeState.NOT_STARTED
    start_time: Time | None = None
    completion_time: Time | None = None
    restarts: Int32 = 0
    observed_generation: Int64 = 0
    observed_restart_token: str = ""
    observed_skip_targets: Int32 = 0
    strategy_snapshot: StrategySpec | None = None
    strategy_snapshot_of: str = Field(
        default="", description="The strategy that the snapshot is a copy of, where the run refers to one."
    )
    resolved: ResolvedVersions = Field(default_factory=ResolvedVersions)
    counts: MemberCounts = Field(default_factory=MemberCounts)
    failure_count: Int32 = 0
    next_wakeup: Time | None = None
    stages: tuple[StageStatus, ...] = ()
    plan: UpgradePlan | None = None
    conditions: Conditions = ()


class ClusterUpgradeRun(ApiObject):
    """One upgrade of members, in stages and groups."""

    spec: UpgradeRunSpec
    status: UpgradeRunStatus = Field(default_factory=UpgradeRunStatus)
