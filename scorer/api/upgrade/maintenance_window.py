"""ClusterMaintenanceWindow: when upgrades of its members may start.

``startDate`` has no default in the schema, because a schema has no clock. The day matters only as the anchor of an
interval above 1. In that case, admission sets it.

Source: docs/specifications/upgrade-runs.md 4.3 and 11; intervals: 2.3.
"""

from enum import StrEnum
from typing import Final

from pydantic import Field

from scorer.api.meta import ApiModel, ApiObject, Int32, shared_default
from scorer.api.upgrade.fields import UTC_OFFSET, LocalDate, ObservedStatus, TimeOfDay, UtcOffset, Weekday
from scorer.api.values.label_selector import LabelSelector

DEFAULT_DURATION_HOURS: Final = 4
LONGEST_DURATION_HOURS: Final = 24
MOST_NOT_ALLOWED_RANGES: Final = 50


class WindowTarget(StrEnum):
    """Upgrades that a window applies to."""

    ALL = "All"
    KUBERNETES_VERSION = "KubernetesVersion"
    NODE_IMAGE = "NodeImage"


class WeekIndex(StrEnum):
    """Index of a weekday in its month, such as the second Tuesday."""

    FIRST = "First"
    SECOND = "Second"
    THIRD = "Third"
    FOURTH = "Fourth"
    LAST = "Last"


class DailySchedule(ApiModel):
    """Every *intervalDays* days."""

    interval_days: Int32 = Field(ge=1, le=7)
    """Interval between openings in days. 1: every day."""


class WeeklySchedule(ApiModel):
    """On one day of the week, every *intervalWeeks* weeks."""

    interval_weeks: Int32 = Field(ge=1, le=4)
    """Interval between openings in weeks. 1: every week."""
    day_of_week: Weekday
    """Local day of the week of an opening."""


class AbsoluteMonthlySchedule(ApiModel):
    """On one day of the month, or the last day of a shorter month, every *intervalMonths* months."""

    interval_months: Int32 = Field(ge=1, le=6)
    """Interval between openings in months. 1: every month."""
    day_of_month: Int32 = Field(ge=1, le=31)
    """Local day of the month of an opening. In a shorter month, its last day."""


class RelativeMonthlySchedule(ApiModel):
    """On the n-th or last such weekday of the month, every *intervalMonths* months."""

    interval_months: Int32 = Field(ge=1, le=6)
    """Interval between openings in months. 1: every month."""
    week_index: WeekIndex
    """Which occurrence of the weekday in the month."""
    day_of_week: Weekday
    """Local day of the week of an opening."""


class Schedule(ApiModel):
    """Local days of openings, exactly one of the four."""

    daily: DailySchedule | None = None
    """At a fixed interval of days. Absent: one of the other three is given."""
    weekly: WeeklySchedule | None = None
    """On a day of the week. Absent: one of the other three is given."""
    absolute_monthly: AbsoluteMonthlySchedule | None = None
    """On a day of the month by its number. Absent: one of the other three is given."""
    relative_monthly: RelativeMonthlySchedule | None = None
    """On a weekday of the month, such as the second Tuesday. Absent: one of the other three is given."""


class DateRange(ApiModel):
    """Whole local days, both ends included."""

    start: LocalDate
    """First local day, written ``YYYY-MM-DD``."""
    end: LocalDate
    """Last local day, written ``YYYY-MM-DD``."""


class MaintenanceWindowSpec(ApiModel):
    """``spec`` of a window. Local time has the fixed ``utcOffset``."""

    target: WindowTarget = WindowTarget.ALL
    """Which upgrades the window is for. All: every one. KubernetesVersion: those that change the version. NodeImage:
    those that only change node images."""
    member_selector: LabelSelector | None = Field(
        default=None,
    )
    """Members that the window is for, by label. Absent: only those whose annotation names the window. An empty
    selector: all."""
    schedule: Schedule
    """Local days of openings, exactly one of the four."""
    start_time: TimeOfDay
    """Local time of day at which it opens, written ``HH:MM``."""
    duration_hours: Int32 = Field(default=DEFAULT_DURATION_HOURS, ge=1, le=LONGEST_DURATION_HOURS)
    """Length of an opening in hours."""
    utc_offset: UtcOffset = UTC_OFFSET
    """Offset of the local time from UTC, such as ``+02:00``, the same all year."""
    start_date: LocalDate | None = Field(
        default=None,
    )
    """First local day of an opening, written ``YYYY-MM-DD``. Intervals are counted from it. Absent: the day of creation
    if the interval is above 1, else no limit."""
    not_allowed_dates: tuple[DateRange, ...] = Field(default=(), max_length=MOST_NOT_ALLOWED_RANGES)
    """Local days without an opening. Absent: none."""


class ClusterMaintenanceWindow(ApiObject):
    """Limits when upgrades of its members may start: while at least one of their windows is open."""

    spec: MaintenanceWindowSpec
    """Opening times of the window, its members, and its upgrades."""
    status: ObservedStatus = Field(default_factory=shared_default(ObservedStatus))
    """Status of the window."""
