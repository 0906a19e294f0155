"""The answers of the gate of node pools.

Source: nodepool-disruption.md 14.2.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from scorer.api.meta import JsonObject, format_time
from scorer.node_budgets.blockers import Blocker


class GateVerdict(StrEnum):
    """The answer in one word."""

    ALLOWED = "Allowed"
    WINDOW_CLOSED = "WindowClosed"
    IN_FLIGHT = "InFlight"
    NEVER = "NeverWithoutChange"
    INVALID_BUDGET = "InvalidBudget"
    NODE_BLOCKED = "NodeBlocked"


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """The gate's answer about one named node."""

    name: str
    blockers: tuple[Blocker, ...] = ()

    @property
    def disruptable(self) -> bool:
        """Whether nothing holds the node, budgets apart."""
        return not self.blockers

    def document(self) -> JsonObject:
        """Return the answer as it is sent."""
        blockers = [
            {
                "reason": str(blocker.reason),
                "message": blocker.message,
                "source": blocker.source,
                **({} if blocker.until is None else {"until": format_time(blocker.until)}),
            }
            for blocker in self.blockers
        ]
        return {"name": self.name, "disruptable": self.disruptable, "blockers": blockers}


@dataclass(frozen=True, slots=True)
class NodeGateAnswer:
    """The gate's answer; its fields are those of nodepool-disruption.md 14.2.

    Args:
        allowed: Everything asked for is granted; in mode upTo at least one node is, or none was asked for.
        granted: Names of nodes, or their number when the question names none.
        limit: `scorer.node_budgets.budgets.UNLIMITED` means no limit.
        disrupting: Nodes that count against the budgets.
        remaining: How many more may go.
        total: Nodes of the pool.
        active: Positions of the budgets in force.
        binding: Positions of the budgets that set the limit.
        nodes: One entry per named node, in the order of the question.
        verdict: The answer in one word.
        next_open: When the budgets allow what was asked for, or the reservations in the way end; None: not known, or
            never.
        retry_after_seconds: When to ask again.
        searched_until: Where the search for *next_open* gave up, if it did.
        message: For people.
        reservation: Id and end of the reservation, if one was made.
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

    def document(self) -> JsonObject:
        """Return the answer as it is sent."""
        body: JsonObject = {
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
