"""Metrics hooks of node disruption (a port).

Source: docs/specifications/nodepool-disruption.md 12; docs/specifications/serving.md 6.1.
"""

from collections.abc import Mapping
from typing import Final, Protocol


class NodeDisruptionObserver(Protocol):
    """Metrics hooks. Calls must be quick and must not raise."""

    def evaluated(self, eligible: Mapping[tuple[str, str], int], held: Mapping[str, int]) -> None:
        """Record a pass: number of eligible nodes by pool and reason, and of held nodes by cause."""
        ...

    def decided(self, method: str, decision: str) -> None:
        """Count a command that is new since the previous pass, or that was started."""
        ...

    def failed(self, method: str, failure: str) -> None:
        """Count a command that failed validation, that the gate refused, or that was rolled back."""
        ...

    def draining(self, nodes: int) -> None:
        """Record the number of nodes that are being drained."""
        ...

    def ended(self) -> None:
        """Clear the metrics: the term has ended, or the cluster cannot be read."""
        ...


class _Unobserved:
    def evaluated(self, eligible: Mapping[tuple[str, str], int], held: Mapping[str, int]) -> None:
        pass

    def decided(self, method: str, decision: str) -> None:
        pass

    def failed(self, method: str, failure: str) -> None:
        pass

    def draining(self, nodes: int) -> None:
        pass

    def ended(self) -> None:
        pass


UNOBSERVED_NODES: Final[NodeDisruptionObserver] = _Unobserved()
"""No-op observer."""
