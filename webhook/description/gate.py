"""Answers of ``/v1/gate/disruption`` and ``/v1/gate/reservations``.

Source: nodepool-disruption.md 14.2; serving.md 3.1.
"""

from typing import Annotated, Literal

from pydantic import Field

from webhook.description.model import AnswerModel, Instant


class Reservation(AnswerModel):
    """What has been reserved."""

    id: str
    """Needed to renew or release it."""
    expires: Instant
    """It counts before this instant."""


class TakenReservation(Reservation):
    """A permission that has been taken."""

    granted: list[str] | int
    """Names of what may be disrupted: nodes, or the member cluster; where no nodes were named, how many."""


class ListedReservation(AnswerModel):
    """A reservation that is in force."""

    gate: Literal["disruption", "rollout", "member"]
    """Whether it is of a NodePool, of a placement on a member cluster, or of a member cluster."""
    of: str
    """The NodePool, the placement such as `crp/payments`, or the member cluster."""
    for_: Annotated[str, Field(alias="for")]
    """What it was granted for: the reason, or the kind of disruption."""
    holder: str
    """Who has taken it, in the caller's own words."""
    granted: list[str] | int
    """Names of nodes, or the member cluster; where no nodes were named, how many."""
    expires: Instant
    """It counts until this instant, unless it is renewed or released."""
    mine: bool
    """Whether it is the caller's own."""
    id: str | None = None
    """Needed to renew or release it; present only if it is the caller's own."""


class ReservationList(AnswerModel):
    """What is reserved now."""

    items: list[ListedReservation]
    unreadable: list[str]
    """Which reservation Leases cannot be read, and why; the gate grants nothing of what they stand for."""


class NodeBlocker(AnswerModel):
    """What keeps a node from being disrupted, whatever the budgets say."""

    reason: str
    """In one word."""
    message: str
    source: str
    """What holds it, such as `Node`, `NodePoolTemplate` or `Pod shop/cart-0`."""
    until: Instant | None = None
    """When it ends by itself, where that is known."""


class NodeInQuestion(AnswerModel):
    """One of the nodes that were named."""

    name: str
    disruptable: bool
    """Whether nothing but a budget holds it."""
    blockers: list[NodeBlocker]


class GateAnswer(AnswerModel):
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
    verdict: Literal["Allowed", "WindowClosed", "InFlight", "NeverWithoutChange", "InvalidBudget", "NodeBlocked"]
    next_open: Instant | None
    """When as many may go, with the nodes as they are now and without reservations that have ended by then; null where
    that is not known, or never."""
    retry_after_seconds: int
    """When to ask again."""
    message: str
    """Which budget, which nodes, and when, in words."""
    searched_until: Instant | None = None
    """Where the search for an opening has given up."""
    reservation: Reservation | None = None
    """What was reserved, where that was asked for."""


class GateAnswers(AnswerModel):
    """Answers to several questions, in their order."""

    answers: list[GateAnswer]
