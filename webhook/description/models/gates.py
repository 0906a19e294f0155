"""Answers of ``/v1/gate``: ``disruption``, ``reservations``, ``rollout`` and ``cluster-update``."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from scorer.member_gate.answer import MemberReason
from scorer.member_gate.holds import MemberDisruption
from webhook.description.models.base import AnswerModel, Instant


class ReservationGrant(AnswerModel):
    """What has been reserved."""

    id: str
    """Needed to renew or release it."""
    expires: Instant
    """It counts before this instant."""


class TakenReservation(ReservationGrant):
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
    reservation: ReservationGrant | None = None
    """What was reserved, where that was asked for."""


class GateAnswers(AnswerModel):
    """Answers to several questions, in their order."""

    answers: list[GateAnswer]


KindWord = Annotated[
    str, WithJsonSchema({"type": "string", "enum": [*(str(kind) for kind in MemberDisruption), "Unknown"]})
]
ReasonWord = Annotated[str, WithJsonSchema({"type": "string", "enum": [str(reason) for reason in MemberReason]})]


class HeldBy(AnswerModel):
    """What else is disrupting the member, or has reserved it."""

    kind: KindWord
    """`Unknown`: it has been reserved for something that is not known here."""
    by: str
    """Such as `eviction/NAME`, `upgrade/RUN`, or the holder of a reservation."""
    until: Instant | None = None
    """When the reservation ends unless it is renewed."""


class MemberDetail(AnswerModel):
    """Additional facts; only those that matter for the answer are present."""

    model_config = ConfigDict(alias_generator=to_camel)

    held_by: HeldBy | None = None
    run: str | None = None
    """The run that decides."""
    stage: str | None = None
    """The stage of the cluster."""
    group: str | None = None
    state: str | None = None
    """How far the run is with the cluster."""
    waits_for_stage: str | None = None
    """An earlier stage that is not over."""
    approval_request: str | None = None
    """The approval request that an approver has to approve."""
    gate: str | None = None
    """The ClusterUpgradeGate that is not done."""
    expected_at: Instant | None = None
    """When the plan of the run reaches the cluster."""
    busy_with: str | None = None
    """Another run that is upgrading the cluster."""
    snapshot: str | None = None
    """The latest resources of the placement."""
    wanted: Annotated[int, Field(ge=0)] | None = None
    """How many clusters the placement is to have."""
    ready: Annotated[int, Field(ge=0)] | None = None
    """How many of them are ready."""
    may_be_taken_away: Annotated[int, Field(ge=0)] | None = None
    """How many ready ones the limits of the rolling update let go now."""
    may_be_added: Annotated[int, Field(ge=0)] | None = None
    """How many new ones they let come."""


class MemberGateAnswer(AnswerModel):
    """May the member be disrupted now?"""

    allowed: bool
    reason: ReasonWord
    """`Allowed`, `NothingToDo`, or the first thing in the way."""
    message: str
    detail: MemberDetail
    retry_after_seconds: Annotated[int, Field(ge=0)]
    """When to ask again; 0 when it is allowed."""
