"""Objects of a placement in the cache: snapshots, bindings and Works, and all inputs of its rollout plan.

Controllers and answers both plan from `rollout_state`, so an answer about a rollout predicts the controller's actions.

Source: docs/specifications/rollout.md 7.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scorer.api.family import Family, PlacementRef, placement_of_work, placement_ref
from scorer.api.kinds import WORK, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_BINDING, PARENT_PLACEMENT, PARENT_RESOURCE_SNAPSHOT_NAME, member_namespace
from scorer.api.placement.binding import BindingState
from scorer.api.unstructured.documents import annotation, label, spec_of, text_at
from scorer.rollout.bindings import BindingView, views
from scorer.rollout.planner import RequestedClusters, RolloutPlan, plan_rollout
from scorer.rollout.snapshots.groups import latest_group, snapshot_groups
from scorer.rollout.views.preview import with_reserved_changes
from webhook.kube.cache.informer import Cache
from webhook.kube.listers.overrides import DesiredOverrides, desired_overrides


def children(cache: Cache, kind: Kind, ref: PlacementRef) -> list[JsonObject]:
    """Return the objects of *kind*, a kind of the placement's family, whose parent is the placement. Sorted by name."""
    return cache.labelled(kind, PARENT_PLACEMENT, ref.name, ref.namespace)


def count_children(cache: Cache, kind: Kind, ref: PlacementRef) -> int:
    """Return the number of objects of *kind* whose parent has this name, in any namespace. Faster than `children`."""
    return len(cache.of_kind(kind).labelled.get((PARENT_PLACEMENT, ref.name), ()))


def works_of(cache: Cache, binding: JsonObject) -> list[JsonObject]:
    """Return the Works that belong to a binding."""
    metadata = binding["metadata"]
    namespace = member_namespace(binding["spec"]["targetCluster"])
    parent = placement_ref(label(binding, PARENT_PLACEMENT), metadata.get("namespace", ""))
    works = cache.labelled(WORK, PARENT_BINDING, metadata["name"], namespace)
    return [work for work in works if parent.name and placement_of_work(work) == parent]


def used_snapshots(cache: Cache, family: Family, ref: PlacementRef) -> set[str]:
    """Return the names of master resource snapshots that bindings, Works or update runs refer to.

    The result may include snapshots of other placements, because the labels that separate placements may have been
    edited as well.
    """
    snapshot_names = {
        text_at(binding, "spec", "resourceSnapshotName") for binding in cache.list(family.binding, ref.namespace)
    }
    snapshot_names |= {annotation(work, PARENT_RESOURCE_SNAPSHOT_NAME) for work in cache.list(WORK)}
    for run in cache.list(family.run, ref.namespace):
        if text_at(run, "spec", "placementName") == ref.name:
            indexes = text_at(run, "spec", "resourceSnapshotIndex"), text_at(run, "status", "resourceSnapshotIndexUsed")
            snapshot_names |= {f"{ref.name}-{index}-snapshot" for index in indexes}
    return snapshot_names


def without_works(cache: Cache, bindings: Iterable[JsonObject]) -> set[str]:
    """Return the names of Unscheduled bindings without Works."""
    return {
        binding["metadata"]["name"]
        for binding in bindings
        if binding["spec"].get("state") == BindingState.UNSCHEDULED and not works_of(cache, binding)
    }


@dataclass(frozen=True, slots=True)
class RolloutState:
    """One placement and all inputs of its rollout, except other disruptions of its clusters.

    Args:
        wanted: Number of clusters that the placement requests.
        strategy: ``spec.strategy``, None if absent.
        bindings: All of its bindings, sorted by name.
        snapshot: Name of the latest master resource snapshot. None before the first one or while its group is
            incomplete. No binding moves to an incomplete group, and none moves back from it.
        overrides: Desired override lists, and overrides that the rollout waits for.
    """

    wanted: RequestedClusters
    strategy: Mapping[str, Any] | None
    bindings: Sequence[BindingView]
    snapshot: str | None
    overrides: DesiredOverrides

    @property
    def clusters(self) -> list[str]:
        """The unique clusters of the bindings, sorted."""
        return sorted({binding.cluster for binding in self.bindings})

    @property
    def clusters_awaiting_overrides(self) -> set[str]:
        """The clusters that keep their present content until the awaited overrides have snapshots."""
        bindings = self.bindings if self.overrides.awaited else ()
        return {binding.cluster for binding in bindings if binding.state is not BindingState.UNSCHEDULED}

    def plan(
        self, now: datetime, *, promised: Collection[str], held: Collection[str], removal_needs_budget: bool
    ) -> RolloutPlan:
        """Plan one reconcile, see `plan_rollout`.

        Args:
            now: The present instant, aware.
            promised: Clusters on which a reservation changes the placement. They count as changed, and are skipped.
            held: Clusters under another disruption.
            removal_needs_budget: Whether removals wait for the limits even if the binding has failed, or if the
                placement no longer requests any cluster.
        """
        return plan_rollout(
            self.wanted,
            self.strategy,
            with_reserved_changes(self.bindings, promised),
            self.snapshot,
            now,
            overrides=self.overrides.by_cluster,
            removal_needs_budget=removal_needs_budget,
            held_clusters={*held, *promised, *self.clusters_awaiting_overrides},
        )


def rollout_state(
    cache: Cache, family: Family, placement: JsonObject, bindings: Sequence[JsonObject], *, works_known: bool
) -> RolloutState:
    """Collect the inputs of the rollout plan of a placement.

    Args:
        cache: The hub's objects.
        family: Family of the placement.
        placement: The placement.
        bindings: All of its bindings, including those being deleted.
        works_known: Whether the cache holds Works. If False, no binding counts as one without Works.

    Raises:
        RetryError: The overrides are not known yet, see `desired_overrides`.
        ValueError: ``placementType``, or the state of a binding, has an unknown value.
    """
    spec = spec_of(placement)
    requested = RequestedClusters.of(spec.get("policy"))
    snapshots = children(cache, family.resource_snapshot, family.ref(placement))
    groups = snapshot_groups(snapshots)
    latest = latest_group(groups)
    overrides = desired_overrides(cache, placement, latest, bindings)
    empty = without_works(cache, bindings) if works_known else ()
    superseded = {group.name for group in groups if group.master and not group.is_complete and group is not latest}
    snapshot = latest.name if latest and latest.is_complete else None
    return RolloutState(requested, spec.get("strategy"), views(bindings, empty, superseded), snapshot, overrides)
