"""Bindings that somebody has deleted, made anew from the Works that they have left.

A binding is what the hub remembers of a placement's place on a cluster. When it is gone without the loop's doing (by
hand, with its definition), its Works and the content on the member stay; a scheduler that went by bindings alone would
forget where things run, and might place them elsewhere. So each cluster with Works of the placement and without a
binding gets one again, bound to what its Works hold, before anything is decided.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from scorer.api.meta import JsonObject
from scorer.api.names import (
    MEMBER_NAMESPACE_PREFIX,
    PARENT_PLACEMENT,
    PARENT_PLACEMENT_NAMESPACE,
    PARENT_RESOURCE_SNAPSHOT_NAME,
)
from scorer.placement.binding_plan import new_binding


def orphaned_works(
    placement: Mapping[str, Any], bindings: Iterable[Mapping[str, Any]], works: Iterable[JsonObject]
) -> dict[str, JsonObject]:
    """Return a Work for each cluster that has some of the placement, and no binding, not even one on its way out.

    Args:
        placement: Whose.
        bindings: All of its bindings.
        works: Works that are labelled with the name of the placement; others of them are left out.
    """
    bound = {str((binding.get("spec") or {}).get("targetCluster") or "") for binding in bindings}
    namespace = placement["metadata"].get("namespace") or ""
    found: dict[str, JsonObject] = {}
    for work in works:
        metadata = work["metadata"]
        labels = metadata.get("labels") or {}
        cluster = str(metadata.get("namespace") or "").removeprefix(MEMBER_NAMESPACE_PREFIX)
        ours = (
            labels.get(PARENT_PLACEMENT) == placement["metadata"]["name"]
            and (labels.get(PARENT_PLACEMENT_NAMESPACE) or "") == namespace
        )
        if ours and cluster not in bound and not metadata.get("deletionTimestamp"):
            found.setdefault(cluster, work)
    return found


def lost_bindings(
    placement: Mapping[str, Any],
    policy_snapshot: str,
    bindings: Sequence[JsonObject],
    orphans: Mapping[str, JsonObject],
    members: Collection[str],
    blank: JsonObject,
) -> list[JsonObject]:
    """Return the bindings to create for clusters that have Works of a placement and no binding.

    Args:
        placement: Whose.
        policy_snapshot: Name of the latest policy snapshot: the clusters were picked, and stay so if they may.
        bindings: All of its bindings.
        orphans: See `orphaned_works`.
        members: Clusters that are members and stay; what others have is left alone, as when a member leaves.
        blank: ``apiVersion`` and ``kind`` of a new binding.
    """
    made = []
    for cluster, work in sorted(orphans.items()):
        if cluster not in members:
            continue
        reason = f"{cluster} still had what was placed there when its binding was gone"
        decision = {"clusterName": cluster, "selected": True, "reason": reason}
        snapshot = (work["metadata"].get("annotations") or {}).get(PARENT_RESOURCE_SNAPSHOT_NAME) or ""
        made.append(new_binding(placement, decision, policy_snapshot, bindings, blank, bound_to=snapshot))
    return made
