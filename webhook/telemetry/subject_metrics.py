"""Registers the metrics of one subject, with labels from a table that the reference documentation also reads."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class SubjectMetrics:
    """Base of the metrics of one subject.

    Args:
        registry: Registry of the metrics.
    """

    labels: ClassVar[Mapping[str, tuple[str, ...]]]
    """Labels by metric. A metric without an entry has none."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def gauge(self, name: str, text: str) -> Gauge:
        """Register a gauge. *text* is its help text."""
        return Gauge(name, text, self.labels.get(name, ()), registry=self._registry)

    def counter(self, name: str, text: str) -> Counter:
        """Register a counter. *text* is its help text."""
        return Counter(name, text, self.labels.get(name, ()), registry=self._registry)

    def histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        """Register a histogram. *text* is its help text."""
        return Histogram(name, text, self.labels.get(name, ()), buckets=buckets, registry=self._registry)
