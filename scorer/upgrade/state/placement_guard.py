"""The placement guard: whether an upgrade would make too many clusters of a placement unavailable.

Source: docs/specifications/upgrade-runs.md 14.5; docs/specifications/rollout.md 16 for the budget.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scorer.api.family import PlacementRef, family_in
from scorer.api.meta import JsonObject
from scorer.api.placement.binding import BindingState
from scorer.api.placement.placement import PlacementType
from scorer.api.unstructured.documents import dict_at, namespace_of, spec_of, text_at
from scorer.api.values.int_or_percent import scaled_up


@dataclass(frozen=True, slots=True)
class GuardedPlacement:
    """A placement that must not lose too many of its clusters concurrently.

    Args:
        name: Name of the placement.
        clusters: Clusters that it is bound to.
        allowed: Number of its clusters that may be in upgrade concurrently.
        namespace: Namespace of the placement, empty for a cluster-scoped one.
    """

    name: str
    clusters: frozenset[str]
    allowed: int
    namespace: str = ""

    @property
    def full_name(self) -> str:
        """Qualified name, such as ``team-a/web``."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


_FEWEST_CLUSTERS = 2
"""Smallest placement that is guarded. A placement on one cluster loses it in any upgrade, so waiting would not help."""
_QUARTER: Final = 4
"""A placement without a budget may lose one in this many of its clusters, as in a rolling update by default."""


def endangered_placement(
    member: str, placements: Sequence[GuardedPlacement], upgrading_members: Collection[str]
) -> GuardedPlacement | None:
    """Return a placement that would have too few clusters left if a member were upgraded now, or None."""
    for placement in placements:
        if len(placement.clusters) < _FEWEST_CLUSTERS:
            continue
        busy = sum(1 for name in upgrading_members if name in placement.clusters and name != member)
        if busy + 1 > placement.allowed:
            return placement
    return None


def by_cluster(placements: Iterable[GuardedPlacement]) -> dict[str, list[GuardedPlacement]]:
    """Return the placements of each cluster."""
    placements_by_cluster: dict[str, list[GuardedPlacement]] = {}
    for placement in placements:
        for cluster in placement.clusters:
            placements_by_cluster.setdefault(cluster, []).append(placement)
    return placements_by_cluster


def guarded_placements(
    bindings: Iterable[JsonObject],
    placement_of: Callable[[PlacementRef], JsonObject | None],
    budget_of: Callable[[PlacementRef], JsonObject | None],
) -> list[GuardedPlacement]:
    """Return the placements with their bound clusters, and how many of those may be in upgrade concurrently.

    Args:
        bindings: Bindings of both kinds.
        placement_of: Returns a placement. None: unknown.
        budget_of: Returns the disruption budget of a placement. None: unset.
    """
    clusters: dict[PlacementRef, set[str]] = {}
    for binding in bindings:
        if text_at(binding, "spec", "state") == BindingState.BOUND:
            ref = family_in(namespace_of(binding)).parent(binding)
            clusters.setdefault(ref, set()).add(text_at(binding, "spec", "targetCluster"))
    placements = []
    for ref, names in sorted(clusters.items(), key=lambda item: (item[0].namespace, item[0].name)):
        policy = dict_at(spec_of(placement_of(ref) or {}), "policy")
        picks_n = policy.get("placementType") == PlacementType.PICK_N
        requested = policy.get("numberOfClusters") if picks_n else len(names)
        base = requested if isinstance(requested, int) else len(names)
        allowed = allowed_in_upgrade(len(names), base, budget_of(ref))
        placements.append(GuardedPlacement(ref.name, frozenset(names), allowed, ref.namespace))
    return placements


def allowed_in_upgrade(total: int, desired: int, budget: Mapping[str, Any] | None) -> int:
    """Return how many clusters of a placement may be in upgrade concurrently.

    Args:
        total: Number of clusters that it is bound to.
        desired: Base of percentages in its budget: the number of clusters that it requests, or of all its clusters for
            PickAll.
        budget: ClusterResourcePlacementDisruptionBudget of the placement. None: unset. A quarter of *total*, at
            least 1, is then allowed. A budget without a limit or with an unreadable one allows no upgrades.
    """
    if budget is None:
        return max(1, total // _QUARTER)
    limits = spec_of(budget)
    most, least = limits.get("maxUnavailable"), limits.get("minAvailable")
    try:
        if most is not None:
            return max(0, scaled_up(most, desired))
        return max(0, total - scaled_up(least, desired)) if least is not None else 0
    except ValueError:
        return 0
