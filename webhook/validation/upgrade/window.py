"""Rules on ClusterMaintenanceWindow.

Source: docs/specifications/upgrade-runs.md 4.3 and 11; 2.5 for short windows.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.upgrade.maintenance_window import (
    DEFAULT_DURATION_HOURS,
    MOST_NOT_ALLOWED_RANGES,
    ClusterMaintenanceWindow,
    MaintenanceWindowSpec,
)
from scorer.windows.maintenance import HORIZON_DAYS, MaintenanceWindow, window_state
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import SPEC, Cause, FieldError, FieldWarning, invalid
from webhook.validation.framework.reading import Finding, read_object
from webhook.validation.framework.rule import OURS, deny, enforces, shape_rules, warn
from webhook.validation.upgrade.shape import (
    SELECTORS,
    TIMES,
    WRITTEN_BY_USERS,
    validate_about,
    validate_selector,
    validate_time,
)

RULES: Final = (
    *WRITTEN_BY_USERS,
    SELECTORS,
    TIMES,
    deny("C-22", "A schedule must set exactly one of daily, weekly, absoluteMonthly and relativeMonthly.", OURS),
    deny("C-23", "A range of notAllowedDates must not end before it starts.", OURS),
    warn("C-49", f"A window should be open for at least {DEFAULT_DURATION_HOURS} hours."),
    warn("C-50", f"A window should open within the next {HORIZON_DAYS} days."),
)
SHAPE_RULES: Final = shape_rules(RULES)
SCHEDULE: Final = SPEC / "schedule"
NOT_ALLOWED: Final = SPEC / "notAllowedDates"


@enforces(*RULES)
def validate(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors and warnings of a window."""
    reading = read_object(ClusterMaintenanceWindow, document, SHAPE_RULES)
    yield from map(_at_the_first_beyond, reading.errors)
    if reading.view is not None:
        before = read_object(ClusterMaintenanceWindow, old).view if old is not None else None
        yield from reading.trusted(_judge(reading.view, before, context))
        if not reading.broken:
            yield from _warn_about_never(reading.view.spec, context)


def _at_the_first_beyond(error: FieldError) -> FieldError:
    """Return an error about too many ranges as one about the first range above the limit."""
    too_many = error.field == NOT_ALLOWED and error.cause is Cause.TOO_MANY
    return replace(error, field=NOT_ALLOWED / MOST_NOT_ALLOWED_RANGES) if too_many else error


def _judge(new: ClusterMaintenanceWindow, old: ClusterMaintenanceWindow | None, context: Context) -> Iterator[Finding]:
    spec = new.spec
    yield from validate_about(new.metadata, old.metadata if old else None, context)
    yield from validate_selector(spec.member_selector, SPEC)
    schedules = [name for name, each in spec.schedule.model_dump(by_alias=True).items() if each is not None]
    if len(schedules) != 1:
        text = " and ".join(schedules) or "nothing"
        reason = f"{text}: must have exactly one of daily, weekly, absoluteMonthly and relativeMonthly"
        yield FieldError(SCHEDULE, Cause.INVALID, reason, "C-22")
    yield from validate_time(spec.start_time, spec.utc_offset, SPEC)
    for i, dates in enumerate(spec.not_allowed_dates):
        if dates.end < dates.start:
            yield invalid(NOT_ALLOWED / i, f"{dates.start} to {dates.end}", "end must not be before start", "C-23")
    if spec.duration_hours < DEFAULT_DURATION_HOURS:
        message = f"upgrades start only while the window is open, which is for {spec.duration_hours} h"
        yield FieldWarning(SPEC / "durationHours", message, "C-49")


def _warn_about_never(spec: MaintenanceWindowSpec, context: Context) -> Iterator[FieldWarning]:
    """A window should open within the search horizon (C-50). Otherwise, members without another are not upgraded."""
    try:
        window = MaintenanceWindow.of(spec)
    except ValueError:  # reported by other rules
        return
    now = window_state([window], context.now)
    if not now.is_open and now.until is None:
        message = (
            f"the window does not open within the next {HORIZON_DAYS} days: "
            "members without another window are not upgraded"
        )
        yield FieldWarning(SPEC, message, "C-50")
