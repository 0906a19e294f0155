"""What a controller tells the loop about itself: what wakes it, and what the loop runs for it.

Every controller has a method `wiring`, which names each `Watch` (of objects of the hub) and each `Signal` (of anything
else) that wakes it. A change only puts keys in line. The controller reads again to find out what to do, so it does no
harm if a change is missed and comes again later. A watch is declared by the controller that it wakes, not by the one
that makes the change.
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
"""Owns all upgrade runs, and what they are made from: runs take members from one another, so that one process decides
for all of them. They are few, and each change of one concerns the others."""
NODES: Final = "nodes"
"""Owns the node pools of the hub and their nodes: what is disrupted is decided for the cluster as a whole."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Later(Generic[K]):
    """A key to be put in line after a while, unless another event does so sooner."""

    key: K
    delay: timedelta


@dataclass(frozen=True, slots=True)
class Watch(Generic[K]):
    """Which keys a change of an object wakes.

    Args:
        kind: Of the object.
        keys: Given the change, returns them.
    """

    kind: Kind
    keys: Callable[[ObjectDelta], Iterable[K | Later[K]]]

    def start(self, cache: Cache, queue: WorkQueue[K]) -> Callable[[], None]:
        """Wake a queue from now on, also for the objects that are there already; returns what ends that."""
        return cache.subscribe(self.kind, _waking(queue, self.keys))


def watch_spec(kind: Kind, keys: Callable[[], Iterable[K | Later[K]]]) -> Watch[K]:
    """Return a watch that wakes keys when an object is created or deleted, or its spec changes."""
    return Watch(kind, lambda change: keys() if change.touches(spec_of) else ())


@dataclass(frozen=True, slots=True)
class Signal(Generic[T, K]):
    """Which keys are woken by something other than one object of the hub.

    Args:
        subscribe: Subscribes to what tells of it.
        keys: Given what it tells, returns them.
    """

    subscribe: Subscribe[T]
    keys: Callable[[T], Iterable[K | Later[K]]]

    def start(self, _cache: Cache, queue: WorkQueue[K]) -> Callable[[], None]:
        """Wake a queue from now on; returns what ends that."""
        return self.subscribe(_waking(queue, self.keys))


def _waking(queue: WorkQueue[K], keys: Callable[[T], Iterable[K | Later[K]]]) -> Callable[[T], None]:
    def wake(told: T) -> None:
        for key in keys(told):
            if isinstance(key, Later):
                queue.add_after(key.key, key.delay)
            else:
                queue.add(key)

    return wake


Waker = Watch[K] | Signal[Any, K]


@dataclass(frozen=True, slots=True)
class Poll(Generic[K]):
    """Which keys are found by asking at intervals, because no event tells of them.

    Args:
        every: The time between two questions.
        keys: Returns them. Raises `StoreError` when the hub does not say.
    """

    every: timedelta
    keys: Callable[[], Awaitable[Iterable[K]]]

    async def run(self, queue: WorkQueue[K]) -> None:
        """Ask until cancelled."""
        while True:
            await asyncio.sleep(self.every.total_seconds())
            try:
                for key in await self.keys():
                    queue.add(key)
            except StoreError as error:
                log.warning("cannot look again", extra={"controller": queue.name, "error": str(error)})


def owner_of_member(name: str) -> str:
    """Return what owns a member cluster, its namespace and what is there for its agent.

    A Work in that namespace is its placement's, which makes it and takes it away. Only when the agent has left, or is
    not waited for any longer, the member's controller clears away what is left. Then both only delete, and over the
    version that they have read: neither can undo what the other has written. The annotation on a member in which an
    upgrade keeps the versions it has found is that upgrade's, and no other controller's.
    """
    return f"member/{name}"


def always(owner: str) -> Callable[[object], str]:
    """Return a function that names the same owner for all keys."""
    return lambda _: owner


def _nothing() -> Iterable[Any]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring(Generic[K]):
    """All that the loop has to know of a controller.

    Args:
        name: Of its queue, in logs, metrics and conditions.
        reconcile: Does the work for one key.
        concerned: Returns the object that a key is about, which says so when the work fails.
        owner: Returns what decides to which shard a key belongs, where several replicas share the work: each object has
            one owner, whichever controllers write it. A placement, as ``crp/web``, owns all that is made from it, and
            all that is asked of it. None: the object is gone, so that each replica only forgets what it knows of it.
        watches: What wakes it.
        resync: Returns the keys that are reconciled again at intervals, whether anything has changed or not.
        polls: What is asked at intervals.
        workers: How many keys are reconciled at once; None: as many as the settings say.
        takes_reports: Reports of members wake it, so that in a large fleet it may always be at work.
        makes: Kinds of which it creates objects that must not be created twice: they are listed once more before it
            begins, because the leader before may have created some just before its end.
        trims: What it needs of objects that are large and numerous; the cache keeps no more of them.
        prepares: Awaited before the first key is reconciled. Several controllers may name the same function.
        background: What runs beside its queue; what several controllers name is run once.
        ends: Called when the loop has ended; what several controllers name is called once.
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
