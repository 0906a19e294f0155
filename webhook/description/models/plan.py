"""Answer of ``/v1/plan``: what would happen to every placement if the hub were changed.

Source: scheduling.md 22, property 10.
"""

from typing import Annotated, Literal

from pydantic import Field

from scorer.placement.explanation import PairOfScores
from webhook.admission.rehearsal import FieldMistake
from webhook.description.models.base import AnswerModel, DurationText, Instant


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


class RolloutWait(AnswerModel):
    """A cluster that is not touched before one of its maintenance windows opens."""

    cluster: str
    until: Instant | None
    """When that is; null where nobody knows."""
    message: str


class PlannedEviction(AnswerModel):
    """An eviction that draining a cluster brings about."""

    cluster: str
    executed: bool
    reason: str
    message: str
    budget: str
    """Name of the disruption budget that decided, empty when none did."""


class PlannedRollout(AnswerModel):
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
    waits: list[RolloutWait]
    """Clusters whose maintenance windows are closed: the others go first."""
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
    rollout: PlannedRollout
    changed: bool
    """Whether, because of the changes, it would move, be rolled out, be blocked, or be short of clusters."""


class RunFinding(AnswerModel):
    """What keeps a run from being carried out, or how it has ended."""

    cause: str
    """For programs, such as `clusters-in-no-stage`; the reason of the condition for a run that is over; empty for a run
    that only waits."""
    message: str


class RunFailurePolicy(AnswerModel):
    """What the run does when clusters fail."""

    on_failure: Literal["Stop", "Rollback"]
    max_failures: int
    """How many clusters of one stage may fail."""
    cluster_deadline: DurationText
    """How long a cluster may take before it counts as failed."""


class RunCluster(AnswerModel):
    """A cluster of a stage."""

    cluster: str
    progress: Literal["Done", "Failed", "UnderWay", "ToCome"]
    from_: Annotated[str, Field(alias="from")]
    """Name of the resource snapshot that it has now, empty for none."""
    differs: list[Literal["content", "overrides", "applyStrategy"]]
    """What the run changes on it; nothing once it has been started."""
    earliest_start: Instant | None
    """Null once it has been started."""
    waits_for: str
    """Why it may not be touched when its stage can begin, such as a closed maintenance window; empty when it may."""


class RunTask(AnswerModel):
    """Something that a stage waits for."""

    place: Literal["Before", "After"]
    """Before its clusters are started, or after all are done."""
    type: Literal["Approval", "TimedWait"]
    done: bool
    request: str
    """Name of the approval request; whoever may write its status can answer. Empty for a timed wait."""
    wait: DurationText
    """Empty for an approval."""
    until: Instant | None
    """When a timed wait ends at the earliest; null for an approval."""


class RunStage(AnswerModel):
    """A stage of a run."""

    name: str
    progress: Literal["Done", "UnderWay", "ToCome"]
    at_once: int
    """How many of its clusters may be in flight at once."""
    sorted_by: str
    """The label by which its clusters are sorted; empty: by name."""
    clusters: list[RunCluster]
    """In order. Without any, the stage is skipped, with its tasks."""
    batches: list[list[str]]
    """The clusters that are not done, as many at a time as may be in flight."""
    tasks: list[RunTask]
    """None for a stage that is done."""
    earliest_start: Instant | None
    """Null once it has begun."""
    earliest_end: Instant | None
    """Null once it is done."""


class RunFieldChange(AnswerModel):
    """A field of an object that differs."""

    path: str
    before: str
    """Its value in short, as JSON; empty where there is none. Of a Secret, only the members that differ are named."""
    after: str


class RunObjectChange(AnswerModel):
    """An object that differs."""

    change: Literal["Added", "Removed", "Changed"]
    group: str
    kind: str
    namespace: str
    name: str
    envelope: str
    """The envelope that it is in, empty for none."""
    fields: list[RunFieldChange]
    """For an object that changes."""
    more: int
    """How many other fields differ."""


class RunContent(AnswerModel):
    """What changes on clusters that have the same content now, apart from overrides."""

    from_: Annotated[str, Field(alias="from")]
    """Name of the resource snapshot that they have, empty for none."""
    to: str
    clusters: list[str]
    known: bool
    """Whether the snapshot that they have is still retained; else nothing is known of what changes."""
    hidden: bool
    """Whether the changes are left out because the caller may not list resource snapshots."""
    objects: list[RunObjectChange]
    more: int
    """How many other objects differ."""


class PlannedRun(AnswerModel):
    """One staged update run, and what is still to come of it."""

    name: str
    namespace: str
    placement: str
    strategy: str
    state: str
    """As it is wanted: `Initialize`, `Run` or `Stop`."""
    phase: Literal["New", "UnderWay", "Pending", "Refused", "Aborted", "Over"]
    """It would be initialised, it goes on, it waits before it can be initialised, its initialisation would fail, its
    next step would end it, or nothing will happen to it any more."""
    finding: RunFinding | None
    """For the last four phases; all that follows is empty then."""
    snapshot: str
    """Name of the resource snapshot that every cluster gets; it need not exist yet."""
    failure_policy: RunFailurePolicy | None
    stages: list[RunStage]
    removed: list[str]
    """The clusters that lose the placement at the end."""
    contents: list[RunContent]
    earliest_finish: Instant | None
    assumptions: list[str]
    """What the earliest finish rests on, and what was not known."""
    changed: bool
    """Whether it would change anything on a cluster; for a run that is on the hub and not among the changes, whether
    they make a difference to it."""


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
    runs: list[PlannedRun]
    """Staged update runs of such placements, by namespace and name: those that are not over, or those asked about."""
    admission: list[AdmissionVerdict]
    """One verdict per object that would be written or deleted."""
    fleet: PlannedFleet
    evaluated_at: Instant
    """The instant that everything was judged at."""
