"""Which pods the terms of other pods mean, and how many of them run on each node.

The pods of a cluster fall into few classes: pods of one class are in one namespace and agree in the labels that any
term asks for. What is asked of pods is asked once per class. What is counted has a number, which costs less to look up
than the terms themselves.

Source: Kubernetes v1.36 ``pkg/scheduler/framework/plugins``: interpodaffinity, podtopologyspread.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scorer.columns import IntColumn
from scorer.node_disruption.pod import Pod
from scorer.node_disruption.shape import PodTerm, Shape, Spread

NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
"""The label that every namespace has, with its name."""


@dataclass(frozen=True, slots=True)
class Selected:
    """Pods that are selected.

    Args:
        terms: They match all of them, whatever the topology keys.
        unless_ending: They are not being deleted.
    """

    terms: tuple[PodTerm, ...]
    unless_ending: bool = False

    @classmethod
    def by_terms(cls, terms: Iterable[PodTerm]) -> "Selected":
        """Return the pods that match all terms of an affinity."""
        return cls(tuple(PodTerm("", term.selector, term.namespaces, term.namespace_selector) for term in terms))

    @classmethod
    def to_spread(cls, spread: Spread, namespace: str) -> "Selected":
        """Return the pods that a constraint of a pod in *namespace* spreads; an empty selector counts no pod."""
        selector = spread.selector if spread.selector and spread.selector.expressions else None
        return cls((PodTerm("", selector, frozenset((namespace,))),), unless_ending=True)

    @property
    def keys(self) -> frozenset[str]:
        """The keys of pods' labels that it asks for."""
        return frozenset(each.key for term in self.terms if term.selector for each in term.selector.expressions)


@dataclass(frozen=True, slots=True)
class Carrying:
    """Pods that have a term of anti-affinity."""

    term: PodTerm

    @property
    def keys(self) -> frozenset[str]:
        """The keys of pods' labels that it asks for."""
        return frozenset(each.key for each in self.term.selector.expressions) if self.term.selector else frozenset()


Counted: TypeAlias = Selected | Carrying
Meaning: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
_NONE: Final[Meaning] = ((), ())


