"""Response of ``/v1/explain``: every number that entered a decision.

Source: docs/specifications/scheduling.md 22.
"""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from scorer.api.placement.binding import BindingState
from scorer.api.values.answer import DurationText, FleetRevision, Instant, Shape, ShapeOf, one_of
from scorer.framework.status import Category

ConditionWord = Annotated[str | None, Shape({"type": ["string", "null"], "enum": ["True", "False", "Unknown", None]})]
"""Status of a condition. Null: no such condition."""
OWN_VERDICTS = ("Picked", "Kept", "NotNeeded", "NotListed", "NotJudged", "Dropped")
"""Verdicts that are not categories of a filter."""
Verdict = Annotated[str, one_of(*OWN_VERDICTS, *Category)]
"""Result for a cluster."""


class PropertyObservation(TypedDict):
    """A property of a cluster, as observed."""

    name: str
    observed: str | None
    """The text as reported. Null: not reported."""
    missing: NotRequired[Literal[True]]
    """Whether the cluster does not report the property."""
    unreadable: NotRequired[Literal[True]]
    """Whether the reported text is not a quantity."""
    age: NotRequired[DurationText]
    """How old the value is."""
    stale: NotRequired[Literal[True]]
    """The value is older than three heartbeat periods."""
    validUntil: NotRequired[Instant]
    """When an external score expires or has expired."""
    expiresIn: NotRequired[DurationText]
    """Time until the external score expires."""
    expired: NotRequired[Literal[True]]
    """Whether the external score has expired."""
    lastValue: NotRequired[str]
    """Value of the expired score."""
    expiredFor: NotRequired[DurationText]
    """Time since the external score expired."""


_LabelComparison = TypedDict(
    "_LabelComparison", {"key": str, "op": str, "want": list[str], "observed": str | None, "pass": bool}
)


class LabelComparison(_LabelComparison, TypedDict):
    """One label expression, and the cluster's value."""


_LabelVerdict = TypedDict("_LabelVerdict", {"pass": bool})


class LabelVerdict(_LabelVerdict, TypedDict):
    """The label part of a term."""

    expressions: NotRequired[list[LabelComparison]]


Operator = Annotated[str, one_of("Gt", "Ge", "Lt", "Le", "Eq", "Ne")]
_PropertyComparison = TypedDict("_PropertyComparison", {"op": Operator, "want": str, "pass": bool})


class PropertyComparison(PropertyObservation, _PropertyComparison, TypedDict):
    """One property expression, and the cluster's report."""


class RequiredTerm(TypedDict):
    """One required term: label part and property part must both hold."""

    index: int
    match: bool
    labels: NotRequired[LabelVerdict]
    properties: NotRequired[list[PropertyComparison]]


_AffinityCheck = TypedDict("_AffinityCheck", {"name": Literal["affinity"], "pass": bool})


class AffinityCheck(_AffinityCheck, TypedDict):
    """Required cluster affinity: one term must match."""

    terms: NotRequired[list[RequiredTerm]]


_EligibilityCheck = TypedDict("_EligibilityCheck", {"name": Literal["eligibility"], "pass": bool})


class EligibilityCheck(_EligibilityCheck, TypedDict):
    """Whether the cluster has joined, is healthy and sends heartbeats."""

    reason: NotRequired[str]
    """Why the cluster does not pass."""
    heartbeatAge: NotRequired[DurationText]
    joined: NotRequired[ConditionWord]
    """Status of the condition. Null: the agent does not report it."""
    healthy: NotRequired[ConditionWord]
    """Status of the condition. Null: the agent does not report it."""


_NamespaceCheck = TypedDict("_NamespaceCheck", {"name": Literal["namespace"], "pass": bool})


class NamespaceCheck(_NamespaceCheck, TypedDict):
    """Whether the namespace of a ResourcePlacement is on the cluster."""

    namespace: str


class TaintVerdict(TypedDict):
    """One taint of the cluster."""

    taint: str
    by: int | None
    """Position of the toleration that tolerates it. Null: none does."""


_TaintsCheck = TypedDict("_TaintsCheck", {"name": Literal["taints"], "pass": bool})


class TaintsCheck(_TaintsCheck, TypedDict):
    """Whether every taint of the cluster is tolerated."""

    tolerated: NotRequired[list[TaintVerdict]]


_TopologyCheck = TypedDict("_TopologyCheck", {"name": Literal["topology"], "pass": bool})


class TopologyCheck(_TopologyCheck, TypedDict):
    """Whether the hard spread constraints hold with one more placement on the cluster."""


class SpreadConstraint(TypedDict):
    """One spread constraint, as if the cluster were picked."""

    index: int
    key: str
    whenUnsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    domain: str | None
    """The cluster's value of the label. Null: none."""
    counts: dict[str, int]
    """Placements per domain before this pick."""
    skew: int
    maxSkew: int
    change: int
    """Change of the skew by this pick."""
    points: int
    violated: NotRequired[bool]
    note: NotRequired[str]


class TopologyPoints(TypedDict):
    """Points for evenness."""

    score: int
    """Sum over the constraints."""
    constraints: list[SpreadConstraint]


