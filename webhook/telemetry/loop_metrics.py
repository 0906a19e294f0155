"""The metrics and the spans of the reconcile loop.

Source: serving.md 6.1 and 6.3.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from webhook.controllers.assembly import CONTROLLERS
from webhook.controllers.observer import NOTHING, Outcome, Queue
from webhook.telemetry.tracing import Tracing

BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)


class LoopMetrics:
    """Counts what the controllers do; a `webhook.controllers.observer.QueueObserver`.

    The series of all controllers exist from the start, also in a process that never leads, and go on from one term of
    leadership to the next.

    Args:
        registry: Where the metrics are registered.
        leading: Whether this process leads now.
        tracing: Makes a span of every reconcile; None: nothing does.
    """

    def __init__(
        self, registry: CollectorRegistry, leading: Callable[[], bool], tracing: Tracing | None = None
    ) -> None:
        self._tracing = tracing
        self._reconciles = Counter(
            "harbormaster_reconcile",
            "Reconciled keys by controller and result.",
            ("controller", "result"),
            registry=registry,
        )
        self._seconds = Histogram(
            "harbormaster_reconcile_duration_seconds",
            "Time to reconcile one key.",
            ("controller", "result"),
            buckets=BUCKETS,
            registry=registry,
        )
        self._depth = Gauge("harbormaster_workqueue_depth", "Keys in the queue.", ("controller",), registry=registry)
        self._retries = Counter(
            "harbormaster_workqueue_retries", "Keys put back after a failure.", ("controller",), registry=registry
        )
        self._longest_wait = Gauge(
            "harbormaster_workqueue_longest_wait_seconds",
            "How long the first key in the queue has been waiting.",
            ("controller",),
            registry=registry,
        )
        Gauge("harbormaster_leader", "Whether this process leads.", registry=registry).set_function(
            lambda: float(leading())
        )
        self._queues: dict[str, Queue] = {}
        for name in CONTROLLERS:
            self._create_series(name)

    def watch(self, queue: Queue) -> None:
        """Read *queue* from now on, in place of an earlier one of that name."""
        self._queues[queue.name] = queue

    def _create_series(self, name: str) -> None:
        self._depth.labels(name).set_function(lambda: len(self._queues[name]) if name in self._queues else 0)
        self._longest_wait.labels(name).set_function(
            lambda: self._queues[name].longest_wait_seconds if name in self._queues else 0.0
        )
        self._retries.labels(name)
        for outcome in Outcome:
            self._reconciles.labels(name, outcome)
            self._seconds.labels(name, outcome)

    def around(self, controller: str, key: object) -> AbstractContextManager[object]:
        """Return a span to reconcile one key in."""
        if self._tracing is None:
            return NOTHING
        return self._tracing.span("reconcile", controller=controller, key=str(key))

    def finished(self, controller: str, outcome: Outcome, seconds: float) -> None:
        """Count one reconcile."""
        self._reconciles.labels(controller, outcome).inc()
        self._seconds.labels(controller, outcome).observe(seconds)

    def retried(self, controller: str) -> None:
        """Count one key that was put back after a failure."""
        self._retries.labels(controller).inc()

    def ended(self) -> None:
        """Forget all queues: the term is over."""
        self._queues.clear()
