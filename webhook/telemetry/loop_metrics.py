"""Metrics and spans of the reconcile loop.

Objects that need action are counted by kind, never by name: the number of series does not depend on the number of
objects. Names are in Events, notifications and the history.

Source: docs/specifications/serving.md 6.1 and 6.3.
"""

from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from scorer.api.family import FAMILIES
from scorer.api.kinds import MEMBER_CLUSTER, NODE_POOL, Kind
from scorer.rollout.confirmation.report import UNCONFIRMED_REASONS
from webhook.controllers.assembly import CONTROLLERS
from webhook.controllers.machinery.observer import NOTHING, Queue, ReconcileOutcome
from webhook.kube.leader_election.shards import Move
from webhook.runtime.clock import utc_now
from webhook.telemetry.tracing import Tracing

BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)


class TermMetrics:
    """Metrics of the controllers in one term. Implements `webhook.controllers.machinery.observer.LoopObserver`.

    Args:
        counts: Metrics of the whole process.
    """

    def __init__(self, counts: "LoopMetrics") -> None:
        self.queues: dict[str, Queue] = {}
        self.still: dict[str, set[Hashable]] = {}
        """Keys of the objects that need action, by kind."""
        self.pending: dict[str, dict[Hashable, datetime]] = {}
        """Start of the oldest pending removal of each placement, by kind."""
        self._counts = counts

    def watch(self, queue: Queue) -> None:
        """Register *queue*, which replaces an earlier one of that name."""
        self.queues[queue.name] = queue

    def needs_action(self, kind: Kind, key: Hashable, *, still: bool) -> None:
        """Set or clear the mark of an object that makes no progress without user action."""
        keys = self.still.setdefault(kind.kind, set())
        if still:
            keys.add(key)
        else:
            keys.discard(key)

    def removal_pending(self, kind: Kind, key: Hashable, since: datetime | None) -> None:
        """Record when a placement's removals started to wait for confirmation. None: unset, none waits."""
        times = self.pending.setdefault(kind.kind, {})
        if since is None:
            times.pop(key, None)
        else:
            times[key] = since

    def unconfirmed(self, reason: str) -> None:
        """Count an Event about content that was removed without confirmation, or is no longer managed."""
        self._counts.unconfirmed.labels(reason).inc()

    def span(self, controller: str, key: object) -> AbstractContextManager[object]:
        """Return a span for the reconcile of one key."""
        return self._counts.span(controller, key)

    def finished(self, controller: str, outcome: ReconcileOutcome, seconds: float) -> None:
        """Count one reconcile, and observe its duration."""
        self._counts.finished(controller, outcome, seconds)

    def retried(self, controller: str) -> None:
        """Count one requeue after a failure."""
        self._counts.retried(controller)

    def ended(self) -> None:
        """Drop all queues and marks at the end of the term, because the next leader reports them."""
        self._counts.terms.discard(self)


