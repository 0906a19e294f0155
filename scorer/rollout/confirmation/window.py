"""The window: the resource snapshots that a removal is measured against, and those that the history must keep for it.

Source: docs/specifications/removal.md 3.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from scorer.api.meta import read_instant
from scorer.api.names import SUPERSEDED_AT
from scorer.api.unstructured.documents import annotation, metadata_of
from scorer.rollout.snapshots.groups import SnapshotGroup

PARTS: Final = 6
"""Number of parts of the window. The history keeps the largest selection of each part."""


def recent_groups(groups: Sequence[SnapshotGroup], window: timedelta, now: datetime) -> list[SnapshotGroup]:
    """Return the complete snapshots that were in force within the window, the latest first.

    Args:
        groups: All resource snapshots of a placement, the oldest first.
        window: Length of the window, which ends at *now*.
        now: The current time.
    """
    return [group for group, _ in _recent(groups, window, now)]


def retained_groups(groups: Sequence[SnapshotGroup], window: timedelta, now: datetime) -> frozenset[str]:
    """Return the names of the snapshots that a short history must keep for the window.

    These are the oldest snapshot of the window, and the largest of each part of it. Parts have fixed boundaries, so a
    snapshot that was not kept is not needed later.
    """
    recent = _recent(groups, window, now)
    largest: dict[int, SnapshotGroup] = {}
    for group, superseded in recent:
        part = int(superseded.timestamp() // (window.total_seconds() / PARTS))
        if part not in largest or len(group.objects()) >= len(largest[part].objects()):
            largest[part] = group
    return frozenset(group.name for group in (*largest.values(), *(group for group, _ in recent[-1:])))


def _recent(groups: Sequence[SnapshotGroup], window: timedelta, now: datetime) -> list[tuple[SnapshotGroup, datetime]]:
    """Return the complete groups of the window, the latest first, each with the time at which it was superseded.

    The latest group is superseded now.
    """
    superseded: list[tuple[SnapshotGroup, datetime]] = []
    end = now
    for group in reversed(groups):
        if group.is_complete:
            text = annotation(group.master or {}, SUPERSEDED_AT) if superseded else ""
            superseded.append((group, read_instant(text) or end))
            end = read_instant(metadata_of(group.master or {}).get("creationTimestamp")) or now
    return [(group, time) for group, time in superseded if time >= now - window]
