"""Listing of placements and bindings from the cache."""

from collections.abc import Iterator

from scorer.api.family import FAMILIES, NAMESPACED, Family, PlacementRef
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import name_of
from webhook.kube.cache.changes import ObjectDelta, View
from webhook.kube.cache.indexer import TARGET_CLUSTER
from webhook.kube.cache.informer import Cache, read_member


def all_placements(cache: Cache) -> Iterator[tuple[PlacementRef, JsonObject]]:
    """Yield every placement, with its reference."""
    for family in FAMILIES:
        for document in cache.list(family.placement):
            yield family.ref(document), document


def placement_refs(cache: Cache) -> Iterator[PlacementRef]:
    """Yield the reference of every placement."""
    return (ref for ref, _ in all_placements(cache))


def placements_in_altered(cache: Cache, change: ObjectDelta, *views: View) -> Iterator[PlacementRef]:
    """Yield the placements in an updated Namespace if one of *views* of the Namespace has changed."""
    if change.new is not None and any(map(change.alters, views)):
        yield from map(NAMESPACED.ref, cache.list(NAMESPACED.placement, name_of(change.new)))


def all_bindings(cache: Cache) -> Iterator[tuple[Family, JsonObject]]:
    """Yield every binding, with its family."""
    for family in FAMILIES:
        for binding in cache.list(family.binding):
            yield family, binding


def bindings_on_relabelled(cache: Cache, change: ObjectDelta) -> Iterator[tuple[Family, JsonObject]]:
    """Yield the bindings whose overrides may have changed because a member cluster is new or relabelled.

    A cluster that cannot be parsed keeps its last valid state, so nothing changes.
    """
    old, new = change
    if new is None or (old is not None and old["metadata"].get("labels") == new["metadata"].get("labels")):
        return
    if read_member(new) is None:
        return
    yield from bindings_on(cache, new["metadata"]["name"])


def bindings_on(cache: Cache, cluster: str) -> Iterator[tuple[Family, JsonObject]]:
    """Yield every binding on a member, with its family."""
    for family in FAMILIES:
        for binding in cache.labelled(family.binding, TARGET_CLUSTER, cluster):
            yield family, binding
