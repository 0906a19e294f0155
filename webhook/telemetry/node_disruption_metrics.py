"""Metrics of node disruption. Pool names are label values, as in `webhook.gate.metrics`.

Source: docs/specifications/serving.md 6.1; docs/specifications/nodepool-disruption.md 12.
"""

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry

from webhook.telemetry.subject_metrics import SubjectMetrics

LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "harbormaster_disruption_eligible": ("nodepool", "reason"),
    "harbormaster_disruption_held": ("cause",),
    "harbormaster_disruption_decisions": ("method", "decision"),
    "harbormaster_disruption_failed_validations": ("method", "failure"),
}
"""Labels by metric. These have no series before the first count."""


class NodeDisruptionMetrics(SubjectMetrics):
    """Metrics of node disruption. Implements `webhook.controllers.nodes.observer.NodeDisruptionObserver`.

    Args:
        registry: Registry of the metrics.
    """

    labels = LABELS

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        self._eligible = self.gauge(
            "harbormaster_disruption_eligible",
            "Number of nodes of a pool that are eligible for disruption for a reason, regardless of budgets.",
        )
        self._held = self.gauge(
            "harbormaster_disruption_held",
            "Number of eligible nodes that are not disrupted, by blocker. A node can have several blockers.",
        )
        self._decisions = self.counter(
            "harbormaster_disruption_decisions", "Number of disruption commands that were started or advised."
        )
        self._failures = self.counter(
            "harbormaster_disruption_failed_validations",
            "Number of disruption commands that failed validation, were refused by the gate, or were rolled back.",
        )
        self._draining = self.gauge("harbormaster_disruption_draining_nodes", "Number of nodes being drained.")

    def evaluated(self, eligible: Mapping[tuple[str, str], int], counts: Mapping[str, int]) -> None:
        """Record the numbers of one pass."""
        self._eligible.clear()
        for key, number in eligible.items():
            self._eligible.labels(*key).set(number)
        self._held.clear()
        for cause, number in counts.items():
            self._held.labels(cause).set(number)

    def decided(self, method: str, decision: str) -> None:
        """Count a command."""
        self._decisions.labels(method, decision).inc()

    def failed(self, method: str, failure: str) -> None:
        """Count a command that failed."""
        self._failures.labels(method, failure).inc()

    def draining(self, nodes: int) -> None:
        """Record the number of nodes that are being drained."""
        self._draining.set(nodes)

    def ended(self) -> None:
        """Clear the gauges at the end of the term, because the next leader reports them."""
        self._eligible.clear()
        self._held.clear()
        self._draining.set(0)
