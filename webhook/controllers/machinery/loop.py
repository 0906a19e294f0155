"""The reconcile loop: runs controllers concurrently. Each declares its watches in a `Wiring`.

Every key is reconciled once at the start, and again every `RESYNC`. The resync is spread evenly over that time:
enqueuing all keys together would delay changes by users, and the process would keep the memory of the peak.

Source: docs/specifications/scheduling.md 2; docs/specifications/rollout.md 2.9, 7.4, 9.1.
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

    A loop cannot be restarted. The next leadership term creates a new one.

    Args:
        hub: The hub cluster.
        now: The clock.
        controllers: Wirings in the order of the pipeline.
        events: Writes the Events of the controllers.
        kinds: Kinds that the cache must sync before the first controller starts.
        workers: Workers per controller, unless its wiring sets a number.
        observer: Metrics hooks of the queues.
        share: Keys that this process owns.
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
        """Queues by controller name."""

    @property
    def idle(self) -> bool:
        """Whether no key is queued or running, and every reported status is stored."""
        return self._hub.idle and all(queue.idle for queue in self.queues.values())

    @property
    def idle_but_for_reports(self) -> bool:
        """Whether no key is queued or running in any controller whose keys are not enqueued by member reports."""
        return all(self.queues[controller.name].idle for controller in self.controllers if not controller.takes_reports)

    async def run(self) -> None:
        """Reconcile until cancelled. The cache must be running."""
        cache = self._hub.cache
        for controller in self.controllers:
            for kind, trim in controller.trims.items():
                cache.trim(kind, trim)
        cache.require(self._kinds)
        try:
            # The order matters: first the cache syncs all kinds, then the last writes of the previous leader arrive.
            # Only then may changes wake controllers. Example: the previous leader picked 3 clusters and stored 3
            # bindings just before it stopped. A controller that does not see them yet would pick 3 clusters again, and
            # not necessarily the same ones.
            await cache.wait_synced(self._kinds)
            await cache.catch_up(_once(kind for controller in self.controllers for kind in controller.makes))
            for prepare in _once(prepare for controller in self.controllers for prepare in controller.prepares):
                await prepare()
            for _ in self._subscribe():
                await asyncio.sleep(0)  # each watch takes long on a large hub, and the Lease must be renewed
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
            # The cache outlives the term: its changes must not fill queues that no worker empties any more.
            for end in (
                *self._subscriptions,
                *_once(end for controller in self.controllers for end in controller.ends),
            ):
                end()

    def _subscribe(self) -> Iterator[None]:
        """Subscribe the queues to changes. Every existing object counts as a change, so all keys are enqueued.

        Yields after each watch.
        """
        for controller in self.controllers:
            queue = self.queues[controller.name]
            for watch in controller.watches:
                self._subscriptions.append(watch.start(self._hub.cache, queue))
                yield

    async def _resync(self) -> None:
        while True:
            # Enqueued one by one. Example: with 1,200 keys, one every 0.5 s. Together they would keep the workers busy
            # for seconds, and the change of a user would wait behind them.
            keys = (
                (self.queues[controller.name], key) for controller in self.controllers for key in controller.resync()
            )
            resynced = [(queue, key) for queue, key in keys if queue.owns(key)]
            pause = RESYNC.total_seconds() / max(1, len(resynced))
            for queue, key in resynced:
                await asyncio.sleep(pause)
                queue.add(key)
            if not resynced:
                await asyncio.sleep(pause)


def _ownership(of: Wiring[Any], share: Share) -> Callable[[Any], bool] | None:
    """Return a predicate for the keys that *share* owns. None means that all keys are owned."""
    if share.count == 1:
        return None

    def owns(key: Hashable) -> bool:
        owner = of.owner(key)
        return owner is None or share.owns(owner)

    return owns


def _once(handlers: Iterable[H]) -> tuple[H, ...]:
    """Return the handlers without duplicates: several controllers may declare the same one."""
    return tuple(dict.fromkeys(handlers))
