"""What the gate of node pools says.

Source: nodepool-disruption.md 14.2.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from scorer.api.meta import JsonObject, format_time
from scorer.node_budgets.blockers import Blocker


class Verdict(StrEnum):
    """What the gate says."""

    ALLOWED = "Allowed"
    WINDOW_CLOSED = "WindowClosed"
    IN_FLIGHT = "InFlight"
    NEVER = "NeverWithoutChange"
    INVALID_BUDGET = "InvalidBudget"
    NODE_BLOCKED = "NodeBlocked"


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What the gate says of one named node."""

    name: str
    blockers: tuple[Blocker, ...] = ()

    @property
    def disruptable(self) -> bool:
        """Whether nothing but a budget holds it."""
        return not self.blockers

    def document(self) -> JsonObject:
        """Return it as it stands on the wire."""
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
class Answer:
    """What the gate says; members as in nodepool-disruption.md 14.2.

    Args:
        allowed: All is granted; in mode upTo something is, or nothing was asked for.
        granted: Names of nodes, or how many where none were named.
        limit: `scorer.node_budgets.budgets.UNLIMITED` is none.
        disrupting: Nodes that use the budgets up.
        remaining: How many more may go.
        total: Nodes of the pool.
        active: Positions of the budgets in force.
        binding: Positions of those that set the limit.
        nodes: One entry per named node, in the order of the question.
        verdict: In one word.
        next_open: When the budgets let go what was asked for, or what is reserved for others comes to its end; None:
            not known, or never.
        retry_after_seconds: When to ask again.
        searched_until: Where the search for *next_open* gave up, if it did.
        message: For people.
        reservation: Id and end of what was reserved.
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
    verdict: Verdict
    next_open: datetime | None
    retry_after_seconds: int
    searched_until: datetime | None
    message: str
    reservation: tuple[str, datetime] | None = None

    def document(self) -> JsonObject:
        """Return it as it stands on the wire."""
        made: JsonObject = {
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
            made["searchedUntil"] = format_time(self.searched_until)
        if self.reservation is not None:
            name, expires = self.reservation
            made["reservation"] = {"id": name, "expires": format_time(expires)}
        return made
