"""The wall clock, handed to all code that needs the time."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the wall clock."""
    return datetime.now(UTC)
