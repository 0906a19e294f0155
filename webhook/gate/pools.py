"""Node pools of the hub with their claims and nodes, updated incrementally.

Every object is parsed when it changes, so that the counts of each pool are ready when a question arrives. A heartbeat
of a node without other changes is ignored. An invalid budget is unusable, and so blocks its whole pool.

Pods and PodDisruptionBudgets are watched only once a pool exists: most hubs have none, and some have many pods. Nodes
and pods are cached trimmed. Claims are not trimmed, because a placement may select them.

Source: docs/specifications/nodepool-disruption.md 4.1, 5.3, 5.4 and 13.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from scorer.api import kinds
from scorer.api.meta import JsonObject
from scorer.api.node_pool import NODE_POOL_LABEL, Budget
from scorer.api.unstructured.documents import annotation, dict_at, name_of, text_at
from scorer.api.values.name_grammar import label_value_error
from scorer.node_budgets.blockers import (
    Blocker,
    DisruptionClass,
    NodePod,
    PodGuard,
    essential_pod,
    node_blockers,
    read_node_pod,
    read_pod_guard,
)
from scorer.node_budgets.budgets import BudgetSet
from scorer.node_budgets.nodes import DO_NOT_DISRUPT, PoolNode, count_nodes, is_of_another_instance, read_pool_node
from scorer.node_budgets.pool_view import PoolView
from webhook.access.rights import NODE_POOLS
from webhook.defaulting.node_pool import default
from webhook.kube.cache.changes import Broadcaster, Handler, ObjectDelta
from webhook.kube.cache.indexer import Trim
from webhook.kube.cache.informer import Cache
from webhook.kube.cache.live_reads import refresh_list, refresh_objects
from webhook.kube.cache.memory import essential_node
from webhook.kube.ports import Key, Store

COUNTED: Final = (kinds.NODE_POOL, kinds.NODE_CLAIM, kinds.NODE)
"""Kinds that are read to count the nodes of pools."""
WATCHED: Final = (*COUNTED, kinds.POD, kinds.POD_DISRUPTION_BUDGET)
"""All kinds that are read."""

_OF_PODS: Final = (kinds.POD, kinds.POD_DISRUPTION_BUDGET)


@dataclass(frozen=True, slots=True)
class Trims:
    """Trims of cached objects. They keep the fields that are read here, and more if another reader needs more.

    Args:
        node: Trim of nodes.
        pod: Trim of pods.
    """

    node: Trim = essential_node
    pod: Trim = essential_pod


class HubNodePools:
    """The node pools of a hub, from a cache.

    Args:
        cache: Cache of the hub. The class adds the watches that it needs.
        template_do_not_disrupt: Whether do-not-disrupt in the template of a pool applies to existing nodes.
        with_pods: Whether to watch pods. They may block the disruption of nodes, and are not needed for counting.
        trims: Trims of the cache.
    """

    def __init__(
        self,
        cache: Cache,
        *,
        template_do_not_disrupt: bool = True,
        with_pods: bool = True,
        trims: Trims = Trims(),
    ) -> None:
        self._cache = cache
        self._trims = trims
        self._with_pods = with_pods
        self._honours_template = template_do_not_disrupt
        self._pools: dict[str, _Pool] = {}
        self._nodes: dict[str, PoolNode] = {}
        self._of_pool: dict[str, dict[str, PoolNode]] = {}
        self._views: dict[str, PoolView] = {}
        self._links = _Links()
        self._pods = _Pods()
        self._changes = Broadcaster[str]()
        self._watches_pods = False
        cache.watch_if_allowed((kinds.NODE_CLAIM,))
        cache.trim(kinds.NODE, trims.node)
        self._subscriptions: list[Callable[[], None]] = []
        self._follow(kinds.NODE_CLAIM, self._take_claim)
        self._follow(kinds.NODE, self._take_node)
        self._follow(kinds.NODE_POOL, self._take_pool)

    @property
    def synced(self) -> bool:
        """Whether pools, claims and nodes have been listed once. A hub without the kinds counts as listed."""
        return all(self._cache.of_kind(kind).synced.is_set() for kind in COUNTED)

    @property
    def refusal(self) -> str:
        """Reason why reading pools, claims or nodes is denied, empty if it is not."""
        return next(filter(None, map(self._cache.refusal, COUNTED)), "")

    def names(self) -> tuple[str, ...]:
        """Return the names of all pools, sorted."""
        return tuple(sorted(self._pools))

    def pool(self, name: str) -> PoolView | None:
        """Return a pool without reservations, None if it does not exist."""
        view = self._views.get(name)
        if view is None and (pool := self._pools.get(name)) is not None:
            view = self._views[name] = self._view(name, pool)
        return view

    def views(self) -> Iterator[PoolView]:
        """Yield all pools by name."""
        for name in self.names():
            view = self.pool(name)
            assert view is not None
            yield view

    def view_of(self, document: JsonObject) -> PoolView:
        """Return the view of a hypothetical NodePool.

        It has defaults, and the nodes of the existing pool of that name, if any.

        Args:
            document: NodePool as the user wrote it.
        """
        return self._view(name_of(document), _read_pool(document))

    def node(self, name: str) -> tuple[str, PoolNode] | None:
        """Return a node with the name of its pool, which need not exist. None if it belongs to no pool."""
        node = self._nodes.get(name)
        return None if node is None else (node.pool, node)

    def node_of_claim(self, claim: str) -> str:
        """Return the name of the node of a claim, empty if it has none yet."""
        return self._links.node_of_claim(claim)

    def claim_of_node(self, name: str) -> JsonObject | None:
        """Return the claim of a node, None if it has none."""
        return self._links.claim_of_node(name)

    def pods_on(self, node: str) -> list[NodePod]:
        """Return the pods of a node, by namespace and name. Empty if pods are not watched."""
        return self._pods.on(node)

    async def refresh(self, store: Store, name: str) -> None:
        """Refresh a pool and its nodes in the cache from the store, except pods.

        Raises:
            StoreError: An object cannot be read now.
        """
        if label_value_error(name):  # no node can have a label with the name of this pool
            return
        nodes = [node for name_of_node in self._of_pool.get(name, ()) if (node := self._links.nodes.get(name_of_node))]
        claims = [claim for node in nodes if (claim := self._links.claim_of_node(node["metadata"]["name"]))]
        labels = {NODE_POOL_LABEL: name}
        await asyncio.gather(
            refresh_objects(self._cache, store, kinds.NODE_POOL, [Key(name)]),
            refresh_list(self._cache, store, kinds.NODE_CLAIM, labels, claims),
            refresh_list(self._cache, store, kinds.NODE, labels, nodes),
        )

    def subscribe(self, handler: Callable[[str], None]) -> Callable[[], None]:
        """Call *handler* with the name of every pool, now and when the pool or its nodes change.

        Return a function that unsubscribes.
        """
        for name in self.names():
            handler(name)
        return self._changes.subscribe(handler)

    def end(self) -> None:
        """Unsubscribe from all changes. The present state is kept."""
        for end in self._subscriptions:
            end()

    def _follow(self, kind: kinds.Kind, take: Handler) -> None:
        self._subscriptions.append(self._cache.subscribe(kind, take))

    def _view(self, name: str, pool: "_Pool") -> PoolView:
        nodes = dict(self._of_pool.get(name, {}))
        return PoolView(
            name=name,
            budgets=pool.budgets,
            nodes=nodes,
            template_do_not_disrupt=pool.do_not_disrupt and self._honours_template,
            blockers=self._blockers,
            counted=count_nodes(nodes.values()),
        )

    def _blockers(self, node: PoolNode, class_: DisruptionClass, now: datetime) -> tuple[Blocker, ...]:
        pods = self._pods.on(node.name)
        return node_blockers(node, class_, now, pods, self._pods.guards, pods_unknown=self._pods_unknown())

    def _pods_unknown(self) -> str:
        """Return why the pods of nodes are unknown, empty if they are known."""
        if not self._watches_pods:
            return "pods are watched only if there are node pools"
        for kind in _OF_PODS:
            if refusal := self._cache.refusal(kind):
                return f"{kind.plural} may not be read: {refusal}. To allow it, {NODE_POOLS.advice}"
            if not self._cache.of_kind(kind).synced.is_set():
                return f"{kind.plural} have not been listed yet"
        return ""

    def _take_pool(self, change: ObjectDelta) -> None:
        name = change.document["metadata"]["name"]
        if change.new is None:
            self._pools.pop(name, None)
        else:
            self._pools[name] = _read_pool(change.new)
            self._watch_pods()
        self._changed(name)

    def _watch_pods(self) -> None:
        if self._watches_pods or not self._with_pods:
            return
        self._watches_pods = True
        self._cache.watch_if_allowed(_OF_PODS)
        self._cache.trim(kinds.POD, self._trims.pod)
        self._follow(kinds.POD, self._pods.take)
        self._follow(kinds.POD_DISRUPTION_BUDGET, self._pods.take_guard)

    def _take_claim(self, change: ObjectDelta) -> None:
        for name in self._links.take_claim(change):
            self._read_node(name)

    def _take_node(self, change: ObjectDelta) -> None:
        name = change.document["metadata"]["name"]
        self._links.take_node(name, change.new)
        self._read_node(name)

    def _read_node(self, name: str) -> None:
        """Parse a node and its claim again."""
        document, before = self._links.nodes.get(name), self._nodes.get(name)
        node = None if document is None else read_pool_node(document, self._links.claim_of_node(name))
        if node == before:
            return
        if before is not None:
            del self._nodes[name], self._of_pool[before.pool][name]
            if not self._of_pool[before.pool]:
                del self._of_pool[before.pool]
        if node is not None:
            self._nodes[name] = node
            self._of_pool.setdefault(node.pool, {})[name] = node
        for pool in {side.pool for side in (before, node) if side is not None}:
            self._changed(pool)

    def _changed(self, pool: str) -> None:
        self._views.pop(pool, None)
        self._changes.publish(pool)


class _Pool:
    """The parsed fields of a NodePool."""

    __slots__ = ("budgets", "do_not_disrupt")

    def __init__(self, budgets: BudgetSet, *, do_not_disrupt: bool) -> None:
        self.budgets = budgets
        self.do_not_disrupt = do_not_disrupt


class _Links:
    """Links of claims and nodes: by the node name in the claim's status, otherwise by the provider ID.

    A claim that names a node of another instance is linked to none.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, JsonObject] = {}
        self._claims: dict[str, JsonObject] = {}
        self._named: dict[str, dict[str, None]] = {}
        self._with_id: dict[str, dict[str, None]] = {}
        self._nodes_with_id: dict[str, dict[str, None]] = {}

    def take_claim(self, change: ObjectDelta) -> set[str]:
        """Record a change to a claim. Return the names of the nodes to parse again."""
        name, touched_nodes = change.document["metadata"]["name"], set[str]()
        before = self._claims.pop(name, None)
        if before is not None:
            touched_nodes |= self._index(name, before, add=False)
        if change.new is not None:
            self._claims[name] = change.new
            touched_nodes |= self._index(name, change.new, add=True)
        return touched_nodes

    def take_node(self, name: str, new: JsonObject | None) -> None:
        """Record the new state of a node. None means that it was deleted."""
        before = self.nodes.pop(name, None)
        if before is not None and (instance := _provider_id(before)):
            _without(self._nodes_with_id, instance, name)
        if new is not None:
            self.nodes[name] = new
            if instance := _provider_id(new):
                self._nodes_with_id.setdefault(instance, {})[name] = None

    def claim_of_node(self, name: str) -> JsonObject | None:
        """Return the claim of a node, None if it has none. If it has several, return the first by name."""
        node = self.nodes.get(name)
        instance = _provider_id(node) if node is not None else ""
        named_claims = [
            name_of_claim
            for name_of_claim in self._named.get(name, ())
            if not is_of_another_instance(self._claims[name_of_claim], instance)
        ]
        if named_claims:
            return self._claims[min(named_claims)]
        unnamed_claims = [claim for claim in self._with_id.get(instance, ()) if not _node_name(self._claims[claim])]
        return self._claims[min(unnamed_claims)] if unnamed_claims else None

    def node_of_claim(self, claim: str) -> str:
        """Return the node that a claim names, otherwise the first one with its provider ID. Empty: unknown."""
        document = self._claims.get(claim)
        if document is None:
            return ""
        if name := _node_name(document):
            return name
        return min(self._nodes_with_id.get(text_at(document, "status", "providerID"), ("",)))

    def _index(self, claim: str, document: JsonObject, *, add: bool) -> set[str]:
        name, instance = _node_name(document), text_at(document, "status", "providerID")
        for index, key in ((self._named, name), (self._with_id, instance)):
            if key and add:
                index.setdefault(key, {})[claim] = None
            elif key:
                _without(index, key, claim)
        return {name} if name else set(self._nodes_with_id.get(instance, ()))


