"""Types of the response of ``/v1/plan``: what would happen to placements and runs if the hub were changed.

Source: docs/specifications/what-if.md 2; docs/specifications/scheduling.md 22.
"""

from typing import Annotated, Literal

from typing_extensions import TypedDict

from scorer.api.meta import JsonObject
from scorer.api.upgrade.plan import UpgradePlan
from scorer.api.values.answer import Count, Described, DurationText, Instant, ShapeOf, one_of
from scorer.placement.explanation import PairOfScores
from scorer.placement.plan_document import PlacementDecision
from scorer.rollout.bindings import PendingReason
from scorer.rollout.confirmation.digests import RemovalEffect
from scorer.rollout.works.plan import WorkCause
from scorer.staged_update.policy import OnFailure
from scorer.staged_update.views.content_diff import ChangeKind
from scorer.staged_update.views.forecast import ForecastProgress

RunOutlook = Literal["New", "UnderWay", "Pending", "Refused", "Aborted", "Over"]
ContentVerdict = Literal["Pending", "Confirmed", "Warned", "Removed", "Orphaned"]
UpgradeOutlook = Literal["New", "UnderWay", "Refused", "Over"]
GateReason = Literal["Accepted", "NotAccepted", "Rejected", "NotApproved", "UnknownRun", "RunFinished"]
ApprovalReason = Literal["Accepted", "NotAccepted", "Discarded", "NotApproved", "UnknownRun", "RunFinished"]
RunDifference = Literal["content", "overrides", "applyStrategy"]


class HeldBefore(TypedDict):
    """A cluster that the placement has now."""

    cluster: str
    score: PairOfScores | None
    """Score at the time of the decision. Null if not recorded."""


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
    """Concurrent changes. The next step starts when this one is available."""

    step: int
    update: list[str]
    """Clusters that get the new content."""
    bind: list[str]
    """Clusters that get it for the first time."""
    remove: list[str]
    """Clusters that lose it."""
    waiting: list[str]
    """Clusters that would also be in this step if the limits allowed it."""
    budget: RolloutBudget


class BlockedRollout(TypedDict):
    """The clusters at which a rollout stops, and the reason."""

    clusters: list[str]
    reason: str
    message: str
    budget: RolloutBudget | None


class RolloutFailure(TypedDict):
    """A cluster that would not get the new objects, because they cannot be made."""

    cluster: str
    reason: Annotated[str, one_of(*WorkCause)]
    """`Overridden` for an override that cannot be applied, `WorkSynchronized` for objects that cannot be placed."""
    message: str


class PendingClusterRemoval(TypedDict):
    """A dropped cluster that keeps its content for now."""

    cluster: str
    reason: Annotated[str, one_of(*PendingReason)]
    message: str
    digest: str
    """Digest that confirms the removal. Empty if it does not wait for confirmation."""


class ContentRemoval(TypedDict):
    """Content that leaves the clusters of a placement: objects, or all content of a deleted placement."""

    kind: Annotated[str, one_of(RemovalEffect.OBJECT, RemovalEffect.PLACEMENT)]
    effect: str
    """The content, such as `Namespace shop and 12 objects in it`."""
    verdict: ContentVerdict
    """Pending: it remains until its removal is confirmed. Confirmed: it is removed, because the removal is confirmed.
    Warned and Removed: it is removed without a confirmation. Orphaned: it remains, as its namespace is deleted."""
    objects: Count
    digest: str
    """Confirms the removal, in `harbormaster.dev/confirm-removal`."""
    clusters: list[str]
    """The clusters that lose it while others keep it, because of an override, or because a staged update run rolls out
    an earlier resource snapshot. Empty: all clusters."""


class RolloutWait(TypedDict):
    """A cluster that is not changed before one of its maintenance windows opens."""

    cluster: str
    until: Instant | None
    """Time of the opening. Null if unknown."""
    message: str


class PlannedEviction(TypedDict):
    """An eviction of the placement from a cluster."""

    name: str
    """Name of the ClusterResourcePlacementEviction. Empty if the cluster is drained."""
    cluster: str
    executed: bool
    reason: str
    message: str
    budget: str
    """Name of the deciding disruption budget, empty if none did."""


