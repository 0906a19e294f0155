"""The reconcile loop: runs controllers side by side, each of which says by its `Wiring` what wakes it.

At the start everything is reconciled once, and all of it again every `RESYNC`, one after the other over that time: all
at once would hold up what users wait for, and cost memory that is never given back.

Source: scheduling.md 2; rollout.md 2.9, 7.4, 9.1.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from scorer.api.kinds import Kind
from scorer.shards import WHOLE, Share
from webhook.controllers.machinery.failures import FailureReporter
from webhook.controllers.machinery.observer import UNOBSERVED, QueueObserver
from webhook.controllers.machinery.queue import WorkQueue
from webhook.controllers.machinery.wiring import Wiring
from webhook.kube.cache.hub import Hub
from webhook.kube.events import EventRecorder

RESYNC = timedelta(minutes=10)

H = TypeVar("H", bound=Hashable)


class Loop:
    """Controllers of a hub, with their queues.

    A loop that has ended is not run again: the next term of leadership makes another.

    Args:
        hub: Where everything is.
        now: The clock.
        controllers: In the order of the pipeline.
        events: Writes what the controllers tell people.
        kinds: What the cache has to know before the first of them begins.
        workers: Keys of one controller that are reconciled at once, unless it sets a number itself.
        observer: Is told what the queues do.
        share: Which keys are reconciled here.
    """

    def __init__(
        self,
        hub: Hub,
        now: Callable[[], datetime],
        controllers: Iterable[Wiring[Any]],
        events: EventRecorder,
        kinds: Sequence[Kind],
        *,
        workers: int,
        observer: QueueObserver = UNOBSERVED,
        share: Share = WHOLE,
    ) -> None:
        self.controllers = tuple(controllers)
        self._hub = hub
        self._events = events
        self._kinds = kinds
        self._workers = workers
        self._subscriptions: list[Callable[[], None]] = []

        def queue(of: Wiring[Any]) -> WorkQueue[Any]:
            teller = FailureReporter(hub, now, events.record, of.name, of.concerned)
            return WorkQueue(of.name, of.reconcile, observer, teller, _ownership(of, share))

        self.queues: Mapping[str, WorkQueue[Any]] = {
            controller.name: queue(controller) for controller in self.controllers
        }
        """Those of the controllers, by their names."""

    @property
    def idle(self) -> bool:
        """Whether nothing is being reconciled, in line, or waiting to be stored."""
        return self._hub.idle and all(queue.idle for queue in self.queues.values())

    @property
    def idle_but_for_reports(self) -> bool:
        """Whether at most what members report is being reconciled, in line, or waiting to be stored."""
        return all(self.queues[controller.name].idle for controller in self.controllers if not controller.takes_reports)

    async def run(self) -> None:
        """Reconcile until cancelled. The cache must be running."""
        cache = self._hub.cache
        for controller in self.controllers:
            for kind, trim in controller.trims.items():
                cache.trim(kind, trim)
        cache.require(self._kinds)
        try:
            # In this order: the cache knows all kinds, then the last writes of the leader before; only then changes
            # wake controllers, which would else create what is there already.
            await cache.wait_synced(self._kinds)
            await cache.catch_up(_once(kind for controller in self.controllers for kind in controller.makes))
            for prepare in _once(prepare for controller in self.controllers for prepare in controller.prepares):
                await prepare()
            for _ in self._subscribe():
                await asyncio.sleep(0)  # each takes long on a hub with many objects: the Lease has to be renewed
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._hub.run())
                for controller in self.controllers:
                    tasks.create_task(self.queues[controller.name].run(controller.workers or self._workers))
                tasks.create_task(self._events.run())
                for run in _once(run for controller in self.controllers for run in controller.background):
                    tasks.create_task(run())
                tasks.create_task(self._resync())
                for controller in self.controllers:
                    for poll in controller.polls:
                        tasks.create_task(poll.run(self.queues[controller.name]))
        finally:
            # The cache outlives the term: its changes must not go on to fill queues that no worker empties.
            for end in (
                *self._subscriptions,
                *_once(end for controller in self.controllers for end in controller.ends),
            ):
                end()

    def _subscribe(self) -> Iterator[None]:
        """Let changes wake the controllers; what is there already counts as a change, so this wakes all of them.

        Yields after each of their watches.
        """
        for controller in self.controllers:
            queue = self.queues[controller.name]
            for watch in controller.watches:
                self._subscriptions.append(watch.start(self._hub.cache, queue))
                yield

    async def _resync(self) -> None:
        while True:
            keys = (
                (self.queues[controller.name], key) for controller in self.controllers for key in controller.resync()
            )
            again = [(queue, key) for queue, key in keys if queue.owns(key)]
            pause = RESYNC.total_seconds() / max(1, len(again))
            for queue, key in again:
                await asyncio.sleep(pause)
                queue.add(key)
            if not again:
                await asyncio.sleep(pause)


def _ownership(of: Wiring[Any], share: Share) -> Callable[[Any], bool] | None:
    """Return what says whether a key of a controller belongs to *share*; None: all do."""
    if share.count == 1:
        return None

    def owns(key: Hashable) -> bool:
        owner = of.owner(key)
        return owner is None or share.owns(owner)

    return owns


def _once(handlers: Iterable[H]) -> tuple[H, ...]:
    """Return what controllers name, each once: several may need the same."""
    return tuple(dict.fromkeys(handlers))
