"""Answers of ``/v1/gate/rollout`` and ``/v1/gate/cluster-update``.

Source: serving.md 3.1.
"""

from typing import Annotated

from pydantic import ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from scorer.member_gate.answer import MemberReason
from scorer.member_gate.holds import MemberDisruption
from webhook.description.model import AnswerModel, Instant

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
