"""The metrics of an agent.

Source: docs/specifications/serving.md 6.1, by analogy.
"""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from webhook.member.works.controller import PassResult

RESULTS: Final = ("success", "failure")


class AgentMetrics:
    """Counts actions of an agent. All label sets exist from the start at 0.

    Args:
        registry: Registry of the metrics.
        is_joined: Returns whether Works are being applied.
        works: Returns the number of Works.
    """

    def __init__(self, registry: CollectorRegistry, *, is_joined: Callable[[], bool], works: Callable[[], int]) -> None:
        self._heartbeats = Counter(
            "harbormaster_agent_heartbeats", "Number of heartbeats, by outcome.", ("result",), registry=registry
        )
        self._passes = Counter(
            "harbormaster_agent_work_passes",
            "Number of reconciles of Works, by outcome.",
            ("result",),
            registry=registry,
        )
        for result in RESULTS:
            self._heartbeats.labels(result)
        for outcome in PassResult:
            self._passes.labels(outcome.value)
        Gauge("harbormaster_agent_joined", "Whether the cluster is a member: 1 or 0.", registry=registry).set_function(
            lambda: float(is_joined())
        )
        Gauge("harbormaster_agent_works", "Number of Works for this member.", registry=registry).set_function(
            lambda: float(works())
        )

    def count_heartbeat(self, is_delivered: bool) -> None:
        """Count one heartbeat."""
        self._heartbeats.labels(RESULTS[0 if is_delivered else 1]).inc()

    def passed(self, result: PassResult) -> None:
        """Count one pass over a Work."""
        self._passes.labels(result.value).inc()
