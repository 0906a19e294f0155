"""Which nodes have room for each kind of pod in one state of a cluster, found once for each kind.

The planning of disruption asks where pods go in thousands of states that differ from one in a few nodes. What is the
same in all of them is kept here. Whoever asks looks anew at the nodes that differ, and at what depends on several
nodes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from scorer.columns import BoolColumn
from scorer.node_disruption.pod import Pod
from scorer.node_disruption.shape import Shape

_MOST_ROWS: Final = 32
"""How many nodes are kept for a kind of pod: more than may differ in a state that asks."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Nodes that have room for a kind of pod.

    Args:
        rows: The first of them, in the order in which they are taken.
        are_all: There are no others.
    """

    rows: tuple[int, ...]
    are_all: bool


class Choices:
    """Which nodes have room for each kind of pod.

    Args:
        roomy: Returns which nodes have room for a pod, in a state that does not change any more.
        initialized: The nodes that come before others; shape (nodes,).
    """

    def __init__(self, roomy: Callable[[Pod], BoolColumn], initialized: BoolColumn) -> None:
        self._roomy = roomy
        self._initialized = initialized
        self._known: dict[int, tuple[Shape, Choice]] = {}

    def of(self, pod: Pod) -> Choice:
        """Return the nodes that have room for *pod*."""
        if (found := self._known.get(id(pod.shape))) is None:  # the shape is kept, so that its id stays its own
            found = self._known[id(pod.shape)] = pod.shape, self._made(pod)
        return found[1]

    def _made(self, pod: Pod) -> Choice:
        mask = self._roomy(pod)[: len(self._initialized)]
        first, others = np.flatnonzero(mask & self._initialized), np.flatnonzero(mask & ~self._initialized)
        rows = (*first[:_MOST_ROWS].tolist(), *others[:_MOST_ROWS].tolist())
        return Choice(rows[:_MOST_ROWS], len(first) + len(others) <= _MOST_ROWS)
