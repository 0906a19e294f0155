"""The part of a hub that placements depend on, and the hypothetical changes to it.

Objects are raw, read-only documents. The fleet is a separate snapshot.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.family import FAMILIES
from scorer.api.kinds import (
    DISRUPTION_BUDGET,
    ENVELOPE,
    EVICTION,
    KINDS,
    MAINTENANCE_WINDOW,
    MEMBER_CLUSTER,
    NAMESPACED_ENVELOPE,
    NODE_POOL,
    OUR_KINDS,
    UPGRADE_GATE,
    UPGRADE_REQUEST,
    UPGRADE_RUN,
    UPGRADE_STRATEGY,
    VERSION_CATALOG,
    Kind,
    group_kind,
)
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_PLACEMENT
from scorer.api.unstructured.documents import label, name_of, namespace_of
from scorer.fleet import Fleet
from scorer.rollout.confirmation.policy import DEFAULT_POLICY, RemovalPolicy
from scorer.rollout.overrides.matching import placement_key
from scorer.rollout.overrides.rules import override_spec
from scorer.rollout.snapshots.overrides import latest_override_snapshots
from scorer.staged_update.facts import ClusterWait
from scorer.staged_update.views.forecast import Waits
from scorer.windows.maintenance import WindowState, window_state
from scorer.windows.member_windows import OF_UPDATES, MemberWindows, WindowDefinition, closed_window, windows_of

_ByParent: TypeAlias = Mapping[tuple[str, str], Sequence[JsonObject]]


class ObjectKey(NamedTuple):
    """Identity of an object on a hub."""

    group: str
    kind: str
    name: str
    namespace: str = ""


def identity_of(document: Mapping[str, Any]) -> ObjectKey:
    """Return the identity of an object."""
    group, kind = group_kind(document)
    return ObjectKey(group, kind, name_of(document), namespace_of(document))


@dataclass(frozen=True)
class HubState:
    """All inputs of a decision.

    Args:
        fleet: All member clusters.
        now: The instant of the decision.
        placements: Placements of both kinds.
        bindings: Bindings of any placement.
        policy_snapshots: Policy snapshots of any placement.
        resource_snapshots: Resource snapshots of any placement. If a placement has none, its bindings count as up to
            date.
        budgets: ClusterResourcePlacementDisruptionBudgets.
        evictions: ClusterResourcePlacementEvictions.
        runs: Staged update runs of both kinds.
        strategies: Their strategies.
        approval_requests: Approval requests of the runs.
        overrides: Overrides of both kinds.
        override_snapshots: Their snapshots.
        overrides_complete: Whether both are complete even if they are empty. False: unknown, as in a dump without these
            kinds.
        content: Returns the known objects that placements may select.
        kinds: The kinds that the hub serves.
        windows: ClusterMaintenanceWindows.
        upgrade_runs: ClusterUpgradeRuns.
        upgrade_strategies: ClusterUpgradeStrategies.
        upgrade_gates: ClusterUpgradeGates.
        upgrade_requests: ClusterUpgradeRequests, which report the versions of members.
        catalogs: ClusterVersionCatalogs.
        removal: Removal policy of the operator.
    """

    fleet: Fleet
    now: datetime
    placements: Sequence[JsonObject] = ()
    bindings: Sequence[JsonObject] = ()
    policy_snapshots: Sequence[JsonObject] = ()
    resource_snapshots: Sequence[JsonObject] = ()
    budgets: Sequence[JsonObject] = ()
    evictions: Sequence[JsonObject] = ()
    runs: Sequence[JsonObject] = ()
    strategies: Sequence[JsonObject] = ()
    approval_requests: Sequence[JsonObject] = ()
    overrides: Sequence[JsonObject] = ()
    override_snapshots: Sequence[JsonObject] = ()
    overrides_complete: bool = False
    content: Callable[[], Iterable[JsonObject]] = tuple
    kinds: Mapping[tuple[str, str], Kind] = field(default_factory=lambda: KINDS)
    windows: Sequence[JsonObject] = ()
    upgrade_runs: Sequence[JsonObject] = ()
    upgrade_strategies: Sequence[JsonObject] = ()
    upgrade_gates: Sequence[JsonObject] = ()
    upgrade_requests: Sequence[JsonObject] = ()
    catalogs: Sequence[JsonObject] = ()
    removal: RemovalPolicy = DEFAULT_POLICY

    def bindings_of(self, placement: Mapping[str, Any]) -> Sequence[JsonObject]:
        """Return the bindings of a placement."""
        return self._bindings.get(_place(placement), ())

    def policy_snapshots_of(self, placement: Mapping[str, Any]) -> Sequence[JsonObject]:
        """Return the policy snapshots of a placement."""
        return self._policy_snapshots.get(_place(placement), ())

    def resource_snapshots_of(self, placement: Mapping[str, Any]) -> Sequence[JsonObject]:
        """Return the resource snapshots of a placement."""
        return self._resource_snapshots.get(_place(placement), ())

    def budget_of(self, placement: Mapping[str, Any]) -> JsonObject | None:
        """Return the disruption budget of a ClusterResourcePlacement, or None."""
        return self._budgets.get(name_of(placement))

    def override_snapshots_for(self, placement: Mapping[str, Any]) -> Sequence[JsonObject]:
        """Return the latest override snapshots for a placement: those that name it, or that name no placement."""
        key = "/".join(filter(None, _place(placement)))
        by_placement = self._override_snapshots
        return [*by_placement.get("", ()), *by_placement.get(key, ())]

    @cached_property
    def waits(self) -> Waits:
        """A function that returns why a cluster must not be changed at an instant, or None if it may be."""
        return window_waits(self.fleet, self.windows)

    @cached_property
    def override_snapshots_by_key(self) -> Mapping[tuple[str, str], JsonObject]:
        """The override snapshots, by namespace and name."""
        return {(namespace_of(snapshot), name_of(snapshot)): snapshot for snapshot in self.override_snapshots}

    @cached_property
    def _bindings(self) -> _ByParent:
        return _by_parent(self.bindings)

    @cached_property
    def _policy_snapshots(self) -> _ByParent:
        return _by_parent(self.policy_snapshots)

    @cached_property
    def _resource_snapshots(self) -> _ByParent:
        return _by_parent(self.resource_snapshots)

    @cached_property
    def _override_snapshots(self) -> Mapping[str, Sequence[JsonObject]]:
        by_placement: dict[str, list[JsonObject]] = defaultdict(list)
        for snapshot in latest_override_snapshots(self.override_snapshots):
            by_placement[placement_key(override_spec(snapshot), namespace_of(snapshot))].append(snapshot)
        return by_placement

    @cached_property
    def _budgets(self) -> Mapping[str, JsonObject]:
        return {name_of(budget): budget for budget in self.budgets}


def _place(placement: Mapping[str, Any]) -> tuple[str, str]:
    return namespace_of(placement), name_of(placement)


def _by_parent(documents: Iterable[JsonObject]) -> _ByParent:
    documents_by_parent: dict[tuple[str, str], list[JsonObject]] = defaultdict(list)
    for document in sorted(documents, key=name_of):
        documents_by_parent[namespace_of(document), label(document, PARENT_PLACEMENT)].append(document)
    return documents_by_parent


FIELDS: Mapping[tuple[str, str], str] = {
    **{family.placement.group_kind: "placements" for family in FAMILIES},
    **{family.binding.group_kind: "bindings" for family in FAMILIES},
    **{family.policy_snapshot.group_kind: "policy_snapshots" for family in FAMILIES},
    **{family.resource_snapshot.group_kind: "resource_snapshots" for family in FAMILIES},
    **{family.run.group_kind: "runs" for family in FAMILIES},
    **{family.strategy.group_kind: "strategies" for family in FAMILIES},
    **{family.approval_request.group_kind: "approval_requests" for family in FAMILIES},
    **{family.override.group_kind: "overrides" for family in FAMILIES},
    **{family.override_snapshot.group_kind: "override_snapshots" for family in FAMILIES},
    DISRUPTION_BUDGET.group_kind: "budgets",
    EVICTION.group_kind: "evictions",
    MAINTENANCE_WINDOW.group_kind: "windows",
    UPGRADE_RUN.group_kind: "upgrade_runs",
    UPGRADE_STRATEGY.group_kind: "upgrade_strategies",
    UPGRADE_GATE.group_kind: "upgrade_gates",
    UPGRADE_REQUEST.group_kind: "upgrade_requests",
    VERSION_CATALOG.group_kind: "catalogs",
}
"""The field of `HubState` that holds the objects of each kind. Member clusters are in its fleet."""


_CONTENT: Final = frozenset(kind.group_kind for kind in (ENVELOPE, NAMESPACED_ENVELOPE))
"""Our kinds whose objects are content that placements select, like those of other groups."""
UNJUDGED: Final = (
    frozenset(kind.group_kind for kind in OUR_KINDS) - FIELDS.keys() - _CONTENT - {MEMBER_CLUSTER.group_kind}
) | {UPGRADE_REQUEST.group_kind}
"""Our kinds whose effects no plan shows. Nodes that a NodePool disrupts are simulated only on dumps."""
UNRENDERED: Final = UNJUDGED - {NODE_POOL.group_kind}
"""Our kinds that affect no object of a placement."""


@dataclass(frozen=True, slots=True)
class HypotheticalChanges:
    """Hypothetical changes to a hub, all applied together.

    Args:
        members: Member clusters that are new or different.
        objects: Other objects that are new or different, as they would be stored. Those that no decision depends on
            count as content that a placement may select.
        deleted: Objects that are deleted. Member clusters and bindings get a deletion timestamp, others are removed.
        lost: Member clusters that are removed immediately and leave their bindings behind.
        drained: Member clusters that get a taint, and whose placements are evicted, one after another.
    """

    members: Sequence[MemberCluster] = ()
    objects: Sequence[JsonObject] = ()
    deleted: frozenset[ObjectKey] = field(default_factory=frozenset)
    lost: Sequence[str] = ()
    drained: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.members or self.objects or self.deleted or self.lost or self.drained)


def window_waits(fleet: Fleet, windows: Iterable[JsonObject]) -> Waits:
    """Return a function that returns why a cluster is closed at an instant.

    Args:
        fleet: The clusters: they name windows, or are selected by them.
        windows: The ClusterMaintenanceWindows of the hub.
    """
    definitions = {name_of(document): WindowDefinition.of(document) for document in windows}
    windows_by_cluster = _windows_by_cluster(fleet, definitions)

    @lru_cache(maxsize=4096)
    def standing_of(names: tuple[str, ...], at: datetime) -> WindowState:
        return window_state([window for name in names if (window := definitions[name].window) is not None], at)

    def wait(cluster: str, at: datetime) -> ClusterWait | None:
        member_windows = windows_by_cluster.get(cluster)
        if member_windows is None:
            return None
        closed = closed_window(member_windows, definitions, standing_of(member_windows.names, at))
        return None if closed is None else ClusterWait(closed.message, closed.opens)

    return wait


def _windows_by_cluster(fleet: Fleet, definitions: Mapping[str, WindowDefinition]) -> Mapping[str, MemberWindows]:
    """Return the windows of the clusters that have any."""
    with_selector = [definition for definition in definitions.values() if definition.selector is not None]
    windows_by_cluster = {}
    for member in fleet.members:
        metadata = {"name": member.metadata.name, "labels": member.metadata.labels}
        document = {"metadata": {**metadata, "annotations": member.metadata.annotations}}
        windows = windows_of(document, definitions, OF_UPDATES, with_selector)
        if windows.names or windows.missing:
            windows_by_cluster[member.metadata.name] = windows
    return windows_by_cluster
