"""The option ``--tz``: in which time zone instants are shown."""

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
