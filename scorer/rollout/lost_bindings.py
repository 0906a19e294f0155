"""Lost bindings: deleted by another client than the loop, and recreated from the Works that they have left.

A binding is the hub's record that a placement is on a cluster. When one disappears without the loop's doing (deleted by
hand, or with its definition), its Works and the content on the member stay. A scheduler that relied on bindings alone
would forget where the placement runs, and might place it elsewhere. So before anything is decided, each cluster that
has Works of the placement but no binding gets its binding back as it was: bound to the snapshot, with the overrides and
the apply strategy that its Works hold. Nothing changes on the member until the rollout allows it.

This happens only while the placement stays: the Works of a placement that is being deleted need no binding to go.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from scorer.api.documents import annotation, index_of, label, name_of, namespace_of, spec_of, with_finalizer, with_spec
from scorer.api.meta import JsonObject
from scorer.api.names import (
    MEMBER_NAMESPACE_PREFIX,
    PARENT_PLACEMENT,
    PARENT_PLACEMENT_NAMESPACE,
    PARENT_RESOURCE_SNAPSHOT_INDEX,
    PARENT_RESOURCE_SNAPSHOT_NAME,
    WORK_CLEANUP,
    WRITTEN,
)
from scorer.rollout.bindings import bound
from scorer.rollout.works import overrides_of


def orphaned_works(
    placement: Mapping[str, Any], bindings: Iterable[Mapping[str, Any]], works: Iterable[JsonObject]
) -> dict[str, list[JsonObject]]:
    """Return the Works of a placement on clusters that have no binding of it, by cluster.

    Args:
        placement: The placement.
        bindings: All of its bindings that count; one that is being deleted still does.
        works: Works labelled with the name of the placement; those of a placement in another namespace are left out.
    """
    clusters = {str(spec_of(binding).get("targetCluster") or "") for binding in bindings}
    found: dict[str, list[JsonObject]] = defaultdict(list)
    for work in works:
        cluster = namespace_of(work).removeprefix(MEMBER_NAMESPACE_PREFIX)
        whose = label(work, PARENT_PLACEMENT), label(work, PARENT_PLACEMENT_NAMESPACE)
        if whose == (name_of(placement), namespace_of(placement)) and cluster not in clusters:
            found[cluster].append(work)
    return dict(found)


def as_works_say(binding: JsonObject, works: Collection[JsonObject]) -> JsonObject:
    """Return a new binding, bound to what the Works on its cluster hold, with the finalizer that Works require.

    If the Works differ, the rollout had allowed a change that was under way: the latest Work counts. If they do not
    record what they hold, the binding stays Scheduled, so that the Works stay as they are until the rollout reaches it.

    Args:
        binding: One that is not stored yet.
        works: The Works that its predecessor has left, at least one.
    """
    latest = max(works, key=_age)
    snapshot, overrides = annotation(latest, PARENT_RESOURCE_SNAPSHOT_NAME), overrides_of(latest)
    if not snapshot or overrides is None:
        return with_finalizer(binding, WORK_CLEANUP) or binding
    return with_spec(bound(binding, snapshot, overrides), applyStrategy=spec_of(latest).get("applyStrategy"))


def _age(work: JsonObject) -> tuple[int, str, str]:
    return index_of(work, PARENT_RESOURCE_SNAPSHOT_INDEX), annotation(work, WRITTEN), name_of(work)