class Extreme(TypedDict):
    """One end of an observed range."""

    value: str
    age: NotRequired[DurationText]
    """How old the value is."""
    stale: NotRequired[Literal[True]]
    """The value is older than three heartbeat periods."""
    cluster: str
    """The cluster that reported it."""
    eligible: bool
    """Whether that cluster passes every filter itself."""


class SorterPoints(PropertyObservation, TypedDict):
    """Points of a property sorter, and the range behind them."""

    order: Annotated[str, one_of("Ascending", "Descending")]
    min: NotRequired[Extreme]
    max: NotRequired[Extreme]
    ratio: NotRequired[float]
    """Share of the weight, before rounding."""
    raw: NotRequired[float]
    """Points before rounding."""
    points: int
    note: NotRequired[str]
    """Why there is no range."""


class PreferredTermPoints(TypedDict):
    """Points of one preferred term."""

    index: int
    weight: int
    labels: NotRequired[LabelVerdict]
    sorter: NotRequired[SorterPoints]
    points: int


class AffinityPoints(TypedDict):
    """Points of all preferred terms."""

    score: int
    """Sum over the terms."""
    terms: list[PreferredTermPoints]


class PairOfScores(TypedDict):
    """The two scores of a cluster. Spread is compared first."""

    topologySpread: int
    affinity: int


class HeldBinding(TypedDict):
    """The binding a cluster holds."""

    name: str
    state: Annotated[str, ShapeOf(BindingState)]
    currentPolicy: bool
    """Whether the binding was made under the current policy."""
    snapshot: NotRequired[str]
    """The policy snapshot it was made under."""
    since: NotRequired[Instant]
    """When it was made."""
    age: NotRequired[DurationText]
    """How long ago that was."""
    dropped: NotRequired[Literal[True]]
    """The cluster loses the binding."""
    recordedScore: NotRequired[PairOfScores]
    """Scores from the time when the cluster was picked."""
    wouldStillMatch: NotRequired[bool]
    """Whether the cluster would pass the filters now."""
    wouldBeRefused: NotRequired[str]
    """Why the cluster would not pass the filters."""


SortKey = Literal["topologySpread", "affinity", "tieBonus", "name"]


class Gap(TypedDict):
    """The gap between a cluster that was not picked and the last picked one."""

    toLastPicked: str
    decidedBy: SortKey
    """The first sort key that differs."""
    difference: int


Check = Annotated[
    AffinityCheck | EligibilityCheck | NamespaceCheck | TaintsCheck | TopologyCheck, Field(discriminator="name")
]
"""Result of one filter. The name determines its fields."""


class ExplainedCluster(TypedDict):
    """Explanation of why one cluster was picked, kept or rejected."""

    cluster: str
    verdict: Verdict
    """Result for the cluster. For a rejected one: the category of the first failed check."""
    rank: int | None
    """Rank among picked, kept and losing clusters, from 1. Null: the cluster is none of them."""
    batch: NotRequired[int]
    """The batch that picked the cluster, or in which it lost."""
    filters: NotRequired[list[Check]]
    topology: NotRequired[TopologyPoints]
    affinity: NotRequired[AffinityPoints]
    tieBonus: NotRequired[bool]
    """Whether ties are broken in favor of the cluster, because it holds a binding of an earlier policy."""
    binding: NotRequired[HeldBinding]
    gap: NotRequired[Gap]
    warnings: NotRequired[list[str]]
    """Stale or expired readings, in words."""
    reason: str
    """Why the cluster was neither picked nor kept, in words. Empty: it was."""
    help: str
    """The one change that would help, in words. Empty: no single change would."""
    summary: str
    """The whole explanation in one sentence."""


TriggerEvent = Literal[
    "Recorded",
    "SnapshotCreated",
    "NumberChanged",
    "PlacementChanged",
    "BindingDeleted",
    "MembersChanged",
    "Unknown",
]


class Trigger(TypedDict):
    """The cause of a decision."""

    event: TriggerEvent
    objects: list[str]
    """Names of the changed objects, the likeliest cause first."""
    message: str
    """The cause in words."""


class ExplainAnswer(TypedDict):
    """A decision, cluster by cluster: picked and kept by rank, then the losers, then the filtered ones by name."""

    placement: str | None
    """Reference of the placement. Null: the policy belongs to no placement."""
    snapshot: str | None
    """The policy snapshot in force. Null: none yet."""
    trigger: Trigger | None
    """The cause of the last decision. Null: unknown."""
    fleetRevision: FleetRevision
    """Revision of the fleet that was evaluated, as `<fleet>/<step>`."""
    policyHash: str
    """Hash of the policy."""
    evaluatedAt: Instant
    """The reference instant of ages."""
    wanted: int | None
    """Number of clusters that the placement requests. Null: all, or the policy cannot be evaluated."""
    found: int
    fleetSize: int
    batches: int
    """Rounds of picking. 0: nothing had to be picked."""
    counts: dict[str, int]
    """Number of clusters that were not selected, by reason."""
    message: str
    """The message of the Scheduled condition."""
    items: list[ExplainedCluster]
