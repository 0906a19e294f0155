"""ClusterMaintenanceWindow: when upgrades of which members may start.

``startDate`` has no default in the schema, which has no clock: the day matters as an anchor only if the interval is
above 1, and admission writes it then.

Source: upgrade-runs.md 4.3 and 11; intervals: 2.3.
"""

from enum import StrEnum
from typing import Final

from pydantic import Field

from scorer.api.label_selector import LabelSelector
from scorer.api.meta import ApiModel, ApiObject, Int32
from scorer.api.upgrade.fields import UTC_OFFSET, LocalDate, ObservedStatus, TimeOfDay, UtcOffset, Weekday

DEFAULT_DURATION_HOURS: Final = 4
LONGEST_DURATION_HOURS: Final = 24
MOST_NOT_ALLOWED_RANGES: Final = 50


class WindowTarget(StrEnum):
    """Which upgrades a window applies to."""

    ALL = "All"
    KUBERNETES_VERSION = "KubernetesVersion"
    NODE_IMAGE = "NodeImage"


class WeekIndex(StrEnum):
    """Which of the days of that name in a month, such as the second Tuesday."""

    FIRST = "First"
    SECOND = "Second"
    THIRD = "Third"
    FOURTH = "Fourth"
    LAST = "Last"


class DailySchedule(ApiModel):
    """Every *intervalDays* days."""

    interval_days: Int32 = Field(ge=1, le=7)


class WeeklySchedule(ApiModel):
    """On one day of the week, every *intervalWeeks* weeks."""

    interval_weeks: Int32 = Field(ge=1, le=4)
    day_of_week: Weekday


class AbsoluteMonthlySchedule(ApiModel):
    """On one day of the month, or the last day of a shorter month, every *intervalMonths* months."""

    interval_months: Int32 = Field(ge=1, le=6)
    day_of_month: Int32 = Field(ge=1, le=31)


class RelativeMonthlySchedule(ApiModel):
    """On the n-th or last such weekday of the month, every *intervalMonths* months."""

    interval_months: Int32 = Field(ge=1, le=6)
    week_index: WeekIndex
    day_of_week: Weekday


class Schedule(ApiModel):
    """On which local days the window opens; exactly one of the four."""

    daily: DailySchedule | None = None
    weekly: WeeklySchedule | None = None
    absolute_monthly: AbsoluteMonthlySchedule | None = None
    relative_monthly: RelativeMonthlySchedule | None = None


class DateRange(ApiModel):
    """Whole local days, both ends included."""

    start: LocalDate
    end: LocalDate


class MaintenanceWindowSpec(ApiModel):
    """``spec`` of a window; local time is that of the fixed ``utcOffset``."""

    target: WindowTarget = WindowTarget.ALL
    member_selector: LabelSelector | None = Field(
        default=None, description="Absent: only members whose annotation names the window."
    )
    schedule: Schedule
    start_time: TimeOfDay
    duration_hours: Int32 = Field(default=DEFAULT_DURATION_HOURS, ge=1, le=LONGEST_DURATION_HOURS)
    utc_offset: UtcOffset = UTC_OFFSET
    start_date: LocalDate | None = Field(
        default=None, description="First local day on which the window may open; intervals are counted from it."
    )
    not_allowed_dates: tuple[DateRange, ...] = Field(default=(), max_length=MOST_NOT_ALLOWED_RANGES)


class ClusterMaintenanceWindow(ApiObject):
    """Limits when upgrades of its members may start: while at least one of their windows is open."""

    spec: MaintenanceWindowSpec
    status: ObservedStatus = Field(default_factory=ObservedStatus)
