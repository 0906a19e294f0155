"""The questions to the gate of node pools.

Source: nodepool-disruption.md 14.1.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.node_pool import DisruptionReason
from scorer.node_budgets.blockers import DisruptionClass
from scorer.node_budgets.budgets import NodeCounts

EXPIRED: Final = "Expired"
"""Not a reason of budgets: expiration asks no gate unless the operator decides so (nodepool-disruption.md 10)."""
QUESTION_REASONS: Final = (*(reason.value for reason in DisruptionReason), EXPIRED)


class Mode(StrEnum):
    """Whether the caller wants all nodes or none, or as many as may go."""

    ALL = "all"
    UP_TO = "upTo"


class InvalidQuestion(ValueError):  # noqa: N818 - the question is what is wrong
    """A question that cannot be answered.

    Args:
        pointer: JSON Pointer to the member that is wrong, such as ``/nodes/1``.
        code: One word for machines.
        detail: For people.
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
        nodes: Which nodes, in order of preference; None: *count* nodes, no matter which.
        count: How many, where *nodes* are not named.
        class_: How far the disruption respects their pods.
        mode: All, or as many as may go.
        now: The instant that the question is about; None: the present one.
        observed: Counts that replace the pool's own; held nodes are added to them.
        reserve_seconds: How long to reserve what is granted; 0: not at all.
        node_pool: The NodePool itself, if the question brings it.
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
        """How many nodes the question asks for."""
        return self.count if self.nodes is None else len(self.nodes)