class _Pods:
    """Pods by node, and PodDisruptionBudgets by namespace."""

    def __init__(self) -> None:
        self.guards: dict[str, list[PodGuard]] = {}
        self._on: dict[str, dict[tuple[str, str], NodePod]] = {}

    def on(self, node: str) -> list[NodePod]:
        """Return the pods of a node, by namespace and name."""
        pods = self._on.get(node, {})
        return [pods[key] for key in sorted(pods)]

    def take(self, change: ObjectDelta) -> None:
        """Record a change to a pod."""
        old, new = change
        if old is not None and (node := text_at(old, "spec", "nodeName")):
            pods = self._on.get(node, {})
            pods.pop(_key(old), None)
            if not pods:
                self._on.pop(node, None)
        if new is not None and (node := text_at(new, "spec", "nodeName")):
            self._on.setdefault(node, {})[_key(new)] = read_node_pod(new)

    def take_guard(self, change: ObjectDelta) -> None:
        """Record a change to a PodDisruptionBudget."""
        namespace, name = _key(change.document)
        guards = [guard for guard in self.guards.pop(namespace, ()) if guard.name != name]
        if change.new is not None:
            guards.append(read_pod_guard(change.new))
        if guards:
            self.guards[namespace] = sorted(guards, key=lambda guard: guard.name)


