"""What is taken on each node, while pods come and go.

Columns are shared between states and copied when one of them changes: a state that differs from another in a few pods
costs little.
"""

from collections.abc import Hashable, Mapping, Sequence
from itertools import takewhile
from typing import Final, TypeAlias

import numpy as np

from scorer.columns import BoolColumn, IntColumn
from scorer.node_disruption.cluster.constraints import HostPort, PodShape
from scorer.node_disruption.cluster.pod import Pod
from scorer.node_disruption.cluster.snapshot import ClusterNode
from scorer.node_disruption.scheduling.node_load import Load
from scorer.node_disruption.scheduling.pod_counts import PodCounts

_Place: TypeAlias = tuple[Pod, int, int, int]
"""A pod, the row of a node, whether it came (1) or went (-1), and how many numbers there were then."""
_WHOLE: Final = np.dtype(np.int64)


class Occupancy:
    """What pods take on the nodes.

    Args:
        nodes: One row each.
        loads: What runs on them; one for each row.
        counts: Of the same pods.
    """

    def __init__(self, nodes: Sequence[ClusterNode], loads: Sequence[Load], counts: PodCounts) -> None:
        self.size = self._first_size = len(nodes)
        self.counts = counts
        self._places: list[_Place] = []
        self._columns: dict[Hashable, IntColumn] = {}
        self._owned: set[Hashable] = set()
        for resource, column in _free(nodes, loads).items():
            self._columns["free", resource] = column
        for row, load in enumerate(loads):
            for pod in load.special:
                self._take_ports(pod.shape, row, 1)
        self._owned = set(self._columns)

    def copy(self) -> "Occupancy":
        """Return a state that is equal, and independent from now on."""
        copied = Occupancy.__new__(Occupancy)
        copied.size, copied._first_size, copied.counts = self.size, self._first_size, self.counts
        copied._places = list(self._places)
        copied._columns = dict(self._columns)
        copied._owned = set()
        self._owned = set()  # both must copy before they write
        return copied

    def add_nodes(self, nodes: Sequence[ClusterNode]) -> None:
        """Add empty nodes after the others."""
        start, self.size = self.size, self.size + len(nodes)
        for row, node in enumerate(nodes, start):
            for resource, amount in node.allocatable.items():
                self._change(("free", resource), row, amount)

    def free(self, resource: str) -> IntColumn:
        """Return how much of a resource is free; negative where more is taken than there is."""
        return self._column(("free", resource))

    def number_of(self, counted: int) -> IntColumn:
        """Return how many pods there are of what a number of `counts` stands for."""
        return self._column(counted)

    def without_ports(self, wanted: HostPort) -> BoolColumn:
        """Return the nodes where *wanted* conflicts with no port that is taken."""
        mask = np.ones(self.size, dtype=np.bool_)
        for key in tuple(self._columns):
            if isinstance(key, HostPort) and key.conflicts(wanted):
                mask &= self._column(key) == 0
        return mask

    def change(self, pod: Pod, row: int, node: str, sign: int) -> tuple[int, ...]:
        """Put a pod on a node (*sign* 1) or take it off (-1); returns the numbers whose counts change by *sign*."""
        for resource, amount in pod.usage_on(node).items():
            self._change(("free", resource), row, -sign * amount)
        self._take_ports(pod.shape, row, sign)
        changed = (*self.counts.carried(pod.shape), *self.counts.meaning(pod)[0])
        for number in changed:
            self._change(number, row, sign)
        self._places.append((pod, row, sign, self.counts.size))
        return changed

    def discount(self, pod: Pod, row: int) -> tuple[int, ...]:
        """Stop counting a pod that leaves a draining node. Return the numbers whose counts decrease.

        Its resources are not freed: a draining node takes no pods.
        """
        changed = (*self.counts.carried(pod.shape), *self.counts.meaning(pod)[0])
        for number in changed:
            self._change(number, row, -1)
        self._places.append((pod, row, -1, self.counts.size))
        return changed

    def _take_ports(self, shape: PodShape, row: int, sign: int) -> None:
        for port in shape.host_ports:
            self._change(port, row, sign)

    def _change(self, key: Hashable, row: int, amount: int) -> None:
        column = self._column(key)
        if key not in self._owned:
            column = self._columns[key] = column.copy()
            self._owned.add(key)
        column[row] += amount

    def _column(self, key: Hashable) -> IntColumn:
        """Return a column with a value for every node; those added since it was made have 0."""
        column = self._columns.get(key)
        if column is not None and column.size == self.size:
            return column
        if column is None:
            column = self._counted(key) if isinstance(key, int) else np.zeros(self.size, dtype=_WHOLE)
        if column.size < self.size:
            column = np.concatenate([column, np.zeros(self.size - column.size, dtype=_WHOLE)])
        self._columns[key] = column
        return column

    def _counted(self, number: int) -> IntColumn:
        """Count what is asked for the first time: what there was at the start, and what changed before it had a number.

        Whatever changed later has made the column.
        """
        column = self.counts.first(number, self._first_size)
        earlier = takewhile(lambda place: place[3] <= number, self._places)
        since = [(row, sign * times) for pod, row, sign, _ in earlier if (times := self._times(number, pod))]
        if since:
            column = np.concatenate([column, np.zeros(self.size - column.size, dtype=_WHOLE)])
            for row, change in since:
                column[row] += change
        return column

    def _times(self, number: int, pod: Pod) -> int:
        return self.counts.carried(pod.shape).count(number) or int(number in self.counts.meaning(pod)[0])


def _free(nodes: Sequence[ClusterNode], loads: Sequence[Load]) -> Mapping[str, IntColumn]:
    """Return what is left of what nodes have, by resource; nodes that do not name a resource have none of it."""
    left: dict[str, list[int]] = {}
    for row, node in enumerate(nodes):
        for resource, amount in node.allocatable.items():
            left.setdefault(resource, [0] * len(nodes))[row] = amount
    for row, load in enumerate(loads):
        for resource, amount in load.taken.items():
            if (column := left.get(resource)) is None:
                column = left[resource] = [0] * len(nodes)
            column[row] -= amount
    return {resource: np.array(column, dtype=_WHOLE) for resource, column in left.items()}
