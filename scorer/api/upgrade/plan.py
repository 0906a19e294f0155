"""The forecast of an upgrade run: when each member's turn comes, and how far a bad version would spread.

Source: upgrade-runs.md 14.4 and 14.5.
"""

from enum import StrEnum

from pydantic import Field

from scorer.api.meta import ApiModel, Int32, Int64, Time


class PlannedAction(StrEnum):
    """What the plan expects to happen to a member."""

    UPGRADE = "Upgrade"
    SKIP = "Skip"
    BLOCKED = "Blocked"
    FAIL = "Fail"
    NOT_REACHED = "NotReached"


class Bound(StrEnum):
    """What determines when a member starts."""

    SEQUENCE = "Sequence"
    WINDOW = "Window"
    GATE = "Gate"
    WAIT = "Wait"
    STAGE_CEILING = "StageCeiling"
    VERSION = "Version"


class StepType(StrEnum):
    """What a step of the critical path is."""

    MEMBER = "Member"
    WAIT = "Wait"
    GATE = "Gate"


class PlannedMember(ApiModel):
    """The forecast for one member."""

    name: str
    """Name of the member."""
    action: PlannedAction
    """What is expected. Upgrade and Skip: just that. Blocked: it can never start. Fail: it fails without being touched.
    NotReached: the run ends before its turn."""
    start: Time | None = None
    """When its upgrade is expected to start; absent when it never does."""
    end: Time | None = None
    """When its upgrade is expected to end; absent when it never starts."""
    reason: str = ""
    """Why it is skipped, blocked or failed, as one word."""
    bound_by: Bound | None = None
    """What decides when it starts: the order, a window, a gate, a wait, the limit of the stage, or a version not yet
    available."""


class CriticalStep(ApiModel):
    """A member, wait or gate that the end of the run depends on; a wait has the name of its stage."""

    type: StepType
    """Member, Wait or Gate."""
    name: str
    """Name of the member or gate; of a wait, that of its stage."""
    start: Time | None = None
    """When it is expected to begin."""
    end: Time | None = None
    """When it is expected to end."""


class MissedWindow(ApiModel):
    """A member whose turn comes just after its window has closed, and the delay that this causes."""

    name: str
    """Name of the member."""
    turn: Time
    """When its turn comes, just after its window has closed."""
    lost_seconds: Int64
    """How long it then waits for the next opening, in seconds."""


class ExposedPlacement(ApiModel):
    """A placement that has some of its clusters in upgrade at the same time."""

    name: str
    """Name of the placement."""
    namespace: str = ""
    """Namespace of the placement; empty for a ClusterResourcePlacement."""
    clusters: Int32
    """Number of clusters that the placement is bound to."""
    in_upgrade: Int32
    """Largest number of them in upgrade at one instant."""
    fully_exposed: bool = False
    """Whether at some instant all of them are in upgrade."""


class StageRadius(ApiModel):
    """What one stage touches."""

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
    """What the run touches, stage by stage."""

    stages: tuple[StageRadius, ...] = ()
    """What each stage touches, in order."""


class UpgradePlan(ApiModel):
    """What is expected to happen when; without ``eta``, some member can never start, and its reason says why."""

    computed_at: Time | None = None
    """When the forecast was made."""
    eta: Time | None = None
    """When the run is expected to end, with durations as usual; absent when some member can never start."""
    eta_p90: Time | None = Field(default=None, alias="etaP90")
    """When the run is expected to end if every upgrade takes as long as only one in ten does; absent like ``eta``."""
    members: tuple[PlannedMember, ...] = ()
    """The forecast for each member."""
    max_concurrent: Int32 = 0
    """Largest number of members in upgrade at one instant."""
    exposure: Int32 = 0
    """Number of members whose upgrade starts before the first gate opens or the first wait begins: so many have a bad
    version before anybody looks."""
    critical_path: tuple[CriticalStep, ...] = ()
    """The members, waits and gates that the end of the run depends on, in order."""
    windows_missed: tuple[MissedWindow, ...] = ()
    """Members whose turn comes just after their window has closed."""
    blast_radius: BlastRadius = Field(default_factory=BlastRadius)
    """What each stage touches."""
    warnings: tuple[str, ...] = ()
    """What looks wrong with the plan, as sentences."""
