"""Update and upgrade runs as in ``GET /v1/runs``."""

from typing import Annotated, NotRequired

from typing_extensions import TypedDict

from scorer.api.conditions import Condition
from scorer.api.meta import JsonObject
from scorer.api.values.answer import Instant, ShapeOf, one_of
from scorer.rollout.views.timeline import UpdateTimeline


class UpdateRunWait(TypedDict):
    """A condition that a run waits for."""

    kind: Annotated[str, one_of("State", "Approval", "TimedWait", "Held")]
    """Approval includes gates that open at a set time. Held: a cluster that must not be disrupted now."""
    message: str
    """Completes the sentence "the run waits for"."""
    stage: str
    """Empty: not about a stage."""
    cluster: str
    """Empty: not about a single cluster."""
    request: str
    """Name of the approval request, or of the gate. Empty: not about an approval."""
    since: Instant | None
    until: Instant | None
    """When it ends by itself, null if unknown."""
    command: str
    """Command that resolves the wait, such as an approval. Empty: no action required."""


class UpdateRun(TypedDict):
    """A run through clusters: a staged update of a placement, or an upgrade of the clusters themselves."""

    ref: str
    """`csur/<name>`, `sur/<namespace>/<name>` or `cuprun/<name>`."""
    kind: Annotated[str, one_of("ClusterStagedUpdateRun", "StagedUpdateRun", "ClusterUpgradeRun")]
    namespace: str
    """Namespace of a StagedUpdateRun, empty for the other kinds."""
    name: str
    placement: str
    """Reference of the placement, empty for an upgrade."""
    upgrade: NotRequired[str]
    """Target of an upgrade, such as `Kubernetes 1.31.2`."""
    expectedEnd: NotRequired[Instant | None]
    """Expected finish of an upgrade, according to its plan. Null: finished, or unknown."""
    strategy: str
    """Empty: an upgrade without a strategy."""
    resourceSnapshotIndex: str
    """Index of the resource snapshot that it rolls out. Empty until it is determined, and for an upgrade."""
    rollbackOf: str
    """The run that it rolls back, empty if none."""
    canUndo: NotRequired[bool]
    """Whether `harbormaster undo` can roll it back. Only in lists, because it depends on the other runs. If the server
    does not hold resource snapshots, or the caller may not list placements, it assumes that the previous one still
    exists."""
    undoTo: NotRequired[str]
    """Index of the resource snapshot that `harbormaster undo` rolls back to, empty if it refuses. Only in lists."""
    undoRefused: NotRequired[str]
    """Why `harbormaster undo` refuses to roll it back, else empty. Also empty for an upgrade. Only in lists."""
    rejected: str
    """The rejected approval that stopped the run, with its reason, else empty."""
    state: Annotated[
        str,
        one_of(
            "initializing",
            "initialized",
            "running",
            "waiting",
            "stuck",
            "stopping",
            "stopped",
            "failed",
            "aborted",
            "succeeded",
            "not started",
            "skipped",
        ),
    ]
    """Failed: a staged update that could not be initialized, or an upgrade with too many failures."""
    stage: str
    """The current stage, empty if none."""
    why: str
    """Problem of the run, or its missing input."""
    waits: list[UpdateRunWait]
    """Those that require user action come first. Clusters in progress are omitted, because the timeline has them. At
    most ten clusters that must not be disrupted now are listed."""
    clusters: int
    updated: int
    createdAt: Instant | None
    startedAt: Instant | None
    endedAt: Instant | None
    """Null until it is finished."""


class UpdateRunDetail(UpdateRun, TypedDict):
    """A run with its timeline."""

    conditions: list[Annotated[JsonObject, ShapeOf(Condition)]]
    timeline: UpdateTimeline


class UpdateRunList(TypedDict):
    """Runs, the latest first."""

    items: list[UpdateRun]