class PodCounts:
    """The pods of a cluster by class.

    Args:
        pods: With the row of the node that each runs on.
        shapes: Of all pods that may be asked about; of others it takes longer.
        namespaces: Labels of the namespaces that are known.
    """

    def __init__(
        self,
        pods: Sequence[tuple[Pod, int]],
        shapes: Iterable[Shape],
        namespaces: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._pods = pods
        self._namespaces = namespaces
        self._keys = tuple(sorted(frozenset[str]().union(*(shape.selected_keys() for shape in shapes))))
        self._classes: dict[tuple[object, ...], int] = {}
        self._examples: list[Pod] = []
        self._class_of = np.array([self._class(pod) for pod, _ in pods], dtype=np.intp)
        self._rows = np.array([row for _, row in pods], dtype=np.intp)
        self._in_namespace: dict[str, list[int]] = {}
        for number, pod in enumerate(self._examples):
            self._in_namespace.setdefault(pod.namespace, []).append(number)
        self._present = len(self._examples)
        self._numbers: dict[Counted, int] = {}
        self._counted: list[Counted] = []
        self._unusual: list[int] = []
        self._first: dict[int, IntColumn] = {}
        self._meaning: dict[int, tuple[int, Meaning]] = {}
        self._carried: dict[int, tuple[Shape, tuple[int, ...]]] = {}
        self._carriers: dict[int, list[int]] = {}
        for pod, row in pods:
            for number in self.carried(pod.shape):
                self._carriers.setdefault(number, []).append(row)

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return len(self._counted)

    def number(self, counted: Counted) -> int:
        """Return the number that stands for what is counted."""
        if (found := self._numbers.get(counted)) is None:
            found = self._numbers[counted] = len(self._counted)
            self._counted.append(counted)
            if not counted.keys.issubset(self._keys):
                self._unusual.append(found)
        return found

    def carried(self, shape: Shape) -> tuple[int, ...]:
        """Return the numbers of the terms of anti-affinity that a pod has; one that it has twice comes twice."""
        if not shape.anti_affinity:
            return ()
        if (found := self._carried.get(id(shape))) is None:  # the shape is kept, so that its id stays its own
            found = self._carried[id(shape)] = shape, tuple(self.number(Carrying(term)) for term in shape.anti_affinity)
        return found[1]

    def meaning(self, pod: Pod) -> Meaning:
        """Return the numbers of the selections that *pod* is among, and of the carried terms that keep it away."""
        own = self._class(pod)
        seen, found = self._meaning.get(own, (0, _NONE))
        if seen < len(self._counted):
            new = (number for number in range(seen, len(self._counted)) if number not in self._unusual)
            found = self._with_meant(found, new, pod)
            self._meaning[own] = len(self._counted), found
        return self._with_meant(found, self._unusual, pod) if self._unusual else found

    def is_meant(self, number: int, pod: Pod) -> bool:
        """Say whether *pod* is among the selected, or is kept away by the carried term."""
        counted = self._counted[number]
        if isinstance(counted, Carrying):
            return self._means(counted.term, pod, own=False)
        if counted.unless_ending and pod.terminating_since is not None:
            return False
        return all(self._means(term, pod, own=True) for term in counted.terms)

    def topology_key(self, number: int) -> str:
        """Return the topology key of the carried term."""
        counted = self._counted[number]
        return counted.term.topology_key if isinstance(counted, Carrying) else ""

    def first(self, number: int, nodes: int) -> IntColumn:
        """Return how many there were on each of *nodes* nodes at the start; not to be changed."""
        if (found := self._first.get(number)) is None:
            counted = self._counted[number]
            rows = self._rows_with(counted, number) if isinstance(counted, Selected) else self._carriers.get(number, [])
            found = self._first[number] = np.bincount(np.asarray(rows, dtype=np.intp), minlength=nodes)
        return found

    def _class(self, pod: Pod) -> int:
        labels = pod.labels
        key = (pod.namespace, pod.terminating_since is None, *(labels.get(key) for key in self._keys))
        if (found := self._classes.get(key)) is None:
            found = self._classes[key] = len(self._examples)
            self._examples.append(pod)
        return found

    def _with_meant(self, found: Meaning, numbers: Iterable[int], pod: Pod) -> Meaning:
        meant = [number for number in numbers if self.is_meant(number, pod)]
        if not meant:
            return found
        selected = (number for number in meant if isinstance(self._counted[number], Selected))
        carried = (number for number in meant if isinstance(self._counted[number], Carrying))
        return (*found[0], *selected), (*found[1], *carried)

    def _means(self, term: PodTerm, pod: Pod, *, own: bool) -> bool:
        """Say whether a term means *pod*.

        The scheduler asks a selector of namespaces in the terms of the pod that it places, *own*, about an empty set of
        labels as well: one that only says what labels a namespace must not have takes in all namespaces there
        (interpodaffinity/plugin.go, where mergeAffinityTermNamespacesIfNotEmpty changes a copy of the term).
        """
        if term.selector is None:
            return False
        if pod.namespace not in term.namespaces:
            others = term.namespace_selector
            if others is None or not (others.matches(self._labels_of(pod.namespace)) or (own and others.matches({}))):
                return False
        return term.selector.matches(pod.labels)

    def _labels_of(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace; of one that is not known, the one that every namespace has."""
        return self._namespaces.get(namespace, {NAMESPACE_LABEL: namespace})

    def _rows_with(self, selected: Selected, number: int) -> NDArray[np.intp]:
        """Return the row of every pod that is selected."""
        if number in self._unusual:
            return np.array([row for pod, row in self._pods if self.is_meant(number, pod)], dtype=np.intp)
        table = np.zeros(self._present, dtype=np.bool_)
        for each in self._classes_of(selected):
            table[each] = self.is_meant(number, self._examples[each])
        return self._rows[table[self._class_of]]

    def _classes_of(self, selected: Selected) -> Iterable[int]:
        """Return the classes that may be selected, by their namespaces where those are named."""
        if not selected.terms or any(term.namespace_selector is not None for term in selected.terms):
            return range(self._present)
        namespaces = frozenset.intersection(*(term.namespaces for term in selected.terms))
        return [each for namespace in namespaces for each in self._in_namespace.get(namespace, ())]