class PlannedRollout(TypedDict):
    """Rollout of the placement."""

    type: Annotated[str, one_of("RollingUpdate", "External", "Deletion")]
    """RollingUpdate: within the limits of the strategy. External: by a staged update run. Deletion: the placement is
    deleted."""
    snapshot: str
    """Name of the resource snapshot that is rolled out. Empty if none is, and for type `External`."""
    contentHash: str
    """SHA-256 of the selected objects, as the resource snapshot records it. Equal content has equal hashes. Empty
    without `snapshot`, and for a caller who may not list resource and override snapshots."""
    maxUnavailable: int | str | None
    """A number, or a percentage such as `25%`. Null without a rolling update."""
    maxSurge: int | str | None
    """As `maxUnavailable`."""
    evictions: list[PlannedEviction]
    applyStrategy: list[str]
    """Clusters that only get another apply strategy, which is pushed immediately."""
    waits: list[RolloutWait]
    """Clusters whose maintenance windows are closed. Other clusters are changed first."""
    steps: list[RolloutStep]
    more: int
    """Number of clusters after the steps shown."""
    failures: list[RolloutFailure]
    """Clusters where the rollout would fail."""
    removals: list[PendingClusterRemoval]
    """Dropped clusters that keep their content until their removal is confirmed, or until others replace them."""
    contentRemovals: list[ContentRemoval]
    """Objects that leave the placement, or some of its clusters, and all content of a deleted one."""
    blocked: BlockedRollout | None


class PlannedPlacement(PlacementDecision, TypedDict):
    """One placement before and after."""

    before: list[HeldBefore]
    moves: Moves
    rollout: PlannedRollout
    changed: bool
    """Whether the changes would move it, roll it out, block it, or leave it short of clusters."""


class RunFinding(TypedDict):
    """Obstacle to a run, or its outcome."""

    cause: str
    """Machine-readable, such as `clusters-in-no-stage`. For a run that has ended, the reason of its condition. Empty
    for a run that only waits."""
    message: str


class RunFailurePolicy(TypedDict):
    """Failure policy of the run."""

    onFailure: Annotated[str, one_of(*OnFailure)]
    maxFailures: int
    """Maximum number of failed clusters of one stage."""
    clusterDeadline: DurationText
    """Maximum time that a cluster may take before it counts as failed."""


_RunCluster = TypedDict(
    "_RunCluster",
    {
        "cluster": str,
        "progress": Annotated[str, one_of(*ForecastProgress)],
        "from": Annotated[str, Described("Name of its current resource snapshot. Empty: none.")],
    },
)


class RunCluster(_RunCluster, TypedDict):
    """A cluster of a stage."""

    differs: list[RunDifference]
    """Changes by the run on this cluster. Empty once the update of the cluster has started."""
    earliestStart: Instant | None
    """Null once the update of the cluster has started."""
    waitsFor: str
    """Why it may not be changed when its stage can start, such as a closed maintenance window, or empty."""


class RunTask(TypedDict):
    """A task that a stage waits for."""

    place: Literal["Before", "After"]
    """Before its clusters are started, or after all are done."""
    type: Annotated[str, one_of("Approval", "TimedWait")]
    done: bool
    request: str
    """Name of the approval request. Any user who may write its status can approve. Empty for a timed wait."""
    wait: DurationText
    """Empty for an approval."""
    until: Instant | None
    """Earliest end of a timed wait. Null for an approval."""


class RunStage(TypedDict):
    """A stage of a run."""

    name: str
    progress: Annotated[str, one_of("Done", "UnderWay", "ToCome")]
    atOnce: int
    """Maximum number of clusters in flight."""
    sortedBy: str
    """The label that sorts its clusters. Empty: by name."""
    clusters: list[RunCluster]
    """In order. Without any, the stage is skipped, with its tasks."""
    batches: list[list[str]]
    """Unfinished clusters, in batches of `atOnce`."""
    tasks: list[RunTask]
    """Empty for a stage that is done, and for one without clusters."""
    earliestStart: Instant | None
    """Null once it has started."""
    earliestEnd: Instant | None
    """Null once it is done."""


class RunFieldChange(TypedDict):
    """A field of an object that differs."""

    path: str
    before: str
    """Abbreviated value as JSON, empty if missing. For a Secret, `(redacted)`, and `path` only names a top-level member
    such as `data`."""
    after: str


