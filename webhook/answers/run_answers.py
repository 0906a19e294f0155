"""Runs through clusters as ``GET /v1/runs`` shows them: staged updates of placements, and upgrades."""

from typing import Annotated, NotRequired

from typing_extensions import TypedDict

from scorer.api.conditions import Condition
from scorer.api.meta import JsonObject
from scorer.api.values.answer import Instant, ShapeOf, one_of
from scorer.rollout.views.timeline import UpdateTimeline


class UpdateRunWait(TypedDict):
    """One thing that a run waits for."""

    kind: Annotated[str, one_of("State", "Approval", "TimedWait", "Held")]
    """Approval: also a gate that opens at a time. Held: a cluster that may not be touched now."""
    message: str
    """It goes on after "the run waits for"."""
    stage: str
    """Empty: it is not about a stage."""
    cluster: str
    """Empty: it is not about a cluster."""
    request: str
    """Name of the approval request, or of the gate; empty: it is not about an approval."""
    since: Instant | None
    until: Instant | None
    """When it ends by itself; null where nobody knows."""
    command: str
    """What answers it; empty: nobody has to do anything."""


class UpdateRun(TypedDict):
    """A run through clusters: a staged update of a placement, or an upgrade of the clusters themselves."""

    ref: str
    """`csur/<name>`, `sur/<namespace>/<name>` or `cuprun/<name>`."""
    kind: Annotated[str, one_of("ClusterStagedUpdateRun", "StagedUpdateRun", "ClusterUpgradeRun")]
    namespace: str
    """Of a StagedUpdateRun; the others have none."""
    name: str
    placement: str
    """Reference of the placement; empty for an upgrade."""
    upgrade: NotRequired[str]
    """What an upgrade brings, such as `Kubernetes 1.31.2`."""
    expectedEnd: NotRequired[Instant | None]
    """When an upgrade is expected to be over, by its plan; null: it is over, or no end is in sight."""
    strategy: str
    """Empty: an upgrade without one."""
    resourceSnapshotIndex: str
    """The version that it rolls out; empty while that is not decided."""
    rollbackOf: str
    """The run that it takes back; empty: none."""
    rejected: str
    """Which approval was refused, and why, while it is stopped for that; else empty."""
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
    """Failed: a staged update that could not be initialised, or an upgrade with too many failures."""
    stage: str
    """The stage that it is at; empty: none."""
    why: str
    """What is wrong with it, or missing."""
    waits: list[UpdateRunWait]
    """What a person has to answer comes first. Clusters that are being updated are not among them: the timeline has
    those. Of clusters that may not be touched now, ten are named."""
    clusters: int
    updated: int
    createdAt: Instant | None
    startedAt: Instant | None
    endedAt: Instant | None
    """Null while it is not over."""


class UpdateRunDetail(UpdateRun, TypedDict):
    """A run with its timeline."""

    conditions: list[Annotated[JsonObject, ShapeOf(Condition)]]
    timeline: UpdateTimeline


class UpdateRunList(TypedDict):
    """Runs, the latest first."""

    items: list[UpdateRun]
