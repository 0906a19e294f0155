"""What a controller says of itself beside its work: what wakes it, and what the loop runs for it.

Every controller has a method `wiring`, which names each `Watch` (of objects of the hub) and each `Signal` (of anything
else) that wakes it. A change brings nothing but keys to be put in line: what there is to do, the controller finds out
by reading again, so a change that is missed and repeated later does no harm. A watch stands with the controller that it
wakes, whoever makes the change.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, TypeVar

from scorer.api.kinds import Kind
from webhook.controllers.failures import Concerned
from webhook.controllers.queue import WorkQueue
from webhook.controllers.result import Result
from webhook.kube.cache import Cache
from webhook.kube.change import Change
from webhook.kube.channel import Subscribe
from webhook.kube.ports import StoreError
from webhook.kube.shelf import Trim

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Later(Generic[K]):
    """A key that is to be put in line after a while, unless something else does it sooner."""

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
    keys: Callable[[Change], Iterable[K | Later[K]]]

    def start(self, cache: Cache, queue: WorkQueue[K]) -> Callable[[], None]:
        """Wake a queue from now on, for what is there already as well; returns what ends that."""
        return cache.subscribe(self.kind, _waking(queue, self.keys))


@dataclass(frozen=True, slots=True)
class Signal(Generic[T, K]):
    """Which keys are woken by something that is no object of the hub, or more than one.

    Args:
        subscribe: To what tells of it.
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
    """Which keys are found by asking every so often, because nothing tells of them.

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


def _nothing() -> Iterable[Any]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring(Generic[K]):
    """All that the loop has to know of a controller.

    Args:
        name: Of its queue, in logs, metrics and conditions.
        reconcile: Does the work for one key.
        concerned: Returns the object that a key is about: there it is said when the work fails.
        watches: What wakes it.
        resync: Returns the keys that are looked at again after a while, whatever was heard of them.
        polls: What is asked every so often.
        workers: How many keys are worked on at once; None: as many as the settings say.
        takes_reports: What members report wakes it, so that in a large fleet it may always be at work.
        makes: Kinds of which it makes objects that must not be made twice: before it begins, they are listed once more,
            for whoever led before may have made some just before the end.
        trims: What it needs of objects that are large and many; the cache keeps no more of them.
        background: What runs beside its queue; what several controllers name is run once.
        ends: Called when the loop has ended; what several controllers name, once.
    """

    name: str
    reconcile: Callable[[K], Awaitable[Result]]
    concerned: Callable[[K], Concerned]
    watches: Sequence[Waker[K]]
    resync: Callable[[], Iterable[K]] = _nothing
    polls: Sequence[Poll[K]] = ()
    workers: int | None = None
    takes_reports: bool = False
    makes: Sequence[Kind] = ()
    trims: Mapping[Kind, Trim] = field(default_factory=dict)
    background: Sequence[Callable[[], Coroutine[Any, Any, None]]] = ()
    ends: Sequence[Callable[[], None]] = ()
