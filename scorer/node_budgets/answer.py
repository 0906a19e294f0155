"""The answers of the gate of node pools.

Source: nodepool-disruption.md 14.2.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NotRequired

from typing_extensions import TypedDict

from scorer.api.meta import format_time
from scorer.api.values.answer import Instant, one_of

if TYPE_CHECKING:  # every process that answers questions has these types, and need not load the gate
    from scorer.node_budgets.blockers import Blocker


class GateVerdict(StrEnum):
    """The answer in one word."""

    ALLOWED = "Allowed"
    WINDOW_CLOSED = "WindowClosed"
    IN_FLIGHT = "InFlight"
    NEVER = "NeverWithoutChange"
    INVALID_BUDGET = "InvalidBudget"
    NODE_BLOCKED = "NodeBlocked"


class ReservationGrant(TypedDict):
    """What has been reserved."""

    id: str
    """Needed to renew or release it."""
    expires: Instant
    """It counts before this instant."""


class NodeBlocker(TypedDict):
    """What keeps a node from being disrupted, whatever the budgets say."""

    reason: str
    """In one word."""
    message: str
    source: str
    """What holds it, such as `Node`, `NodePoolTemplate` or `Pod shop/cart-0`."""
    until: NotRequired[Instant]
    """When it ends by itself, where that is known."""


class NodeInQuestion(TypedDict):
    """One of the nodes that were named."""

    name: str
    disruptable: bool
    """Whether nothing but a budget holds it."""
    blockers: list[NodeBlocker]


class GateAnswer(TypedDict):
    """May they be disrupted, and if not, when?"""

    allowed: bool
    """All is granted; in mode `upTo` something is, or nothing was asked for."""
    granted: list[str] | int
    """Names of the nodes that may go; where none were named, how many."""
    limit: int
    """How many nodes may be disrupted at once for this reason; 2147483647 for any number."""
    disrupting: int
    """How many are, reserved ones included."""
    remaining: int
    """How many more may."""
    total: int
    """How many nodes the budgets look at."""
    active: list[int]
    """Positions of the budgets whose window is open, whatever their reasons."""
    binding: list[int]
    """Positions of the budgets that set the limit."""
    nodes: list[NodeInQuestion]
    verdict: Annotated[str, one_of(*GateVerdict)]
    nextOpen: Instant | None
    """When as many may go, with the nodes as they are now and without reservations that have ended by then; null where
    that is not known, or never."""
    retryAfterSeconds: int
    """When to ask again."""
    message: str
    """Which budget, which nodes, and when, in words."""
    searchedUntil: NotRequired[Instant]
    """Where the search for an opening has given up."""
    reservation: NotRequired[ReservationGrant]
    """What was reserved, where that was asked for."""


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """The gate's answer about one named node."""

    name: str
    blockers: tuple["Blocker", ...] = ()

    @property
    def disruptable(self) -> bool:
        """Whether nothing holds the node, budgets apart."""
        return not self.blockers

    def document(self) -> NodeInQuestion:
        """Return the answer as it is sent."""
        blockers = [_blocker(blocker) for blocker in self.blockers]
        return {"name": self.name, "disruptable": self.disruptable, "blockers": blockers}


def _blocker(blocker: "Blocker") -> NodeBlocker:
    document: NodeBlocker = {"reason": str(blocker.reason), "message": blocker.message, "source": blocker.source}
    if blocker.until is not None:
        document["until"] = format_time(blocker.until)
    return document


@dataclass(frozen=True, slots=True)
class NodeGateAnswer:
    """The gate's answer: that of `GateAnswer`, before it is written as JSON.

    Args:
        reservation: Id and end of the reservation, if one was made; the other fields are those of `GateAnswer`.
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
    retry_after_seconds: int
    searched_until: datetime | None
    message: str
    reservation: tuple[str, datetime] | None = None

    def document(self) -> GateAnswer:
        """Return the answer as it is sent."""
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
