"""Orphaned Works: Works without a binding, which the loop recreates from them.

A binding is the hub's record that a placement is on a cluster. When one disappears without the loop's doing (deleted by
hand, or with its definition), its Works and the content on the member remain. A scheduler that relied on bindings alone
would forget where the placement runs, and might place it elsewhere.

So before it decides, the scheduler counts each cluster that has Works of the placement but no binding as one that the
placement has, if the cluster passes the filters of the current policy: selectors, taints, PickFixed. Scores do not
count, so a feasible cluster keeps its content.

- If the decision keeps the cluster, its binding is created as it was: Bound, with the snapshot, the overrides and the
  apply strategy of its Works, so that nothing changes on the member.
- If the decision drops the cluster, its binding is created as Unscheduled, and the rollout removes the content within
  its limits.

An agent can write labels on its Works. Only Works with a valid `scorer.rollout.works.provenance.Provenance` count:
otherwise an agent could claim any placement for its cluster, Secrets included.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from scorer.api.event import Event
from scorer.api.meta import JsonObject
from scorer.api.names import (
    MEMBER_NAMESPACE_PREFIX,
    PARENT_PLACEMENT,
    PARENT_PLACEMENT_NAMESPACE,
    PARENT_RESOURCE_SNAPSHOT_INDEX,
    PARENT_RESOURCE_SNAPSHOT_NAME,
    PROVENANCE,
    WORK_CLEANUP,
    WRITTEN,
)
from scorer.api.unstructured.documents import (
    annotation,
    index_of,
    label,
    name_of,
    namespace_of,
    spec_of,
    with_finalizer,
    with_spec,
)
from scorer.api.values.quoting import quote
from scorer.rollout.bindings import bound
from scorer.rollout.works.records import overrides_of


def orphaned_works(
    placement: Mapping[str, Any], bindings: Iterable[Mapping[str, Any]], works: Iterable[JsonObject]
) -> dict[str, list[JsonObject]]:
    """Return the Works that claim to belong to a placement, on clusters without a binding of it, by cluster.

    Args:
        placement: The placement.
        bindings: All of its bindings, those that are being deleted included.
        works: Works labeled with the name of the placement. Those of a placement in another namespace are left out.
    """
    clusters = {str(spec_of(binding).get("targetCluster") or "") for binding in bindings}
    works_by_cluster: dict[str, list[JsonObject]] = defaultdict(list)
    for work in works:
        cluster = namespace_of(work).removeprefix(MEMBER_NAMESPACE_PREFIX)
        parent = label(work, PARENT_PLACEMENT), label(work, PARENT_PLACEMENT_NAMESPACE)
        if parent == (name_of(placement), namespace_of(placement)) and cluster not in clusters:
            works_by_cluster[cluster].append(work)
    return dict(works_by_cluster)


def as_works_say(binding: JsonObject, works: Collection[JsonObject]) -> JsonObject:
    """Return a new binding, bound to the content of the Works on its cluster, with the finalizer that Works require.

    If the Works differ, the rollout had allowed a change that was in progress: the latest Work counts. If that Work
    does not record its content, the binding remains Scheduled, and the Works unchanged until the rollout reaches it.

    Args:
        binding: A binding that is not stored yet.
        works: The Works that its predecessor left, at least one.
    """
    latest = max(works, key=_age)
    snapshot, overrides = annotation(latest, PARENT_RESOURCE_SNAPSHOT_NAME), overrides_of(latest)
    if not snapshot or overrides is None:
        return with_finalizer(binding, WORK_CLEANUP) or binding
    return with_spec(bound(binding, snapshot, overrides), applyStrategy=spec_of(latest).get("applyStrategy"))


def unproven_works(cluster: str, works: Iterable[JsonObject]) -> Event:
    """Return the Event that reports Works without a binding and without proof, which are ignored."""
    names = ", ".join(sorted(map(name_of, works)))
    message = (
        f"ignored on cluster {quote(cluster)}: Works {quote(names)} carry the labels of this placement but no valid "
        f"annotation {PROVENANCE}. If this placement did not write them, delete them"
    )
    return Event("UnprovenWorks", message, "Warning")


def _age(work: JsonObject) -> tuple[int, str, str]:
    return index_of(work, PARENT_RESOURCE_SNAPSHOT_INDEX), annotation(work, WRITTEN), name_of(work)
