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
    action: PlannedAction
    start: Time | None = None
    end: Time | None = None
    reason: str = ""
    bound_by: Bound | None = None


class CriticalStep(ApiModel):
    """A member, wait or gate that the end of the run depends on; a wait has the name of its stage."""

    type: StepType
    name: str
    start: Time | None = None
    end: Time | None = None


class MissedWindow(ApiModel):
    """A member whose turn comes just after its window has closed, and the delay that this causes."""

    name: str
    turn: Time
    lost_seconds: Int64


class ExposedPlacement(ApiModel):
    """A placement that has some of its clusters in upgrade at the same time."""

    name: str
    namespace: str = ""
    clusters: Int32 = Field(description="Clusters that the placement is bound to.")
    in_upgrade: Int32 = Field(description="Largest number of them in upgrade at one instant.")
    fully_exposed: bool = Field(default=False, description="Whether at some instant all of them are in upgrade.")


class StageRadius(ApiModel):
    """What one stage touches."""

    name: str
    clusters: Int32 = 0
    nodes: Int32 = 0
    regions: tuple[str, ...] = ()
    placements: tuple[ExposedPlacement, ...] = Field(default=(), description="Most exposed first.")


class BlastRadius(ApiModel):
    """What the run touches, stage by stage."""

    stages: tuple[StageRadius, ...] = ()


class UpgradePlan(ApiModel):
    """What is expected to happen when; without ``eta``, some member can never start, and its reason says why."""

    computed_at: Time | None = None
    eta: Time | None = None
    eta_p90: Time | None = Field(default=None, alias="etaP90")
    members: tuple[PlannedMember, ...] = ()
    max_concurrent: Int32 = 0
    exposure: Int32 = 0
    critical_path: tuple[CriticalStep, ...] = ()
    windows_missed: tuple[MissedWindow, ...] = ()
    blast_radius: BlastRadius = Field(default_factory=BlastRadius)
    warnings: tuple[str, ...] = ()
