"""ClusterUpgradeStrategy: the order in which members are upgraded. Reusable, without versions.

The two limits of a stage have no default in the schema: a stage without ``maxConcurrency`` has a ceiling of 50
while its implicit group upgrades one member at a time, and a group that allows failures gets a warning if the stage has
no ``maxAllowedFailures``, but not if that is 0 (upgrade-runs.md 3.2 rule 5, 4.1). An absent limit is None in the model
and stays absent in the store.

Source: upgrade-runs.md 3.2 and 4.1.
"""

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from scorer.api.int_or_percent import LARGEST, IntOrString
from scorer.api.label_selector import LabelSelector
from scorer.api.meta import ApiModel, ApiObject, Int32, JsonObject
from scorer.api.upgrade.fields import UTC_OFFSET, Name, ObservedStatus, TimeOfDay, UtcOffset, Weekday

MOST_STAGES: Final = 31
MOST_GROUPS: Final = 50
"""Groups in one stage."""
MOST_GATES: Final = 5
"""Gates in one position."""
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
    """What a gate waits for."""

    APPROVAL = "Approval"
    SCHEDULED_START = "ScheduledStart"


class ScheduledStart(ApiModel):
    """The next such day and time at or after the run reaches the gate."""

    start_day: Weekday
    start_time: TimeOfDay
    utc_offset: UtcOffset = UTC_OFFSET


class GateConfiguration(ApiModel):
    """Holds progress before or after a stage or group; ``ScheduledStart`` only before."""

    type: GateType
    display_name: str | None = Field(default=None, min_length=1, max_length=100)
    scheduled_start: ScheduledStart | None = None


Gates: TypeAlias = Annotated[tuple[GateConfiguration, ...], Field(max_length=MOST_GATES)]


class Group(ApiModel):
    """Members that are upgraded one or several at a time, in parallel with the other groups of the stage.

    Without a selector: the members whose upgrade-group label is the group's name.
    """

    name: Name
    member_selector: LabelSelector | None = None
    max_concurrency: IntOrString = Field(default=DEFAULT_GROUP_CONCURRENCY, json_schema_extra=_CONCURRENCY)
    max_allowed_failures: IntOrString = Field(default=0, json_schema_extra=_FAILURES)
    before_gates: Gates = ()
    after_gates: Gates = ()


class Stage(ApiModel):
    """A step of the sequence. An empty selector matches every member, an absent one does not restrict the members."""

    name: Name
    member_selector: LabelSelector | None = None
    groups: tuple[Group, ...] = Field(default=(), max_length=MOST_GROUPS)
    max_concurrency: IntOrString | None = Field(
        default=None,
        description="Members of the stage in upgrade at once; 50 when absent.",
        json_schema_extra={**_CONCURRENCY, "maximum": LARGEST_STAGE_CONCURRENCY},
    )
    max_allowed_failures: IntOrString | None = Field(default=None, json_schema_extra=_FAILURES)
    before_gates: Gates = ()
    after_gates: Gates = ()
    after_stage_wait_seconds: Int32 = Field(default=0, ge=0, le=LONGEST_WAIT_SECONDS)


class StrategySpec(ApiModel):
    """``spec`` of a strategy, and the sequence that a run stores: stages, strictly one after another."""

    stages: tuple[Stage, ...] = Field(min_length=1, max_length=MOST_STAGES)


class ClusterUpgradeStrategy(ApiObject):
    """A reusable sequence of stages and groups for upgrade runs."""

    spec: StrategySpec
    status: ObservedStatus = Field(default_factory=ObservedStatus)