def read_budgets(document: JsonObject) -> tuple[Budget, ...]:
    """Return the budgets of a NodePool with its defaults. An invalid budget is replaced by an unusable one.

    An unusable budget has no schedule, so it is always active, and its ``nodes`` has the error: a value that is neither
    a number nor a percentage makes the gate answer InvalidBudget (nodepool-disruption.md 4.2, "fails closed").
    """
    disruption: Any = document
    for name in ("spec", "disruption"):
        disruption = disruption.get(name)
        if disruption is None:
            return (Budget(),)
        if not isinstance(disruption, dict):
            return (_unusable(f"{name} must be an object"),)
    budgets = disruption.get("budgets")
    if budgets is None:
        return (Budget(),)
    if not isinstance(budgets, list):
        return (_unusable("budgets must be a list"),)
    return tuple(_read_budget(budget) for budget in budgets)


def _read_budget(document: Any) -> Budget:
    if not isinstance(document, dict):
        return _unusable("must be an object")
    try:
        return Budget.read(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        return _unusable(f"{path}: {first['msg']}" if path else str(first["msg"]))


def _unusable(reason: str) -> Budget:
    return Budget.model_construct(nodes=f"(cannot be read: {reason})")


def _read_pool(document: JsonObject) -> _Pool:
    is_protected = annotation(dict_at(document, "spec", "template"), DO_NOT_DISRUPT) == "true"
    return _Pool(BudgetSet(read_budgets(default(document).document)), do_not_disrupt=is_protected)


def _without(index: dict[str, dict[str, None]], key: str, name: str) -> None:
    entries = index[key]
    entries.pop(name, None)
    if not entries:
        del index[key]


def _node_name(claim: JsonObject) -> str:
    return text_at(claim, "status", "nodeName")


def _provider_id(node: JsonObject) -> str:
    return text_at(node, "spec", "providerID")


def _key(document: JsonObject) -> tuple[str, str]:
    metadata = document["metadata"]
    return str(metadata.get("namespace") or ""), str(metadata["name"])
