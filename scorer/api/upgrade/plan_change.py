"""Hypothetical changes to a plan.

Source: docs/specifications/upgrade-runs.md 14.7.
"""

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from scorer.api.meta import ApiModel, Int32, Time
from scorer.api.upgrade.fields import MemberName, Name
from scorer.api.upgrade.maintenance_window import MaintenanceWindowSpec
from scorer.api.upgrade.run import MOST_SKIP_TARGETS, SkipTarget
from scorer.api.upgrade.strategy import LONGEST_WAIT_SECONDS
from scorer.api.values.int_or_percent import IntOrString

MOST_CHANGES: Final = 100
LARGEST_FACTOR: Final = 100.0

DurationText: TypeAlias = Annotated[str, Field(min_length=1, max_length=64)]
"""A duration such as ``1h30m``."""


class SkipChange(ApiModel):
    """Skip parts of the run."""

    op: Literal["skip"]
    targets: tuple[SkipTarget, ...] = Field(min_length=1, max_length=MOST_SKIP_TARGETS)


class ConcurrencyChange(ApiModel):
    """Change the concurrency of a stage or of one of its groups."""

    op: Literal["setConcurrency"]
    stage: Name
    group: Name | None = None
    value: IntOrString


class StartChange(ApiModel):
    """Start the run at another time, only before its start."""

    op: Literal["startAt"]
    time: Time


class WaitChange(ApiModel):
    """Change the length of the wait after a stage."""

    op: Literal["setWait"]
    stage: Name
    seconds: Int32 = Field(ge=0, le=LONGEST_WAIT_SECONDS)


class WindowChange(ApiModel):
    """Add a maintenance window to members."""

    op: Literal["addWindow"]
    members: tuple[MemberName, ...] = Field(min_length=1, max_length=1000)
    window: MaintenanceWindowSpec


class ApprovalChange(ApiModel):
    """Approve gates with a delay after they open."""

    op: Literal["approveAfter"]
    value: DurationText


class FailureChange(ApiModel):
    """Let the next upgrade of a member fail, with a delay after its start."""

    op: Literal["fail"]
    member: MemberName
    after: DurationText


class DurationChange(ApiModel):
    """Multiply the duration of every upgrade."""

    op: Literal["durationFactor"]
    value: float = Field(gt=0, le=LARGEST_FACTOR, allow_inf_nan=False)


PlanChange: TypeAlias = Annotated[
    SkipChange
    | ConcurrencyChange
    | StartChange
    | WaitChange
    | WindowChange
    | ApprovalChange
    | FailureChange
    | DurationChange,
    Field(discriminator="op"),
]
