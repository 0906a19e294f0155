"""The forecast of an upgrade run: when each member's turn comes, and how far a bad version would spread.

Source: docs/specifications/upgrade-runs.md 14.4 and 14.5.
"""

from enum import StrEnum

from pydantic import Field

from scorer.api.meta import ApiModel, Int32, Int64, Time, shared_default


class PlannedAction(StrEnum):
    """Expected outcome for a member."""

    UPGRADE = "Upgrade"
    SKIP = "Skip"
    BLOCKED = "Blocked"
    FAIL = "Fail"
    NOT_REACHED = "NotReached"


class Bound(StrEnum):
    """Constraint that determines when a member starts."""

    SEQUENCE = "Sequence"
    WINDOW = "Window"
    GATE = "Gate"
    WAIT = "Wait"
    STAGE_CEILING = "StageCeiling"
    VERSION = "Version"


class StepType(StrEnum):
    """Kind of a step of the critical path."""

    MEMBER = "Member"
    WAIT = "Wait"
    GATE = "Gate"


class PlannedMember(ApiModel):
    """The forecast for one member."""

    name: str
    """Name of the member."""
    action: PlannedAction
    """Expected outcome. Upgrade and Skip: as named. Blocked: it can never start. Fail: it fails without being changed.
    NotReached: the run ends before its turn."""
    start: Time | None = None
    """Expected start of its upgrade. Absent if it never starts."""
    end: Time | None = None
    """Expected end of its upgrade. Absent if it never starts."""
    reason: str = ""
    """Why it is skipped, blocked or failed, as one word."""
    bound_by: Bound | None = None
    """Constraint that determines its start: the order, a window, a gate, a wait, the limit of the stage, or a version
    not yet available."""


class CriticalStep(ApiModel):
    """A member, wait or gate on the critical path. A wait has the name of its stage."""

    type: StepType
    """Member, Wait or Gate."""
    name: str
    """Name of the member or gate. For a wait, the name of its stage."""
    start: Time | None = None
    """Expected start."""
    end: Time | None = None
    """Expected end."""


class MissedWindow(ApiModel):
    """A member whose turn comes just after its window has closed, and the delay that this causes."""

    name: str
    """Name of the member."""
    turn: Time
    """Time when its turn comes, just after its window has closed."""
    lost_seconds: Int64
    """Delay of its upgrade after its turn, in seconds."""


class ExposedPlacement(ApiModel):
    """A placement that has some of its clusters in upgrade at the same time."""

    name: str
    """Name of the placement."""
    namespace: str = ""
    """Namespace of the placement, empty for a ClusterResourcePlacement."""
    clusters: Int32
    """Number of clusters that the placement is bound to."""
    in_upgrade: Int32
    """Maximum number of them in upgrade at one instant."""
    fully_exposed: bool = False
    """Whether at some instant all of them are in upgrade."""


class StageRadius(ApiModel):
    """Blast radius of one stage."""

    name: str
    """Name of the stage."""
    clusters: Int32 = 0
    """Number of member clusters that it upgrades."""
    nodes: Int32 = 0
    """Number of nodes of those clusters."""
    regions: tuple[str, ...] = ()
    """Regions of those clusters."""
    placements: tuple[ExposedPlacement, ...] = ()
    """Placements that have clusters in upgrade at the same time, the most exposed first."""


class BlastRadius(ApiModel):
    """Blast radius of the run, stage by stage."""

    stages: tuple[StageRadius, ...] = ()
    """Blast radius of each stage, in order."""


class UpgradePlan(ApiModel):
    """Forecast of a run. The ``reason`` of a member gives the reason if it can never start."""

    computed_at: Time | None = None
    """Time when the forecast was made."""
    eta: Time | None = None
    """Expected end of the run with usual durations. Absent if it does not end within 90 days, for example because some
    member can never start."""
    eta_p90: Time | None = Field(default=None, alias="etaP90")
    """Expected end of the run if every upgrade takes its 90th-percentile duration. Absent like ``eta``."""
    members: tuple[PlannedMember, ...] = ()
    """The forecast for each member."""
    max_concurrent: Int32 = 0
    """Maximum number of members in upgrade at one instant."""
    exposure: Int32 = 0
    """Number of members whose upgrade starts before the first gate opens or the first wait starts. That many members
    get a bad version before a user can notice it."""
    critical_path: tuple[CriticalStep, ...] = ()
    """The members, waits and gates that the end of the run depends on, in order."""
    windows_missed: tuple[MissedWindow, ...] = ()
    """Members whose turn comes just after their window has closed."""
    blast_radius: BlastRadius = Field(default_factory=shared_default(BlastRadius))
    """Blast radius of each stage."""
    warnings: tuple[str, ...] = ()
    """Problems of the plan, as sentences."""
