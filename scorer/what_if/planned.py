"""Types of the answer of ``/v1/plan``: what would happen to placements and runs if the hub were changed.

Source: scheduling.md 22, property 10.
"""

from typing import Annotated, Literal

from typing_extensions import TypedDict

from scorer.api.values.answer import Described, DurationText, Instant, one_of
from scorer.placement.explanation import PairOfScores
from scorer.placement.plan_document import PlacementDecision
from scorer.staged_update.policy import OnFailure
from scorer.staged_update.views.content_diff import ChangeKind
from scorer.staged_update.views.forecast import ForecastProgress

RunOutlook = Literal["New", "UnderWay", "Pending", "Refused", "Aborted", "Over"]
RunDifference = Literal["content", "overrides", "applyStrategy"]


class HeldBefore(TypedDict):
    """A cluster that the placement has now."""

    cluster: str
    score: PairOfScores | None
    """As it was when the cluster was picked; null where nothing was recorded."""


class Moves(TypedDict):
    """Which clusters the placement gains and loses."""

    gained: list[str]
    lost: list[str]
    stays: list[str]


class RolloutBudget(TypedDict):
    """The numbers that limit a step of a rollout."""

    target: int
    ready: int
    canBeReady: int
    mayVanish: int
    maxToRemove: int
    maxToAdd: int


class RolloutStep(TypedDict):
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


class BlockedRollout(TypedDict):
    """Where a rollout stops."""

    clusters: list[str]
    reason: str
    message: str
    budget: RolloutBudget | None


class RolloutWait(TypedDict):
    """A cluster that is not touched before one of its maintenance windows opens."""

    cluster: str
    until: Instant | None
    """When that is; null where nobody knows."""
    message: str


class PlannedEviction(TypedDict):
    """An eviction that draining a cluster brings about."""

    cluster: str
    executed: bool
    reason: str
    message: str
    budget: str
    """Name of the disruption budget that decided, empty when none did."""


class PlannedRollout(TypedDict):
    """How the placement would get there."""

    type: Annotated[str, one_of("RollingUpdate", "External", "Deletion")]
    """By the limits of the strategy, by a staged update run, or not at all, as the placement is deleted."""
    snapshot: str
    """Name of the resource snapshot that is rolled out."""
    maxUnavailable: int | str | None
    """A number, or a share such as `25%`; null where nothing is rolled out by limits."""
    maxSurge: int | str | None
    """As `maxUnavailable`."""
    evictions: list[PlannedEviction]
    applyStrategy: list[str]
    """Clusters that only get another apply strategy, which goes out at once."""
    waits: list[RolloutWait]
    """Clusters whose maintenance windows are closed: the others go first."""
    steps: list[RolloutStep]
    more: int
    """Clusters that are still left after the steps shown."""
    blocked: BlockedRollout | None


class PlannedPlacement(PlacementDecision, TypedDict):
    """One placement before and after."""

    before: list[HeldBefore]
    moves: Moves
    rollout: PlannedRollout
    changed: bool
    """Whether, because of the changes, it would move, be rolled out, be blocked, or be short of clusters."""


class RunFinding(TypedDict):
    """What keeps a run from being carried out, or how it has ended."""

    cause: str
    """For programs, such as `clusters-in-no-stage`; the reason of the condition for a run that is over; empty for a run
    that only waits."""
    message: str


class RunFailurePolicy(TypedDict):
    """What the run does when clusters fail."""

    onFailure: Annotated[str, one_of(*OnFailure)]
    maxFailures: int
    """How many clusters of one stage may fail."""
    clusterDeadline: DurationText
    """How long a cluster may take before it counts as failed."""


_RunCluster = TypedDict(
    "_RunCluster",
    {
        "cluster": str,
        "progress": Annotated[str, one_of(*ForecastProgress)],
        "from": Annotated[str, Described("Name of the resource snapshot that it has now, empty for none.")],
    },
)


class RunCluster(_RunCluster, TypedDict):
    """A cluster of a stage."""

    differs: list[RunDifference]
    """What the run changes on it; nothing once it has been started."""
    earliestStart: Instant | None
    """Null once it has been started."""
    waitsFor: str
    """Why it may not be touched when its stage can begin, such as a closed maintenance window; empty when it may."""


class RunTask(TypedDict):
    """Something that a stage waits for."""

    place: Literal["Before", "After"]
    """Before its clusters are started, or after all are done."""
    type: Annotated[str, one_of("Approval", "TimedWait")]
    done: bool
    request: str
    """Name of the approval request; whoever may write its status can answer. Empty for a timed wait."""
    wait: DurationText
    """Empty for an approval."""
    until: Instant | None
    """When a timed wait ends at the earliest; null for an approval."""


class RunStage(TypedDict):
    """A stage of a run."""

    name: str
    progress: Annotated[str, one_of("Done", "UnderWay", "ToCome")]
    atOnce: int
    """How many of its clusters may be in flight at once."""
    sortedBy: str
    """The label by which its clusters are sorted; empty: by name."""
    clusters: list[RunCluster]
    """In order. Without any, the stage is skipped, with its tasks."""
    batches: list[list[str]]
    """The clusters that are not done, as many at a time as may be in flight."""
    tasks: list[RunTask]
    """None for a stage that is done."""
    earliestStart: Instant | None
    """Null once it has begun."""
    earliestEnd: Instant | None
    """Null once it is done."""


class RunFieldChange(TypedDict):
    """A field of an object that differs."""

    path: str
    before: str
    """Its value in short, as JSON; empty where there is none. Of a Secret, only the members that differ are named."""
    after: str


class RunObjectChange(TypedDict):
    """An object that differs."""

    change: Annotated[str, one_of(*ChangeKind)]
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


_RunContent = TypedDict(
    "_RunContent",
    {
        "from": Annotated[str, Described("Name of the resource snapshot that they have, empty for none.")],
    },
)


class RunContent(_RunContent, TypedDict):
    """What changes on clusters that have the same content now, apart from overrides."""

    to: str
    clusters: list[str]
    known: bool
    """Whether the snapshot that they have is still retained; else nothing is known of what changes."""
    hidden: bool
    """Whether the changes are left out because the caller may not list resource snapshots."""
    objects: list[RunObjectChange]
    more: int
    """How many other objects differ."""


class ForeseenRun(TypedDict):
    """A staged update run as it would go."""

    name: str
    namespace: str
    placement: str
    strategy: str
    state: str
    """As it is wanted: `Initialize`, `Run` or `Stop`."""
    phase: RunOutlook
    """It would be initialised, it goes on, it waits before it can be initialised, its initialisation would fail, its
    next step would end it, or nothing will happen to it any more."""
    finding: RunFinding | None
    """For the last four phases; all that follows is empty then."""
    snapshot: str
    """Name of the resource snapshot that every cluster gets; it need not exist yet."""
    failurePolicy: RunFailurePolicy | None
    stages: list[RunStage]
    removed: list[str]
    """The clusters that lose the placement at the end."""
    contents: list[RunContent]
    earliestFinish: Instant | None
    assumptions: list[str]
    """What the earliest finish rests on, and what was not known."""


class PlannedRun(ForeseenRun, TypedDict):
    """One staged update run, and what is still to come of it."""

    changed: bool
    """Whether it would change anything on a cluster; for a run that is on the hub and not among the changes, whether
    they make a difference to it."""


class PlannedFleet(TypedDict):
    """How the fleet would be different: names of member clusters."""

    gained: list[str]
    changed: list[str]
    lost: list[str]
    drained: list[str]
