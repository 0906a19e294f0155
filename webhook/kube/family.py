"""The two families of kinds: everything holds for both, only the kinds differ."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scorer.api import kinds
from scorer.api.binding import BindingState
from scorer.api.documents import label
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_BINDING, PARENT_PLACEMENT, PARENT_PLACEMENT_NAMESPACE, member_namespace
from scorer.api.references import PlacementRef
from webhook.kube.cache import Cache


@dataclass(frozen=True, slots=True)
class Family:
    """A placement kind and the kinds that are made for it."""

    placement: Kind
    policy_snapshot: Kind
    resource_snapshot: Kind
    binding: Kind

    def ref(self, document: JsonObject) -> PlacementRef:
        """Return the reference of a placement of this family."""
        metadata = document["metadata"]
        return PlacementRef(self.placement.kind, metadata["name"], metadata.get("namespace", ""))

    def parent(self, document: JsonObject) -> PlacementRef:
        """Return the placement that a snapshot or binding of this family was made for."""
        metadata = document["metadata"]
        name = (metadata.get("labels") or {}).get(PARENT_PLACEMENT, "")
        return PlacementRef(self.placement.kind, name, metadata.get("namespace", ""))

    def children(self, cache: Cache, kind: Kind, ref: PlacementRef) -> list[JsonObject]:
        """Return the objects of *kind* that were made for a placement, by name."""
        return cache.labelled(kind, PARENT_PLACEMENT, ref.name, ref.namespace)

    def empty(self, cache: Cache, bindings: Iterable[JsonObject]) -> set[str]:
        """Return the names of the Unscheduled ones of *bindings* that have no Works."""
        return {
            binding["metadata"]["name"]
            for binding in bindings
            if binding["spec"].get("state") == BindingState.UNSCHEDULED and not works_of(cache, binding)
        }

    def count(self, cache: Cache, kind: Kind, ref: PlacementRef) -> int:
        """Count the objects of *kind* that were made for placements of this name; quicker than to look at them."""
        return len(cache.shelf(kind).labelled.get((PARENT_PLACEMENT, ref.name), ()))


def works_of(cache: Cache, binding: JsonObject) -> list[JsonObject]:
    """Return the Works that belong to a binding."""
    metadata = binding["metadata"]
    namespace = member_namespace(binding["spec"]["targetCluster"])
    parent = metadata["labels"][PARENT_PLACEMENT]
    found = cache.labelled(kinds.WORK, PARENT_BINDING, metadata["name"], namespace)
    return [work for work in found if work["metadata"]["labels"].get(PARENT_PLACEMENT) == parent]


CLUSTER = Family(kinds.PLACEMENT, kinds.POLICY_SNAPSHOT, kinds.RESOURCE_SNAPSHOT, kinds.BINDING)
NAMESPACED = Family(
    kinds.RESOURCE_PLACEMENT,
    kinds.NAMESPACED_POLICY_SNAPSHOT,
    kinds.NAMESPACED_RESOURCE_SNAPSHOT,
    kinds.NAMESPACED_BINDING,
)
FAMILIES = (CLUSTER, NAMESPACED)
FAMILY_OF: Mapping[str, Family] = {family.placement.kind: family for family in FAMILIES}
"""By the kind of placement."""


def placement_of_work(work: JsonObject) -> PlacementRef:
    """Return the placement that a Work says it was made for, whichever family that is of; its labels may be edited."""
    namespace = label(work, PARENT_PLACEMENT_NAMESPACE)
    family = NAMESPACED if namespace else CLUSTER
    return PlacementRef(family.placement.kind, label(work, PARENT_PLACEMENT), namespace)
