"""Responses of the gate of node pools.

Source: docs/specifications/nodepool-disruption.md 14.2.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NotRequired

from typing_extensions import TypedDict

from scorer.api.unstructured.json_object import format_time
from scorer.api.values.answer import Instant, one_of

if TYPE_CHECKING:  # processes that need only the types of answers do not load the gate
    from scorer.node_budgets.blockers import Blocker


class GateVerdict(StrEnum):
    """Verdict in one word."""

    ALLOWED = "Allowed"
    WINDOW_CLOSED = "WindowClosed"
    IN_FLIGHT = "InFlight"
    NEVER = "NeverWithoutChange"
    INVALID_BUDGET = "InvalidBudget"
    NODE_BLOCKED = "NodeBlocked"


class ReservationGrant(TypedDict):
    """A granted reservation."""

    id: str
    """Id that the caller needs to renew or release the reservation."""
    expires: Instant
    """End of the reservation, exclusive."""


class NodeBlocker(TypedDict):
    """A cause that blocks the disruption of a node, regardless of budgets."""

    reason: str
    """In one word."""
    message: str
    source: str
    """Object that blocks it, such as `Node`, `NodePoolTemplate` or `Pod shop/cart-0`."""
    until: NotRequired[Instant]
    """Time when it ends without intervention, if known."""


class NodeInQuestion(TypedDict):
    """One of the named nodes."""

    name: str
    disruptable: bool
    """Whether nothing except for budgets blocks it."""
    blockers: list[NodeBlocker]


class GateAnswer(TypedDict):
    """Whether the nodes may be disrupted, and if not, when."""

    allowed: bool
    """Whether all nodes are granted. In mode `upTo`: whether some are granted, or none were requested."""
    granted: list[str] | int
    """Names of the granted nodes, or their number if the question names none."""
    limit: int
    """Maximum number of concurrent disruptions for this reason. 2147483647 means unlimited."""
    disrupting: int
    """Number of nodes being disrupted, including reserved ones."""
    remaining: int
    """Number of further nodes that may be disrupted."""
    total: int
    """Number of nodes that budgets count."""
    active: list[int]
    """Positions of the budgets with an open window, for any reason."""
    binding: list[int]
    """Positions of the budgets that set the limit."""
    nodes: list[NodeInQuestion]
    verdict: Annotated[str, one_of(*GateVerdict)]
    nextOpen: Instant | None
    """Time when the requested number of nodes may be disrupted, with the present nodes and without reservations that
    have expired by then.

    Null if unknown or never.
    """
    retryAfterSeconds: int | None
    """Delay before the next request. Null for the verdicts `NeverWithoutChange` and `InvalidBudget`: waiting alone does
    not change the answer."""
    message: str
    """Human-readable message with the deciding budget, the nodes and the time."""
    searchedUntil: NotRequired[Instant]
    """Present if the search ended without a result: there is no opening before this instant."""
    reservation: NotRequired[ReservationGrant]
    """The reservation, if one was requested."""


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """The gate's answer about one named node."""

    name: str
    blockers: tuple["Blocker", ...] = ()

    @property
    def disruptable(self) -> bool:
        """Whether nothing except for budgets blocks the node."""
        return not self.blockers

    def document(self) -> NodeInQuestion:
        """Return the answer as JSON."""
        blockers = [_blocker(blocker) for blocker in self.blockers]
        return {"name": self.name, "disruptable": self.disruptable, "blockers": blockers}


def _blocker(blocker: "Blocker") -> NodeBlocker:
    document: NodeBlocker = {"reason": str(blocker.reason), "message": blocker.message, "source": blocker.source}
    if blocker.until is not None:
        document["until"] = format_time(blocker.until)
    return document


@dataclass(frozen=True, slots=True)
class NodeGateAnswer:
    """The gate's answer: that of `GateAnswer`, before serialization.

    Args:
        reservation: Id and end of the reservation, if one was made. The other fields are those of `GateAnswer`.
    """

    allowed: bool
    granted: tuple[str, ...] | int
    limit: int
    disrupting: int
    remaining: int
    total: int
    active: tuple[int, ...]
    binding: tuple[int, ...]
    nodes: tuple[NodeAnswer, ...]
    verdict: GateVerdict
    next_open: datetime | None
    retry_after_seconds: int | None
    searched_until: datetime | None
    message: str
    reservation: tuple[str, datetime] | None = None

    def document(self) -> GateAnswer:
        """Return the answer as JSON."""
        body: GateAnswer = {
            "allowed": self.allowed,
            "granted": self.granted if isinstance(self.granted, int) else list(self.granted),
            "limit": self.limit,
            "disrupting": self.disrupting,
            "remaining": self.remaining,
            "total": self.total,
            "active": list(self.active),
            "binding": list(self.binding),
            "nodes": [node.document() for node in self.nodes],
            "verdict": self.verdict.value,
            "nextOpen": None if self.next_open is None else format_time(self.next_open),
            "retryAfterSeconds": self.retry_after_seconds,
            "message": self.message,
        }
        if self.searched_until is not None:
            body["searchedUntil"] = format_time(self.searched_until)
        if self.reservation is not None:
            name, expires = self.reservation
            body["reservation"] = {"id": name, "expires": format_time(expires)}
        return body
