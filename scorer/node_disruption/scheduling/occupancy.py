"""Used resources of each node, while pods are placed and removed.

Columns are copy-on-write and shared between states, so a state that differs from another in a few pods costs little.
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
"""A pod, the row of its node, 1 if placed or -1 if removed, and the number of counters at that time."""
_WHOLE: Final = np.dtype(np.int64)


class Occupancy:
    """Resources that pods use on the nodes.

    Args:
        nodes: The nodes, one per row.
        loads: Loads of the nodes, one per row.
        counts: Counters of the pods in *loads*.
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
        """Return an independent copy."""
        occupancy = Occupancy.__new__(Occupancy)
        occupancy.size, occupancy._first_size, occupancy.counts = self.size, self._first_size, self.counts
        occupancy._places = list(self._places)
        occupancy._columns = dict(self._columns)
        occupancy._owned = set()
        self._owned = set()  # both copies must copy a column before they write to it
        return occupancy

    def add_nodes(self, nodes: Sequence[ClusterNode]) -> None:
        """Append empty nodes."""
        start, self.size = self.size, self.size + len(nodes)
        for row, node in enumerate(nodes, start):
            for resource, amount in node.allocatable.items():
                self._change(("free", resource), row, amount)

    def free(self, resource: str) -> IntColumn:
        """Return the free amount of a resource, negative if overcommitted."""
        return self._column(("free", resource))

    def number_of(self, counter: int) -> IntColumn:
        """Return the number of pods per node for a counter of `counts`."""
        return self._column(counter)

    def without_ports(self, port: HostPort) -> BoolColumn:
        """Return the nodes where *port* conflicts with no used port."""
        mask = np.ones(self.size, dtype=np.bool_)
        for key in tuple(self._columns):
            if isinstance(key, HostPort) and key.conflicts(port):
                mask &= self._column(key) == 0
        return mask

    def change(self, pod: Pod, row: int, node: str, sign: int) -> tuple[int, ...]:
        """Place (*sign* 1) or remove (-1) a pod. Return the counters that change by *sign*."""
        for resource, amount in pod.usage_on(node).items():
            self._change(("free", resource), row, -sign * amount)
        self._take_ports(pod.shape, row, sign)
        changed = (*self.counts.carried(pod.shape), *self.counts.meaning(pod)[0])
        for number in changed:
            self._change(number, row, sign)
        self._places.append((pod, row, sign, self.counts.size))
        return changed

    def discount(self, pod: Pod, row: int) -> tuple[int, ...]:
        """Stop counting a pod that leaves a draining node. Return the counters that decrease.

        Its resources are not freed, because a draining node accepts no pods.
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
        """Return a column with a value per node. Nodes added since its creation have 0."""
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
        """Compute a counter on first use, from the initial state and the changes before the counter existed.

        Later changes have already created the column.
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
    """Return the free resources of nodes. Nodes that do not list a resource have none of it."""
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