class LoopMetrics:
    """Metrics of the controllers of a process, over all of its terms.

    The series of all controllers exist from the start, even in a process that never leads, and continue from one
    leadership term to the next.

    Args:
        registry: Registry of the metrics.
        is_leader: Returns whether this process leads now.
        tracing: Makes a span of every reconcile. None: disabled.
    """

    def __init__(
        self, registry: CollectorRegistry, is_leader: Callable[[], bool], tracing: Tracing | None = None
    ) -> None:
        self._tracing = tracing
        self._reconciles = Counter(
            "harbormaster_reconcile",
            "Number of reconciles, by controller and result.",
            ("controller", "result"),
            registry=registry,
        )
        self._seconds = Histogram(
            "harbormaster_reconcile_duration_seconds",
            "Duration of a reconcile.",
            ("controller", "result"),
            buckets=BUCKETS,
            registry=registry,
        )
        self._depth = Gauge(
            "harbormaster_workqueue_depth", "Number of keys in the queue.", ("controller",), registry=registry
        )
        self._retries = Counter(
            "harbormaster_workqueue_retries",
            "Number of keys requeued after a failure.",
            ("controller",),
            registry=registry,
        )
        self._longest_wait = Gauge(
            "harbormaster_workqueue_longest_wait_seconds",
            "Age of the oldest key in the queue.",
            ("controller",),
            registry=registry,
        )
        Gauge("harbormaster_leader", "Whether this process is the leader: 1 or 0.", registry=registry).set_function(
            lambda: float(is_leader())
        )
        self.terms: set[TermMetrics] = set()
        """Active terms: at most one, or one per held shard."""
        self._count_still(registry)
        for name in CONTROLLERS:
            self._create_series(name)

    def term(self) -> TermMetrics:
        """Return the metrics of a new term."""
        term = TermMetrics(self)
        self.terms.add(term)
        return term

    def _queues(self, name: str) -> Iterator[Queue]:
        return (term.queues[name] for term in self.terms if name in term.queues)

    def _create_series(self, name: str) -> None:
        self._depth.labels(name).set_function(lambda: sum(map(len, self._queues(name))))
        self._longest_wait.labels(name).set_function(
            lambda: max((queue.longest_wait_seconds for queue in self._queues(name)), default=0.0)
        )
        self._retries.labels(name)
        for outcome in ReconcileOutcome:
            self._reconciles.labels(name, outcome)
            self._seconds.labels(name, outcome)

    def _count_still(self, registry: CollectorRegistry) -> None:
        gauges = (
            (
                "harbormaster_placements_stalled",
                "Number of placements with a stalled rollout.",
                [family.placement for family in FAMILIES],
            ),
            (
                "harbormaster_update_runs_waiting_for_approval",
                "Number of staged update runs that wait for an approval.",
                [family.run for family in FAMILIES],
            ),
            ("harbormaster_members_silent", "Number of members whose agent has stopped reporting.", [MEMBER_CLUSTER]),
            (
                "harbormaster_node_pools_shut",
                "Number of node pools whose budgets have allowed 0 disruptions for a day.",
                [NODE_POOL],
            ),
        )
        for name, description, kinds in gauges:
            gauge = Gauge(name, description, ("kind",), registry=registry)
            for kind in kinds:
                gauge.labels(kind.kind).set_function(partial(self._standing, kind.kind))

        pending = Gauge(
            "harbormaster_removals_pending",
            "Number of placements with removals that wait for confirmation.",
            ("kind",),
            registry=registry,
        )
        oldest = Gauge(
            "harbormaster_removals_oldest_pending_seconds",
            "Age of the oldest removal that waits for confirmation.",
            ("kind",),
            registry=registry,
        )
        self.unconfirmed = Counter(
            "harbormaster_removals_unconfirmed",
            "Number of Events about content that was removed with a warning, was removed because confirmation was "
            "turned off, or remains on members unmanaged.",
            ("reason",),
            registry=registry,
        )
        for reason in UNCONFIRMED_REASONS:
            self.unconfirmed.labels(reason)
        for name in (family.placement.kind for family in FAMILIES):
            pending.labels(name).set_function(partial(self._pending, name))
            oldest.labels(name).set_function(partial(self._oldest_pending, name))

    def _pending(self, kind: str) -> int:
        return sum(len(term.pending.get(kind, ())) for term in self.terms)

    def _oldest_pending(self, kind: str) -> float:
        times = [since for term in self.terms for since in term.pending.get(kind, {}).values()]
        return max(0.0, (utc_now() - min(times)).total_seconds()) if times else 0.0

    def _standing(self, kind: str) -> int:
        return sum(len(term.still.get(kind, ())) for term in self.terms)

    def span(self, controller: str, key: object) -> AbstractContextManager[object]:
        """Return a span for the reconcile of one key."""
        if self._tracing is None:
            return NOTHING
        return self._tracing.span("reconcile", controller=controller, key=str(key))

    def finished(self, controller: str, outcome: ReconcileOutcome, seconds: float) -> None:
        """Count one reconcile, and observe its duration."""
        self._reconciles.labels(controller, outcome).inc()
        self._seconds.labels(controller, outcome).observe(seconds)

    def retried(self, controller: str) -> None:
        """Count one requeue after a failure."""
        self._retries.labels(controller).inc()


class ShardMetrics:
    """Reports the shards that this replica holds, and counts acquired and released shards.

    Args:
        registry: Registry of the metrics.
        count: Number of shards.
        held_shards: Returns the shards that this process holds now.
        clash: Returns the number of shards that the awaited replicas are configured with, or 0 if this replica does not
            wait.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        count: int,
        held_shards: Callable[[], Collection[int]],
        clash: Callable[[], int],
    ) -> None:
        gauge = Gauge(
            "harbormaster_shard_held", "Whether this process owns a shard: 1 or 0.", ("shard",), registry=registry
        )
        for shard in range(count):
            gauge.labels(str(shard)).set_function(partial(lambda shard: float(shard in held_shards()), shard))
        self._moves = Counter(
            "harbormaster_shard_moves",
            "Number of shards that this process has acquired or released.",
            ("move",),
            registry=registry,
        )
        for move in Move:
            self._moves.labels(move)
        Gauge(
            "harbormaster_shards_waited_for",
            "Number of shards in the replicas that this replica waits for, because its own number of shards differs. "
            "0: not waiting.",
            registry=registry,
        ).set_function(clash)

    def moved(self, _shard: int, move: Move) -> None:
        """Count a shard that was acquired or released."""
        self._moves.labels(move).inc()
