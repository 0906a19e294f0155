"""Snapshot groups: the resource snapshots of one index, a master with its shards, and which group is in force.

Source: docs/specifications/rollout.md 3.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scorer.api.meta import JsonObject
from scorer.api.names import (
    LEFT_OUT,
    NUMBER_OF_RESOURCE_SNAPSHOTS,
    RELEASE,
    RESOURCE_HASH,
    RESOURCE_INDEX,
    SUBINDEX_OF_RESOURCE_SNAPSHOT,
)
from scorer.api.unstructured.documents import annotation, index_of, is_labelled_latest, name_of, spec_of
from scorer.rollout.object_size import ObjectIdentity, parse_left_out
from scorer.rollout.selection.content import resource_identifier


@dataclass(frozen=True, slots=True)
class SnapshotGroup:
    """The master of one index and its shards in order. The master is missing if another client has deleted it."""

    index: int
    master: JsonObject | None
    shards: tuple[JsonObject, ...] = ()

    @property
    def name(self) -> str:
        """Name of the master, which bindings reference, or empty."""
        return name_of(self.master) if self.master else ""

    @property
    def documents(self) -> tuple[JsonObject, ...]:
        """All snapshots of the group, the master first."""
        return (self.master, *self.shards) if self.master else self.shards

    @property
    def is_complete(self) -> bool:
        """Whether as many snapshots exist as the master announces."""
        return self.master is not None and annotation(self.master, NUMBER_OF_RESOURCE_SNAPSHOTS) == str(
            len(self.shards) + 1
        )

    def objects(self) -> list[JsonObject]:
        """Return the objects to place, in order."""
        return [content for document in self.documents for content in selected_resources(document)]

    def left_out(self) -> frozenset[ObjectIdentity]:
        """Return the objects that are recorded as left out of the group, such as those that are too large.

        Raises:
            ValueError, TypeError: Another client has edited the record.
        """
        return parse_left_out(annotation(self.master or {}, LEFT_OUT))

    def released(self) -> frozenset[ObjectIdentity]:
        """Return the objects that were placed before, and now belong to the member clusters themselves.

        Raises:
            ValueError, TypeError: Another client has edited the record.
        """
        return parse_left_out(annotation(self.master or {}, RELEASE))

    def identifiers(self) -> list[JsonObject]:
        """Return the entries of a placement's ``status.selectedResources`` for the objects of the group."""
        return [resource_identifier(content) for content in self.objects()]


def selected_resources(snapshot: JsonObject) -> Sequence[JsonObject]:
    """Return ``spec.selectedResources``."""
    return spec_of(snapshot).get("selectedResources") or ()


def snapshot_groups(snapshots: Iterable[JsonObject]) -> list[SnapshotGroup]:
    """Sort the snapshots of one placement into groups, the oldest index first."""
    by_index: dict[int, list[JsonObject]] = defaultdict(list)
    for snapshot in snapshots:
        by_index[index_of(snapshot, RESOURCE_INDEX)].append(snapshot)
    groups = []
    for index, documents in sorted(by_index.items()):
        masters = [document for document in documents if _subindex(document) < 0]
        shards = sorted((document for document in documents if _subindex(document) >= 0), key=_subindex)
        groups.append(SnapshotGroup(index, masters[0] if masters else None, tuple(shards)))
    return groups


def retained_indices(snapshots: Iterable[JsonObject]) -> set[int]:
    """Return the indexes of the resource snapshots of one placement that can be rolled out: those with a master."""
    return {group.index for group in snapshot_groups(snapshots) if group.master is not None}


def _subindex(snapshot: JsonObject) -> int:
    text = annotation(snapshot, SUBINDEX_OF_RESOURCE_SNAPSHOT)
    return int(text) if text.isascii() and text.isdigit() else -1


def latest_group(groups: Sequence[SnapshotGroup]) -> SnapshotGroup | None:
    """Return the group whose master is labeled latest and has a hash. None if no group has a master.

    If several groups qualify, the last one is returned. If none qualifies, as after a crash, the last group with a
    master is returned.

    Args:
        groups: The groups, sorted by index.
    """
    masters = [group for group in groups if group.master is not None]
    labelled_groups = [
        group for group in masters if is_labelled(group) and annotation(group.master or {}, RESOURCE_HASH)
    ]
    return next(reversed(labelled_groups or masters), None)


def placed_group(groups: Sequence[SnapshotGroup]) -> SnapshotGroup | None:
    """Return the latest complete group, which is the content that clusters may have, or None."""
    return latest_group([group for group in groups if group.is_complete])


def is_labelled(group: SnapshotGroup) -> bool:
    """Return whether the master of a group is labeled latest."""
    return group.master is not None and is_labelled_latest(group.master)
