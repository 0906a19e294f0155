"""Answer of ``/v1/explain``: every number that entered a decision.

Source: scheduling.md 22.
"""

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from scorer.api.placement.binding import BindingState
from scorer.framework.status import Category
from webhook.description.models.base import AnswerModel, DurationText, FleetRevision, Instant

ConditionWord = Annotated[
    str | None, WithJsonSchema({"type": ["string", "null"], "enum": ["True", "False", "Unknown", None]})
]
"""Status of a condition, null where there is no such condition."""

OWN_VERDICTS = ("Picked", "Kept", "NotNeeded", "NotListed", "NotJudged", "Dropped")
"""Verdicts that are no category of a filter."""
Verdict = Annotated[str, WithJsonSchema({"type": "string", "enum": [*OWN_VERDICTS, *map(str, Category)]})]
"""What became of a cluster."""


class PropertyObservation(AnswerModel):
    """What is known of a property of a cluster."""

    name: str
    observed: str | None
    """The text as reported; null where it is not."""
    missing: Literal[True] | None = None
    """The cluster does not report it."""
    unreadable: Literal[True] | None = None
    """It is reported, but is no quantity."""
    age: DurationText | None = None
    """How old the value is."""
    stale: Literal[True] | None = None
    """The value is older than three heartbeat periods."""
    valid_until: Instant | None = None
    """When an external score expires or has expired."""
    expires_in: DurationText | None = None
    """How long it still counts."""
    expired: Literal[True] | None = None
    """There was an external score, and it has expired."""
    last_value: str | None = None
    """What it was."""
    expired_for: DurationText | None = None
    """Since when it does not count."""


class LabelComparison(AnswerModel):
    """One label expression, and what the cluster carries."""

    key: str
    op: str
    want: list[str]
    observed: str | None
    pass_: Annotated[bool, Field(alias="pass")]


class LabelVerdict(AnswerModel):
    """The label part of a term."""

    pass_: Annotated[bool, Field(alias="pass")]
    expressions: list[LabelComparison] | None = None


class PropertyComparison(PropertyObservation):
    """One property expression, and what the cluster reports."""

    op: Literal["Gt", "Ge", "Lt", "Le", "Eq", "Ne"]
    want: str
    pass_: Annotated[bool, Field(alias="pass")]


class RequiredTerm(AnswerModel):
    """One required term: label part and property part must both hold."""

    index: int
    match: bool
    labels: LabelVerdict | None = None
    properties: list[PropertyComparison] | None = None


class AffinityCheck(AnswerModel):
    """Required cluster affinity: one term must match."""

    name: Literal["affinity"]
    pass_: Annotated[bool, Field(alias="pass")]
    terms: list[RequiredTerm] | None = None


class EligibilityCheck(AnswerModel):
    """Whether the cluster is joined, healthy and heard of."""

    name: Literal["eligibility"]
    pass_: Annotated[bool, Field(alias="pass")]
    reason: str | None = None
    """Why it does not pass."""
    heartbeat_age: DurationText | None = None
    joined: ConditionWord = None
    """Status of the condition, null where the agent has none."""
    healthy: ConditionWord = None
    """Status of the condition, null where the agent has none."""


class NamespaceCheck(AnswerModel):
    """Whether the namespace of a ResourcePlacement is on the cluster."""

    name: Literal["namespace"]
    pass_: Annotated[bool, Field(alias="pass")]
    namespace: str


class TaintVerdict(AnswerModel):
    """One taint of the cluster."""

    taint: str
    by: int | None
    """Position of the toleration that tolerates it, null when none does."""


class TaintsCheck(AnswerModel):
    """Whether every taint of the cluster is tolerated."""

    name: Literal["taints"]
    pass_: Annotated[bool, Field(alias="pass")]
    tolerated: list[TaintVerdict] | None = None


class TopologyCheck(AnswerModel):
    """Whether the hard spread constraints hold with one more placement there."""

    name: Literal["topology"]
    pass_: Annotated[bool, Field(alias="pass")]


class SpreadConstraint(AnswerModel):
    """One spread constraint, as if the cluster were picked."""

    index: int
    key: str
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    domain: str | None
    """The cluster's value of the label, null where it has none."""
    counts: dict[str, int]
    """Placements per domain before this pick."""
    skew: int
    max_skew: int
    change: int
    """How much this pick would move the skew."""
    points: int
    violated: bool | None = None
    note: str | None = None


class TopologyPoints(AnswerModel):
    """Points for evenness."""

    score: int
    """Sum over the constraints."""
    constraints: list[SpreadConstraint]


