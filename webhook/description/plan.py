"""Answer of ``/v1/plan``: what would happen to every placement if the hub were changed.

Source: scheduling.md 22, property 10.
"""

from typing import Annotated, Literal

from pydantic import Field

from webhook.description.explanation import PairOfScores
from webhook.description.model import AnswerModel, Instant
from webhook.description.rehearsal import FieldMistake


class PlannedPick(AnswerModel):
    """A cluster that the placement would have."""

    cluster: str
    rank: int
    new: bool
    """Whether the placement does not have it yet."""
    score: PairOfScores


class HeldBefore(AnswerModel):
    """A cluster that the placement has now."""

    cluster: str
    score: PairOfScores | None
    """As it was when the cluster was picked; null where nothing was recorded."""


class Loser(AnswerModel):
    """A cluster that passes every filter and is not among the best."""

    cluster: str
    score: PairOfScores


class Filtered(AnswerModel):
    """A cluster that a filter turns away."""

    cluster: str
    plugin: str
    reason: str


class DroppedBinding(AnswerModel):
    """A binding that would go."""

    cluster: str
    binding: str


class Moves(AnswerModel):
    """Which clusters the placement gains and loses."""

    gained: list[str]
    lost: list[str]
    stays: list[str]


class RolloutBudget(AnswerModel):
    """The numbers that limit a step of a rollout."""

    target: int
    ready: int
    can_be_ready: int
    may_vanish: int
    max_to_remove: int
    max_to_add: int


class RolloutStep(AnswerModel):
    """What happens at once; the next step comes when this one is available."""

    step: int
    update: list[str]
    """Clusters that get the new content."""
    bind: list[str]
    """Clusters that get it for the first time."""
    remove: list[str]
    """Clusters that lose it."""
    waiting: list[str]
    """Clusters that would be in this step too, if the limits allowed it."""
    budget: RolloutBudget


class BlockedRollout(AnswerModel):
    """Where a rollout stops."""

    clusters: list[str]
    reason: str
    message: str
    budget: RolloutBudget | None


class PlannedEviction(AnswerModel):
    """An eviction that draining a cluster brings about."""

    cluster: str
    executed: bool
    reason: str
    message: str
    budget: str
    """Name of the disruption budget that decided, empty when none did."""


class RolloutPlan(AnswerModel):
    """How the placement would get there."""

    type: Literal["RollingUpdate", "External", "Deletion"]
    """By the limits of the strategy, by a staged update run, or not at all, as the placement is deleted."""
    snapshot: str
    """Name of the resource snapshot that is rolled out."""
    max_unavailable: int | str | None
    """A number, or a share such as `25%`; null where nothing is rolled out by limits."""
    max_surge: int | str | None
    """As `maxUnavailable`."""
    evictions: list[PlannedEviction]
    apply_strategy: list[str]
    """Clusters that only get another apply strategy, which goes out at once."""
    steps: list[RolloutStep]
    more: int
    """Clusters that are still left after the steps shown."""
    blocked: BlockedRollout | None


class PlannedPlacement(AnswerModel):
    """One placement before and after."""

    name: str
    namespace: str
    type: Literal["PickAll", "PickN", "PickFixed"]
    wanted: int | None
    """How many clusters it would want; null for all."""
    picked: list[PlannedPick]
    """New and kept clusters, by rank. Kept ones rank by the scores recorded when they were picked, new ones by those of
    now; `/v1/score` ranks all of them by those of now."""
    not_picked: list[Loser]
    filtered: list[Filtered]
    dropped: list[DroppedBinding]
    satisfied: bool
    message: str
    """The message of the Scheduled condition."""
    before: list[HeldBefore]
    moves: Moves
    rollout: RolloutPlan
    changed: bool
    """Whether, because of the changes, it would move, be rolled out, be blocked, or be short of clusters."""


class AdmissionVerdict(AnswerModel):
    """What admission would say about one of the changes; what it refuses is left out of the plan."""

    kind: str
    namespace: str
    name: str
    operation: Literal["CREATE", "UPDATE", "DELETE"]
    allowed: bool
    errors: list[FieldMistake]
    warnings: list[str]


class PlannedFleet(AnswerModel):
    """How the fleet would be different: names of member clusters."""

    gained: list[str]
    changed: list[str]
    lost: list[str]
    drained: list[str]


class PlanAnswer(AnswerModel):
    """What would happen, placement by placement."""

    fleet_revision: Annotated[str, Field(pattern="^[0-9]+$")]
    """Names the fleet before the changes: `<fleet>` alone, without the step that other answers add, as a plan is judged
    at its own instant."""
    placements: list[PlannedPlacement]
    """By namespace and name."""
    admission: list[AdmissionVerdict]
    """One verdict per object that would be written or deleted."""
    fleet: PlannedFleet
    evaluated_at: Instant
    """The instant that everything was judged at."""
