"""Removals of a placement that wait for confirmation, one entry per digest, for ``/v1`` and for commands.

Source: docs/specifications/removal.md 4 and 9.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final

from typing_extensions import TypedDict

from scorer.api.family import Family
from scorer.api.meta import JsonObject, format_time, parse_time
from scorer.api.unstructured.documents import is_deleting, metadata_of, spec_of, text_at, uid_of
from scorer.api.values.answer import Count, Instant, one_of
from scorer.rollout.confirmation.deletion import has_content, placement_item
from scorer.rollout.confirmation.digests import ConfirmableGroup, RemovalEffect, RemovalItem, confirmable_groups
from scorer.rollout.confirmation.member_contents import (
    MemberContents,
    NamespaceCounts,
    leaving_namespaces,
    member_contents,
)
from scorer.rollout.confirmation.on_cluster import pending_binding_items
from scorer.rollout.confirmation.orphans import OrphanedContent
from scorer.rollout.confirmation.report import oldest, pending_items
from scorer.rollout.confirmation.sources import placed_objects
from scorer.rollout.removal.marks import is_marked_for_removal
from scorer.rollout.snapshots.groups import placed_group, snapshot_groups
from scorer.rollout.status.placement_conditions import is_removal_pending

MOST_CLUSTERS: Final = 10
"""Maximum number of clusters to name for one removal."""


ORPHANED: Final = "Orphaned"
"""Kind of an entry about content that remained when its namespace was deleted on the hub."""


class UnconfirmedRemoval(TypedDict):
    """One removal of content that waits for confirmation, or was given up because its namespace could not wait."""

    kind: Annotated[str, one_of(RemovalEffect.OBJECT, RemovalEffect.CLUSTER, RemovalEffect.PLACEMENT, ORPHANED)]
    """Whether objects leave the placement, the placement leaves clusters, the placement is deleted, or it was deleted
    with its namespace and its content is orphaned."""
    effect: str
    """The removed content, such as `Namespace shop and 12 objects in it`. For orphaned content: the remedy."""
    digest: str
    """Digest that confirms the removal in the annotation `harbormaster.dev/confirm-removal`. Empty: orphaned content,
    which no confirmation removes."""
    objects: Count
    """Number of objects that each of the clusters loses. For orphaned content: the largest number on one cluster."""
    clusters: list[str]
    """The first ten clusters that lose content, by name."""
    clusterCount: Count
    """Number of clusters that lose content."""
    onMembers: MemberContents | None
    """Other content that is deleted with its namespaces. Null: no namespace is deleted."""
    since: Instant | None
    """Time when the oldest part of it became pending, or was orphaned. Null: unknown."""
    ageSeconds: Count | None
    """Seconds since then."""


class PlacementRemovals(TypedDict):
    """The unconfirmed removals of one placement."""

    placement: str
    """`crp/<name>` or `rp/<namespace>/<name>`."""
    removals: list[UnconfirmedRemoval]


def unconfirmed_removals(
    family: Family,
    placement: JsonObject,
    snapshots: Sequence[JsonObject],
    bindings: Iterable[JsonObject],
    counts: Callable[[str], NamespaceCounts | None],
    now: datetime,
) -> list[UnconfirmedRemoval]:
    """Return the removals of a placement that wait for confirmation, as the loop has recorded them.

    Args:
        family: Family of the placement.
        placement: The placement.
        snapshots: All of its resource snapshots.
        bindings: All of its bindings.
        counts: Returns what a cluster reports of its namespaces. None: unknown.
        now: The current time.
    """
    if not is_removal_pending(placement):
        return []
    groups, typed_bindings = snapshot_groups(snapshots), [_with_type(family, item) for item in bindings]
    content = _Content(len(placed_objects(group)) if (group := placed_group(groups)) else 0, typed_bindings)
    pending = confirmable_groups(uid_of(placement), _items(family, placement, snapshots, typed_bindings))
    return [_entry(placement, item, content, counts, now) for item in pending]


def orphaned_removal(on_clusters: Mapping[str, OrphanedContent], now: datetime) -> UnconfirmedRemoval:
    """Return the entry about the orphaned content of a placement that no longer exists.

    Args:
        on_clusters: Content of the placement on each cluster.
        now: The current time.
    """
    since = min(content.since for content in on_clusters.values())
    return {
        "kind": ORPHANED,
        "effect": "orphaned with its namespace: create the placement again, or remove the content on the members",
        "digest": "",
        "objects": max(content.objects for content in on_clusters.values()),
        "clusters": sorted(on_clusters)[:MOST_CLUSTERS],
        "clusterCount": len(on_clusters),
        "onMembers": None,
        "since": format_time(since),
        "ageSeconds": max(int((now - since).total_seconds()), 0),
    }


def _with_type(family: Family, binding: JsonObject) -> JsonObject:
    """Return a binding with ``apiVersion`` and ``kind``: items of a list lack them, but digests cover them."""
    return {**binding, "apiVersion": family.binding.api_version, "kind": family.binding.kind}


def _items(
    family: Family, placement: JsonObject, snapshots: Sequence[JsonObject], bindings: Sequence[JsonObject]
) -> Sequence[RemovalItem]:
    if not is_deleting(placement):
        return pending_items(snapshots, bindings)
    kind = family.placement
    item = placement_item({**placement, "apiVersion": kind.api_version, "kind": kind.kind})
    since = parse_time(text_at(metadata_of(placement), "deletionTimestamp"))
    return [RemovalItem(item.effect, item.identity, item.uid, since=since)]


class _Content:
    """The content of a placement on its clusters.

    Args:
        objects: Number of placed objects per cluster.
        bindings: All of its bindings.
    """

    def __init__(self, objects: int, bindings: Iterable[JsonObject]) -> None:
        self.objects = objects
        self._bindings = [
            binding for binding in bindings if has_content(binding) and not is_marked_for_removal(binding)
        ]

    def clusters(self, group: ConfirmableGroup) -> list[str]:
        """Return the clusters that lose content, sorted."""
        identities = {item.identity for item in group.items}
        match group.items[0].effect:
            case RemovalEffect.CLUSTER:
                names = {item.cluster for item in group.items}
            case RemovalEffect.OBJECT if on_some := self._recorded_on(identities):
                names = on_some
            case _:
                names = {str(spec_of(binding).get("targetCluster") or "") for binding in self._bindings}
        return sorted(names)

    def _recorded_on(self, identities: set[tuple[str, str, str, str]]) -> set[str]:
        """Return the clusters that would lose the objects by an override or a rollback."""
        return {
            str(spec_of(binding).get("targetCluster") or "")
            for binding in self._bindings
            if any(item.identity in identities for item in pending_binding_items(binding))
        }


def _entry(
    placement: JsonObject,
    group: ConfirmableGroup,
    content: _Content,
    counts: Callable[[str], NamespaceCounts | None],
    now: datetime,
) -> UnconfirmedRemoval:
    effect, since, clusters = group.items[0].effect, oldest(group.items), content.clusters(group)
    leaving_count = sum(item.objects for item in group.items)
    return {
        "kind": str(effect),
        "effect": str(group),
        "digest": group.digest,
        "objects": leaving_count if effect is RemovalEffect.OBJECT else content.objects,
        "clusters": clusters[:MOST_CLUSTERS],
        "clusterCount": len(clusters),
        "onMembers": member_contents(leaving_namespaces(placement, group.items), map(counts, clusters)),
        "since": format_time(since) if since else None,
        "ageSeconds": max(int((now - since).total_seconds()), 0) if since else None,
    }
