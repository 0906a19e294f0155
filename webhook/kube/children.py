"""What the cache holds of what was made for a placement: its snapshots, its bindings and their Works."""

from collections.abc import Iterable

from scorer.api.binding import BindingState
from scorer.api.documents import annotation, label, text_at
from scorer.api.family import Family, placement_of_work, placement_ref
from scorer.api.kinds import WORK, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_BINDING, PARENT_PLACEMENT, PARENT_RESOURCE_SNAPSHOT_NAME, member_namespace
from scorer.api.references import PlacementRef
from webhook.kube.cache import Cache


def children(cache: Cache, kind: Kind, ref: PlacementRef) -> list[JsonObject]:
    """Return the objects of *kind*, of the placement's family, that were made for a placement, by name."""
    return cache.labelled(kind, PARENT_PLACEMENT, ref.name, ref.namespace)


def count_children(cache: Cache, kind: Kind, ref: PlacementRef) -> int:
    """Count the objects of *kind* that were made for placements of this name; quicker than to look at them."""
    return len(cache.shelf(kind).labelled.get((PARENT_PLACEMENT, ref.name), ()))


def works_of(cache: Cache, binding: JsonObject) -> list[JsonObject]:
    """Return the Works that belong to a binding."""
    metadata = binding["metadata"]
    namespace = member_namespace(binding["spec"]["targetCluster"])
    parent = placement_ref(label(binding, PARENT_PLACEMENT), metadata.get("namespace", ""))
    found = cache.labelled(WORK, PARENT_BINDING, metadata["name"], namespace)
    return [work for work in found if parent.name and placement_of_work(work) == parent]


def used_snapshots(cache: Cache, family: Family, ref: PlacementRef) -> set[str]:
    """Return the names of master resource snapshots that bindings, Works or update runs name.

    Those of other placements may be among them: the labels that tell placements apart may have been edited as well.
    """
    used = {text_at(binding, "spec", "resourceSnapshotName") for binding in cache.list(family.binding, ref.namespace)}
    used |= {annotation(work, PARENT_RESOURCE_SNAPSHOT_NAME) for work in cache.list(WORK)}
    for run in cache.list(family.run, ref.namespace):
        if text_at(run, "spec", "placementName") == ref.name:
            indexes = text_at(run, "spec", "resourceSnapshotIndex"), text_at(run, "status", "resourceSnapshotIndexUsed")
            used |= {f"{ref.name}-{index}-snapshot" for index in indexes}
    return used


def without_works(cache: Cache, bindings: Iterable[JsonObject]) -> set[str]:
    """Return the names of the Unscheduled ones of *bindings* that have no Works."""
    return {
        binding["metadata"]["name"]
        for binding in bindings
        if binding["spec"].get("state") == BindingState.UNSCHEDULED and not works_of(cache, binding)
    }
