"""Processes that want one Lease, on the embedded store, in a time that only moves when nothing else can."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from scorer.api.kinds import NAMESPACE
from tests.webhook.kube.leader_election.faulty_store import Fault, FaultyStore
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.leader_election.leader import Leader
from webhook.kube.leader_election.shards import Shards
from webhook.kube.leader_election.term import LeaderElectionConfig, LeaseTimes, NotLeaderError
from webhook.kube.ports import Key

KEY = Key("harbormaster-reconcile", "harbormaster-system")
START = datetime(2026, 3, 4, 5, 6, 7, 0, UTC)  # no microseconds: they are written all the same
TIMES = LeaseTimes()
LONGEST_RETRY = TIMES.retry * 1.2
"""Seconds; a pause differs from `LeaseTimes.retry` by a fifth at most."""
STEP = 0.01
"""Seconds between two looks at who may write."""


class Process:
    """One process: its elector, and what its work notices."""

    def __init__(self, loop, store, faults=(Fault.NONE,)):
        self.loop = loop
        self.store = FaultyStore(store, faults)
        self.ended = []
        self.ahead = 0.0
        self.bug = None
        self.cleanup_seconds = 0.0
        self.running = None
        self.around = LeaderElectionConfig(clock=self.clock, now=lambda: time_of_day(loop), end=self.ended.append)

    def clock(self):
        return self.loop.time() + self.ahead

    async def work_on(self):
        try:
            if self.bug is not None:
                raise self.bug
            await asyncio.sleep(1e6)
        finally:
            if self.cleanup_seconds:
                await asyncio.sleep(self.cleanup_seconds)

    def start(self):
        self.running = asyncio.create_task(self.elector.run(self.work))
        return self

    async def stop(self):
        self.running.cancel()
        await asyncio.wait([self.running])

    def kill(self):
        """End as by SIGKILL: nothing of it reaches the store any more."""
        self.store.faults = [Fault.HANG]
        self.store.refusal = None


class Alone(Process):
    """One that leads or waits."""

    def __init__(self, loop, store, identity, faults=(Fault.NONE,)):
        super().__init__(loop, store, faults)
        self.elector = Leader(self.store, KEY, identity, self.around)
        self.spans = []
        """When each term that is over began and ended."""

    async def work(self, _):
        began = self.loop.time()
        try:
            await self.work_on()
        finally:
            self.spans.append((began, self.loop.time()))

    @property
    def may_write(self):
        return passes(self.elector)


class Replica(Process):
    """One of several that share the work."""

    def __init__(self, loop, store, identity, count=3):
        super().__init__(loop, store)
        self.elector = Shards(self.store, KEY, identity, count, self.around)
        self.moves = []
        self.elector.moved = lambda shard, move: self.moves.append((shard, move))
        self.terms = {}

    async def work(self, shard, term):
        self.terms.setdefault(shard, []).append(term)
        await self.work_on()

    @property
    def may_write(self):
        """The shards for which a fence of any term lets writes through, of whatever the process may still run."""
        return {shard for shard, terms in self.terms.items() if any(map(passes, terms))}


def passes(term):
    """Whether the fence of a term, or of an elector, lets writes through."""
    try:
        term.check()
    except NotLeaderError:
        return False
    return True


def time_of_day(loop):
    return START + timedelta(seconds=loop.time())


@asynccontextmanager
async def hub(loop, kind):
    """A store, and what makes processes of a kind on it; all of them end with the block."""
    store = EmbeddedStore.open(None, now=lambda: time_of_day(loop))
    await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KEY.namespace}})
    processes = []

    def process(*how):
        processes.append(kind(loop, store, *how))
        return processes[-1]

    try:
        yield store, process
    finally:
        for each in processes:
            each.store.faults, each.store.refusal = [Fault.NONE], None
            if each.running is not None:
                await each.stop()
            for task in each.store.late:
                task.cancel()
            await asyncio.gather(*each.store.late, return_exceptions=True)
        store.close()
