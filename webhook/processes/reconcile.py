"""``harbormaster reconcile``: the loop against a hub, run by one leader or shared by several processes.

Every process keeps its cache filled, so that the next leader starts immediately. Only the leader runs controllers.
Their writes pass the fence of their term: after its end nothing is written, even by writes in progress. Then its
controllers stop, and the process is a candidate again.

If several processes share the work, each shard has its own owner and term. For each shard that a process holds, it runs
separate controllers, which reconcile the keys of that shard.

Source: docs/specifications/serving.md 5.3, 6 and 7.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from prometheus_client import CollectorRegistry

from scorer.api.event import Event
from scorer.api.kinds import LEASE, WORK
from scorer.api.meta import JsonObject
from scorer.shards import WHOLE, Share
from webhook.controllers.assembly import NodeSide, make_loop, required
from webhook.controllers.machinery.wiring import UPGRADES
from webhook.controllers.placements.resource_watches import Selectables
from webhook.controllers.placements.work_generator import without_manifests
from webhook.gate.instance_types import check_instance_types
from webhook.history.record import RecordSource
from webhook.history.service import history_of
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.informer import Cache
from webhook.kube.cache.write_limiter import WriteSlots
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.discovery import Discovery
from webhook.kube.client.evictions import ServerNodeWork
from webhook.kube.client.hub_store import HubStore
from webhook.kube.events import EventRecorder, own_name
from webhook.kube.leader_election.leader import Leader
from webhook.kube.leader_election.shards import Shards
from webhook.kube.leader_election.term import LeaderElectionConfig, Term, own_identity
from webhook.kube.login.kubeconfig import ConfigurationError
from webhook.kube.ports import ForbiddenError, Key, NotServedError, StoreError
from webhook.notifications.notifier import notifier_of
from webhook.processes.garbage import freeze_heap
from webhook.runtime.clock import utc_now
from webhook.server.probe_server import ProbeServer
from webhook.settings.loop import HubLoopSettings
from webhook.settings.programs import ReconcileSettings
from webhook.telemetry.health import Health
from webhook.telemetry.loop_metrics import LoopMetrics, ShardMetrics
from webhook.telemetry.metrics import Metrics
from webhook.telemetry.node_disruption_metrics import NodeDisruptionMetrics
from webhook.telemetry.tracing import Tracing, tracing_of
from webhook.telemetry.upgrade_metrics import UpgradeMetrics

AFTER_A_BUG_SECONDS: Final = 15.0
"""Pause of a server that also reconciles, before it restarts the loop after a bug."""

LEADERLESS_SECONDS: Final = 60.0
"""Time without a known leader after which a loop is not ready. A killed leader is replaced sooner."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Onlookers:
    """Observers of a loop, besides the hub.

    Args:
        tracing: Makes a span of every reconcile. None: disabled.
        notify: Called with every Event. None: disabled.
    """

    tracing: Tracing | None = None
    notify: Callable[[JsonObject, Event], None] | None = None


