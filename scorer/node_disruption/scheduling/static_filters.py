"""Static node filters: labels, taints, cordon and volumes, independent of running pods.

Source: Kubernetes v1.36 ``pkg/scheduler/framework/plugins``: nodeunschedulable, tainttoleration, nodeaffinity,
volumebinding.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from scorer.columns import ABSENT, BoolColumn, CodeColumn, DictionaryColumn
from scorer.node_disruption.cluster.constraints import (
    HELD_EFFECTS,
    UNSCHEDULABLE_TAINT,
    Expression,
    NodeTerm,
    ParsedTaint,
    PodShape,
    Spread,
)
from scorer.node_disruption.cluster.snapshot import ClusterNode

CORDONED: Final = "node(s) were unschedulable"
TAINTED: Final = "node(s) had untolerated taint(s)"
NOT_SELECTED: Final = "node(s) didn't match Pod's node affinity/selector"
VOLUME_ELSEWHERE: Final = "node(s) didn't match PersistentVolume's node affinity"

_CORDON: Final = ParsedTaint(UNSCHEDULABLE_TAINT, "NoSchedule")


class NodeRows:
    """Nodes, one row each.

    Args:
        nodes: The nodes, in row order.
    """

    def __init__(self, nodes: Sequence[ClusterNode]) -> None:
        self.nodes: tuple[ClusterNode, ...] = tuple(nodes)
        self._labels: dict[str, DictionaryColumn[str]] = {}
        self._masks: dict[tuple[str, int], BoolColumn] = {}
        self._by_wish: dict[tuple[object, ...], BoolColumn] = {}
        self._with_keys: dict[tuple[str, ...], BoolColumn] = {}
        self._shapes: dict[int, PodShape] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    def find(self, name: str) -> int | None:
        """Return the row of a node, or None if it does not exist."""
        return self._row_of.get(name)

    def label(self, key: str) -> DictionaryColumn[str]:
        """Return the values of a label."""
        if (column := self._labels.get(key)) is None:
            column = self._labels[key] = self._read_label(key)
        return column

    def tolerated(self, shape: PodShape) -> BoolColumn:
        """Return the nodes whose pod-repelling taints a pod tolerates."""
        return self._mask("tolerated", shape, NodeRows._tolerated)

    def uncordoned(self, shape: PodShape) -> BoolColumn:
        """Return the nodes that are not cordoned, or whose cordon a pod tolerates."""
        return self._mask("uncordoned", shape, NodeRows._uncordoned)

    def selected(self, shape: PodShape) -> BoolColumn:
        """Return the nodes that match the selector and the required node affinity of a pod."""
        return self._mask("selected", shape, NodeRows._selected)

    def reached(self, shape: PodShape) -> BoolColumn:
        """Return the nodes that can reach the volumes of a pod."""
        return self._mask("reached", shape, NodeRows._reached)

    def accepting(self, shape: PodShape) -> BoolColumn:
        """Return the nodes that accept a pod, ignoring running pods."""
        return self._mask("accepting", shape, NodeRows._accepting)

    def counted(self, shape: PodShape, spread: Spread) -> BoolColumn:
        """Return the nodes whose pods count for a spread constraint of a pod.

        A node needs the topology keys of all constraints of the pod. The constraint's own policies decide whether it
        must also match the pod's node affinity, and have only taints that the pod tolerates.
        """
        mask = self.with_keys(constraint.topology_key for constraint in shape.spreads)
        if spread.honors_affinity:
            mask = mask & self.selected(shape)
        return mask & self.tolerated(shape) if spread.honors_taints else mask

    def with_keys(self, keys: Iterable[str]) -> BoolColumn:
        """Return the nodes that have all labels of *keys*. Must not be mutated."""
        key_tuple = tuple(keys)
        if (mask := self._with_keys.get(key_tuple)) is None:
            mask = np.ones(len(self), dtype=np.bool_)
            for key in key_tuple:
                mask &= self.label(key).codes != ABSENT
            self._with_keys[key_tuple] = mask
        return mask

    def _mask(self, name: str, shape: PodShape, make: "Callable[[NodeRows, PodShape], BoolColumn]") -> BoolColumn:
        key = name, id(shape)
        if (mask := self._masks.get(key)) is None:
            self._shapes[id(shape)] = shape  # keeps the shape alive: its id is not reused
            key_parts = (
                shape.node_selector,
                shape.node_terms,
                shape.preferred_nodes,
                shape.volume_terms,
                shape.tolerations,
            )
            wish = name, *key_parts
            if (mask := self._by_wish.get(wish)) is None:
                mask = self._by_wish[wish] = make(self, shape)
            self._masks[key] = mask
        return mask

    def _read_label(self, key: str) -> DictionaryColumn[str]:
        if key == _NAME_FIELD:
            return DictionaryColumn.of(node.name for node in self.nodes)
        return DictionaryColumn.of(node.labels.get(key) for node in self.nodes)

    @cached_property
    def initialized(self) -> BoolColumn:
        """The initialized nodes."""
        return np.array([node.initialized for node in self.nodes], dtype=np.bool_)

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {node.name: row for row, node in enumerate(self.nodes)}

    @cached_property
    def _taints(self) -> DictionaryColumn[tuple[ParsedTaint, ...]]:
        return DictionaryColumn.of(
            tuple(taint for taint in node.taints if taint.effect in HELD_EFFECTS) for node in self.nodes
        )

    @cached_property
    def _cordoned(self) -> BoolColumn:
        return np.array([node.unschedulable for node in self.nodes], dtype=np.bool_)

    def _tolerated(self, shape: PodShape) -> BoolColumn:
        taints = self._taints
        return _looked_up(taints.codes, [all(map(shape.tolerates, taint_set)) for taint_set in taints.values])

    def _uncordoned(self, shape: PodShape) -> BoolColumn:
        return np.ones(len(self), dtype=np.bool_) if shape.tolerates(_CORDON) else ~self._cordoned

    def _selected(self, shape: PodShape) -> BoolColumn:
        mask = np.ones(len(self), dtype=np.bool_)
        for key, value in shape.node_selector:
            mask &= self._holding(Expression(key, "In", (value,)))
        return mask if shape.node_terms is None else mask & self._matching(shape.node_terms)

    def _reached(self, shape: PodShape) -> BoolColumn:
        mask = np.ones(len(self), dtype=np.bool_)
        for terms in shape.volume_terms:
            mask &= self._matching(terms)
        return mask

    def _accepting(self, shape: PodShape) -> BoolColumn:
        mask = self._uncordoned(shape) & self._tolerated(shape) & self._selected(shape) & self._reached(shape)
        return mask if shape.preferred_nodes is None else mask & self._matching((shape.preferred_nodes,))

    def _matching(self, terms: Iterable[NodeTerm]) -> BoolColumn:
        """Return the nodes that match one of *terms*."""
        mask = np.zeros(len(self), dtype=np.bool_)
        for term in terms:
            allowed = np.ones(len(self), dtype=np.bool_)
            for expression in term.labels:
                allowed &= self._holding(expression)
            for expression in term.fields:
                allowed &= self._holding(Expression(_field(expression.key), expression.operator, expression.values))
            mask |= allowed
        return mask

    def _holding(self, expression: Expression) -> BoolColumn:
        column = self.label(expression.key)
        return _looked_up(column.codes, [*map(expression.holds, column.values)], absent=expression.holds(None))


_NAME_FIELD: Final = "\0name"
"""Placeholder for the node name among label keys."""
_NO_FIELD: Final = "\0none"
"""Placeholder for a field that no node has."""


def _field(key: str) -> str:
    return _NAME_FIELD if key == "metadata.name" else _NO_FIELD


def _looked_up(codes: CodeColumn, by_code: Sequence[bool], absent: bool = False) -> BoolColumn:
    table = np.array([*by_code, absent], dtype=np.bool_)  # the last entry is for ABSENT, which is -1
    looked_up: BoolColumn = table[codes]
    return looked_up
