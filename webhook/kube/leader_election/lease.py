"""Fields of the Lease that elects a leader or shards, as read by candidates.

Source: docs/specifications/serving.md 7.
"""

import re
from contextlib import suppress
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import spec_of

PARTS: Final = "shards"
"""Suffix of the holder of a Lease that several processes share, after their number of shards."""

LONGEST_LEASE: Final = 300.0
"""Maximum Lease duration in seconds. No candidate asks for more, or waits longer for a holder that does not renew."""

RELEASED_SECONDS: Final = 1
"""Duration of a released Lease, as client-go writes it."""

_PARTED: Final = re.compile(rf"([1-9][0-9]{{0,8}}) {PARTS}")


def parted_into(holder: str) -> int | None:
    """Return the number of shards that the holder of a Lease names. None: unset, for a single process or no holder."""
    match = _PARTED.fullmatch(holder)
    return int(match[1]) if match else None


def holder_of(record: JsonObject | None) -> str:
    """Return the holder of a Lease, empty without a holder."""
    return str(spec_of(record or {}).get("holderIdentity") or "")


def duration_of(record: JsonObject, default: float) -> float:
    """Return the positive ``leaseDurationSeconds`` of a Lease, else *default*."""
    with suppress(TypeError, ValueError):
        seconds = float(spec_of(record).get("leaseDurationSeconds") or 0)
        if seconds > 0:
            return seconds
    return default


def believed_duration(record: JsonObject, default: float) -> float:
    """Return the time that a candidate waits for a lease holder that does not renew, in seconds.

    Args:
        record: The Lease.
        default: The candidate's own duration, which is the minimum. If a user shortens the one in the Lease, the holder
            does not notice until its next read, and may still write for the longer time.
    """
    return min(max(duration_of(record, default), default), LONGEST_LEASE)


def is_released(record: JsonObject) -> bool:
    """Return whether the holder has released the Lease. A user who only removes the holder does not release it."""
    return not holder_of(record) and duration_of(record, 0) == RELEASED_SECONDS


def excess_of(record: JsonObject) -> str:
    """Return an error if the duration in a Lease exceeds the maximum of any replica, or an empty string."""
    if (seconds := duration_of(record, 0)) <= LONGEST_LEASE:
        return ""
    return (
        f"{holder_of(record)} holds the Lease for {seconds:.0f} s without a renewal, but no replica sets or waits for "
        f"more than {LONGEST_LEASE:.0f} s"
    )
