"""A cluster with pools in memory: its store, who plays the provisioner, and the controller, which may die at any write.

Time stands still unless the test moves it. The controller is run one pass at a time.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import pytest

from scorer.api import kinds
from scorer.api.event import Event
from scorer.api.kinds import KINDS, LEASE, NAMESPACE, NODE, NODE_CLAIM, NODE_POOL, POD, POD_DISRUPTION_BUDGET, Kind
from scorer.api.meta import JsonObject, format_time
from scorer.api.unstructured.documents import annotations_of, conditions_of, is_deleting, name_of, namespace_of, text_at
from scorer.api.values.label_selector import LabelSelector
from scorer.node_disruption.execution.command_annotation import COMMAND, is_tainted
from tests.builders.worker import NOW
from tests.waiting import PATIENCE_SECONDS
from webhook.controllers.nodes.cache import HELPFUL, NEEDED
from webhook.controllers.nodes.disruption import KEY, NodeDisruptionController, NodePlace
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache import hub as hub_module
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import (
    ConflictError,
    ForbiddenError,
    Key,
    Listing,
    NotFoundError,
    StoreError,
    UnavailableError,
    WatchEvent,
    key_of,
)
from webhook.settings.gate import ExpirationMode, GateSettings, NodeDisruptionMode, NodeDisruptionOptions

SYSTEM = "harbormaster-system"
TERMINATION = "karpenter.sh/termination"
ENDING = "example.com/ending"
"""A finalizer: a pod with it takes its time to end."""


class DeadError(StoreError):
    """The process is gone: it writes nothing any more."""


class MortalStore:
    """The store as one process sees it, which dies at one of its writes.

    Args:
        store: The store.
        lives_for: How many writes it may send; None: any number.
        stored: Whether the one at which it dies is stored all the same.
    """

    def __init__(self, store: EmbeddedStore, lives_for: int | None = None, *, stored: bool = False) -> None:
        self.store = store
        self.lives_for = lives_for
        self.stored = stored
        self.log: list[str] = []
        """What was written, as ``replace Node a``."""
        self.forbidden: Kind | None = None
        """A kind that may not be read."""
        self.deaf: Kind | None = None
        """A kind of which no change is heard any more."""
        self.refused: dict[str, StoreError] = {}
        """What is answered to writes, by how what they are called in `log` begins."""

    @property
    def dead(self) -> bool:
        return self.lives_for is not None and len(self.log) >= self.lives_for

    async def get(self, kind: Kind, key: Key) -> JsonObject:
        return await self.store.get(kind, key)

    async def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> Listing:
        if kind == self.forbidden:
            raise ForbiddenError(f"cannot list {kind.plural}")
        return await self.store.list(kind, namespace, labels)

    async def watch(self, kind: Kind, since: str, namespace: str | None = None) -> AsyncIterator[WatchEvent]:
        async for event in self.store.watch(kind, since, namespace):
            if kind == self.deaf:
                await asyncio.Event().wait()
            yield event

    async def create(self, kind: Kind, document: JsonObject) -> JsonObject:
        return await self.write(f"create {kind.kind} {name_of(document)}", lambda: self.store.create(kind, document))

    async def replace(self, kind: Kind, document: JsonObject) -> JsonObject:
        return await self.write(f"replace {kind.kind} {name_of(document)}", lambda: self.store.replace(kind, document))

    async def replace_metadata(self, kind: Kind, document: JsonObject) -> JsonObject:
        what = f"amend {kind.kind} {name_of(document)}"
        return await self.write(what, lambda: self.store.replace_metadata(kind, document))

    async def replace_status(self, kind: Kind, document: JsonObject) -> JsonObject:
        what = f"status {kind.kind} {name_of(document)}"
        return await self.write(what, lambda: self.store.replace_status(kind, document))

    async def delete(self, kind: Kind, key: Key, *, uid: str = "", resource_version: str = "") -> None:
        assert uid, f"{kind.kind} {key} is deleted without its uid"
        what = f"delete {kind.kind} {key.name}"
        await self.write(what, lambda: self.store.delete(kind, key, uid=uid, resource_version=resource_version))

    async def write(self, what: str, doing: Callable[[], Any]) -> Any:
        if self.dead:
            if self.stored and len(self.log) == self.lives_for:
                self.log.append(f"{what} (unanswered)")
                await doing()
            raise DeadError("killed")
        for beginning, error in self.refused.items():
            if f"{what} ".startswith(beginning):
                raise error
        self.log.append(what)
        return await doing()


class Kubelets:
    """Evicts and deletes pods, as `NodeWork`.

    Args:
        mortal: What the process writes through.
        now: The clock.
    """

    def __init__(self, mortal: MortalStore, now: Callable[[], datetime]) -> None:
        self._mortal = mortal
        self._now = now
        self.asked: list[str] = []
        self.looks = 0
        """How often the pods of a node were asked for."""
        self.lists = 0
        """How often Leases were asked for."""
        self.blind = False
        """Whether no Lease may be read."""
        self.ahead = timedelta()
        """How far the clock of the server is ahead of that of the process."""

    async def evict(self, pod: Key, uid: str) -> None:
        self.asked.append(f"evict {pod.name}")
        document = await self._pod(pod, uid)
        if document is None:
            return
        guards = [
            each
            for each in (await self._mortal.list(POD_DISRUPTION_BUDGET, pod.namespace)).items
            if LabelSelector.read(each["spec"]["selector"]).matches(document["metadata"].get("labels") or {})
        ]
        if any(each["status"]["disruptionsAllowed"] < 1 for each in guards):
            raise UnavailableError("Cannot evict pod as it would violate the pod's disruption budget.")
        await self._mortal.write(f"evict Pod {pod.name}", lambda: self._mortal.store.delete(POD, pod, uid=uid))

    async def delete(self, pod: Key, uid: str, grace_seconds: int) -> None:
        self.asked.append(f"delete {pod.name} {grace_seconds}s")
        if await self._pod(pod, uid) is not None:
            await self._mortal.write(f"delete Pod {pod.name}", lambda: self._mortal.store.delete(POD, pod, uid=uid))

    async def pods_on(self, node: str) -> list[JsonObject]:
        self.looks += 1
        return [each for each in (await self._mortal.list(POD)).items if text_at(each, "spec", "nodeName") == node]

    def time_of_day(self) -> datetime | None:
        return self._now() + self.ahead

    async def leases(self, name: str, namespace: str) -> list[JsonObject]:
        self.lists += 1
        if self.blind:
            raise ForbiddenError("cannot list leases")
        return [each for each in (await self._mortal.list(LEASE, namespace or None)).items if name_of(each) == name]

    async def _pod(self, pod: Key, uid: str) -> JsonObject | None:
        try:
            found = await self._mortal.get(POD, pod)
        except NotFoundError:
            return None
        if found["metadata"]["uid"] != uid:
            raise ConflictError("the UID in the precondition is another one")
        return found


class Nodes:
    """The cluster, and one process after the other that disrupts its nodes."""

    def __init__(self) -> None:
        self.now = NOW
        self.store = EmbeddedStore.open(None, now=lambda: self.now)
        self.told: list[tuple[str, str, str, str]] = []
        self.disrupted: list[set[str]] = []
        """Which nodes were tainted or going after each pass."""
        self.started = 0
        """How many processes there have been."""
        self.jumped = timedelta()
        """How far the clock has been set ahead or back."""

    def pass_by(self, **delta: float) -> None:
        self.now += timedelta(**delta)

    def set_clock(self, **delta: float) -> None:
        """Set the clock ahead or back; no time passes."""
        self.now += timedelta(**delta)
        self.jumped += timedelta(**delta)

    async def add_old(self, *documents: Any) -> None:
        """Store objects that were made two hours ago."""
        self.pass_by(hours=-2)
        await self.add(*documents)
        self.pass_by(hours=2)

    async def add(self, *documents: Any) -> None:
        """Store objects with their statuses, any of them in groups."""
        for document in documents:
            if not isinstance(document, dict):
                await self.add(*document)
                continue
            kind = next(
                each for each in KINDS.values() if each.kind == document["kind"] and each.group in ("", *GROUPS)
            )
            if document["kind"] == "NodeClaim":
                document["metadata"].setdefault("finalizers", [TERMINATION])
            stored = await self.store.create(kind, document)
            if "status" in document and kind.has_status:
                await self.store.replace_status(kind, {**stored, "status": document["status"]})

    async def find(self, kind: Kind, name: str, namespace: str = "") -> JsonObject | None:
        with suppress(NotFoundError):
            return await self.store.get(kind, Key(name, namespace))
        return None

    async def get(self, kind: Kind, name: str, namespace: str = "") -> JsonObject:
        return await self.store.get(kind, Key(name, namespace))

    async def items(self, kind: Kind) -> tuple[JsonObject, ...]:
        return (await self.store.list(kind)).items

    async def names(self, kind: Kind) -> list[str]:
        return [name_of(each) for each in await self.items(kind)]

    async def patch(self, kind: Kind, name: str, namespace: str = "", **changes: Any) -> None:
        """Replace members of an object, or its status."""
        stored = await self.get(kind, name, namespace)
        if "status" in changes:
            await self.store.replace_status(
                kind, {**stored, "status": {**stored.get("status", {}), **changes["status"]}}
            )
        else:
            await self.store.replace(kind, {**stored, **changes})

    async def tainted(self) -> list[str]:
        return [name_of(each) for each in await self.items(NODE) if is_tainted(each)]

    async def condition(self, pool: str = "general") -> JsonObject:
        found = conditions_of(await self.get(NODE_POOL, pool))
        return next((each for each in found if each["type"] == "harbormaster.dev/Disruption"), {})

    async def provision(self) -> None:
        """Do what a provisioner does: make nodes for new claims, and end instances whose claims are deleted."""
        for claim in await self.items(NODE_CLAIM):
            name = name_of(claim)
            if is_deleting(claim):
                await self._end(claim)
            elif not text_at(claim, "status", "nodeName"):
                await self._launch(claim, name)

    async def _launch(self, claim: JsonObject, name: str) -> None:
        labels = {**claim["metadata"]["labels"], "karpenter.sh/initialized": "true", "kubernetes.io/hostname": name}
        has = {"cpu": "4", "memory": "16Gi", "pods": "110"}
        condition = {
            "type": "Initialized",
            "status": "True",
            "reason": "Ok",
            "lastTransitionTime": format_time(self.now),
        }
        await self.add(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "spec": {},
                "status": {"allocatable": has, "capacity": has, "conditions": [{"type": "Ready", "status": "True"}]},
            }
        )
        await self.patch(NODE_CLAIM, name, status={"nodeName": name, "conditions": [condition]})
        marked = (await self.get(NODE_CLAIM, name))["metadata"]
        await self.patch(NODE_CLAIM, name, metadata={**marked, "finalizers": [TERMINATION]})

    async def _end(self, claim: JsonObject) -> None:
        node = text_at(claim, "status", "nodeName")
        if node and await self.find(NODE, node) is not None:
            for pod in await self.items(POD):
                if text_at(pod, "spec", "nodeName") == node:
                    await self.store.delete(POD, key_of(pod))
            await self.store.delete(NODE, Key(node))
        await self.patch(NODE_CLAIM, name_of(claim), metadata={**claim["metadata"], "finalizers": []})

    async def finish_pods(self) -> None:
        """Let pods go that are ending."""
        for pod in await self.items(POD):
            if is_deleting(pod):
                await self.patch(POD, name_of(pod), namespace_of(pod), metadata={**pod["metadata"], "finalizers": []})

    @asynccontextmanager
    async def process(
        self,
        mode: NodeDisruptionMode = NodeDisruptionMode.ACT,
        *,
        lives_for: int | None = None,
        stored: bool = False,
        graceful: bool = False,
        **options: Any,
    ) -> AsyncIterator["Process"]:
        """Run one process."""
        mortal = MortalStore(self.store, lives_for, stored=stored)
        self.started += 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(hub_module, "STATUS_DELAY_SECONDS", 0.0)
            found = Process(self, mortal, mode, graceful=graceful, **options)
            running = [asyncio.create_task(found.cache.run()), asyncio.create_task(found.controller.run())]
            try:
                await found.cache.wait_synced((NODE_POOL,))
                yield found
            finally:
                found.controller.end()
                for task in running:
                    task.cancel()
                await asyncio.wait(running)

    def close(self) -> None:
        self.store.close()


GROUPS = frozenset(kind.group for kind in (*NEEDED, *HELPFUL, LEASE, NAMESPACE))


class Process:
    """One process that disrupts nodes."""

    def __init__(
        self, nodes: Nodes, mortal: MortalStore, mode: NodeDisruptionMode, *, graceful: bool, **options: Any
    ) -> None:
        self.nodes = nodes
        self.mortal = mortal
        self.cache = Cache(mortal)
        self.kubelets = Kubelets(mortal, lambda: nodes.now)
        gate = GateSettings(
            namespace=SYSTEM, expiration_mode=ExpirationMode.GRACEFUL if graceful else ExpirationMode.FORCEFUL
        )
        place = NodePlace(Hub(mortal, self.cache), options.pop("work", self.kubelets), SYSTEM)
        self.controller = NodeDisruptionController(
            place,
            NodeDisruptionOptions(mode, gate=gate, **options),
            self._now,
            self._record,
            clock=lambda: (nodes.now - NOW - nodes.jumped).total_seconds(),
        )
        self._ticks: timedelta | None = None

    def runs_by_itself(self) -> None:
        """Have the clock go on with every look at it."""
        self._ticks = timedelta(microseconds=1)

    def _now(self) -> datetime:
        if self._ticks is not None:
            self.nodes.now += self._ticks
        return self.nodes.now

    def _record(self, document: JsonObject, event: Event) -> None:
        self.nodes.told.append((document["kind"], name_of(document), event.reason, event.message))

    async def pass_once(self) -> timedelta | None:
        """Reconcile once, when everything that is stored is known; returns when it asks to be called again."""
        await self.catch_up()
        found = await self.controller.reconcile(KEY)
        await self.catch_up()
        tainted = set(await self.nodes.tainted())
        going = {
            text_at(each, "status", "nodeName") for each in await self.nodes.items(NODE_CLAIM) if is_deleting(each)
        }
        self.nodes.disrupted.append(tainted | going)
        return found.requeue_after

    async def look(self) -> timedelta | None:
        """Reconcile until the cluster has been looked at."""
        for _ in range(3):
            found = await self.pass_once()
        return found

    async def catch_up(self) -> None:
        """Wait until the caches hold what the store does, and all statuses are stored."""
        site = self.controller._site
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await self._is_known(self.cache, (NODE_POOL,)):
                await asyncio.sleep(0.001)
            heard = [each for each in (*NEEDED, *HELPFUL) if each != self.mortal.deaf]
            while site is not None and not (
                site.synced and site.world.hub.idle and await self._is_known(site.world.cache, heard)
            ):
                if self.mortal.dead or (
                    self.mortal.forbidden is not None and site.world.problem and site.world.hub.idle
                ):
                    break
                await asyncio.sleep(0.001)

    async def _is_known(self, cache: Cache, wanted: Iterable[Kind]) -> bool:
        for kind in wanted:
            stored = {key_of(each): each["metadata"]["resourceVersion"] for each in await self.nodes.items(kind)}
            shelf = cache.of_kind(kind).objects
            if stored != {key: each["metadata"]["resourceVersion"] for key, each in shelf.items()}:
                return False
        return True

    async def play(self, *, passes: int = 60, seconds: float = 2, provision: bool = True, pods: bool = True) -> None:
        """Let time pass, with the provisioner and the kubelets at work."""
        for _ in range(passes):
            await self.pass_once()
            if pods:
                await self.nodes.finish_pods()
            if provision:
                await self.nodes.provision()
            self.nodes.pass_by(seconds=seconds)


def karpenter(now: datetime, seconds: int = 15, holder: str = "karpenter-1") -> JsonObject:
    """Make the Lease by which Karpenter leads, renewed *now*."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "karpenter-leader-election", "namespace": "kube-system"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": format_time(now)},
    }


def guard(name: str, labels: Mapping[str, str], allowed: int) -> JsonObject:
    """Make a PodDisruptionBudget that lets so many pods go."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": dict(labels)}, "minAvailable": 1},
        "status": {"disruptionsAllowed": allowed},
    }


def command_on(document: JsonObject) -> str:
    """Return the annotation of a command; empty: there is none."""
    return annotations_of(document).get(COMMAND, "")


__all__ = ["KEY", "Nodes", "Process", "command_on", "guard", "karpenter", "kinds"]


@asynccontextmanager
async def opened_nodes() -> AsyncIterator[Nodes]:
    """Open a cluster with the namespaces that its pods, its Leases and Karpenter's are in."""
    found = Nodes()
    try:
        for name in (SYSTEM, "shop", "kube-system"):
            await found.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield found
    finally:
        found.close()
