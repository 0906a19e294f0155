"""Metrics hooks of node disruption (a port).

Source: nodepool-disruption.md 12; serving.md 6.1.
"""

from collections.abc import Mapping
from typing import Final, Protocol


class NodeDisruptionObserver(Protocol):
    """Is told what is found and done; quick, and never raises."""

    def evaluated(self, eligible: Mapping[tuple[str, str], int], held: Mapping[str, int]) -> None:
        """A pass has found so many nodes eligible by pool and reason, and so many that stay by what keeps them."""
        ...

    def decided(self, method: str, decision: str) -> None:
        """A command was found that had not been found by the pass before, or was begun."""
        ...

    def failed(self, method: str, failure: str) -> None:
        """A command did not hold any more when it was validated, or the gate refused it."""
        ...

    def draining(self, nodes: int) -> None:
        """So many nodes are being drained."""
        ...

    def ended(self) -> None:
        """The term is over: another process shows what is found."""
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
"""For nodes that nobody counts."""
