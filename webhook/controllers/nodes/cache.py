"""The cache of the cluster for node disruption: trimmed Pods, Nodes, NodeClaims and NodePools.

Pods are watched, and only the fields that planning needs are kept (`scorer.node_disruption.cluster.cache_transforms`):
less than a fifth of a pod. Listing pods for every decision would cost the API server a hundred megabytes every ten
seconds in a cluster with 30,000 pods.

The shared cache of the process is unsuitable: it keeps fewer fields of a pod than planning needs, and whole objects of
selectable kinds. The gate and the planner of this controller both read pods from this cache.

Until the first NodePool exists, only NodePools are watched. The other watches run only in the lease holder.

Source: docs/specifications/nodepool-disruption.md 5.1.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from scorer.api import kinds
from scorer.api.kinds import KINDS
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import metadata_of
from scorer.node_disruption.cluster.cache_transforms import planned_node, planned_pod
from webhook.gate.pools import HubNodePools, Trims
from webhook.kube.cache.changes import Broadcaster, ObjectDelta
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import Store

DAEMON_SET: Final = KINDS["apps", "DaemonSet"]
VOLUME: Final = KINDS["", "PersistentVolume"]

NEEDED: Final = (kinds.NODE_POOL, kinds.NODE_CLAIM, kinds.NODE, kinds.POD, kinds.POD_DISRUPTION_BUDGET)
"""Kinds required for any decision."""
HELPFUL: Final = (DAEMON_SET, kinds.NAMESPACE, VOLUME, kinds.VOLUME_CLAIM)
"""Optional kinds. If they cannot be listed, their objects are assumed not to constrain pods."""
_PROMPT: Final = (kinds.NODE_POOL, kinds.NODE_CLAIM, kinds.NODE, kinds.POD_DISRUPTION_BUDGET)
"""Kinds whose changes enqueue the controller immediately."""
_UNREAD: Final = ("resourceVersion", "managedFields", "generation")


class NodeWorld:
    """Cached state of the cluster.

    Args:
        store: The cluster.
        template_do_not_disrupt: Whether do-not-disrupt in the template of a pool applies to existing nodes.
    """

    def __init__(self, store: Store, *, template_do_not_disrupt: bool) -> None:
        self.cache = Cache(store)
        self.hub = Hub(store, self.cache)
        self.pools = HubNodePools(
            self.cache,
            template_do_not_disrupt=template_do_not_disrupt,
            trims=Trims(planned_node, planned_pod),
        )
        self.changes = 0
        """Incremented with every change that may alter a decision."""
        self._broadcaster = Broadcaster[None]()
        self.cache.watch_if_allowed((*NEEDED, *HELPFUL))
        self.cache.trim(DAEMON_SET, _planned_daemon_set)
        self.cache.trim(VOLUME, _planned_volume)
        self.cache.trim(kinds.VOLUME_CLAIM, _planned_volume_claim)
        self._subscriptions = [
            self.cache.subscribe(kind, self._noting(kind in _PROMPT)) for kind in (*NEEDED, *HELPFUL)
        ]

    async def run(self) -> None:
        """Keep the cache up to date until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.cache.run(), name="node disruption: cache")
            tasks.create_task(self.hub.run(), name="node disruption: statuses")

    def end(self) -> None:
        """Unsubscribe from all changes."""
        self.pools.end()
        for end in self._subscriptions:
            end()

    @property
    def problem(self) -> str:
        """Why the API server refuses to list a kind that decisions need. Empty: all of them may be listed."""
        for kind in NEEDED:
            if refusal := self.cache.refusal(kind):
                return f"{kind.plural} may not be read: {refusal}"
        return ""

    @property
    def synced(self) -> bool:
        """Whether every kind has been listed once, or its list has been denied."""
        return all(self.cache.has_answered(kind) for kind in (*NEEDED, *HELPFUL))

    def subscribe(self, handler: Callable[[None], None]) -> Callable[[], None]:
        """Call *handler* after changes of pools, claims, nodes and PodDisruptionBudgets. Return the unsubscriber."""
        return self._broadcaster.subscribe(handler)

    def documents(self) -> list[JsonObject]:
        """Return everything that planning reads. A thread may read it, because cached objects are never modified."""
        return [document for kind in (*NEEDED, *HELPFUL) for document in self.cache.of_kind(kind).objects.values()]

    def nodes(self) -> Iterator[JsonObject]:
        """Yield all cached nodes."""
        yield from self.cache.of_kind(kinds.NODE).objects.values()

    def claim_of(self, node: str) -> JsonObject | None:
        """Return the claim of a node, None if the node has none."""
        return self.pools.claim_of_node(node)

    def claim(self, name: str) -> JsonObject | None:
        """Return a claim by name, None if it does not exist."""
        return self.cache.get(kinds.NODE_CLAIM, name)

    def pods_on(self, node: str) -> list[JsonObject]:
        """Return the pods of a node."""
        keys = [(pod.namespace, pod.name) for pod in self.pools.pods_on(node)]
        pods = (self.cache.get(kinds.POD, name, namespace) for namespace, name in keys)
        return [pod for pod in pods if pod is not None]

    def _noting(self, prompt: bool) -> Callable[[ObjectDelta], None]:
        def note(change: ObjectDelta) -> None:
            if not change.touches(_essence):
                return
            self.changes += 1
            if prompt:
                self._broadcaster.publish(None)

        return note


def _essence(document: JsonObject) -> object:
    """Return the content of an object without the metadata that changes with every write."""
    metadata = {key: value for key, value in metadata_of(document).items() if key not in _UNREAD}
    return {**document, "metadata": metadata}


def _planned_daemon_set(document: JsonObject) -> JsonObject:
    return {**document, "status": {}}


def _planned_volume(document: JsonObject) -> JsonObject:
    spec = document.get("spec") or {}
    remaining = {key: spec[key] for key in ("nodeAffinity",) if key in spec}
    return {**document, "spec": remaining, "status": {}}


def _planned_volume_claim(document: JsonObject) -> JsonObject:
    spec = document.get("spec") or {}
    remaining = {key: spec[key] for key in ("volumeName",) if key in spec}
    return {**document, "spec": remaining, "status": {}}
