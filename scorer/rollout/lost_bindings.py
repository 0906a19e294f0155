"""Bindings that somebody has deleted, made anew from the Works that they have left.

A binding is what the hub remembers of a placement's place on a cluster. When it is gone without the loop's doing (by
hand, with its definition), its Works and the content on the member stay; a scheduler that went by bindings alone would
forget where things run, and might place them elsewhere. So each cluster with Works of the placement and without a
binding gets one again, before anything is decided, as it was: bound to the snapshot, with the overrides and the apply
strategy that its Works hold. So nothing changes on the member unless the rollout lets it.

Only while the placement stays: the Works of one that is being deleted go without a binding.
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
    """Return the Works of a placement by cluster, of clusters that have no binding of it.

    Args:
        placement: Whose.
        bindings: All of its bindings that count; one on its way out is still one.
        works: Works that are labelled with the name of the placement; others of them are left out.
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
    """Return a new binding bound to what the Works on its cluster hold, with the finalizer that goes with Works.

    Where that differs, a change was under way with the rollout's leave: the latest counts. Of Works that do not say
    what they hold it stays Scheduled, so that they stay as they are until the rollout has its turn.

    Args:
        binding: One that is not stored yet.
        works: Those that its predecessor has left, at least one.
    """
    latest = max(works, key=_age)
    snapshot, overrides = annotation(latest, PARENT_RESOURCE_SNAPSHOT_NAME), overrides_of(latest)
    if not snapshot or overrides is None:
        return with_finalizer(binding, WORK_CLEANUP) or binding
    return with_spec(bound(binding, snapshot, overrides), applyStrategy=spec_of(latest).get("applyStrategy"))


def _age(work: JsonObject) -> tuple[int, str, str]:
    return index_of(work, PARENT_RESOURCE_SNAPSHOT_INDEX), annotation(work, WRITTEN), name_of(work)
