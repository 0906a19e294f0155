"""Release of placed objects that now belong to the member clusters themselves.

A new version of harbormaster may recognize more objects as created by a cluster's controllers. A claim becomes such an
object when a user adds its StatefulSet. Selection drops these objects, but they must not be removed from the members.
The master snapshot therefore names them in ``harbormaster.dev/release``, each Work that held such an object repeats the
name, and the agent releases the object.

Source: docs/specifications/rollout.md 3.9.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from scorer.api.meta import JsonObject
from scorer.rollout.object_size import ObjectIdentity, format_left_out, object_identity
from scorer.rollout.selection.selector import order_key
from scorer.rollout.snapshots.groups import SnapshotGroup, placed_group

LONGEST_RECORD: Final = 96 * 1024
"""Maximum size of the annotation in bytes. A Work has it twice, and all of its annotations may have 256 KiB."""


class Releases(NamedTuple):
    """The objects that were placed before, and now belong to the member clusters themselves.

    Args:
        record: Value of the annotation of the master snapshot, which names the objects to release. Empty: none.
        objects: The content of the next snapshot: what is selected, and the objects that the record has no room for.
    """

    record: str
    objects: Sequence[JsonObject]


def plan_releases(
    groups: Sequence[SnapshotGroup], objects: Sequence[JsonObject], cluster_objects: Collection[ObjectIdentity]
) -> Releases:
    """Plan the release of the objects that members may have, and that selection leaves to the clusters.

    An object remains on the record while it is on the hub or in a snapshot, because a binding may still have that
    content.

    Args:
        groups: All snapshot groups of a placement.
        objects: The objects that are selected now.
        cluster_objects: The objects that were left out of the selection because a cluster's controllers create them.
    """
    latest = placed_group(groups)
    recorded_objects, groups_with_objects = _recorded_objects(latest), [latest] if latest and cluster_objects else []
    if recorded_objects is None:
        recorded_objects, groups_with_objects = frozenset(), list(groups)
    content_by_identity = {
        object_identity(content): content for group in groups_with_objects for content in group.objects()
    }
    current = recorded_objects | (content_by_identity.keys() & set(cluster_objects))
    if not current:
        return Releases("", objects)
    current -= {object_identity(content) for content in objects}
    if missing := current.difference(cluster_objects):
        current -= missing.difference(object_identity(content) for group in groups for content in group.objects())
    overflow = _overflow(sorted(current, key=lambda identity: (identity not in recorded_objects, identity)))
    retained_content = [content_by_identity[identity] for identity in overflow if identity in content_by_identity]
    record = format_left_out((), current.difference(overflow))
    return Releases(record, sorted([*objects, *retained_content], key=order_key) if retained_content else objects)


def _recorded_objects(group: SnapshotGroup | None) -> frozenset[ObjectIdentity] | None:
    """Return the record of a group. None: unknown, because another client has edited it."""
    try:
        return group.released() if group else frozenset()
    except (ValueError, TypeError):
        return None


def _overflow(identities: Sequence[ObjectIdentity]) -> Sequence[ObjectIdentity]:
    """Return the identities that the record has no room for."""
    size = 2
    for at, identity in enumerate(identities):
        size += len(format_left_out((), [identity]).encode())
        if size > LONGEST_RECORD:
            return identities[at:]
    return ()
