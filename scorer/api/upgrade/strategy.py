"""ClusterUpgradeStrategy: the order of upgrades. Reusable, without versions.

The two limits of a stage have no default in the schema: a stage without ``maxConcurrency`` has a ceiling of 50 while
its implicit group upgrades one member at a time, and a group that allows failures gets a warning if the stage has no
``maxAllowedFailures``, but not if that is 0 (upgrade-runs.md 3.2 rule 5, 4.1). An absent limit is None in the model and
remains absent in the store.

Source: docs/specifications/upgrade-runs.md 3.2 and 4.1.
"""

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from scorer.api.meta import ApiModel, ApiObject, Int32, JsonObject, shared_default
from scorer.api.upgrade.fields import UTC_OFFSET, Name, ObservedStatus, TimeOfDay, UtcOffset, Weekday
from scorer.api.values.int_or_percent import LARGEST, IntOrString
from scorer.api.values.label_selector import LabelSelector

MOST_STAGES: Final = 31
MOST_GROUPS: Final = 50
"""Maximum number of groups in one stage."""
MOST_GATES: Final = 5
"""Maximum number of gates in one position."""
LARGEST_STAGE_CONCURRENCY: Final = 50
LONGEST_WAIT_SECONDS: Final = 30 * 24 * 3600

DEFAULT_STAGE_CONCURRENCY: Final = LARGEST_STAGE_CONCURRENCY
DEFAULT_GROUP_CONCURRENCY: Final = 1

CONCURRENCY_PATTERN: Final = "^(?:[1-9][0-9]*|(?:100|[1-9][0-9]?)%)$"
FAILURES_PATTERN: Final = "^(?:[0-9]+|(?:100|[0-9]{1,2})%)$"
"""Both patterns are for strings, which may hold a count as well as a percentage: ``"2"`` is 2."""

_LONGEST_COUNT: Final = 10
_CONCURRENCY: JsonObject = {
    "minimum": 1,
    "maximum": LARGEST,
    "maxLength": _LONGEST_COUNT,
    "pattern": CONCURRENCY_PATTERN,
}
_FAILURES: JsonObject = {"minimum": 0, "maximum": LARGEST, "maxLength": _LONGEST_COUNT, "pattern": FAILURES_PATTERN}


class GateType(StrEnum):
    """Kind of a gate."""

    APPROVAL = "Approval"
    SCHEDULED_START = "ScheduledStart"


class ScheduledStart(ApiModel):
    """A day of the week and a time of day. The gate opens at the first occurrence once the run has reached it."""

    start_day: Weekday
    """Local day of the week."""
    start_time: TimeOfDay
    """Local time of day, written ``HH:MM``."""
    utc_offset: UtcOffset = UTC_OFFSET
    """Offset of the local time from UTC, such as ``+02:00``, the same all year."""


class GateConfiguration(ApiModel):
    """Holds progress before or after a stage or group. ``ScheduledStart`` is only allowed before."""

    type: GateType
    """Approval: a user opens the gate. ScheduledStart: it opens at a day and time, only before a stage or group."""
    display_name: str | None = Field(default=None, min_length=1, max_length=100)
    """Question for the approver, such as ``canary healthy?``. Absent: no text."""
    scheduled_start: ScheduledStart | None = None
    """Day and time of a ScheduledStart, required there, absent for an Approval."""


Gates: TypeAlias = Annotated[tuple[GateConfiguration, ...], Field(max_length=MOST_GATES)]


class Group(ApiModel):
    """Members that are upgraded one or several at a time, in parallel with the other groups of the stage.

    Without a selector: the members whose upgrade-group label is the group's name.
    """

    name: Name
    """Name of the group, unique in the strategy."""
    member_selector: LabelSelector | None = None
    """Members of the group among those of the stage, by label. Absent: those whose label
    ``harbormaster.dev/upgrade-group`` is the group's name."""
    max_concurrency: IntOrString = Field(default=DEFAULT_GROUP_CONCURRENCY, json_schema_extra=_CONCURRENCY)
    """Maximum number of concurrent upgrades in the group, as a count or as a percentage of the group, rounded down
    to at least 1."""
    max_allowed_failures: IntOrString = Field(default=0, json_schema_extra=_FAILURES)
    """Maximum number of failed members before the group stops, as a count or as a percentage of the group, rounded up.
    Absent: 0."""
    before_gates: Gates = ()
    """Gates that must open before the group starts. Absent: none."""
    after_gates: Gates = ()
    """Gates that must open before the group is complete. Absent: none."""


class StrategyStage(ApiModel):
    """A step of the sequence. An empty selector matches every member, an absent one does not restrict the members."""

    name: Name
    """Name of the stage, unique in the strategy."""
    member_selector: LabelSelector | None = None
    """Members that the stage is limited to, by label. Absent: not limited, which requires groups. An empty selector:
    all."""
    groups: tuple[Group, ...] = Field(default=(), max_length=MOST_GROUPS)
    """Groups of members, upgraded in parallel. Absent: one group of all members of the stage."""
    max_concurrency: IntOrString | None = Field(
        default=None,
        json_schema_extra={**_CONCURRENCY, "maximum": LARGEST_STAGE_CONCURRENCY},
    )
    """Maximum number of concurrent upgrades in the stage, as a count or as a percentage of the stage, rounded down
    to at least 1.
    Absent: 50."""
    max_allowed_failures: IntOrString | None = Field(default=None, json_schema_extra=_FAILURES)
    """Maximum number of failed members before the run stops, as a count or as a percentage of the stage, rounded
    up. Absent: 0."""
    before_gates: Gates = ()
    """Gates that must open before the stage starts. Absent: none."""
    after_gates: Gates = ()
    """Gates that must open before the next stage starts. Absent: none."""
    after_stage_wait_seconds: Int32 = Field(default=0, ge=0, le=LONGEST_WAIT_SECONDS)
    """Wait after the stage before the next one starts, in seconds. Absent: 0."""


class StrategySpec(ApiModel):
    """``spec`` of a strategy, and the sequence that a run stores: stages, strictly one after another."""

    stages: tuple[StrategyStage, ...] = Field(min_length=1, max_length=MOST_STAGES)
    """The stages, strictly one after another."""


class ClusterUpgradeStrategy(ApiObject):
    """A reusable sequence of stages and groups for upgrade runs."""

    spec: StrategySpec
    """The stages, their groups, and what to wait for between them."""
    status: ObservedStatus = Field(default_factory=shared_default(ObservedStatus))
    """Conditions of the strategy, such as whether it is Valid."""
