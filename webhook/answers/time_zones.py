"""Time zones by name: all calculations use UTC, and a zone serves only to show times to users."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from scorer.api.values.quoting import quote

EXAMPLE: Final = "Europe/Berlin"
LONGEST_NAME: Final = 64

_DATABASE: Final = "zoneinfo/"
_LOCAL: Final = Path("/etc/localtime")


class UnknownZoneError(Exception):
    """No such time zone exists. The message has the name, and an example of a valid one."""


def find_zone(name: str) -> ZoneInfo:
    """Return the zone called *name* in the IANA database.

    Raises:
        UnknownZoneError: No such zone exists.
    """
    if name and len(name) <= LONGEST_NAME:
        try:
            return ZoneInfo(name)
        except (LookupError, ValueError, OSError):  # also a folder of the database, or an impossible file name
            pass
    raise UnknownZoneError(f"{quote(name)} is not a time zone such as {EXAMPLE} or UTC")


def local_zone(environment: Mapping[str, str] = os.environ, link: Path = _LOCAL) -> ZoneInfo:
    """Return the zone of this machine: from ``TZ``, else from the target of *link*, else UTC."""
    for name in (environment.get("TZ", "").removeprefix(":"), _linked(link)):
        try:
            return find_zone(name)
        except UnknownZoneError:
            continue
    return ZoneInfo("UTC")


def _linked(link: Path) -> str:
    try:
        return str(link.resolve()).rpartition(_DATABASE)[2]
    except OSError:
        return ""
