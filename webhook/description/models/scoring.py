"""Answers of ``/v1/score`` and ``/v1/filter``."""

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from scorer.framework.status import Category
from webhook.description.models.base import AnswerModel, FleetRevision, Instant
from webhook.description.models.explanation import ExplainedCluster

Refusal = Annotated[
    str,
    WithJsonSchema(
        {"type": "string", "enum": [str(category) for category in Category if category is not Category.SCORE_TOO_LOW]}
    ),
]
"""The category of the first check that failed."""


class Score(AnswerModel):
    """The points of one eligible cluster."""

    topology_spread: int
    """Points of all spread constraints; compared first."""
    affinity: int
    """Points of all preferred terms; compared second."""
    total: int
    """Sum of both, for display only: the order does not follow from it."""
    normalized: Annotated[int, Field(ge=0, le=100)]
    """`affinity`, stretched to 0 to 100 over all eligible candidates, not only those of this page."""


class Rejection(AnswerModel):
    """Why a filter turned a cluster away."""

    plugin: str
    """Name of the filter."""
    code: Refusal
    """The category of the first check that failed."""
    message: str
    """The reason in words."""
    resolvable: bool
    """Whether freeing capacity on the cluster could help."""


class RankedCluster(AnswerModel):
    """A cluster that passes every filter."""

    cluster: str
    eligible: Literal[True]
    selected: bool
    """Whether it would be picked now; for a placement on the hub, what it holds already counts."""
    rank: Annotated[int, Field(ge=1)]
    """Counts over all eligible candidates, from 1, as in a first run: whatever is placed already."""
    score: Score
    explanation: ExplainedCluster | None = None
    """With `explain` in the question: every number behind it."""


class RejectedCluster(AnswerModel):
    """A cluster that a filter turned away."""

    cluster: str
    eligible: Literal[False]
    rejection: Rejection
    explanation: ExplainedCluster | None = None
    """With `explain` in the question: every number behind it."""


Answered = Annotated[RankedCluster | RejectedCluster, Field(discriminator="eligible")]
"""One cluster."""


class ScoreAnswer(AnswerModel):
    """One page of the ranking: eligible clusters as a first run ranks them, then the rejected ones by name."""

    fleet_revision: FleetRevision
    """Names the state of the fleet that was judged, `<fleet>/<step>`: same question and same revision, same bytes."""
    policy_hash: str
    """Hash of the policy."""
    evaluated_at: Instant
    """The instant that ages were measured at."""
    items: list[Answered]
    """Ranks are those of a first run with the scores of now, whatever is placed already. A placement keeps what it has:
    of one on the hub, `selected` need not follow from `rank`."""
    continue_: Annotated[str, Field(alias="continue")]
    """Token of the next page, empty on the last one."""


class TurnedAwayCluster(Rejection):
    """A cluster that is not eligible, and why."""

    cluster: str


class FilterAnswer(AnswerModel):
    """Which clusters are eligible."""

    fleet_revision: FleetRevision
    """Names the state of the fleet that was judged, `<fleet>/<step>`."""
    policy_hash: str
    """Hash of the policy."""
    evaluated_at: Instant
    """The instant that ages were measured at."""
    eligible: list[str]
    """Names, ascending."""
    rejected: list[TurnedAwayCluster]
    """By name."""
