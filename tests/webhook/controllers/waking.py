"""A loop that does nothing but note whom each change puts in line, and the objects of a hub that change."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scorer.api.kinds import KINDS, LEASE, Kind
from scorer.api.meta import JsonObject
from tests.webhook.controllers.by_hand import Served
from tests.webhook.controllers.world import controller
from webhook.controllers.assembly import make_loop
from webhook.controllers.machinery.queue import WorkQueue
from webhook.controllers.placements.resource_watches import Selectables
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.indexer import KindCache
from webhook.kube.cache.informer import Cache
from webhook.settings.loop import LoopSettings

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Waking:
    """A hub whose changes are told by hand.

    Args:
        store: Empty, and never asked.
        patch: Takes the place of the queues' methods.
        settings: Of the loop.
    """

    def __init__(self, store: EmbeddedStore, patch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.cache = Cache(store)
        self._version = 0
        self._woken: set[str] = set()

        def add(queue: WorkQueue[Any], key: object) -> None:
            self._woken.add(f"{queue.name} {key}")

        def add_after(queue: WorkQueue[Any], key: object, delay: timedelta) -> None:
            self._woken.add(f"{queue.name} {key} after {delay / timedelta(milliseconds=1):g} ms")

        patch.setattr(WorkQueue, "add", add)
        patch.setattr(WorkQueue, "add_after", add_after)
        how = LoopSettings(**settings)
        self.selectables = Selectables(self.cache, Served(*KINDS.values()), how.selection)
        self.loop = make_loop(Hub(store, self.cache), lambda: NOW, self.selectables, how)

    @property
    def leases(self) -> KindCache:
        """Where the loop hears of reservations."""
        turns = [controller(self.loop, name)._turns for name in ("eviction", "rollout")]
        shelves: set[KindCache] = {each._reservations._cache.of_kind(LEASE) for each in turns if each is not None}
        (shelf,) = shelves
        return shelf

    def follow(self) -> None:
        """Have the loop told of changes from now on."""
        for _ in self.loop._subscribe():
            pass

    def woken(self) -> set[str]:
        """Return who has been put in line since the last call, as ``queue key`` or ``queue key after 100 ms``."""
        woken, self._woken = self._woken, set()
        return woken

    def put(self, *documents: JsonObject, shelf: KindCache | None = None) -> None:
        """Tell of objects as they are now."""
        for document in documents:
            self._version += 1
            metadata = {**document["metadata"], "resourceVersion": str(self._version)}
            (shelf or self._shelf(document)).put({**document, "metadata": metadata})

    def drop(self, document: JsonObject, *, shelf: KindCache | None = None) -> None:
        """Tell of the end of an object."""
        (shelf or self._shelf(document)).drop(document)

    def change(self, before: JsonObject | None, after: JsonObject | None) -> set[str]:
        """Return who is put in line by a change of an object; None: it is not there."""
        if before is not None:
            self.put(before)
        self.woken()
        if after is not None:
            self.put(after)
        else:
            assert before is not None
            self.drop(before)
        return self.woken()

    def _shelf(self, document: JsonObject) -> KindCache:
        group = document["apiVersion"].rpartition("/")[0]
        return self.cache.of_kind(KINDS[group, document["kind"]])


def make(kind: Kind, name: str, namespace: str = "", *, spec: Any = None, status: Any = None, **metadata: Any) -> Any:
    """Make an object of any kind."""
    named = {"name": name, **({"namespace": namespace} if namespace else {}), "uid": f"{namespace}.{name}"}
    document = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {**named, "generation": 1, **metadata},
        "spec": spec or {},
    }
    return document if status is None else {**document, "status": status}


def changed(document: JsonObject, *, spec: Any = None, status: Any = None, **metadata: Any) -> JsonObject:
    """Return a later state of an object: with these fields of its spec or status, and this metadata."""
    later = {**document, "metadata": {**document["metadata"], **metadata}}
    if spec is not None:
        generation = document["metadata"].get("generation", 0) + 1
        later |= {"spec": {**document["spec"], **spec}, "metadata": {**later["metadata"], "generation": generation}}
    if status is not None:
        later["status"] = {**(document.get("status") or {}), **status}
    return later


def deleting(document: JsonObject) -> JsonObject:
    """Return an object with a deletion mark."""
    return changed(document, spec={}, deletionTimestamp="2026-11-20T12:00:00Z")


def conditions(*said: str, generation: int = 1) -> JsonObject:
    """Return a status with conditions, as ``Available`` or ``Available=False``."""
    pairs = (each.partition("=") for each in said)
    made = [
        {"type": kind, "status": status or "True", "reason": "Said", "observedGeneration": generation}
        for kind, _, status in pairs
    ]
    return {"conditions": made}
