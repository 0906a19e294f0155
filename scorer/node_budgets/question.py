"""The questions to the gate of node pools.

Source: docs/specifications/nodepool-disruption.md 14.1.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from scorer.api.node_pool import DisruptionReason
from scorer.api.unstructured.json_object import JsonObject
from scorer.node_budgets.blockers import DisruptionClass
from scorer.node_budgets.budgets import NodeCounts

EXPIRED: Final = "Expired"
"""Reason of a question about expiration. Budgets cannot name it.

The gate allows such a disruption unless the operator has enabled graceful expiration (nodepool-disruption.md 10).
"""
QUESTION_REASONS: Final = (*(reason.value for reason in DisruptionReason), EXPIRED)


class Mode(StrEnum):
    """Whether the caller needs all nodes, or as many as possible."""

    ALL = "all"
    UP_TO = "upTo"


class InvalidQuestion(ValueError):  # noqa: N818 - the question is what is wrong
    """An invalid question to the gate.

    Args:
        pointer: JSON Pointer to the invalid member, such as ``/nodes/1``.
        code: Machine-readable code.
        detail: Human-readable message.
    """

    def __init__(self, pointer: str, code: str, detail: str) -> None:
        super().__init__(f"{pointer}: {detail}")
        self.pointer = pointer
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class NodeGateQuestion:
    """One question to the gate.

    Args:
        pool: Name of the NodePool.
        reason: One of `QUESTION_REASONS`.
        nodes: Nodes by preference. None means any *count* nodes.
        count: Number of nodes if *nodes* is unset.
        class_: Class of the disruption.
        mode: All, or as many as possible.
        now: Instant of the question. None means the present.
        observed: Counts that replace the pool's own. Reserved nodes are added to them.
        reserve_seconds: Length of the reservation of granted nodes, 0 for none.
        node_pool: The NodePool itself, if the question contains it.
    """

    pool: str
    reason: str
    nodes: tuple[str, ...] | None = None
    count: int = 0
    class_: DisruptionClass = DisruptionClass.GRACEFUL
    mode: Mode = Mode.ALL
    now: datetime | None = None
    observed: NodeCounts | None = None
    reserve_seconds: int = 0
    node_pool: JsonObject | None = None

    @property
    def requested_count(self) -> int:
        """Number of nodes in the question."""
        return self.count if self.nodes is None else len(self.nodes)
