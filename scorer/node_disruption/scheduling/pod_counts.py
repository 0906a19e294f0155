"""Pods that the terms of other pods select, counted per node.

The pods of a cluster fall into few classes. Pods of one class have the same namespace and equal values of all labels
that any term selects. Terms are evaluated once per class. Each counted term has a number, which is cheaper to look up
than the term itself.

Source: Kubernetes v1.36 ``pkg/scheduler/framework/plugins``: interpodaffinity, podtopologyspread.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scorer.columns import IntColumn
from scorer.node_disruption.cluster.constraints import PodShape, PodTerm, Spread
from scorer.node_disruption.cluster.pod import Pod
from scorer.node_disruption.scheduling.node_load import Load

NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
"""Label with the name of the namespace, set on every namespace."""


@dataclass(frozen=True, slots=True)
class SelectedPods:
    """A selection of pods.

    Args:
        terms: Terms that every selected pod matches. Their topology keys are ignored.
        unless_ending: Whether to exclude pods that are being deleted.
    """

    terms: tuple[PodTerm, ...]
    unless_ending: bool = False

    @classmethod
    def by_terms(cls, terms: Iterable[PodTerm]) -> "SelectedPods":
        """Return the pods that match all terms of an affinity."""
        return cls(tuple(PodTerm("", term.selector, term.namespaces, term.namespace_selector) for term in terms))

    @classmethod
    def to_spread(cls, spread: Spread, namespace: str) -> "SelectedPods":
        """Return the pods that a constraint of a pod in *namespace* spreads. An empty selector counts no pod."""
        selector = spread.selector if spread.selector and spread.selector.expressions else None
        return cls((PodTerm("", selector, frozenset((namespace,))),), unless_ending=True)

    @property
    def keys(self) -> frozenset[str]:
        """The pod label keys that it selects."""
        return frozenset(
            expression.key for term in self.terms if term.selector for expression in term.selector.expressions
        )


@dataclass(frozen=True, slots=True)
class Carrying:
    """Pods that carry a term of anti-affinity."""

    term: PodTerm

    @property
    def keys(self) -> frozenset[str]:
        """The pod label keys that it selects."""
        return (
            frozenset(expression.key for expression in self.term.selector.expressions)
            if self.term.selector
            else frozenset()
        )


Counted: TypeAlias = SelectedPods | Carrying
Meaning: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
_NONE: Final[Meaning] = ((), ())


class PodCounts:
    """The pods of a cluster by class.

    Args:
        loads: Loads of the nodes, one per row.
        shapes: Shapes with pod terms or spread constraints of the pods to be placed. Others work, but take longer.
        namespaces: Labels of the known namespaces.
    """

    def __init__(
        self,
        loads: Sequence[Load],
        shapes: Iterable[PodShape],
        namespaces: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._loads = loads
        self._namespaces = namespaces
        self._keys = tuple(sorted(frozenset[str]().union(*(shape.selected_keys() for shape in shapes))))
        self._classes: dict[tuple[object, ...], int] = {}
        self._examples: list[Pod] = []
        self._class_by_pod: dict[int, tuple[Pod, int]] = {}
        self._numbers: dict[Counted, int] = {}
        self._counted: list[Counted] = []
        self._unusual: list[int] = []
        self._first: dict[int, IntColumn] = {}
        self._meaning: dict[int, tuple[int, Meaning]] = {}
        self._carried: dict[int, tuple[PodShape, tuple[int, ...]]] = {}
        self._carriers: dict[int, list[int]] = {}
        self.some_carry = False
        """Whether any present or former pod has a term of anti-affinity."""
        for row, load in enumerate(loads):
            for pod in load.special:
                for number in self.carried(pod.shape):
                    self._carriers.setdefault(number, []).append(row)

    @property
    def size(self) -> int:
        """Number of counters."""
        return len(self._counted)

    def number(self, selection: Counted) -> int:
        """Return the counter of a selection or carried term, which is created on first use."""
        if (number := self._numbers.get(selection)) is None:
            number = self._numbers[selection] = len(self._counted)
            self._counted.append(selection)
            self.some_carry |= isinstance(selection, Carrying)
            if not selection.keys.issubset(self._keys):
                self._unusual.append(number)
        return number

    def carried(self, shape: PodShape) -> tuple[int, ...]:
        """Return the counters of the anti-affinity terms that a pod carries. Duplicate terms are counted twice."""
        if not shape.anti_affinity:
            return ()
        if (numbers := self._carried.get(id(shape))) is None:  # keeps the shape alive: its id is not reused
            numbers = self._carried[id(shape)] = (
                shape,
                tuple(self.number(Carrying(term)) for term in shape.anti_affinity),
            )
        return numbers[1]

    def meaning(self, pod: Pod) -> Meaning:
        """Return the counters of the selections that include *pod*, and of the carried terms that repel it."""
        own = self._class(pod)
        count, numbers = self._meaning.get(own, (0, _NONE))
        if count < len(self._counted):
            new = (number for number in range(count, len(self._counted)) if number not in self._unusual)
            numbers = self._add_matching(numbers, new, pod)
            self._meaning[own] = len(self._counted), numbers
        return self._add_matching(numbers, self._unusual, pod) if self._unusual else numbers

    def matches(self, number: int, pod: Pod) -> bool:
        """Return whether the selection includes *pod*, or the carried term repels it."""
        selection = self._counted[number]
        if isinstance(selection, Carrying):
            return self._means(selection.term, pod, own=False)
        if selection.unless_ending and pod.terminating_since is not None:
            return False
        return all(self._means(term, pod, own=True) for term in selection.terms)

    def topology_key(self, number: int) -> str:
        """Return the topology key of the carried term."""
        selection = self._counted[number]
        return selection.term.topology_key if isinstance(selection, Carrying) else ""

    def first(self, number: int, nodes: int) -> IntColumn:
        """Return the initial count on each of *nodes* nodes. Must not be mutated."""
        if (counts := self._first.get(number)) is None:
            selection = self._counted[number]
            rows = (
                self._rows_with(selection, number)
                if isinstance(selection, SelectedPods)
                else self._carriers.get(number, [])
            )
            counts = self._first[number] = np.bincount(np.asarray(rows, dtype=np.intp), minlength=nodes)
        return counts

    def _class(self, pod: Pod) -> int:
        if (entry := self._class_by_pod.get(id(pod))) is not None:  # keeps the pod alive: its id is not reused
            return entry[1]
        labels = pod.labels
        key = (pod.namespace, pod.terminating_since is None, *map(labels.get, self._keys))
        if (pod_class := self._classes.get(key)) is None:
            pod_class = self._classes[key] = len(self._examples)
            self._examples.append(pod)
        self._class_by_pod[id(pod)] = pod, pod_class
        return pod_class

    def _add_matching(self, meaning: Meaning, numbers: Iterable[int], pod: Pod) -> Meaning:
        matching = [number for number in numbers if self.matches(number, pod)]
        if not matching:
            return meaning
        selected = (number for number in matching if isinstance(self._counted[number], SelectedPods))
        carried_terms = (number for number in matching if isinstance(self._counted[number], Carrying))
        return (*meaning[0], *selected), (*meaning[1], *carried_terms)

    def _means(self, term: PodTerm, pod: Pod, *, own: bool) -> bool:
        """Return whether a term selects *pod*.

        For the terms of the pod being placed (*own*), the scheduler also matches the namespace selector against an
        empty set of labels. A selector with only negative conditions therefore matches every namespace
        (interpodaffinity/plugin.go, where mergeAffinityTermNamespacesIfNotEmpty changes a copy of the term).
        """
        if term.selector is None:
            return False
        if pod.namespace not in term.namespaces:
            namespace_selector = term.namespace_selector
            if namespace_selector is None or not (
                namespace_selector.matches(self._labels_of(pod.namespace)) or (own and namespace_selector.matches({}))
            ):
                return False
        return term.selector.matches(pod.labels)

    def _labels_of(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace. An unknown one has only the label that every namespace has."""
        return self._namespaces.get(namespace, {NAMESPACE_LABEL: namespace})

    def _rows_with(self, selected: SelectedPods, number: int) -> NDArray[np.intp]:
        """Return the row of every selected pod."""
        if number in self._unusual:
            pairs = ((pod, row) for row, load in enumerate(self._loads) for pod in load.pods)
            return np.array([row for pod, row in pairs if self.matches(number, pod)], dtype=np.intp)
        present = self._matched_nodes
        table = np.zeros(len(present.examples), dtype=np.bool_)
        for pod_class in present.classes_of(selected):
            table[pod_class] = self.matches(number, present.examples[pod_class])
        return present.rows[table[present.class_of]]

    @cached_property
    def _matched_nodes(self) -> "_There":
        classes = np.array([self._class(pod) for load in self._loads for pod in load.pods], dtype=np.intp)
        rows = np.repeat(np.arange(len(self._loads)), [len(load.pods) for load in self._loads])
        by_namespace: dict[str, list[int]] = {}
        for number, pod in enumerate(self._examples):
            by_namespace.setdefault(pod.namespace, []).append(number)
        return _There(classes, rows, tuple(self._examples), by_namespace)


@dataclass(frozen=True, slots=True)
class _There:
    """The initial pods.

    Args:
        class_of: Class of each pod. Shape (pods,).
        rows: Row of each pod's node. Shape (pods,).
        examples: One pod of each class known at creation.
        by_namespace: The classes in *examples*, by namespace.
    """

    class_of: NDArray[np.intp]
    rows: NDArray[np.intp]
    examples: tuple[Pod, ...]
    by_namespace: Mapping[str, Sequence[int]]

    def classes_of(self, selected: SelectedPods) -> Iterable[int]:
        """Return the classes that may be selected, restricted to the named namespaces if possible."""
        if not selected.terms or any(term.namespace_selector is not None for term in selected.terms):
            return range(len(self.examples))
        namespaces = frozenset.intersection(*(term.namespaces for term in selected.terms))
        return [pod_class for namespace in namespaces for pod_class in self.by_namespace.get(namespace, ())]
