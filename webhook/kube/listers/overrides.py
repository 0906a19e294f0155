"""Override snapshots in the cache that apply to a placement and its bindings.

Source: rollout.md 6.2, 6.3 and 6.5.
"""

from collections.abc import Iterable, Mapping

from scorer.api.family import CLUSTER, FAMILIES, NAMESPACED
from scorer.api.kinds import (
    MEMBER_CLUSTER,
)
from scorer.api.meta import JsonObject
from scorer.api.placement.binding import BindingState
from scorer.api.unstructured.documents import is_deleting, namespace_of
from scorer.rollout.bindings import Overrides
from scorer.rollout.overrides.matching import matching_overrides, overrides_by_cluster
from scorer.rollout.snapshots.groups import SnapshotGroup
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import RetryError


def desired_overrides(
    cache: Cache, placement: JsonObject, group: SnapshotGroup | None, bindings: Iterable[JsonObject]
) -> Mapping[str, Overrides]:
    """Return the override lists that the bindings of a placement should hold, by cluster.

    Args:
        cache: Holds the override snapshots and the member clusters.
        placement: The placement.
        group: The snapshot group that is rolled out. None: unset, it does not exist yet.
        bindings: Bindings of the placement. Only Scheduled and Bound ones count.

    Raises:
        RetryError: The group is incomplete, or the MemberCluster of a binding was deleted and the scheduler is about to
            remove the binding.
    """
    if group is None or not any(cache.of_kind(family.override_snapshot).objects for family in FAMILIES):
        return {}
    if not group.is_complete:
        raise RetryError(f"resource snapshots of index {group.index} are still being made")
    snapshots = cache.list(CLUSTER.override_snapshot)
    for namespace in {namespace_of(content) for content in group.objects()} - {""}:
        snapshots += cache.list(NAMESPACED.override_snapshot, namespace)
    matching = matching_overrides(placement, group, snapshots)
    clusters = {
        str(binding["spec"].get("targetCluster") or "")
        for binding in bindings
        if not is_deleting(binding) and binding["spec"].get("state") != BindingState.UNSCHEDULED
    }
    overrides = overrides_by_cluster(matching, {name: cache.get(MEMBER_CLUSTER, name) for name in clusters})
    if overrides.missing:
        names = ", ".join(overrides.missing)
        raise RetryError(f"cannot tell which overrides hold for clusters that do not exist: {names}")
    return overrides.by_cluster


def named_override_snapshots(cache: Cache, binding: JsonObject) -> list[JsonObject]:
    """Return the override snapshots that a binding names, without those that no longer exist."""
    overrides = Overrides.of(binding["spec"])
    snapshots = [cache.get(CLUSTER.override_snapshot, name) for name in overrides.cluster]
    snapshots += [cache.get(NAMESPACED.override_snapshot, name, namespace) for namespace, name in overrides.namespaced]
    return [snapshot for snapshot in snapshots if snapshot is not None]
