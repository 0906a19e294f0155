"""What is free in a cluster that moves: kept from one instant to the next, where making it anew would take longest.

Nodes that are made come after all others, and count as initialized: they come last in any case.
"""

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from scorer.node_disruption.cluster import ClusterNode
from scorer.node_disruption.domains import Domains
from scorer.node_disruption.fitting import Fitting
from scorer.node_disruption.node_rows import NodeRows
from scorer.node_disruption.pod import Pod


class Room(Fitting):
    """The nodes of a cluster and what is free on them, while nodes come and go."""

    def add(self, nodes: Sequence[ClusterNode]) -> None:
        """Take in nodes, without pods."""
        if not nodes:
            return
        more = np.ones(len(nodes), dtype=np.bool_)
        self._rows = NodeRows((*self._rows.nodes, *nodes))
        self.names = (*self.names, *(node.name for node in nodes))
        self._present = np.concatenate([self._present, more])
        self._open = np.concatenate([self._open, more])
        self._occupancy.add_nodes(nodes)
        self._domains = Domains(self._rows, self._present, self._occupancy, self._domains.terms)

    def lose(self, names: Collection[str]) -> None:
        """Forget nodes, with the pods that are on them."""
        kept = self._but(names)
        self._present = self._present & kept
        self._open = self._open & kept
        self._domains = Domains(self._rows, self._present, self._occupancy, self._domains.terms)

    def put(self, pods: Iterable[Pod], node: str) -> None:
        """Put pods on a node that is there; finished ones take nothing."""
        for pod in pods:
            if not pod.finished:
                self.place(pod, node)

    def take(self, pods: Iterable[Pod], node: str) -> None:
        """Take pods off a node that is there."""
        for pod in pods:
            if not pod.finished:
                self.remove(pod, node)
