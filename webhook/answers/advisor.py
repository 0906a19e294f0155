"""The engine over the current state of the hub, for the HTTP handlers: decisions, and views of members and placements.

Source: docs/specifications/serving.md 3.1 and 3.2.
"""

from collections.abc import Callable, Iterable, Sequence

from scorer.api.family import FAMILY_OF, Family, PlacementRef
from scorer.api.kinds import MEMBER_CLUSTER
from scorer.api.meta import JsonObject
from scorer.api.placement.placement import StrategyType
from scorer.api.unstructured.documents import dict_at, list_at, text_at
from scorer.rollout.confirmation.member_contents import NamespaceCounts, namespace_counts
from scorer.rollout.confirmation.orphans import orphaned_content
from scorer.rollout.status.placement_conditions import is_removal_pending
from scorer.rollout.views.removals import (
    PlacementRemovals,
    UnconfirmedRemoval,
    orphaned_removal,
    unconfirmed_removals,
)
from scorer.rollout.views.timeline import UpdateTimeline, rolling_timeline
from webhook.answers.clusters import Cluster, clusters_view
from webhook.answers.decisions import HubDecisions
from webhook.answers.placements import Placement, PlacementDetail, override_count, placement_view
from webhook.kube.listers.placements import children


class HubAdvisor(HubDecisions):
    """Answers from a cache. The arguments are those of `HubDecisions`."""

    def cluster_names(self) -> Sequence[str]:
        """See `Advisor.cluster_names`."""
        return self._cache.fleet.names

    def clusters(self, names: Iterable[str]) -> list[Cluster]:
        """See `Advisor.clusters`."""
        return clusters_view(self._cache, names, self._now())

    def placement_refs(self) -> list[PlacementRef]:
        """See `Advisor.placement_refs`."""
        refs = (
            family.ref(placement) for family in FAMILY_OF.values() for placement in self._cache.list(family.placement)
        )
        return sorted(refs, key=str)

    def pending_removal_refs(self) -> list[PlacementRef]:
        """See `Advisor.pending_removal_refs`."""
        placements = (
            (family, placement) for family in FAMILY_OF.values() for placement in self._cache.list(family.placement)
        )
        pending = {family.ref(placement) for family, placement in placements if is_removal_pending(placement)}
        return sorted(pending | orphaned_content(self._cache.list(MEMBER_CLUSTER)).keys(), key=str)

    def placements(self, refs: Iterable[PlacementRef]) -> list[Placement]:
        """See `Advisor.placements`."""
        families = ((FAMILY_OF[ref.kind], ref) for ref in refs)
        documents = ((family, self._cache.get(family.placement, ref.name, ref.namespace)) for family, ref in families)
        return [placement_view(self._cache, family, document) for family, document in documents if document is not None]

    def placement(self, ref: PlacementRef) -> PlacementDetail | None:
        """See `Advisor.placement`."""
        family = FAMILY_OF.get(ref.kind)
        document = self._cache.get(family.placement, ref.name, ref.namespace) if family else None
        if family is None or document is None:
            return None
        return {
            **placement_view(self._cache, family, document),
            "resourceIndex": text_at(document, "status", "observedResourceIndex"),
            "overrides": override_count(children(self._cache, family.binding, ref)),
            "selectedResources": list_at(document, "status", "selectedResources"),
            "strategy": dict_at(document, "spec", "strategy"),
            "removals": self._removals(family, document, self._snapshots),
            "timeline": self._timeline(family, document),
        }

    def removals(self, refs: Iterable[PlacementRef]) -> list[PlacementRemovals]:
        """See `Advisor.removals`."""
        return self.removals_with(refs, self._snapshots)

    def removals_with(
        self, refs: Iterable[PlacementRef], snapshots: Callable[[PlacementRef], Sequence[JsonObject]]
    ) -> list[PlacementRemovals]:
        """Return the same as `removals`. *snapshots* returns the resource snapshots of a placement."""
        orphaned, now = orphaned_content(self._cache.list(MEMBER_CLUSTER)), self._now()
        placement_removals: list[PlacementRemovals] = []
        for ref in refs:
            family = FAMILY_OF[ref.kind]
            document = self._cache.get(family.placement, ref.name, ref.namespace)
            removals = [] if document is None else self._removals(family, document, snapshots)
            removals += [orphaned_removal(orphaned[ref], now)] if ref in orphaned else []
            if document is not None or removals:
                placement_removals.append({"placement": str(ref), "removals": removals})
        return placement_removals

    def _removals(
        self, family: Family, document: JsonObject, snapshots: Callable[[PlacementRef], Sequence[JsonObject]]
    ) -> list[UnconfirmedRemoval]:
        if not is_removal_pending(document):
            return []
        ref = family.ref(document)
        bindings = children(self._cache, family.binding, ref)
        return unconfirmed_removals(family, document, snapshots(ref), bindings, self._counts, self._now())

    def _snapshots(self, ref: PlacementRef) -> list[JsonObject]:
        return children(self._cache, FAMILY_OF[ref.kind].resource_snapshot, ref)

    def _counts(self, cluster: str) -> NamespaceCounts | None:
        return namespace_counts(self._cache.get(MEMBER_CLUSTER, cluster))

    def placement_object(self, ref: PlacementRef) -> JsonObject | None:
        """See `Advisor.placement_object`."""
        family = FAMILY_OF.get(ref.kind)
        document = self._cache.get(family.placement, ref.name, ref.namespace) if family else None
        if family is None or document is None:
            return None
        remaining = {key: value for key, value in document["metadata"].items() if key != "managedFields"}
        head = {"apiVersion": family.placement.api_version, "kind": family.placement.kind}
        return {**head, **document, "metadata": remaining}

    def _timeline(self, family: Family, placement: JsonObject) -> UpdateTimeline | None:
        """Return the last rolling update of a placement, or None if update runs roll it out instead."""
        if dict_at(placement, "spec", "strategy").get("type") == StrategyType.EXTERNAL:
            return None
        return rolling_timeline(children(self._cache, family.binding, family.ref(placement))).document()
