"""Durations, instants and time zones that options name: ``--timeout``, ``--now``, ``--tz``."""

import math
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import click

from scorer.api.unstructured.json_object import parse_time
from scorer.api.values.duration import parse_go_duration, parse_wait_time
from webhook.answers.time_zones import UnknownZoneError, find_zone, local_zone
from webhook.cli.errors import UserError

LONGEST: Final = timedelta(days=7)


class Duration(click.ParamType[timedelta]):
    """A duration such as ``90s`` or ``1h30m``."""

    name = "DURATION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Return the duration, or fail with a message that shows the value."""
        if isinstance(value, timedelta):
            return value
        try:
            return parse_wait_time(str(value))
        except (ValueError, OverflowError) as error:
            self.fail(str(error), param, ctx)


class Patience(click.ParamType[float]):
    """Timeout: ``30s``, ``1h30m``. 0 checks once, a negative value waits for a week, as in kubectl."""

    name = "DURATION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds, or fail with a message that shows the value."""
        if isinstance(value, float):
            return value
        text = str(value)
        try:
            plain = float(text) if text.lstrip("-").replace(".", "", 1).isdigit() else None
            seconds = parse_go_duration(text) / 1e9 if plain is None else plain
        except (ValueError, OverflowError) as error:
            self.fail(f"{text[:64]!r}: {error}", param, ctx)
        return LONGEST.total_seconds() if seconds < 0 or math.isnan(seconds) else min(seconds, LONGEST.total_seconds())


class Instant(click.ParamType[datetime]):
    """An RFC 3339 instant such as ``2026-03-01T10:00:00Z``."""

    name = "RFC3339"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the instant, or fail with a message that shows the value."""
        if isinstance(value, datetime):
            return value
        try:
            return parse_time(str(value))
        except (ValueError, OverflowError):
            self.fail(f"{str(value)[:64]!r} is not a time such as 2026-03-01T10:00:00Z", param, ctx)


now_option = click.option(
    "--now",
    type=Instant(),
    help="With files: evaluate them at this time.  [default: their newest heartbeat, or now]",
)


zone_option = click.option(
    "--tz", "zone", metavar="ZONE", help="Time zone of the output.  [default: that of this machine]"
)


def read_zone(name: str | None) -> ZoneInfo:
    """Return the zone of the option.

    Raises:
        UserError: There is no zone of that name.
    """
    try:
        return local_zone() if name is None else find_zone(name)
    except UnknownZoneError as error:
        raise UserError(f"--tz: {error}") from error


def in_zone(instant: datetime, zone: ZoneInfo) -> datetime:
    """Return *instant* in *zone*, or unchanged if it is too close to the ends of the calendar to be converted."""
    try:
        return instant.astimezone(zone)
    except OverflowError:
        return instant


def is_shown_twice(local_time: datetime) -> bool:
    """Return whether a local time occurs twice because the clocks are turned back."""
    other = local_time.replace(fold=1 - local_time.fold)
    return other.utcoffset() != local_time.utcoffset() and other.astimezone(UTC).astimezone(local_time.tzinfo) == other
