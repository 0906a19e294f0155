"""The tree of a placement on one cluster, for display: binding, Works and objects, as in ``harbormaster tree``.

Works are read from the hub on request: with their content, they are too large for the cache.
"""

from typing import Annotated

from typing_extensions import TypedDict

from scorer.api.family import FAMILY_OF, PlacementRef
from scorer.api.kinds import WORK
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_PLACEMENT, PARENT_PLACEMENT_NAMESPACE, member_namespace
from scorer.api.unstructured.documents import is_labelled_latest, labels_of, text_at
from scorer.api.values.answer import Shape
from scorer.rollout.views.tree import Sources, essentials, placement_tree
from webhook.kube.cache.informer import Cache
from webhook.kube.listers.placements import children
from webhook.kube.ports import ForbiddenError, Store

TreeCluster = Annotated[
    JsonObject,
    Shape(
        {
            "type": "object",
            "description": "An entry of `clusters` of `harbormaster tree -o json`, described in its help.",
        }
    ),
]


class PlacementTree(TypedDict):
    """The tree of a placement on one cluster."""

    clusters: list[TreeCluster]
    """Empty if the placement has no binding there."""
    objectsKnown: bool
    """Whether the server may read Works. If not, `works` is empty."""


class Trees:
    """Builds the trees of placements.

    Args:
        cache: The hub's objects.
        store: The hub itself.
    """

    def __init__(self, cache: Cache, store: Store) -> None:
        self._cache = cache
        self._store = store

    async def tree(self, ref: PlacementRef, cluster: str) -> PlacementTree | None:
        """Return the tree of a placement on one cluster, or None if the placement does not exist.

        Raises:
            webhook.kube.ports.StoreError: The hub does not respond.
        """
        family = FAMILY_OF.get(ref.kind)
        placement = self._cache.get(family.placement, ref.name, ref.namespace) if family else None
        if family is None or placement is None:
            return None
        bindings = children(self._cache, family.binding, ref)
        bindings_here = [binding for binding in bindings if text_at(binding, "spec", "targetCluster") == cluster]
        snapshots = []
        if self._cache.watches(family.resource_snapshot):
            snapshots = [
                snapshot
                for snapshot in children(self._cache, family.resource_snapshot, ref)
                if is_labelled_latest(snapshot)
            ]
        works = await self._works(ref, cluster) if bindings_here else []
        sources = Sources(
            placement,
            bindings_here,
            works or [],
            [essentials(family.resource_snapshot, snapshot) for snapshot in snapshots],
        )
        return {"clusters": placement_tree(sources)["clusters"], "objectsKnown": works is not None}

    async def _works(self, ref: PlacementRef, cluster: str) -> list[JsonObject] | None:
        """Return the Works of a placement for a cluster, or None if the server may not read them."""
        try:
            listing = await self._store.list(WORK, member_namespace(cluster), {PARENT_PLACEMENT: ref.name})
        except ForbiddenError:
            return None
        home = ref.namespace or None  # a name can be that of a placement in another scope too
        own = (work for work in listing.items if labels_of(work).get(PARENT_PLACEMENT_NAMESPACE) == home)
        return [essentials(WORK, work) for work in own]
