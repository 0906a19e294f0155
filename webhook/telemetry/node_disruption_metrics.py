"""The metrics of node disruption. Names of pools are label values, as in `webhook.gate.metrics`.

Source: serving.md 6.1; nodepool-disruption.md 12.
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
"""Of those that have no series before there is something to count."""


class NodeDisruptionMetrics(SubjectMetrics):
    """Counts what is done about nodes; a `webhook.controllers.nodes.observer.NodeDisruptionObserver`.

    Args:
        registry: Where the metrics are registered.
    """

    labels = LABELS

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        self._eligible = self.gauge(
            "harbormaster_disruption_eligible", "Nodes of a pool that could be disrupted for a reason, budgets apart."
        )
        self._held = self.gauge(
            "harbormaster_disruption_held",
            "Nodes that could go and stay, by what keeps them; a node may be kept by several things.",
        )
        self._decisions = self.counter("harbormaster_disruption_decisions", "Commands that were begun, or advised.")
        self._failures = self.counter(
            "harbormaster_disruption_failed_validations",
            "Commands that did not hold when they were looked at again, were refused by the gate, or were undone.",
        )
        self._draining = self.gauge("harbormaster_disruption_draining_nodes", "Nodes that are being drained.")

    def evaluated(self, eligible: Mapping[tuple[str, str], int], counts: Mapping[str, int]) -> None:
        """Show what a pass has found."""
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
        """Count a command that came to nothing."""
        self._failures.labels(method, failure).inc()

    def draining(self, nodes: int) -> None:
        """Show how many nodes are being drained."""
        self._draining.set(nodes)

    def ended(self) -> None:
        """Forget what was found: the term is over, and another process shows it."""
        self._eligible.clear()
        self._held.clear()
        self._draining.set(0)