class Reconciliation:
    """A candidate for the loop of one hub, and the loop while it leads.

    Args:
        server: The hub.
        lease_server: A second connection to the hub, only for the Lease. Otherwise, renewals would wait behind writes,
            and the leadership could be lost.
        cache: Cache of the hub. The caller runs it.
        settings: Settings of the loop.
        metrics: Metrics of the process.
        identity: Name of this process in the Lease and in Events. Empty: that of the machine.
        now: The clock.
        onlookers: Observers of the loop.
    """

    def __init__(
        self,
        server: ApiServer,
        lease_server: ApiServer,
        cache: Cache,
        settings: HubLoopSettings,
        metrics: Metrics,
        *,
        identity: str = "",
        now: Callable[[], datetime] = utc_now,
        onlookers: Onlookers = Onlookers(),
    ) -> None:
        self._server = server
        self._cache = cache
        self._settings = settings.loop()
        self._slots = WriteSlots(self._settings.write_concurrency)  # per process, regardless of the number of shards
        self._now = now
        self._instance = own_name(identity)
        self._selectables = Selectables(cache, Discovery(server), self._settings.selection)
        self._lease = Key(settings.lease_name, settings.namespace)
        self._lease_store = HubStore(lease_server)
        name = own_identity(identity)
        self.elected: Leader | Shards
        if settings.shards == 1:
            self.elected = Leader(self._lease_store, self._lease, name, LeaderElectionConfig(now=now))
        else:
            self.elected = self._sharing(settings.shards, name, metrics.registry)
        self._metrics = LoopMetrics(metrics.registry, lambda: self.elected.leading, onlookers.tracing)
        self._upgrades = UpgradeMetrics(metrics.registry)
        self._nodes = NodeDisruptionMetrics(metrics.registry)
        self._history = history_of(
            HubStore(server), settings.namespace, settings, RecordSource.LOOP, self._instance, now
        )
        self._event_observers = (self._history.note_event, *(() if onlookers.notify is None else (onlookers.notify,)))
        self._required = required(self._settings)
        cache.require(self._required)
        cache.trim(WORK, without_manifests)  # also while another process leads

    def _sharing(self, count: int, identity: str, registry: CollectorRegistry) -> Shards:
        shards = Shards(self._lease_store, self._lease, identity, count, LeaderElectionConfig(now=self._now))
        shards.moved = ShardMetrics(registry, count, lambda: shards.held, lambda: shards.clash).moved
        return shards

    async def check(self) -> None:
        """Check before the start that replicas can share the work, by one read of the Lease. No-op for one leader.

        Raises:
            ConfigurationError: The hub serves no Leases, or this account must not read the Lease.
        """
        if isinstance(self.elected, Leader):  # a single leader waits for both
            return
        try:
            await self._lease_store.get(LEASE, self._lease)
        except (NotServedError, ForbiddenError) as error:
            reason = "this account may not read" if isinstance(error, ForbiddenError) else "the hub does not serve"
            raise ConfigurationError(
                f"shards: {self.elected.count}: replicas share the work through the Lease {self._lease} "
                f"({LEASE.api_version}), which {reason}: {error}"
            ) from error
        except StoreError as error:  # the Lease is missing, or the hub does not answer now: the loop waits for it
            log.debug("lease not read yet", extra={"lease": str(self._lease), "error": str(error)})

    async def run(self) -> None:
        """Reconcile whenever this process leads, until cancelled. The cache must be running."""
        # Before the candidacy: a leader with an empty cache would do nothing and block other candidates.
        await self._cache.wait_synced(self._required)
        history_task = asyncio.create_task(self._history.run(), name="history of the loop")
        try:
            if isinstance(self.elected, Leader):
                await self.elected.run(partial(self._lead, WHOLE))
            else:
                count = self.elected.count
                await self.elected.run(lambda shard, term: self._lead(Share(shard, count), term))
        finally:
            history_task.cancel()
            await asyncio.wait([history_task])

    async def run_in_shared_process(self) -> None:
        """Call `run` in a process that also serves: an unexpected exception ends the term, but not the process."""
        while True:
            try:
                await self.run()
            except Exception:  # the server continues to answer: log with traceback and retry
                log.exception("reconcile loop failed")
            await asyncio.sleep(AFTER_A_BUG_SECONDS)

    def problem(self) -> str:
        """Return why this process could not lead. Empty if it could, even while the hub is unreachable.

        It can lead without the other kinds that the cache watches, such as node pools.
        """
        if all(self._cache.of_kind(kind).synced.is_set() for kind in self._required):
            return ""
        for kind in self._required:
            if refusal := self._cache.refusal(kind):
                return f"{kind.resource} cannot be read: {refusal}"
        return "not synced yet"

    def leader_problem(self) -> str:
        """Return why no replica leads, empty if one was seen leading in the last `LEADERLESS_SECONDS`."""
        seconds = self.elected.leaderless_seconds
        if seconds < LEADERLESS_SECONDS:
            return ""
        reason = f": {self.elected.trouble}" if self.elected.trouble else ""
        return f"no replica has led by the Lease {self._lease} for {seconds:.0f} s{reason}"

    async def _lead(self, share: Share, term: Term) -> None:
        # A store for each term: late writes of an earlier term are refused, even if this process leads again.
        store = HubStore(self._server, fence=term.check)
        hub = Hub(store, self._cache, self._slots)
        metrics = self._metrics.term()
        loop = make_loop(
            hub,
            self._now,
            self._selectables,
            replace(self._settings, share=share),
            observer=metrics,
            upgrades=self._upgrades,
            nodes=NodeSide(ServerNodeWork(self._server, fence=term.check), self._nodes),
            events=EventRecorder(store, self._now, self._instance, *self._event_observers),
        )
        try:
            await loop.run()
        finally:
            metrics.ended()
            if share.owns(UPGRADES):  # otherwise another shard of this process may report them
                self._upgrades.ended()


class Reconcile:
    """A process that only reconciles the hub of a kubeconfig.

    Args:
        settings: Settings of the process.
        kubeconfig: The hub. None means the cluster of this pod.
        context: Context of the kubeconfig. None means its current one.
        identity: Name of this process in the Lease. Empty: that of the machine.
        now: The clock.

    Raises (on entering):
        webhook.kube.login.connection.ConfigurationError: The kubeconfig or the instance types are invalid.
    """

    def __init__(
        self,
        settings: ReconcileSettings,
        kubeconfig: Path | None,
        context: str | None = None,
        identity: str = "",
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.settings = settings
        self.health = Health()
        self._kubeconfig = kubeconfig
        self._context = context
        self._identity = identity
        self._now = now
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await check_instance_types(self.settings.node_disruption_prices)
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(await ApiServer.connect(self._kubeconfig, self._context))
            lease_server = await stack.enter_async_context(await ApiServer.connect(self._kubeconfig, self._context))
            self.cache = Cache(HubStore(server))
            metrics = Metrics(commit=self.settings.commit)
            self.notifier = await notifier_of(
                self.settings, self.settings.namespace, own_name(self._identity), metrics.registry, self._now
            )
            tracing = tracing_of(self.settings, "reconcile")
            if tracing is not None:
                stack.push_async_callback(tracing.close)
            self.reconciliation = Reconciliation(
                server,
                lease_server,
                self.cache,
                self.settings,
                metrics,
                identity=self._identity,
                now=self._now,
                onlookers=Onlookers(tracing, self.notifier.note_event),
            )
            await self.reconciliation.check()
            metrics.watch_cache(self.cache.freshness, self.cache.shared_bytes)
            self.health.require("caches", self.reconciliation.problem)
            self.health.require("hub", server.contact.outage)
            self.health.live_by("hub-login", server.contact.refusal)
            self._server = server
            self.health.require("leader", self.reconciliation.leader_problem)
            self.server = ProbeServer(self.settings, self.health, metrics, self._run)
            self._stack = stack.pop_all()
        freeze_heap()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._server.probe())
            tasks.create_task(self.cache.run())
            tasks.create_task(self.notifier.run())
            tasks.create_task(self.reconciliation.run())
