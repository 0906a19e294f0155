"""The window: the resource snapshots that a removal is measured against, and those that the history must keep for it.

Source: docs/specifications/removal.md 3.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from scorer.api.meta import parse_time
from scorer.api.names import SUPERSEDED_AT
from scorer.api.unstructured.documents import annotation, metadata_of
from scorer.rollout.snapshots.groups import SnapshotGroup

PARTS: Final = 6
"""Of each of so many parts of the window, the history keeps the largest selection."""


def recent_groups(groups: Sequence[SnapshotGroup], window: timedelta, now: datetime) -> list[SnapshotGroup]:
    """Return the complete snapshots that were in force within the window, the latest first.

    Args:
        groups: All resource snapshots of a placement, the oldest first.
        window: How far back they count.
        now: The present time.
    """
    return [group for group, superseded in _superseded(groups, now) if superseded >= now - window]


def retained_groups(groups: Sequence[SnapshotGroup], window: timedelta, now: datetime) -> frozenset[str]:
    """Return the names of the snapshots that a short history must keep for the window.

    These are the oldest, and the largest of each part of the window. A part is the same one at any time, so that a
    snapshot that was not kept is not needed later.
    """
    recent = [(group, superseded) for group, superseded in _superseded(groups, now) if superseded >= now - window]
    largest: dict[int, SnapshotGroup] = {}
    for group, superseded in recent:
        part = int(superseded.timestamp() // (window.total_seconds() / PARTS))
        if part not in largest or len(group.objects()) >= len(largest[part].objects()):
            largest[part] = group
    return frozenset(group.name for group in (*largest.values(), *(group for group, _ in recent[-1:])))


def _superseded(groups: Sequence[SnapshotGroup], now: datetime) -> list[tuple[SnapshotGroup, datetime]]:
    """Return the complete groups, the latest first, and when the next one took the place of each; the latest: now."""
    found: list[tuple[SnapshotGroup, datetime]] = []
    later = now
    for group in reversed(groups):
        if group.is_complete:
            text = annotation(group.master or {}, SUPERSEDED_AT) if found else ""
            found.append((group, _time(text, later)))
            later = _time(metadata_of(group.master or {}).get("creationTimestamp"), now)
    return found


def _time(text: Any, default: datetime) -> datetime:
    try:
        return parse_time(text) if text else default
    except ValueError:
        return default
