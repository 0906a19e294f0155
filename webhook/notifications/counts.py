"""The metrics of notifications."""

from collections.abc import Callable
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge


class DeliveryResult(StrEnum):
    """What became of a notification, or of one attempt to send it.

    ``FAILED`` is an attempt that is made again; all others are final.
    """

    SENT = "sent"
    FAILED = "failed"
    REFUSED = "refused"
    EXPIRED = "expired"
    DROPPED = "dropped"


class NotificationCounts:
    """Counts notifications.

    Args:
        registry: Where the metrics are registered.
        waiting: Returns how many wait.
    """

    def __init__(self, registry: CollectorRegistry, waiting: Callable[[], int]) -> None:
        self._counter = Counter(
            "harbormaster_notifications",
            "Notifications by what became of them; failed: an attempt that is made again.",
            ("result",),
            registry=registry,
        )
        for result in DeliveryResult:
            self._counter.labels(result)
        Gauge(
            "harbormaster_notifications_waiting", "Notifications that are still to be sent.", registry=registry
        ).set_function(waiting)

    def count(self, result: DeliveryResult, times: int = 1) -> None:
        """Count what became of notifications."""
        self._counter.labels(result).inc(times)
