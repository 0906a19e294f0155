"""Override snapshots in the cache that apply to a placement and its bindings.

Source: docs/specifications/rollout.md 6.2, 6.3 and 6.5.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scorer.api.family import CLUSTER, FAMILIES, NAMESPACED, family_in
from scorer.api.kinds import (
    MEMBER_CLUSTER,
)
from scorer.api.meta import JsonObject
from scorer.api.placement.binding import BindingState
from scorer.api.unstructured.documents import dicts_at, is_deleting, name_of, namespace_of
from scorer.rollout.bindings import Overrides
from scorer.rollout.overrides.matching import describe_awaited, matching_overrides, overrides_by_cluster
from scorer.rollout.snapshots.groups import SnapshotGroup
from scorer.rollout.snapshots.overrides import awaited_override_snapshots
from scorer.staged_update.execution.engine import is_over
from webhook.kube.cache.indexer import OVERRIDE_SNAPSHOTS
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import RetryError


@dataclass(frozen=True, slots=True)
class DesiredOverrides:
    """The overrides that apply to a placement.

    Args:
        by_cluster: Override lists of bindings. A cluster that is missing has none.
        awaited: Snapshots that overrides lack for their present specs. Until they exist, no cluster may get content: an
            override that deletes an object would remove it later from members that must never have it.
    """

    by_cluster: Mapping[str, Overrides] = field(default_factory=dict)
    awaited: Sequence[JsonObject] = ()

    def waits(self) -> str:
        """Return a message about the snapshots that the rollout waits for, empty without any."""
        return describe_awaited(self.awaited)


def desired_overrides(
    cache: Cache, placement: JsonObject, group: SnapshotGroup | None, bindings: Iterable[JsonObject]
) -> DesiredOverrides:
    """Return the override lists that the bindings of a placement should hold.

    Args:
        cache: Holds the overrides, their snapshots and the member clusters.
        placement: The placement.
        group: The snapshot group that is rolled out. None if it does not exist yet.
        bindings: Bindings of the placement. Only Scheduled and Bound ones count.

    Raises:
        RetryError: The group is incomplete, or the MemberCluster of a binding was deleted and the scheduler is about to
            remove the binding.
    """
    kinds = [kind for family in FAMILIES for kind in (family.override, family.override_snapshot)]
    if group is None or not any(cache.of_kind(kind).objects for kind in kinds):
        return DesiredOverrides()
    if not group.is_complete:
        raise RetryError(f"resource snapshots of index {group.index} are still being created")
    overrides, snapshots = cache.list(CLUSTER.override), cache.list(CLUSTER.override_snapshot)
    for namespace in {namespace_of(content) for content in group.objects()} - {""}:
        overrides += cache.list(NAMESPACED.override, namespace)
        snapshots += cache.list(NAMESPACED.override_snapshot, namespace)
    awaited = matching_overrides(placement, group, awaited_override_snapshots(overrides, snapshots))
    matching = matching_overrides(placement, group, snapshots)
    clusters = {
        str(binding["spec"].get("targetCluster") or "")
        for binding in bindings
        if not is_deleting(binding) and binding["spec"].get("state") != BindingState.UNSCHEDULED
    }
    applicable = overrides_by_cluster(matching, {name: cache.get(MEMBER_CLUSTER, name) for name in clusters})
    if applicable.missing:
        names = ", ".join(applicable.missing)
        raise RetryError(f"cannot determine the overrides for clusters that do not exist: {names}")
    return DesiredOverrides(applicable.by_cluster, tuple(awaited))


def named_override_snapshots(cache: Cache, binding: JsonObject) -> list[JsonObject]:
    """Return the override snapshots that a binding names, without those that no longer exist."""
    snapshots = (
        cache.get(family_in(namespace).override_snapshot, name, namespace)
        for namespace, name in Overrides.of(binding["spec"]).keys
    )
    return [snapshot for snapshot in snapshots if snapshot is not None]


def unused_override_snapshots(cache: Cache, snapshots: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the override snapshots that no binding and no active staged update run names.

    Bindings are indexed by the snapshots that they name. Active runs are few, and are only read if no binding does.
    """
    candidates = [snapshot for snapshot in snapshots if not _is_bound(cache, snapshot)]
    if not candidates:
        return []
    runs = (run for family in FAMILIES for run in cache.list(family.run) if not is_over(run))
    needed = {key for run in runs for key in planned_override_snapshots(run)}
    return [snapshot for snapshot in candidates if (namespace_of(snapshot), name_of(snapshot)) not in needed]


def planned_override_snapshots(run: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield namespace and name of the override snapshots that a staged update run has planned for its clusters."""
    for stage in dicts_at(run, "status", "stagesStatus"):
        for cluster in dicts_at(stage, "clusters"):
            yield from Overrides.of(cluster).keys


def _is_bound(cache: Cache, snapshot: JsonObject) -> bool:
    value = OVERRIDE_SNAPSHOTS, f"{namespace_of(snapshot)}/{name_of(snapshot)}"
    return any(cache.of_kind(family.binding).labelled.get(value) for family in FAMILIES)
