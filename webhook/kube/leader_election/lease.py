"""Fields of the Lease by which a leader or shards are elected, as candidates read them.

Source: serving.md 7.
"""

import re
from contextlib import suppress
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import spec_of

PARTS: Final = "shards"
"""Suffix of the holder of a Lease that several processes hold together, after their number: `shards`."""

LONGEST_LEASE: Final = 300.0
"""Seconds. No candidate asks for more, and none waits longer for a holder that does not renew."""

RELEASED_SECONDS: Final = 1
"""Duration of a Lease that its holder has given back, as client-go writes it."""

_PARTED: Final = re.compile(rf"([1-9][0-9]{{0,8}}) {PARTS}")


def parted_into(holder: str) -> int | None:
    """Return the number of shards that the holder of a Lease names. None: one process leads alone."""
    match = _PARTED.fullmatch(holder)
    return int(match[1]) if match else None


def holder_of(record: JsonObject | None) -> str:
    """Return the holder of a Lease. Empty: it has none."""
    return str(spec_of(record or {}).get("holderIdentity") or "")


def duration_of(record: JsonObject, default: float) -> float:
    """Return how long the holder of a Lease asks other candidates to wait, in seconds."""
    with suppress(TypeError, ValueError):
        seconds = float(spec_of(record).get("leaseDurationSeconds") or 0)
        if seconds > 0:
            return seconds
    return default


def believed_duration(record: JsonObject, default: float) -> float:
    """Return how long a candidate waits for the holder of a Lease that does not renew it, in seconds.

    Args:
        record: The Lease.
        default: The candidate's own duration. A shorter one is not believed: the term of a holder that has not noticed
            the change may last longer.
    """
    return min(max(duration_of(record, default), default), LONGEST_LEASE)


def is_released(record: JsonObject) -> bool:
    """Return whether the holder of a Lease has given it back, which a user who only removes the holder does not."""
    return not holder_of(record) and duration_of(record, 0) == RELEASED_SECONDS


def excess_of(record: JsonObject) -> str:
    """Return why no replica can have written a Lease. Empty: one can."""
    if (seconds := duration_of(record, 0)) <= LONGEST_LEASE:
        return ""
    return (
        f"{holder_of(record)} holds it and asks others to wait for {seconds:.0f} s, but no replica asks for more than "
        f"{LONGEST_LEASE:.0f} s, and none waits longer"
    )
