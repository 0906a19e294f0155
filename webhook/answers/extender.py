"""The scheduler extender over the current state of the hub.

The inputs about nodes, node pools, upgrade runs and aliases are updated on each change, so that a call reads only its
candidates.

Source: docs/specifications/serving.md 2.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Final

from scorer.api import kinds
from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.family import FAMILIES, family_in, placement_ref
from scorer.api.meta import JsonObject
from scorer.api.placement.binding import BindingState
from scorer.api.unstructured.documents import dict_at, is_deleting, spec_of
from scorer.extender.filtering import filter_nodes
from scorer.extender.followed import FollowedPlacement, read_followed
from scorer.extender.node import ExtenderNode, as_member, read_node
from scorer.extender.pod import PlacementName
from scorer.extender.preemption import preempt
from scorer.extender.preferences import read_preferences
from scorer.extender.protocol import ExtenderFilterResult, ExtenderPreemptionResult, HostPriority
from scorer.extender.question import ExtenderRequest, PreemptionArgs, read_args, read_preemption
from scorer.extender.reading import MalformedArgsError
from scorer.extender.scoring import prioritize
from scorer.extender.surroundings import ExtenderContext, Rules
from scorer.fleet import Fleet
from scorer.member_gate.holds import upgrade_holds
from webhook.kube.cache.changes import ObjectDelta
from webhook.kube.cache.informer import Cache
from webhook.kube.cache.memory import essential_node
from webhook.kube.listers.placements import children
from webhook.settings.extender import DuringUpdate, ExtenderSettings, OrdinaryNodes, UnknownNodes

ALIASES: Final = "harbormaster.dev/node-aliases"
"""Annotation of a member cluster: comma-separated aliases that nodes use for it."""
WATCHED: Final = (
    kinds.MEMBER_CLUSTER,
    kinds.NODE,
    kinds.NODE_POOL,
    *(kind for family in FAMILIES for kind in (family.placement, family.binding)),
    kinds.UPGRADE_RUN,
)
_LIVE: Final = frozenset({BindingState.SCHEDULED, BindingState.BOUND})
_MOST_REMEMBERED: Final = 1024
"""Maximum number of cached parsed placements."""

_log = logging.getLogger(__name__)


class HubExtender:
    """Answers kube-schedulers from a cache.

    Args:
        cache: The hub's objects. The kinds that answers depend on are added to its watches.
        settings: Settings of the answers.
        now: The clock.
    """

    def __init__(self, cache: Cache, settings: ExtenderSettings, now: Callable[[], datetime]) -> None:
        self._cache = cache
        self._now = now
        self._rules = rules_of(settings)
        cache.trim(kinds.NODE, essential_node)
        self._watched = [cache.of_kind(kind) for kind in WATCHED]
        self._followed: dict[PlacementName, tuple[JsonObject, FollowedPlacement]] = {}
        self._nodes = _Nodes(self._rules.cluster_labels)
        self._aliases = _Aliases()
        self._running: dict[str, frozenset[str]] = {}
        self._updating: frozenset[str] = frozenset()
        self._leaving_pools: set[str] = set()
        cache.subscribe(kinds.NODE, self._nodes.take)
        cache.subscribe(kinds.NODE_POOL, self._take_pool)
        cache.subscribe(kinds.MEMBER_CLUSTER, self._aliases.take)
        cache.subscribe(kinds.UPGRADE_RUN, self._take_run)

    @property
    def synced(self) -> bool:
        """Whether all kinds that answers depend on have been listed once."""
        return all(cached.synced.is_set() for cached in self._watched)

    def read_args(self, document: JsonObject) -> ExtenderRequest:
        """Parse the body of ``filter`` or ``prioritize``. Safe to call from any thread.

        Raises:
            scorer.extender.reading.MalformedArgsError: A member has the wrong type.
        """
        return read_args(document, self._rules.cluster_labels)

    def read_preemption(self, document: JsonObject) -> PreemptionArgs:
        """Parse the body of ``preempt``. Safe to call from any thread.

        Raises:
            scorer.extender.reading.MalformedArgsError: A member has the wrong type.
        """
        return read_preemption(document)

    def filter(self, args: ExtenderRequest) -> ExtenderFilterResult:
        """Return the candidates that the pod may be scheduled on, and the reasons against the others.

        A missing pod or list of candidates is reported in ``Error``.
        """
        return filter_nodes(args, self._surroundings(), self._rules)

    def prioritize(self, args: ExtenderRequest) -> list[HostPriority]:
        """Return the score of each candidate.

        Raises:
            scorer.extender.reading.MalformedArgsError: The pod or the list of candidates is missing.
        """
        return prioritize(args, self._surroundings(), self._rules)

    def preempt(self, args: PreemptionArgs) -> ExtenderPreemptionResult:
        """Return the candidates that allow preemption.

        Raises:
            scorer.extender.reading.MalformedArgsError: The pod is missing.
        """
        return preempt(args, self._surroundings(), self._rules)

    def _surroundings(self) -> ExtenderContext:
        now = self._now()
        fleet = self._cache.fleet.at(now)
        return ExtenderContext(
            now=now,
            fleet=fleet,
            rows=self._aliases.rows(fleet),
            nodes=self._nodes.by_name,
            updating=self._updating,
            leaving_pools=self._leaving_pools,
            placement=self._placement,
            selected=self._selected,
            pool_nodes=self._nodes.of_pools,
        )

    def _placement(self, name: PlacementName) -> FollowedPlacement | None:
        document = self._cache.get(family_in(name.namespace).placement, name.name, name.namespace)
        if document is None:
            return None
        entry = self._followed.get(name)
        if entry is not None and entry[0] is document:
            return entry[1]
        if len(self._followed) >= _MOST_REMEMBERED:
            self._followed.clear()
        followed_placement = read_followed(document)
        self._followed[name] = (document, followed_placement)
        return followed_placement

    def _selected(self, name: PlacementName) -> Collection[str]:
        bindings = children(self._cache, family_in(name.namespace).binding, placement_ref(name.name, name.namespace))
        specs = (spec_of(binding) for binding in bindings if not is_deleting(binding))
        return {spec["targetCluster"] for spec in specs if spec.get("state") in _LIVE and "targetCluster" in spec}

    def _take_pool(self, change: ObjectDelta) -> None:
        name = change.document["metadata"]["name"]
        if change.new is not None and is_deleting(change.new):
            self._leaving_pools.add(name)
        else:
            self._leaving_pools.discard(name)
        self._nodes.weigh(name, _weight(change.new))

    def _take_run(self, change: ObjectDelta) -> None:
        name = change.document["metadata"]["name"]
        members = frozenset(upgrade_holds(change.new)) if change.new is not None else frozenset()
        if members == self._running.get(name, frozenset()):
            return
        if members:
            self._running[name] = members
        else:
            del self._running[name]
        self._updating = frozenset().union(*self._running.values())


def rules_of(settings: ExtenderSettings) -> Rules:
    """Return the rules of the extender that the settings configure."""
    return Rules(
        cluster_labels=settings.extender_cluster_labels,
        filter_updating=settings.extender_during_update is DuringUpdate.FILTER,
        reject_unknown=settings.extender_unknown_nodes is UnknownNodes.REJECT,
        reject_ordinary=settings.extender_ordinary_nodes is OrdinaryNodes.REJECT,
        max_score=settings.extender_max_score,
        default_preferences=read_preferences(settings.extender_default_preferences),
        pool_preferences=read_preferences(settings.extender_node_pool_preferences),
        protect_undisturbed=settings.extender_protect_do_not_disrupt,
    )


def _weight(pool: JsonObject | None) -> int:
    weight = dict_at(pool, "spec").get("weight")
    return weight if isinstance(weight, int) else 0


class _Nodes:
    """The cached nodes by name, and those of node pools as a separate `Fleet`."""

    def __init__(self, cluster_labels: tuple[str, ...]) -> None:
        self.by_name: dict[str, ExtenderNode] = {}
        self._cluster_labels = cluster_labels
        self._weights: dict[str, int] = {}
        self._fleet: Fleet | None = None
        self._changed: set[str] = set()

    def take(self, change: ObjectDelta) -> None:
        """Update a changed node. A node that cannot be read is removed."""
        name = change.document["metadata"]["name"]
        before, node = self.by_name.get(name), None
        if change.new is not None:
            try:
                node = read_node(change.new, self._cluster_labels, "")
            except MalformedArgsError as error:
                _log.warning("cannot read", extra={"node": name, "error": str(error)})
        if node is None:
            self.by_name.pop(name, None)
        elif node != before:
            self.by_name[name] = node
        if node != before and self._fleet is not None:
            self._changed.add(name)

    def weigh(self, pool: str, weight: int) -> None:
        """Record the weight of a pool. A changed weight invalidates the fleet of `of_pools`."""
        if self._weights.get(pool, 0) == weight:
            return
        if weight:
            self._weights[pool] = weight
        else:
            del self._weights[pool]
        self._fleet = None
        self._changed.clear()

    def of_pools(self, nodes: Collection[ExtenderNode]) -> Fleet:
        """Return the nodes of node pools as a fleet. Nodes in *nodes* take precedence over the cached ones."""
        if self._fleet is None:
            self._fleet = Fleet.of(self._as_member(node) for node in self.by_name.values() if node.is_of_pool)
        elif self._changed:
            now = {name: self.by_name.get(name) for name in self._changed}
            present = [node for node in now.values() if node is not None and node.is_of_pool]
            removed_nodes = now.keys() - {node.name for node in present}
            self._fleet = self._fleet.updated(map(self._as_member, present), removed_nodes)
            self._changed.clear()
        different = [self._as_member(node) for node in nodes if self.by_name.get(node.name) != node]
        return self._fleet.updated(different) if different else self._fleet

    def _as_member(self, node: ExtenderNode) -> MemberCluster:
        return as_member(node, self._weights.get(node.pool or "", 0))


class _Aliases:
    """The row of each member cluster in the fleet, by its names."""

    def __init__(self) -> None:
        self._by_cluster: dict[str, tuple[str, ...]] = {}
        self._names: tuple[str, ...] = ()
        self._rows: dict[str, int] | None = None

    def take(self, change: ObjectDelta) -> None:
        """Update the aliases of a changed member cluster."""
        name = change.document["metadata"]["name"]
        text = (dict_at(change.new, "metadata").get("annotations") or {}).get(ALIASES) or ""
        aliases = tuple(alias for part in str(text).split(",") if (alias := part.strip()))
        if aliases == self._by_cluster.get(name, ()):
            return
        if aliases:
            self._by_cluster[name] = aliases
        else:
            del self._by_cluster[name]
        self._rows = None

    def rows(self, fleet: Fleet) -> Mapping[str, int]:
        """Return the rows of *fleet* by name and alias. Names win over aliases, earlier clusters over later ones."""
        if self._rows is None or self._names is not fleet.names:
            self._names = fleet.names
            rows = {name: row for row, name in enumerate(fleet.names)}
            for name in sorted(self._by_cluster.keys() & rows.keys()):
                for alias in self._by_cluster[name]:
                    rows.setdefault(alias, rows[name])
            self._rows = rows
        return self._rows
