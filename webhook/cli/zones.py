"""The option ``--tz``: in which time zone instants are shown."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import click

from webhook.answers.time_zones import UnknownZoneError, find_zone, local_zone
from webhook.cli.failure import UserError

zone_option = click.option("--tz", "zone", metavar="ZONE", help="Time zone to show times in. Default: this machine's.")


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
    """Return *instant* as clocks of *zone* show it; at the ends of the calendar, where they cannot, as it is."""
    try:
        return instant.astimezone(zone)
    except OverflowError:
        return instant


def is_shown_twice(there: datetime) -> bool:
    """Say whether the clocks of a zone, as they are turned back, show a time a second time."""
    other = there.replace(fold=1 - there.fold)
    return other.utcoffset() != there.utcoffset() and other.astimezone(UTC).astimezone(there.tzinfo) == other