class RunObjectChange(TypedDict):
    """An object that differs."""

    change: Annotated[str, one_of(*ChangeKind)]
    group: str
    kind: str
    namespace: str
    name: str
    envelope: str
    """The envelope that contains it, or empty."""
    fields: list[RunFieldChange]
    """For an object that changes."""
    more: int
    """Number of further differing fields."""


_RunContent = TypedDict(
    "_RunContent",
    {
        "from": Annotated[str, Described("Name of their resource snapshot. Empty: none.")],
    },
)


class RunContent(_RunContent, TypedDict):
    """Changes on clusters that have the same content now, except for overrides."""

    to: str
    clusters: list[str]
    known: bool
    """Whether the snapshot that they have is still retained. Otherwise the changes are unknown."""
    hidden: bool
    """Whether the changes are omitted because the caller may not list resource snapshots."""
    objects: list[RunObjectChange]
    more: int
    """Number of further differing objects."""


class ForeseenRun(TypedDict):
    """Forecast of a staged update run."""

    name: str
    namespace: str
    placement: str
    strategy: str
    state: str
    """Its desired state: `Initialize`, `Run` or `Stop`."""
    phase: RunOutlook
    """`New`: it would be initialized. `UnderWay`: it continues. `Pending`: it waits before it can be initialized.
    `Refused`: its initialization would fail. `Aborted`: its next step would end it. `Over`: it has ended."""
    finding: RunFinding | None
    """Set in the phases `Pending`, `Refused`, `Aborted` and `Over`. All following fields are empty then."""
    snapshot: str
    """Name of the resource snapshot that every cluster gets. It may not exist yet."""
    failurePolicy: RunFailurePolicy | None
    next: list[str]
    """Clusters that the run updates, or removes the placement from, before it next waits. Only approvals that are
    already given count."""
    stages: list[RunStage]
    removed: list[str]
    """The clusters that lose the placement at the end."""
    contents: list[RunContent]
    earliestFinish: Instant | None
    assumptions: list[str]
    """Assumptions of the earliest finish, and unknown facts."""


class PlannedRun(ForeseenRun, TypedDict):
    """One staged update run, and its remaining steps."""

    changed: bool
    """Whether it would change anything on a cluster. For a run that exists on the hub and is not among the changes,
    whether they affect it."""


class PlannedUpgrade(TypedDict):
    """One upgrade run, and its plan."""

    name: str
    strategy: str
    """Name of its ClusterUpgradeStrategy. Empty: the run has its own stages, or none."""
    type: str
    kubernetesVersion: str
    state: str
    """Its desired state: `Initialize`, `Run` or `Stop`."""
    phase: UpgradeOutlook
    """`New`: it has not started. `UnderWay`: it continues. `Refused`: it cannot be initialized. `Over`: it is finished
    or deleted."""
    finding: RunFinding | None
    """Set in the phases `Refused` and `Over`. All following fields are empty then."""
    next: list[str]
    """Members whose upgrades start now. Only gates that are already approved count as open."""
    plan: Annotated[JsonObject, ShapeOf(UpgradePlan)] | None
    """Plan of the run, as in its status."""
    assumptions: list[str]
    """Assumptions of the plan."""
    changed: bool
    """Whether it would upgrade anything. For a run that exists on the hub, whether the changes affect it."""


class PlannedOutcome(TypedDict):
    """Outcome of an approval, or of a changed object that belongs to no placement in the plan."""

    kind: str
    namespace: str
    name: str
    reason: str
    message: str


class UnjudgedKind(TypedDict):
    """Changes whose effects the plan does not show."""

    kind: str
    count: int


class HiddenObject(TypedDict):
    """A change that is not part of the plan.

    The caller may not list objects of its kind, or the snapshots that hold such objects.
    """

    kind: str
    namespace: str
    name: str


class AssumedPlacement(TypedDict):
    """A placement that counts as rolled out, with the content that it would get without the changes."""

    kind: str
    namespace: str
    name: str


class PlannedFleet(TypedDict):
    """Differences of the fleet: names of member clusters."""

    gained: list[str]
    changed: list[str]
    lost: list[str]
    drained: list[str]
