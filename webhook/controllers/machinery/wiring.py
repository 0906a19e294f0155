"""Wiring of a controller: the sources that enqueue its keys, and the functions that the loop runs for it.

Every controller has a method `wiring`, which names each `Watch` (objects of the hub) and each `Signal` (any other
source). A change only enqueues keys. The controller re-reads the state to decide, so a late event does no harm. A watch
is declared by the controller that it wakes, not by the one that makes the change.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar

from scorer.api.kinds import Kind
from scorer.api.unstructured.documents import spec_of
from webhook.controllers.machinery.failures import Concerned
from webhook.controllers.machinery.queue import WorkQueue
from webhook.controllers.machinery.result import Result
from webhook.kube.cache.changes import ObjectDelta, Subscribe
from webhook.kube.cache.indexer import Trim
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import StoreError

UPGRADES: Final = "upgrades"
"""Owner of all upgrade runs, profiles and plans.

Runs compete for members, so one process decides for all of them. They are few, and each change of one affects the
others.
"""
NODES: Final = "nodes"
"""Owner of the node pools and nodes of the hub: disruptions are decided for the cluster as a whole."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Later(Generic[K]):
    """A key to enqueue after a delay, unless another event enqueues it earlier."""

    key: K
    delay: timedelta


@dataclass(frozen=True, slots=True)
class Watch(Generic[K]):
    """Maps changed objects to the keys to enqueue.

    Args:
        kind: Kind of the objects.
        keys: Returns the keys for a change.
    """

    kind: Kind
    keys: Callable[[ObjectDelta], Iterable[K | Later[K]]]

    def start(self, cache: Cache, queue: WorkQueue[K]) -> Callable[[], None]:
        """Subscribe *queue* to all objects, including existing ones. Return a function that unsubscribes."""
        return cache.subscribe(self.kind, _waking(queue, self.keys))


def watch_spec(kind: Kind, keys: Callable[[], Iterable[K | Later[K]]]) -> Watch[K]:
    """Return a watch that enqueues keys when an object is created or deleted, or its spec changes."""
    return Watch(kind, lambda change: keys() if change.touches(spec_of) else ())


@dataclass(frozen=True, slots=True)
class Signal(Generic[T, K]):
    """Maps a source other than the objects of one kind to the keys to enqueue.

    Args:
        subscribe: Subscribes to the source.
        keys: Returns the keys for one value of the source.
    """

    subscribe: Subscribe[T]
    keys: Callable[[T], Iterable[K | Later[K]]]

    def start(self, _cache: Cache, queue: WorkQueue[K]) -> Callable[[], None]:
        """Subscribe *queue*. Return a function that unsubscribes."""
        return self.subscribe(_waking(queue, self.keys))


def _waking(queue: WorkQueue[K], keys: Callable[[T], Iterable[K | Later[K]]]) -> Callable[[T], None]:
    def wake(delta: T) -> None:
        for key in keys(delta):
            if isinstance(key, Later):
                queue.add_after(key.key, key.delay)
            else:
                queue.add(key)

    return wake


Waker = Watch[K] | Signal[Any, K]


@dataclass(frozen=True, slots=True)
class Poll(Generic[K]):
    """Polls for keys to enqueue, where no event reports them.

    Args:
        every: Poll interval.
        keys: Returns the keys. Raises `StoreError` if the hub fails to answer.
    """

    every: timedelta
    keys: Callable[[], Awaitable[Iterable[K]]]

    async def run(self, queue: WorkQueue[K]) -> None:
        """Poll until cancelled."""
        while True:
            await asyncio.sleep(self.every.total_seconds())
            try:
                for key in await self.keys():
                    queue.add(key)
            except StoreError as error:
                log.warning("poll failed", extra={"controller": queue.name, "error": str(error)})


def owner_of_member(name: str) -> str:
    """Return the owner of a member cluster, its namespace and the access of its agent.

    A Work in that namespace belongs to its placement, which creates and deletes it. The member's controller deletes the
    remaining Works only after the agent has left or has timed out. From then on both controllers only delete, with the
    resource version that they have read, so neither can undo a write of the other. Only the upgrade controllers
    write the annotation with the versions of a member.
    """
    return f"member/{name}"


def always(owner: str) -> Callable[[object], str]:
    """Return a function that returns the same owner for all keys."""
    return lambda _: owner


def _nothing() -> Iterable[Any]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring(Generic[K]):
    """Declaration of a controller for the loop.

    Args:
        name: Name of its queue, in logs, metrics and conditions.
        reconcile: Reconciles one key.
        concerned: Returns the object of a key. Failures are reported on it.
        owner: Returns the owner, which determines the shard of a key if several replicas share the work. Each object
            has one owner, even if several controllers write it. A placement, as ``crp/web``, owns everything that is
            created from it or requested of it. None: unknown, because the object is deleted. Each replica then drops
            its state.
        watches: Watches and signals that enqueue keys.
        resync: Returns the keys that are reconciled at intervals, changed or not.
        polls: Polls that enqueue keys.
        workers: Number of workers. None means that the settings apply.
        takes_reports: Whether member reports enqueue its keys, so that in a large fleet it may never be idle.
        makes: Kinds of objects that must not be created twice. They are listed once more before the controller starts,
            because the previous leader may have created some just before it stopped.
        trims: Parts to keep of large and numerous objects. The cache drops the rest.
        prepares: Awaited before the first key is reconciled. Several controllers may name the same function.
        background: Run alongside the queue. A function that several controllers name is run once.
        ends: Called when the loop has stopped. A function that several controllers name is called once.
    """

    name: str
    reconcile: Callable[[K], Awaitable[Result]]
    concerned: Callable[[K], Concerned]
    owner: Callable[[K], str | None]
    watches: Sequence[Waker[K]]
    resync: Callable[[], Iterable[K]] = _nothing
    polls: Sequence[Poll[K]] = ()
    workers: int | None = None
    takes_reports: bool = False
    makes: Sequence[Kind] = ()
    trims: Mapping[Kind, Trim] = field(default_factory=dict)
    prepares: Sequence[Callable[[], Awaitable[None]]] = ()
    background: Sequence[Callable[[], Coroutine[Any, Any, None]]] = ()
    ends: Sequence[Callable[[], None]] = ()