class Extreme(AnswerModel):
    """One end of an observed range."""

    value: str
    age: DurationText | None = None
    """How old the value is."""
    stale: Literal[True] | None = None
    """The value is older than three heartbeat periods."""
    cluster: str
    """Who set it."""
    eligible: bool
    """Whether that cluster was a candidate itself."""


class SorterPoints(PropertyObservation):
    """What a property sorter gives, and from which range."""

    order: Literal["Ascending", "Descending"]
    min: Extreme | None = None
    max: Extreme | None = None
    ratio: float | None = None
    """Share of the weight, before rounding."""
    raw: float | None = None
    """Points before rounding."""
    points: int
    note: str | None = None
    """Why there is no range."""


class PreferredTermPoints(AnswerModel):
    """Points of one preferred term."""

    index: int
    weight: int
    labels: LabelVerdict | None = None
    sorter: SorterPoints | None = None
    points: int


class AffinityPoints(AnswerModel):
    """Points of all preferred terms."""

    score: int
    """Sum over the terms."""
    terms: list[PreferredTermPoints]


class PairOfScores(AnswerModel):
    """The two scores of a cluster; spread is compared first."""

    topology_spread: int
    affinity: int


class HeldBinding(AnswerModel):
    """The binding a cluster holds."""

    name: str
    state: BindingState
    current_policy: bool
    """Whether it was made under the present policy."""
    snapshot: str | None = None
    """The policy snapshot it was made under."""
    since: Instant | None = None
    """When it was made."""
    age: DurationText | None = None
    """How long ago that was."""
    dropped: Literal[True] | None = None
    """The cluster loses it."""
    recorded_score: PairOfScores | None = None
    """Scores as they were when it was picked."""
    would_still_match: bool | None = None
    """Whether the cluster would pass the filters today."""
    would_be_refused: str | None = None
    """Why not."""


class Gap(AnswerModel):
    """What separates a cluster that was not picked from the last picked one."""

    to_last_picked: str
    decided_by: Literal["topologySpread", "affinity", "tieBonus", "name"]
    """The first sort key that differs."""
    difference: int


Check = Annotated[
    AffinityCheck | EligibilityCheck | NamespaceCheck | TaintsCheck | TopologyCheck, Field(discriminator="name")
]
"""One filter, by its name."""


class ExplainedCluster(AnswerModel):
    """Why one cluster was picked, kept or turned away."""

    cluster: str
    verdict: Verdict
    """What became of it; for those that a filter turned away, the category of the first check that failed."""
    rank: int | None
    """Over picked, kept and losing clusters, from 1; null for the others."""
    batch: int | None = None
    """The batch that picked it."""
    filters: list[Check] | None = None
    topology: TopologyPoints | None = None
    affinity: AffinityPoints | None = None
    tie_bonus: bool | None = None
    """Whether an existing binding broke a tie in its favour."""
    binding: HeldBinding | None = None
    gap: Gap | None = None
    warnings: list[str] | None = None
    """Readings that are old, or no longer count, in words."""
    reason: str
    """Why it was not taken, in words; empty where it was."""
    help: str
    """The one change that would help, in words; empty where there is none."""
    summary: str
    """All of it in one sentence."""


class Trigger(AnswerModel):
    """What made the scheduler decide."""

    event: Literal[
        "Recorded",
        "SnapshotCreated",
        "NumberChanged",
        "PlacementChanged",
        "BindingDeleted",
        "MembersChanged",
        "Unknown",
    ]
    objects: list[str]
    """Names of what changed, the likeliest cause first."""
    message: str
    """The same in words."""


class ExplainAnswer(AnswerModel):
    """A decision, cluster by cluster: picked and kept by rank, then the losers, then the filtered ones by name."""

    placement: str | None
    """Reference of the placement; null for a policy that belongs to no placement."""
    snapshot: str | None
    """The policy snapshot in force; null where there is none."""
    trigger: Trigger | None
    """What made the scheduler decide last, where that is known."""
    fleet_revision: FleetRevision
    """Names the state of the fleet that was judged, `<fleet>/<step>`."""
    policy_hash: str
    """Hash of the policy."""
    evaluated_at: Instant
    """The instant that ages were measured at."""
    wanted: int | None
    """How many clusters the placement wants; null for all."""
    found: int
    fleet_size: int
    batches: int
    """Rounds of picking; 0 when nothing had to be picked."""
    counts: dict[str, int]
    """Clusters not taken, by reason."""
    message: str
    """The message of the Scheduled condition."""
    items: list[ExplainedCluster]
